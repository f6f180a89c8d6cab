//! Why there is no session, or no more, and why a request has no answer.
//!
//! Whatever ends a session fails all requests that wait for an answer, so [`SessionError`] is
//! shared.

use super::endpoint::Endpoint;
use super::frame::FrameError;
use super::tls::TlsError;
use crate::message::{ErrorMessage, Hello};
use crate::wire::{DecodeError, EncodeError};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// Why a session ended, or did not start.
#[derive(Debug, Error)]
pub enum SessionError {
    /// The socket failed.
    #[error("the connection broke")]
    Io(#[source] io::Error),
    /// The peer closed the connection.
    #[error("the peer closed the connection after {received} bytes{}", Within(*.pending))]
    Closed {
        /// Bytes it had sent.
        received: u64,
        /// Bytes of a message that it began and did not end.
        pending: usize,
    },
    /// No hello in time.
    #[error("no hello within {0:?}")]
    NoHello(Duration),
    /// Something else came before hello.
    #[error("{0} instead of hello")]
    NotHello(&'static str),
    /// The peer does not speak our version.
    #[error("the peer speaks {}, we speak OpenFlow 1.5 only", Versions(*.0))]
    Version(Hello),
    /// The peer refused our hello.
    #[error("the peer refused our hello")]
    HelloRefused(#[source] ErrorMessage),
    /// What came is not OpenFlow.
    #[error("the peer sent what is no message")]
    Frame(#[from] FrameError),
    /// A message that lies or is cut.
    #[error("the peer sent a malformed {kind} (xid {xid:#x}) at byte {at} of the stream")]
    Malformed {
        /// Its type.
        kind: &'static str,
        /// Its transaction.
        xid: u32,
        /// Bytes before it.
        at: u64,
        /// What is wrong with it, and where.
        source: DecodeError,
    },
    /// A message that no switch sends.
    #[error("the peer sent a {name} (type {kind}, xid {xid:#x}) at byte {at} of the stream")]
    Unexpected {
        /// Its type.
        kind: u8,
        /// The type's name.
        name: &'static str,
        /// Its transaction.
        xid: u32,
        /// Bytes before it.
        at: u64,
    },
    /// An answer that does not fit its request.
    #[error(
        "the peer answered a {request} (xid {xid:#x}) with a {reply} at byte {at} of the stream"
    )]
    WrongReply {
        /// What was asked.
        request: &'static str,
        /// What was answered.
        reply: &'static str,
        /// Their transaction.
        xid: u32,
        /// Bytes before the answer.
        at: u64,
    },
    /// Not even an echo came back.
    #[error("the peer was silent for {0:?}")]
    Silent(Duration),
    /// The peer does not read.
    #[error("the peer read none of {queued} bytes within {waited:?}")]
    NotReading {
        /// Bytes that wait.
        queued: usize,
        /// For how long.
        waited: Duration,
    },
    /// News came faster than they were taken, and losing any means not to know the switch.
    #[error("no room for a {0}: {1} bytes of events wait to be received")]
    EventsOverflow(&'static str, usize),
    /// No transaction id is free.
    #[error("all four billion transaction ids wait for answers")]
    Exhausted,
    /// We ended it.
    #[error("closed by us")]
    Ended,
}

/// Why there is no connection.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// It is for waiting, or for connecting, and the other was asked for.
    #[error("{endpoint} is {}", if .endpoint.is_passive() { "for waiting" } else { "for connecting" })]
    Direction {
        /// The endpoint.
        endpoint: Endpoint,
    },
    /// The socket could not be made.
    #[error("no connection to {endpoint}")]
    Socket {
        /// Where.
        endpoint: Endpoint,
        /// Why.
        source: io::Error,
    },
    /// It took too long.
    #[error("no connection to {endpoint} within {waited:?}")]
    Deadline {
        /// Where.
        endpoint: Endpoint,
        /// How long.
        waited: Duration,
    },
    /// No key and certificate were given.
    #[error("{0} needs a key, a certificate and an authority")]
    NoTls(Endpoint),
    /// TLS cannot be set up.
    #[error("no TLS with {endpoint}")]
    Tls {
        /// Where.
        endpoint: Endpoint,
        /// Why.
        source: TlsError,
    },
    /// The peer is there, but there is no session with it.
    #[error("no session with {endpoint}")]
    Session {
        /// Where.
        endpoint: Endpoint,
        /// Why.
        source: SessionError,
    },
}

/// Why a request has no answer.
#[derive(Debug, Clone, Error)]
pub enum RequestError {
    /// It cannot be written.
    #[error("the {what} cannot be sent")]
    Encode {
        /// The message.
        what: &'static str,
        /// Why not.
        source: EncodeError,
    },
    /// Nothing answers such a message.
    #[error("a {0} has no answer")]
    NotARequest(&'static str),
    /// The switch said no.
    #[error("the switch refused the {request}")]
    Refused {
        /// What was asked.
        request: &'static str,
        /// What it said.
        #[source]
        error: ErrorMessage,
    },
    /// No answer in time.
    #[error("no answer to the {request} within {waited:?}")]
    NoAnswer {
        /// What was asked.
        request: &'static str,
        /// How long.
        waited: Duration,
    },
    /// The reader of the answer was too slow.
    #[error("the answer to the {request} was not read for {stalled:?} and is given up")]
    Stalled {
        /// What was asked.
        request: &'static str,
        /// How long.
        stalled: Duration,
    },
    /// The answer is larger than allowed.
    #[error("the answer to the {request} has more than {limit} bytes")]
    TooLarge {
        /// What was asked.
        request: &'static str,
        /// How many are allowed.
        limit: usize,
    },
    /// The session ended first; what was asked may have happened.
    #[error("the session ended")]
    Session(#[source] Arc<SessionError>),
}

/// One of several messages that the switch refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the switch refused message {index}")]
pub struct Refusal {
    /// Which one, counted from 0.
    pub index: usize,
    /// What the switch said.
    #[source]
    pub error: ErrorMessage,
}

/// Why a batch of messages did not all succeed.
#[derive(Debug, Clone, Error)]
pub enum BatchError {
    /// The switch refused some and did the others; in order of the messages.
    #[error("the switch refused {} of the messages, first message {}", .0.len(), First(.0))]
    Refused(Vec<Refusal>),
    /// A message cannot be written; those before it were sent.
    #[error("message {index} cannot be sent{}", More(.refused))]
    Encode {
        /// Which one, counted from 0.
        index: usize,
        /// Why not.
        source: EncodeError,
        /// What the switch refused of those before it.
        refused: Vec<Refusal>,
    },
    /// It is not known which were done.
    #[error("not known which messages were done")]
    Unknown(#[source] RequestError),
}

/// Why a bundle had no effect, or may have had none.
#[derive(Debug, Clone, Error)]
pub enum BundleError {
    /// The switch refused a message; nothing was done.
    #[error("the bundle had no effect")]
    Message(#[source] Refusal),
    /// A message cannot be written; nothing was done.
    #[error("message {index} cannot be sent")]
    Encode {
        /// Which one, counted from 0.
        index: usize,
        /// Why not.
        source: EncodeError,
    },
    /// The bundle could not be opened or closed; nothing was done.
    #[error("the bundle failed before its commit")]
    Prepare(#[source] RequestError),
    /// The commit was refused, and nothing done; or its answer did not come, and it may have
    /// happened.
    #[error("the bundle's commit failed")]
    Commit(#[source] RequestError),
}

impl BundleError {
    /// Whether the switch may have done it all the same.
    pub fn is_in_doubt(&self) -> bool {
        matches!(self, Self::Commit(source) if !matches!(source, RequestError::Refused { .. }))
    }
}

/// ", within a message of which …" if so.
struct Within(usize);

impl fmt::Display for Within {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            n => write!(f, ", the last {n} of them a part of a message"),
        }
    }
}

/// The first of refusals.
struct First<'a>(&'a [Refusal]);

impl fmt::Display for First<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.first().map_or(Ok(()), |first| write!(f, "{}: {}", first.index, first.error))
    }
}

/// ", and …" if any were refused.
struct More<'a>(&'a [Refusal]);

impl fmt::Display for More<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.len() {
            0 => Ok(()),
            n => {
                write!(f, ", and the switch refused {n} before it, first message {}", First(self.0))
            }
        }
    }
}

/// Versions in words.
struct Versions(Hello);

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 6] = ["1.0", "1.1", "1.2", "1.3", "1.4", "1.5"];
        let spoken = (1..32).filter(|version| self.0.supports(*version));
        let mut separator = "OpenFlow ";
        for version in spoken {
            f.write_str(separator)?;
            match NAMES.get(usize::from(version) - 1) {
                Some(name) => f.write_str(name)?,
                None => write!(f, "version {version:#04x}")?,
            }
            separator = ", ";
        }
        if separator == ", " { Ok(()) } else { write!(f, "no version of OpenFlow") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::VERSION;

    #[test]
    fn versions_are_named() {
        for (version, bitmap, said) in [
            (4, None, "OpenFlow 1.0, 1.1, 1.2, 1.3"),
            (5, Some(0b10_0010), "OpenFlow 1.0, 1.4"),
            (1, Some(0), "no version of OpenFlow"),
            (9, Some(1 << 9), "OpenFlow version 0x09"),
        ] {
            assert_eq!(Versions(Hello { version, bitmap }).to_string(), said);
            assert!(!Hello { version, bitmap }.supports(VERSION));
        }
    }
}
