//! Messages: the header that all have, and one variant for each that we speak.
//!
//! ```text
//!  0         1      2        4       8
//! +---------+------+--------+-------+------- ··
//! | version | type | length | xid   | body       struct ofp_header, 7.1.1
//! +---------+------+--------+-------+------- ··   length: header included
//! ```
//!
//! [`Message::decode`] takes one whole message. A type that we do not know is kept as
//! [`Message::Unknown`], so that a newer switch does not end a session.

use crate::flow::FlowMod;
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

/// Types of messages (7.1.1).
pub(crate) mod kind {
    pub(crate) const FLOW_MOD: u8 = 14;
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Message {
    /// Changes flows.
    FlowMod(FlowMod),
    /// One that we do not know.
    Unknown {
        /// Its type.
        kind: u8,
        /// What is behind the header.
        body: Vec<u8>,
    },
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
}

// === impl Message ===

impl Message {
    /// The message's type.
    pub fn kind(&self) -> u8 {
        match self {
            Self::FlowMod(_) => kind::FLOW_MOD,
            Self::Unknown { kind, .. } => *kind,
        }
    }

    /// Appends the message. On an error `w` is as it was.
    pub fn encode(&self, xid: u32, w: &mut Writer) -> Result<(), EncodeError> {
        let start = w.len();
        w.u8(VERSION);
        w.u8(self.kind());
        w.u16(0);
        w.u32(xid);
        let done = self.encode_body(w).and_then(|()| w.patch_len("message", start, start + 2));
        if done.is_err() {
            w.truncate(start);
        }
        done
    }

    fn encode_body(&self, w: &mut Writer) -> Result<(), EncodeError> {
        match self {
            Self::FlowMod(m) => m.encode(w),
            Self::Unknown { body, .. } => {
                w.put(body);
                Ok(())
            }
        }
    }

    /// Reads one whole message and its transaction id.
    pub fn decode(bytes: &[u8]) -> Result<(u32, Self), DecodeError> {
        let mut r = Reader::new(bytes);
        let header = Header::decode(&r.array("header")?)?;
        if usize::from(header.length) != bytes.len() {
            let problem = Problem::Length {
                found: header.length.into(),
                expected: "the size of the message",
            };
            return Err(Reader::new(bytes).error("header", problem));
        }
        Ok((header.xid, Self::decode_body(header, &mut r)?))
    }

    fn decode_body(header: Header, r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match header.kind {
            kind::FLOW_MOD => Self::FlowMod(FlowMod::decode(r)?),
            kind => Self::Unknown { kind, body: r.rest().to_vec() },
        })
    }
}
