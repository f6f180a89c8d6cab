//! The client: one connection a call, so that a restarted daemon is no special case; a deadline and
//! a size limit on each.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::frame::{FrameError, Framer, Limits};
use crate::rpc::{self, Message, MessageError, ServerError};

/// Calls the commands of one daemon.
#[derive(Clone, Debug)]
pub struct Client {
    socket: PathBuf,
    patience: Duration,
    limits: Limits,
}

/// Why a command gave no text.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// Nobody listens on the socket.
    #[error("cannot connect to {}", socket.display())]
    Connect {
        /// The socket.
        socket: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The connection broke.
    #[error("the connection broke during {command}")]
    Io {
        /// The command.
        command: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The daemon closed the connection without an answer.
    #[error("no answer to {command}: the daemon closed the connection")]
    Closed {
        /// The command.
        command: String,
    },
    /// The deadline passed.
    #[error("no answer to {command} within {patience:?}")]
    NoAnswer {
        /// The command.
        command: String,
        /// How long.
        patience: Duration,
    },
    /// The answer is not JSON within the limits.
    #[error("the answer to {command} is not a message")]
    Frame {
        /// The command.
        command: String,
        /// What is wrong.
        #[source]
        source: FrameError,
    },
    /// The answer is not JSON-RPC.
    #[error("the answer to {command} is malformed")]
    Message {
        /// The command.
        command: String,
        /// What is wrong.
        #[source]
        source: MessageError,
    },
    /// The answer is not text.
    #[error("the answer to {command} is no text")]
    NotText {
        /// The command.
        command: String,
    },
    /// The daemon said no.
    #[error("{command} failed")]
    Refused {
        /// The command.
        command: String,
        /// Its words.
        #[source]
        source: ServerError,
    },
}

impl Client {
    /// For the daemon behind a socket, with ten seconds and 64 MiB a call.
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        Self {
            socket: socket.into(),
            patience: Duration::from_secs(10),
            limits: Limits { message: 64 << 20, depth: 8 },
        }
    }

    /// Changes how long a call may take.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Changes how large an answer may be.
    #[must_use]
    pub fn limit(mut self, message: usize) -> Self {
        self.limits.message = message;
        self
    }

    /// The socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Runs a command; the text it printed.
    pub async fn call(&self, command: &str, arguments: &[&str]) -> Result<String, CallError> {
        let late = |_| CallError::NoAnswer { command: command.to_owned(), patience: self.patience };
        timeout(self.patience, self.exchange(command, arguments)).await.map_err(late)?
    }

    async fn exchange(&self, command: &str, arguments: &[&str]) -> Result<String, CallError> {
        let broken = |source| CallError::Io { command: command.to_owned(), source };
        let mut stream = UnixStream::connect(&self.socket)
            .await
            .map_err(|source| CallError::Connect { socket: self.socket.clone(), source })?;
        let params = serde_json::to_vec(arguments).expect("strings have a JSON form");
        let mut request = Vec::new();
        rpc::request(&mut request, 0, command, &params);
        stream.write_all(&request).await.map_err(broken)?;
        let mut framer = Framer::new(self.limits);
        loop {
            let buffer = framer.buffer();
            buffer.reserve(16 << 10);
            if stream.read_buf(buffer).await.map_err(broken)? == 0 {
                return Err(CallError::Closed { command: command.to_owned() });
            }
            let message = framer.next_message();
            let message = message
                .map_err(|source| CallError::Frame { command: command.to_owned(), source })?;
            if let Some(message) = message {
                return answer(command, message);
            }
        }
    }
}

fn answer(command: &str, message: &[u8]) -> Result<String, CallError> {
    let command = || command.to_owned();
    match Message::parse(message) {
        Ok(Message::Reply { result: Ok(text), .. }) => {
            serde_json::from_str(text.get()).map_err(|_| CallError::NotText { command: command() })
        }
        Ok(Message::Reply { result: Err(error), .. }) => {
            Err(CallError::Refused { command: command(), source: ServerError::parse(error) })
        }
        Ok(Message::Request { .. } | Message::Notification { .. }) => {
            Err(CallError::NotText { command: command() })
        }
        Err(source) => Err(CallError::Message { command: command(), source }),
    }
}
