//! The protocol of the agent's socket: one request and one reply a connection.
//!
//! A message is its length as four bytes, big-endian, and that many bytes of JSON, at most
//! [`MAX_DOCUMENT`]:
//!
//! ```text
//!  0               4
//! +---------------+------------------------------------------------------------+
//! | length        | {"protocol":1, ...}                                        |
//! +---------------+------------------------------------------------------------+
//! request: {"protocol":1,"environment":{"command":"ADD",...},"timeoutMs":30000,"config":{...}}
//! reply:   {"protocol":1,"result":{...}}    an ADD that was done
//!          {"protocol":1}                   anything else that was done
//!          {"protocol":1,"error":{"code":11,"msg":"..."}}
//! ```
//!
//! Functions over bytes, so that the agent can use any stream; [`read_message`] and
//! [`write_message`] are for blocking ones. A message of another protocol number is refused before
//! anything else of it is looked at, and its sender told both numbers.

use crate::MAX_DOCUMENT;
use crate::config::{AttachRequest, DetachRequest, GcRequest, Header, NetworkConfig};
use crate::spec::{AddResult, Code, Command, Environment, Error, Version};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::io::{self, Read, Write};
use std::time::Duration;

/// The protocol that is spoken here.
pub const PROTOCOL: u32 = 1;

/// The bytes before a message that give its length.
pub const HEADER_LENGTH: usize = 4;

/// A message that cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RpcError {
    /// A length of zero or above the limit.
    #[error("a message of {found} bytes, where 1 to {MAX_DOCUMENT} are allowed")]
    Length {
        /// The length that was given.
        found: usize,
    },
    /// Another protocol.
    #[error("protocol {found}, where {PROTOCOL} is spoken")]
    Protocol {
        /// The number that was given.
        found: u32,
    },
    /// Not the JSON of a message.
    #[error("the message is malformed")]
    Malformed(#[source] serde_json::Error),
    /// A reply that is both a result and an error.
    #[error("the reply has both a result and an error")]
    Ambiguous,
    /// The stream failed or ended.
    #[error("the connection failed")]
    Io(#[from] io::Error),
}

// === framing ===

/// The length that a header announces.
pub fn message_length(header: [u8; HEADER_LENGTH]) -> Result<usize, RpcError> {
    let found = usize::try_from(u32::from_be_bytes(header)).unwrap_or(usize::MAX);
    if found == 0 || found > MAX_DOCUMENT { Err(RpcError::Length { found }) } else { Ok(found) }
}

fn framed(message: &impl Serialize) -> Result<Vec<u8>, RpcError> {
    let mut bytes = vec![0; HEADER_LENGTH];
    serde_json::to_writer(&mut bytes, message).map_err(RpcError::Malformed)?;
    let found = bytes.len() - HEADER_LENGTH;
    let length = u32::try_from(found).ok().filter(|_| found <= MAX_DOCUMENT);
    let length = length.ok_or(RpcError::Length { found })?;
    bytes[..HEADER_LENGTH].copy_from_slice(&length.to_be_bytes());
    Ok(bytes)
}

/// Reads one message from a blocking stream; its body is returned.
pub fn read_message(stream: &mut impl Read) -> Result<Vec<u8>, RpcError> {
    let mut header = [0; HEADER_LENGTH];
    stream.read_exact(&mut header)?;
    let length = message_length(header)?;
    // Not allocated on the peer's word alone: what it claims may never come.
    let mut body = Vec::new();
    stream.take(length as u64).read_to_end(&mut body)?;
    if body.len() < length {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    Ok(body)
}

/// Writes one encoded message to a blocking stream.
pub fn write_message(stream: &mut impl Write, message: &[u8]) -> Result<(), RpcError> {
    stream.write_all(message)?;
    Ok(stream.flush()?)
}

fn check_protocol(body: &[u8]) -> Result<(), RpcError> {
    #[derive(Deserialize)]
    struct Any {
        protocol: u32,
    }
    let Any { protocol: found } = serde_json::from_slice(body).map_err(RpcError::Malformed)?;
    if found == PROTOCOL { Ok(()) } else { Err(RpcError::Protocol { found }) }
}

// === requests ===

/// A runtime's call, as the plugin passes it on.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    protocol: u32,
    /// The variables.
    pub environment: Environment,
    /// How long the plugin waits for the reply, in milliseconds. Work that takes longer is in vain.
    timeout_ms: u64,
    /// The configuration as it came. Delegates get it so.
    pub config: Box<RawValue>,
}

impl Request {
    /// A request with a configuration that is known to be JSON.
    pub fn new(environment: Environment, config: Box<RawValue>, timeout: Duration) -> Self {
        let timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        Self { protocol: PROTOCOL, environment, timeout_ms, config }
    }

    /// How long the plugin waits for the reply.
    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }

    /// The request as a message, header included.
    pub fn encode(&self) -> Result<Vec<u8>, RpcError> {
        framed(self)
    }

    /// Reads the body of a message.
    pub fn decode(body: &[u8]) -> Result<Self, RpcError> {
        check_protocol(body)?;
        serde_json::from_slice(body).map_err(RpcError::Malformed)
    }

    /// What is asked, checked in full. The error is ready to be the reply.
    pub fn call(&self) -> Result<Call, Error> {
        let (environment, config) = (&self.environment, self.config.get().as_bytes());
        environment.command.require(Header::decode(config)?.version)?;
        Ok(match environment.command {
            Command::Add => Call::Add(AttachRequest::decode(environment, config)?.into()),
            Command::Check => {
                let mut request = AttachRequest::decode(environment, config)?;
                let result = request.prev_result.take().ok_or_else(|| {
                    Error::config("`prevResult` is missing: CHECK compares with the result of ADD")
                })?;
                Call::Check(request.into(), result)
            }
            Command::Del => Call::Del(DetachRequest::decode(environment, config)?.into()),
            Command::Gc => Call::Gc(GcRequest::decode(config)?.into()),
            Command::Status => Call::Status(NetworkConfig::decode(config)?.into()),
            Command::Version => {
                let msg = "VERSION is answered by the plugin itself, never by the agent";
                return Err(Error::environment(msg));
            }
        })
    }
}

/// What the agent is asked to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// Attach. Twice for one attachment is one attachment.
    Add(Box<AttachRequest>),
    /// See whether an attachment is as this result says.
    Check(Box<AttachRequest>, AddResult),
    /// Detach. What is unknown is detached already.
    Del(Box<DetachRequest>),
    /// Say whether an ADD could be served.
    Status(Box<NetworkConfig>),
    /// Remove attachments to the network that are not listed.
    Gc(Box<GcRequest>),
}

// === replies ===

/// The agent's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// ADD was done; the result's JSON, which the plugin prints as it is.
    Added(String),
    /// Any other command was done.
    Done,
    /// It was not.
    Failed(Error),
}

#[derive(Serialize, Deserialize)]
struct ReplyMessage {
    protocol: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    result: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<Error>,
}

impl Reply {
    /// The reply to an ADD, in the version of its configuration.
    pub fn added(result: &AddResult, version: Version) -> Self {
        Self::Added(result.render(version))
    }

    /// The reply to a message that is no request of ours.
    pub fn malformed(error: &RpcError) -> Self {
        let msg = match error {
            RpcError::Protocol { found } => format!(
                "the plugin speaks protocol {found} and the agent protocol {PROTOCOL}: install both from one release"
            ),
            _ => format!("the agent cannot read the request: {error}"),
        };
        Self::Failed(Error::new(Code::BAD_AGENT, msg))
    }

    /// The reply as a message, header included. A result that is no JSON object is malformed.
    pub fn encode(&self) -> Result<Vec<u8>, RpcError> {
        let mut message = ReplyMessage { protocol: PROTOCOL, result: None, error: None };
        match self {
            Self::Added(result) => {
                message.result = Some(serde_json::from_str(result).map_err(RpcError::Malformed)?);
            }
            Self::Done => {}
            Self::Failed(error) => message.error = Some(error.clone()),
        }
        framed(&message)
    }

    /// Reads the body of a message.
    pub fn decode(body: &[u8]) -> Result<Self, RpcError> {
        check_protocol(body)?;
        let message: ReplyMessage = serde_json::from_slice(body).map_err(RpcError::Malformed)?;
        match (message.result, message.error) {
            (None, None) => Ok(Self::Done),
            (None, Some(error)) => Ok(Self::Failed(error)),
            (Some(_), Some(_)) => Err(RpcError::Ambiguous),
            (Some(result), None) => {
                // Printed as it is, but only if it is a result.
                AddResult::decode(result.get().as_bytes()).map_err(RpcError::Malformed)?;
                Ok(Self::Added(result.get().to_owned()))
            }
        }
    }
}

#[cfg(test)]
mod tests;
