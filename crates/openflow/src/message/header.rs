//! The header of a message, and the frame around a body.

use super::kind;
use crate::wire::{DecodeError, EncodeError, Problem, Reader, Writer};

/// OpenFlow 1.5's number on the wire.
pub const VERSION: u8 = 0x06;
/// Size of the header.
pub const HEADER: usize = 8;

/// The header of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Version of the protocol.
    pub version: u8,
    /// Type of the message.
    pub kind: u8,
    /// Size, header included.
    pub length: u16,
    /// Which request it is, or answers.
    pub xid: u32,
}

// === impl Header ===

impl Header {
    /// Reads the header; its length may not be below its own size.
    pub fn decode(bytes: &[u8; HEADER]) -> Result<Self, DecodeError> {
        const WHAT: &str = "header";
        let mut r = Reader::new(bytes);
        let version = r.u8(WHAT)?;
        let kind = r.u8(WHAT)?;
        let start = r.clone();
        let length = r.u16(WHAT)?;
        if usize::from(length) < HEADER {
            let problem = Problem::Length { found: length.into(), expected: "at least 8" };
            return Err(start.error(WHAT, problem));
        }
        Ok(Self { version, kind, length, xid: r.u32(WHAT)? })
    }

    /// The messages that a session needs before it knows the version, and to say that there is
    /// none, are alike in all of them (6.3.1); the others must be of ours.
    pub(super) fn check_version(self) -> Result<(), DecodeError> {
        let immutable =
            matches!(self.kind, kind::HELLO | kind::ERROR | kind::ECHO_REQUEST | kind::ECHO_REPLY);
        if self.version == VERSION || immutable {
            return Ok(());
        }
        let problem = Problem::Value { found: self.version.into(), expected: "version 6" };
        Err(DecodeError { what: "header", offset: 0, problem })
    }

    /// The name of the message's type, as the specification has it, without its prefix.
    pub fn name(self) -> Option<&'static str> {
        const NAMES: [&str; 36] = [
            "hello",
            "error",
            "echo request",
            "echo reply",
            "experimenter",
            "features request",
            "features reply",
            "get-config request",
            "get-config reply",
            "set-config",
            "packet-in",
            "flow-removed",
            "port-status",
            "packet-out",
            "flow-mod",
            "group-mod",
            "port-mod",
            "table-mod",
            "multipart request",
            "multipart reply",
            "barrier request",
            "barrier reply",
            "queue-get-config request",
            "queue-get-config reply",
            "role request",
            "role reply",
            "get-async request",
            "get-async reply",
            "set-async",
            "meter-mod",
            "role-status",
            "table-status",
            "request-forward",
            "bundle-control",
            "bundle-add",
            "controller-status",
        ];
        NAMES.get(usize::from(self.kind)).copied()
    }
}

/// Appends a header and the body behind it. On an error `w` is as it was.
pub(super) fn frame(
    w: &mut Writer,
    version: u8,
    kind: u8,
    xid: u32,
    body: impl FnOnce(&mut Writer) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    let start = w.len();
    w.u8(version);
    w.u8(kind);
    w.u16(0);
    w.u32(xid);
    let done = body(w).and_then(|()| w.patch_len("message", start, start + 2));
    if done.is_err() {
        w.truncate(start);
    }
    done
}
