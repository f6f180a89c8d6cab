//! One batch of route netlink requests, sent at once, and its answers.

use netlink_packet_core::{
    DecodeError, NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkDeserializable, NetlinkHeader,
    NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use std::io;
use thiserror::Error;

/// What the kernel did not do.
#[derive(Debug, Error)]
pub enum NetlinkError {
    /// There is no talking to it.
    #[error("there is no netlink socket")]
    Socket(#[source] io::Error),
    /// It refused.
    #[error("the kernel refused to {what}")]
    Refused {
        /// What was asked.
        what: String,
        /// Why.
        source: io::Error,
    },
    /// It said something that we do not understand.
    #[error("the kernel's answer cannot be read")]
    Malformed(#[source] DecodeError),
    /// There is no such interface.
    #[error("there is no interface {0}")]
    NoInterface(String),
    /// A parameter could not be set.
    #[error("{path} cannot be set to {value}")]
    Parameter {
        /// The file.
        path: String,
        /// The value.
        value: String,
        /// Why.
        source: io::Error,
    },
}

impl NetlinkError {
    /// Whether the kernel refused because something is there already.
    pub fn is_exists(&self) -> bool {
        matches!(self, Self::Refused { source, .. } if source.kind() == io::ErrorKind::AlreadyExists)
    }

    /// Whether the kernel refused because something is not there.
    pub fn is_missing(&self) -> bool {
        match self {
            Self::NoInterface(_) => true,
            Self::Refused { source, .. } => source.raw_os_error() == Some(nix::libc::ENODEV),
            _ => false,
        }
    }
}

/// One request.
#[derive(Debug)]
pub(super) struct Request {
    /// Completes "the kernel refused to".
    pub(super) what: String,
    pub(super) message: RouteNetlinkMessage,
    /// Besides that it is a request and wants an answer.
    pub(super) flags: u16,
}

/// A socket in the namespace of the thread that made it.
pub(super) struct Netlink(Socket);

/// As much as the kernel answers to one read. No more: to give back what is larger makes the allocator
/// clean up after itself, which takes longer the more an agent knows.
const BUFFER: usize = 32 << 10;

// === impl Netlink ===

impl Netlink {
    pub(super) fn open() -> Result<Self, NetlinkError> {
        let mut socket = Socket::new(NETLINK_ROUTE).map_err(NetlinkError::Socket)?;
        socket.bind_auto().map_err(NetlinkError::Socket)?;
        socket.connect(&SocketAddr::new(0, 0)).map_err(NetlinkError::Socket)?;
        Ok(Self(socket))
    }

    /// Sends all requests at once. The kernel does them in order, also after one that it refuses;
    /// the first refusal is the error. What it tells besides is returned.
    pub(super) fn execute(
        &self,
        requests: Vec<Request>,
    ) -> Result<Vec<RouteNetlinkMessage>, NetlinkError> {
        self.ask(requests)
    }

    /// The same, and what it tells is taken for this.
    pub(super) fn ask<T: NetlinkDeserializable>(
        &self,
        requests: Vec<Request>,
    ) -> Result<Vec<T>, NetlinkError> {
        let mut bytes = Vec::new();
        let mut names = Vec::with_capacity(requests.len());
        for (number, request) in (1..).zip(requests) {
            let mut header = NetlinkHeader::default();
            let wants = if request.flags & NLM_F_DUMP == NLM_F_DUMP { 0 } else { NLM_F_ACK };
            header.flags = NLM_F_REQUEST | wants | request.flags;
            header.sequence_number = number;
            let mut message = NetlinkMessage::new(header, request.message.into());
            message.finalize();
            let start = bytes.len();
            bytes.resize(start + message.buffer_len().next_multiple_of(4), 0);
            message.serialize(&mut bytes[start..]);
            names.push(request.what);
        }
        if !names.is_empty() {
            self.0.send(&bytes, 0).map_err(NetlinkError::Socket)?;
        }
        self.answers(&names)
    }

    fn answers<T: NetlinkDeserializable>(&self, names: &[String]) -> Result<Vec<T>, NetlinkError> {
        let (mut told, mut refused, mut pending) = (Vec::new(), None, names.len());
        let mut buffer = Vec::with_capacity(BUFFER);
        while pending > 0 {
            buffer.clear();
            self.0.recv(&mut buffer, 0).map_err(NetlinkError::Socket)?;
            let mut rest = &buffer[..];
            while !rest.is_empty() {
                let message =
                    NetlinkMessage::<T>::deserialize(rest).map_err(NetlinkError::Malformed)?;
                let length = usize::try_from(message.header.length).unwrap_or(usize::MAX);
                match message.payload {
                    NetlinkPayload::InnerMessage(message) => told.push(message),
                    NetlinkPayload::Done(_) => pending -= 1,
                    NetlinkPayload::Error(answer) => {
                        pending -= 1;
                        if answer.code.is_some() && refused.is_none() {
                            let number = message.header.sequence_number.saturating_sub(1);
                            let at = usize::try_from(number).unwrap_or(usize::MAX);
                            let what = names.get(at).cloned().unwrap_or_default();
                            refused = Some(NetlinkError::Refused { what, source: answer.to_io() });
                        }
                    }
                    _ => {}
                }
                rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
            }
        }
        refused.map_or(Ok(told), Err)
    }
}
