//! Cuts a stream of bytes into messages. Knows the header and nothing else.
//!
//! A message is at most 64 KiB by its 16-bit length, so the buffer needs no other limit: it grows
//! to [`MOST`] while the peer keeps it full.

use super::error::SessionError;
use super::protocol;
use crate::message::{HEADER, Header, Message, VERSION};
use crate::wire::DecodeError;
use std::ops::Range;
use thiserror::Error;

/// Room at first: a quiet session is cheap.
const FIRST: usize = 4 * 1024;
/// Room at most; any message fits.
const MOST: usize = 256 * 1024;

/// Why the stream is not OpenFlow, and where it ceased to be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FrameError {
    /// No header that can be right.
    #[error("the header at byte {at} of the stream is wrong")]
    Header {
        /// Bytes before the message.
        at: u64,
        /// What is wrong.
        source: DecodeError,
    },
    /// A version other than the one agreed upon.
    #[error("version {found:#04x} at byte {at} of the stream, {VERSION:#04x} was agreed upon")]
    Version {
        /// The version.
        found: u8,
        /// Bytes before the message.
        at: u64,
    },
}

/// A whole message inside a [`Framer`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame<'a> {
    pub(super) header: Header,
    /// Header included.
    pub(super) bytes: &'a [u8],
    /// Bytes before it in the stream.
    pub(super) at: u64,
}

/// Bytes received and not yet consumed.
#[derive(Debug)]
pub(super) struct Framer {
    buffer: Vec<u8>,
    /// What is received and not consumed.
    held: Range<usize>,
    /// Bytes consumed before `held`.
    consumed: u64,
    /// Whether every message must be of our version: once hello is over.
    agreed: bool,
}

// === impl Frame ===

impl Frame<'_> {
    /// Reads the message.
    pub(super) fn decode(&self) -> Result<(u32, Message), SessionError> {
        Message::decode(self.bytes).map_err(|source| SessionError::Malformed {
            kind: protocol::name(self.header.kind),
            xid: self.header.xid,
            at: self.at,
            source,
        })
    }
}

// === impl Framer ===

impl Framer {
    pub(super) fn new() -> Self {
        Self { buffer: vec![0; FIRST], held: 0..0, consumed: 0, agreed: false }
    }

    /// From here on, other versions are an error.
    pub(super) fn agree(&mut self) {
        self.agreed = true;
    }

    /// Where to put received bytes; never empty once all whole messages are consumed.
    pub(super) fn room(&mut self) -> &mut [u8] {
        if self.held.is_empty() {
            self.held = 0..0;
        }
        if self.held.end == self.buffer.len() {
            if self.held.start == 0 {
                // Full of one message, or of a burst: twice the room.
                self.buffer.resize((self.buffer.len() * 2).min(MOST), 0);
            } else {
                self.buffer.copy_within(self.held.clone(), 0);
                self.held = 0..self.held.len();
            }
        }
        &mut self.buffer[self.held.end..]
    }

    /// Takes over `n` bytes that were put into [`Self::room`].
    pub(super) fn received(&mut self, n: usize) {
        self.held.end = (self.held.end + n).min(self.buffer.len());
        // A read that fills all there is has more behind it: fewer, larger ones are cheaper.
        if self.held == (0..self.buffer.len()) && self.buffer.len() < MOST {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
    }

    /// Bytes of a message that is not whole yet.
    pub(super) fn pending(&self) -> usize {
        self.held.len()
    }

    /// Bytes received in all.
    pub(super) fn position(&self) -> u64 {
        self.consumed + self.held.len() as u64
    }

    /// The next message, if all of it is there.
    pub(super) fn next(&mut self) -> Result<Option<Frame<'_>>, FrameError> {
        let Some(header) = self.buffer[self.held.clone()].first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let at = self.consumed;
        let header = Header::decode(header).map_err(|source| FrameError::Header { at, source })?;
        if self.agreed && header.version != VERSION {
            return Err(FrameError::Version { found: header.version, at });
        }
        let length = usize::from(header.length);
        if self.held.len() < length {
            return Ok(None);
        }
        let start = self.held.start;
        self.held.start += length;
        self.consumed += length as u64;
        Ok(Some(Frame { header, bytes: &self.buffer[start..start + length], at }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn message(xid: u32, body: usize) -> Vec<u8> {
        let mut bytes = vec![VERSION, 2];
        bytes.extend(u16::try_from(HEADER + body).unwrap().to_be_bytes());
        bytes.extend(xid.to_be_bytes());
        bytes.resize(HEADER + body, xid.to_le_bytes()[0]);
        bytes
    }

    fn feed(framer: &mut Framer, mut bytes: &[u8], mut each: impl FnMut(Frame<'_>)) {
        while !bytes.is_empty() {
            let room = framer.room();
            let n = room.len().min(bytes.len());
            assert!(n > 0, "no room");
            room[..n].copy_from_slice(&bytes[..n]);
            framer.received(n);
            bytes = &bytes[n..];
            while let Some(frame) = framer.next().unwrap() {
                each(frame);
            }
        }
    }

    proptest! {
        #[test]
        fn any_cut_of_a_stream_gives_the_same_messages(
            bodies in vec(prop_oneof![0..200_usize, 60_000..=65_527_usize], 1..12),
            cuts in vec(1..70_000_usize, 1..20),
        ) {
            let sent: Vec<_> = (1..).zip(&bodies).map(|(xid, body)| message(xid, *body)).collect();
            let stream = sent.concat();
            let (mut framer, mut got, mut at) = (Framer::new(), Vec::new(), 0_usize);
            let mut cuts = cuts.iter().cycle();
            while at < stream.len() {
                let end = stream.len().min(at + cuts.next().unwrap());
                feed(&mut framer, &stream[at..end], |frame| got.push(frame.bytes.to_vec()));
                at = end;
            }
            prop_assert_eq!(got, sent);
            prop_assert_eq!(framer.pending(), 0);
            prop_assert_eq!(framer.position(), stream.len() as u64);
            prop_assert!(framer.buffer.len() <= MOST);
        }
    }

    #[test]
    fn a_length_below_the_header_names_the_place() {
        let mut framer = Framer::new();
        feed(&mut framer, &message(1, 4), |_| ());
        framer.room()[..HEADER].copy_from_slice(&[VERSION, 2, 0, 7, 0, 0, 0, 1]);
        framer.received(HEADER);
        let e = framer.next().unwrap_err();
        assert_eq!(e.to_string(), "the header at byte 12 of the stream is wrong");
    }

    #[test]
    fn other_versions_are_refused_once_one_is_agreed_upon() {
        let mut framer = Framer::new();
        let old = [1, 0, 0, 8, 0, 0, 0, 1];
        feed(&mut framer, &old, |frame| assert_eq!(frame.header.version, 1));
        framer.agree();
        framer.room()[..HEADER].copy_from_slice(&old);
        framer.received(HEADER);
        assert_eq!(framer.next().unwrap_err(), FrameError::Version { found: 1, at: 8 });
    }
}
