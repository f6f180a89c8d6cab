//! Reading and writing of big-endian structures, with errors that name what was read and where.
//!
//! Both halves are strict: a read past the end, a length that lies, or a value that does not fit
//! its field is an error, never a truncation. Nothing here knows OpenFlow.

use std::time::Duration;
use thiserror::Error;

/// Why bytes could not be understood, and where in the message.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{what} at byte {offset}: {problem}")]
pub struct DecodeError {
    /// The structure that was being read.
    pub what: &'static str,
    /// Offset from the start of the message.
    pub offset: usize,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What is wrong with the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Problem {
    /// The message ends inside the structure.
    #[error("needs {needed} bytes, {left} left")]
    Truncated {
        /// Bytes that the structure asks for.
        needed: usize,
        /// Bytes that are there.
        left: usize,
    },
    /// A length field that cannot be right.
    #[error("length {found}, expected {expected}")]
    Length {
        /// The length that was read.
        found: usize,
        /// What a right one looks like.
        expected: &'static str,
    },
    /// A type, code or class that we do not know.
    #[error("unknown value {0:#x}")]
    Unknown(u64),
    /// A value outside of what the structure allows.
    #[error("value {found:#x}, expected {expected}")]
    Value {
        /// The value that was read.
        found: u64,
        /// What is allowed.
        expected: &'static str,
    },
    /// Structures nested deeper than we follow.
    #[error("nested deeper than {0} levels")]
    TooDeep(usize),
}

/// Why a value cannot be written to the wire.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EncodeError {
    /// A number that does not fit its field.
    #[error("{what} is {value}, but its wire field holds at most {max}")]
    Range {
        /// The field.
        what: &'static str,
        /// The value asked for.
        value: u128,
        /// The largest that fits.
        max: u128,
    },
    /// A structure longer than its length field can say.
    #[error("{what} takes {bytes} bytes, but its length field holds at most {max}")]
    TooLong {
        /// The structure.
        what: &'static str,
        /// Its size.
        bytes: usize,
        /// The largest that fits.
        max: usize,
    },
    /// A combination that the protocol cannot express.
    #[error("{what}: {why}")]
    Inexpressible {
        /// The structure.
        what: &'static str,
        /// Why not.
        why: &'static str,
    },
}

/// A cursor over received bytes.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    pos: usize,
    /// Offset of `bytes[0]` in the message, so that errors in a nested structure name the place.
    base: usize,
}

// === impl Reader ===

impl<'a> Reader<'a> {
    /// Reads `bytes`, which start the message.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, pos: 0, base: 0 }
    }

    /// Offset from the start of the message.
    pub fn offset(&self) -> usize {
        self.base + self.pos
    }

    /// Bytes not yet read.
    pub fn left(&self) -> usize {
        self.bytes.len() - self.pos
    }

    /// Whether all was read.
    pub fn is_empty(&self) -> bool {
        self.left() == 0
    }

    /// The bytes not yet read.
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.pos..]
    }

    /// An error at the current place.
    pub fn error(&self, what: &'static str, problem: Problem) -> DecodeError {
        DecodeError { what, offset: self.offset(), problem }
    }

    /// The next `n` bytes.
    pub fn take(&mut self, what: &'static str, n: usize) -> Result<&'a [u8], DecodeError> {
        if self.left() < n {
            return Err(self.error(what, Problem::Truncated { needed: n, left: self.left() }));
        }
        let taken = &self.bytes[self.pos..self.pos + n];
        self.pos += n;
        Ok(taken)
    }

    /// The next `N` bytes as an array.
    pub fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], DecodeError> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(what, N)?);
        Ok(out)
    }

    /// A reader of the next `n` bytes alone.
    pub fn sub(&mut self, what: &'static str, n: usize) -> Result<Reader<'a>, DecodeError> {
        let base = self.offset();
        let bytes = self.take(what, n)?;
        Ok(Reader { bytes, pos: 0, base })
    }

    /// Skips padding, whatever it holds.
    pub fn skip(&mut self, what: &'static str, n: usize) -> Result<(), DecodeError> {
        self.take(what, n).map(|_| ())
    }

    /// One byte.
    pub fn u8(&mut self, what: &'static str) -> Result<u8, DecodeError> {
        Ok(self.take(what, 1)?[0])
    }

    /// Two bytes.
    pub fn u16(&mut self, what: &'static str) -> Result<u16, DecodeError> {
        self.array(what).map(u16::from_be_bytes)
    }

    /// Four bytes.
    pub fn u32(&mut self, what: &'static str) -> Result<u32, DecodeError> {
        self.array(what).map(u32::from_be_bytes)
    }

    /// Eight bytes.
    pub fn u64(&mut self, what: &'static str) -> Result<u64, DecodeError> {
        self.array(what).map(u64::from_be_bytes)
    }

    /// A time as 32 bits of seconds and 32 of nanoseconds. Open vSwitch says "unknown" with all
    /// bits of both set: that stays the longest time there is.
    pub fn duration(&mut self, what: &'static str) -> Result<Duration, DecodeError> {
        let (secs, nanos) = (self.u32(what)?, self.u32(what)?);
        Ok(Duration::new(secs.into(), nanos.min(999_999_999)))
    }

    /// Two bytes without moving on; `None` if they are not there.
    pub fn peek_u16(&self, ahead: usize) -> Option<u16> {
        let at = self.pos + ahead;
        let bytes = self.bytes.get(at..at + 2)?;
        Some(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    /// A structure of at least `min` bytes whose 16-bit length, counted from its start, stands
    /// `at` bytes into it: returns a reader of the whole structure.
    pub fn sized(
        &mut self,
        what: &'static str,
        at: usize,
        min: usize,
    ) -> Result<Reader<'a>, DecodeError> {
        let needed = at + 2;
        let truncated = Problem::Truncated { needed, left: self.left() };
        let len = self.peek_u16(at).ok_or_else(|| self.error(what, truncated))?;
        let len = usize::from(len);
        if len < min.max(needed) {
            let expected = "at least the fixed part of the structure";
            return Err(self.error(what, Problem::Length { found: len, expected }));
        }
        self.sub(what, len)
    }

    /// Text in a field of `n` bytes of which the last is zero, whatever it holds. A byte that is
    /// not UTF-8 becomes a question mark, so that the text fits its field again.
    pub fn text(&mut self, what: &'static str, n: usize) -> Result<String, DecodeError> {
        let bytes = self.take(what, n)?;
        let last = n.saturating_sub(1);
        let end = bytes.iter().position(|b| *b == 0).unwrap_or(last).min(last);
        let mut text = String::with_capacity(end);
        for chunk in bytes[..end].utf8_chunks() {
            text.push_str(chunk.valid());
            text.extend(chunk.invalid().iter().map(|_| '?'));
        }
        Ok(text)
    }

    /// A structure that starts with a 16-bit type and its own 16-bit length (header included),
    /// padded to a multiple of eight in the stream: returns the type and a reader of the body.
    pub fn tlv(&mut self, what: &'static str) -> Result<(u16, Reader<'a>), DecodeError> {
        let start = self.clone();
        let kind = self.u16(what)?;
        let len = usize::from(self.u16(what)?);
        if len < 4 {
            let expected = "at least the 4 of the header";
            return Err(start.error(what, Problem::Length { found: len, expected }));
        }
        let body = self.sub(what, len - 4)?;
        // The last one of a list may come without its padding.
        let padding = (len.next_multiple_of(8) - len).min(self.left());
        self.skip(what, padding)?;
        Ok((kind, body))
    }
}

/// A growing buffer of bytes to send.
#[derive(Debug, Default, Clone)]
pub struct Writer {
    bytes: Vec<u8>,
}

// === impl Writer ===

impl Writer {
    /// An empty buffer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Goes on behind what `bytes` holds.
    pub fn appending(bytes: Vec<u8>) -> Self {
        Self { bytes }
    }

    /// Bytes written so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The bytes written.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    /// Ends writing.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Drops everything behind `len`: undoes a structure that failed halfway.
    pub fn truncate(&mut self, len: usize) {
        self.bytes.truncate(len);
    }

    /// Appends bytes.
    pub fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends one byte.
    pub fn u8(&mut self, v: u8) {
        self.bytes.push(v);
    }

    /// Appends two bytes.
    pub fn u16(&mut self, v: u16) {
        self.put(&v.to_be_bytes());
    }

    /// Appends four bytes.
    pub fn u32(&mut self, v: u32) {
        self.put(&v.to_be_bytes());
    }

    /// Appends eight bytes.
    pub fn u64(&mut self, v: u64) {
        self.put(&v.to_be_bytes());
    }

    /// Appends a time as 32 bits of seconds and 32 of nanoseconds.
    pub fn duration(&mut self, what: &'static str, time: Duration) -> Result<(), EncodeError> {
        self.u32(fit(what, time.as_secs(), u32::MAX.into())?);
        self.u32(time.subsec_nanos());
        Ok(())
    }

    /// Appends zeros.
    pub fn zeros(&mut self, n: usize) {
        self.bytes.resize(self.bytes.len() + n, 0);
    }

    /// Pads with zeros until the distance from `start` is a multiple of eight.
    pub fn align8(&mut self, start: usize) {
        let len = self.bytes.len() - start;
        self.zeros(len.next_multiple_of(8) - len);
    }

    /// Overwrites two bytes at `at`.
    pub fn patch_u16(&mut self, at: usize, v: u16) {
        self.bytes[at..at + 2].copy_from_slice(&v.to_be_bytes());
    }

    /// Appends a structure that starts with a 16-bit type and its own 16-bit length, padded with
    /// zeros to a multiple of eight that the length does not count.
    pub fn tlv(
        &mut self,
        what: &'static str,
        kind: u16,
        body: impl FnOnce(&mut Self) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        let start = self.len();
        self.u16(kind);
        self.u16(0);
        body(self)?;
        self.patch_len(what, start, start + 2)?;
        self.align8(start);
        Ok(())
    }

    /// Appends text in a field of `n` bytes of which the last stays zero.
    pub fn text(&mut self, what: &'static str, text: &str, n: usize) -> Result<(), EncodeError> {
        let bytes = text.len();
        if bytes >= n {
            return Err(EncodeError::TooLong { what, bytes, max: n - 1 });
        }
        if text.contains('\0') {
            let why = "a zero would end the text";
            return Err(EncodeError::Inexpressible { what, why });
        }
        self.put(text.as_bytes());
        self.zeros(n - bytes);
        Ok(())
    }

    /// Writes the distance from `start` to here into the 16-bit length field at `at`.
    pub fn patch_len(
        &mut self,
        what: &'static str,
        start: usize,
        at: usize,
    ) -> Result<(), EncodeError> {
        let bytes = self.bytes.len() - start;
        let max = usize::from(u16::MAX);
        let len = u16::try_from(bytes).map_err(|_| EncodeError::TooLong { what, bytes, max })?;
        self.patch_u16(at, len);
        Ok(())
    }
}

/// `v` as a smaller integer, or an error that names it.
pub(crate) fn fit<W: TryFrom<V>, V: Copy + Into<u128>>(
    what: &'static str,
    v: V,
    max: u128,
) -> Result<W, EncodeError> {
    let too_large = || EncodeError::Range { what, value: v.into(), max };
    if v.into() > max {
        return Err(too_large());
    }
    W::try_from(v).map_err(|_| too_large())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_what_and_where() {
        let mut r = Reader::new(&[0, 1, 0, 12, 9, 9, 9, 9, 5, 5, 5, 5]);
        let (kind, mut body) = r.tlv("instruction").unwrap();
        assert_eq!(kind, 1);
        body.skip("instruction", 6).unwrap();
        let e = body.u32("metadata").unwrap_err();
        assert_eq!(e.to_string(), "metadata at byte 10: needs 4 bytes, 2 left");
    }

    #[test]
    fn a_length_past_the_end_or_below_its_header_is_refused() {
        assert!(Reader::new(&[0, 1, 0, 9, 0, 0, 0, 0]).tlv("action").is_err());
        assert!(Reader::new(&[0, 1, 0, 3, 0, 0, 0, 0]).tlv("action").is_err());
    }

    #[test]
    fn a_structure_over_64_kib_is_an_error_and_not_cut() {
        let mut w = Writer::new();
        w.u32(0);
        w.zeros(70_000);
        let e = w.patch_len("group_mod", 0, 2).unwrap_err();
        let said = "group_mod takes 70004 bytes, but its length field holds at most 65535";
        assert_eq!(e.to_string(), said);
    }

    #[test]
    fn text_that_was_read_fits_its_field_again() {
        // Found by fuzzing: bytes that are no UTF-8 grew, and a full field had no room for its end.
        for (bytes, text) in [
            (b"br0\0??".as_slice(), "br0"),
            (b"\xff\xfe\0abc", "??"),
            (b"sixsix", "sixsi"),
            (b"\xc3\xa4\xc3\xa4\xc3\xa4", "\u{e4}\u{e4}?"),
        ] {
            let read = Reader::new(bytes).text("name", 6).unwrap();
            assert_eq!(read, text);
            let mut w = Writer::new();
            w.text("name", &read, 6).unwrap();
            assert_eq!(w.len(), 6);
        }
        assert!(Writer::new().text("name", "a\0b", 6).is_err(), "would come back as another");
    }

    #[test]
    fn a_time_that_was_read_can_be_written() {
        let read = Reader::new(&[0xff; 8]).duration("duration").unwrap();
        assert_eq!(read, Duration::new(u32::MAX.into(), 999_999_999));
        assert_eq!(Writer::new().duration("duration", read), Ok(()));
    }
}
