//! Why a connection ended, and why a request or a transaction failed.

use std::io;
use std::time::Duration;

use super::remote::RemoteError;
use super::tls::TlsError;
use crate::cache::Inconsistent;
use crate::delta::DeltaError;
use crate::error::{OperationError, OutcomeError};
use crate::frame::FrameError;
use crate::rpc::{MessageError, ServerError};
use crate::schema::SchemaError;

/// Why there is no connection, or no more.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The remote is not one.
    #[error("the remote cannot be used")]
    Remote(#[from] RemoteError),
    /// Key, certificate or authority cannot be used.
    #[error("TLS cannot be set up")]
    Tls(#[from] TlsError),
    /// Connecting failed.
    #[error("connecting failed")]
    Connect(#[source] io::Error),
    /// Connecting took too long.
    #[error("connecting took longer than {0:?}")]
    ConnectTimeout(Duration),
    /// Reading or writing failed.
    #[error("the connection broke")]
    Io(#[source] io::Error),
    /// The server closed the connection.
    #[error("the server closed the connection{}", if *.mid_message { " within a message" } else { "" })]
    Closed {
        /// Whether a message was cut off.
        mid_message: bool,
    },
    /// Not even an echo came back.
    #[error("the server was silent for {0:?}")]
    Silent(Duration),
    /// The server did not answer a request of the start-up.
    #[error("no answer to {method} within {patience:?}")]
    NoAnswer {
        /// The request.
        method: &'static str,
        /// How long it had.
        patience: Duration,
    },
    /// The stream is not JSON within the limits.
    #[error("the server sent what is not a message")]
    Frame(#[from] FrameError),
    /// A message is not JSON-RPC.
    #[error("the server sent a malformed message")]
    Message(#[from] MessageError),
    /// A message of a known method has the wrong form.
    #[error("the server sent a malformed {method}")]
    Malformed {
        /// The method.
        method: &'static str,
        /// What is wrong.
        #[source]
        source: serde_json::Error,
    },
    /// An update cannot be understood.
    #[error("the server sent an update that does not fit its schema")]
    Delta(#[from] DeltaError),
    /// An update does not fit what came before.
    #[error("the server's updates contradict each other")]
    Inconsistent(#[from] Inconsistent),
    /// The schema cannot be read.
    #[error("the server's schema cannot be read")]
    Schema(#[from] SchemaError),
    /// The server refused what every session needs.
    #[error("the server refused {method}")]
    Refused {
        /// The request.
        method: &'static str,
        /// Its words.
        #[source]
        source: ServerError,
    },
    /// This server will not do, and there are others to try.
    #[error("the server is unfit: {0}")]
    Unfit(Unfit),
}

/// Why a server will not do, at least now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// It does not have the database.
    #[error("it has no such database")]
    NoDatabase,
    /// It is not in contact with its cluster, or has not joined it yet.
    #[error("it is not connected to its cluster")]
    Disconnected,
    /// It is not the leader.
    #[error("it is not the leader")]
    NotLeader,
    /// It has not yet seen what we have seen.
    #[error("it is behind: log index {index}, we have seen {seen}")]
    Stale {
        /// Its place in the cluster's log.
        index: i64,
        /// The furthest place we have seen.
        seen: i64,
    },
}

/// Why a request has no result.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The session's task has ended.
    #[error("the session has ended")]
    Ended,
    /// There is no fit server now.
    #[error("there is no connection to a fit server")]
    NotConnected,
    /// The connection broke before the answer: whether the request was done is not known.
    #[error("the connection broke before the answer came")]
    Disconnected,
    /// The server said no.
    #[error("the server refused")]
    Refused(#[from] ServerError),
}

/// Why a transaction has no outcome.
#[derive(Debug, thiserror::Error)]
pub enum TransactError {
    /// No fit server before the deadline; nothing was sent.
    #[error("{what}: no fit server within {waited:?}")]
    NotConnected {
        /// The transaction's purpose.
        what: String,
        /// How long.
        waited: Duration,
    },
    /// No answer before the deadline. It was cancelled, but may have happened.
    #[error("{what}: no answer within {waited:?} to {operations} operations, first {first}")]
    NoAnswer {
        /// The transaction's purpose.
        what: String,
        /// How long.
        waited: Duration,
        /// How many operations it has.
        operations: usize,
        /// The first of them.
        first: String,
    },
    /// The request failed as a whole.
    #[error("{what}")]
    Request {
        /// The transaction's purpose.
        what: String,
        /// Why.
        #[source]
        source: RequestError,
    },
    /// The database refused an operation; nothing was done.
    #[error("{what}")]
    Failed {
        /// The transaction's purpose.
        what: String,
        /// Which operation, where, why.
        #[source]
        source: Box<OperationError>,
    },
    /// The answer cannot be read.
    #[error("{what}")]
    Malformed {
        /// The transaction's purpose.
        what: String,
        /// What is wrong with it.
        #[source]
        source: OutcomeError,
    },
}

impl TransactError {
    /// Whether it may have happened all the same.
    pub fn is_in_doubt(&self) -> bool {
        matches!(
            self,
            Self::NoAnswer { .. }
                | Self::Malformed { .. }
                | Self::Request { source: RequestError::Disconnected | RequestError::Ended, .. }
        )
    }

    /// What the database said, if it refused.
    pub fn operation(&self) -> Option<&OperationError> {
        if let Self::Failed { source, .. } = self { Some(source) } else { None }
    }
}
