//! Ranges of bits in a field: `NXM_NX_REG0[0..15]`.

use crate::field::Field;
use crate::wire::{DecodeError, Problem, Reader, Writer};
use thiserror::Error;

/// Some bits of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Subfield {
    field: Field,
    offset: u16,
    bits: u16,
}

/// A range that its field does not have.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{field} has {width} bits, not {bits} from bit {offset} on")]
pub struct SubfieldError {
    field: Field,
    width: u16,
    offset: u16,
    bits: u16,
}

// === impl Subfield ===

impl Subfield {
    /// `bits` bits of the field, from bit `offset` up.
    pub fn new(field: Field, offset: u16, bits: u16) -> Result<Self, SubfieldError> {
        let width = field.bits();
        if bits == 0 || u32::from(offset) + u32::from(bits) > u32::from(width) {
            return Err(SubfieldError { field, width, offset, bits });
        }
        Ok(Self { field, offset, bits })
    }

    /// The whole field.
    pub fn whole(field: Field) -> Self {
        Self { field, offset: 0, bits: field.bits() }
    }

    /// The field.
    pub fn field(self) -> Field {
        self.field
    }

    /// Its lowest bit.
    pub fn offset(self) -> u16 {
        self.offset
    }

    /// How many bits.
    pub fn bits(self) -> u16 {
        self.bits
    }

    /// Whether it is all of the field.
    pub fn is_whole(self) -> bool {
        self.offset == 0 && self.bits == self.field.bits()
    }

    /// Nicira's compact form: the offset in the upper ten bits, the width less one in six.
    /// `None` where that cannot say it.
    pub(crate) fn ofs_nbits(self) -> Option<u16> {
        (self.offset < 1 << 10 && self.bits <= 64).then(|| self.offset << 6 | (self.bits - 1))
    }

    /// From the compact form and the field's header.
    pub(crate) fn from_ofs_nbits(
        r: &Reader<'_>,
        what: &'static str,
        field: Field,
        ofs_nbits: u16,
    ) -> Result<Self, DecodeError> {
        Self::checked(r, what, field, ofs_nbits >> 6, (ofs_nbits & 0x3f) + 1)
    }

    /// From numbers that came over the wire.
    pub(crate) fn checked(
        r: &Reader<'_>,
        what: &'static str,
        field: Field,
        offset: u16,
        bits: u16,
    ) -> Result<Self, DecodeError> {
        Self::new(field, offset, bits).map_err(|_| {
            let found = u64::from(offset) << 16 | u64::from(bits);
            r.error(what, Problem::Value { found, expected: "bits inside of the field" })
        })
    }

    /// Writes the field's header.
    pub(crate) fn put_field(self, w: &mut Writer) {
        put_field(self.field, w);
    }
}

/// Writes the header that names a field alone: a value's size without a value.
pub(crate) fn put_field(field: Field, w: &mut Writer) {
    field.put_header(w, false, field.bytes());
}

/// Reads a header that names a field alone.
pub(crate) fn read_field(r: &mut Reader<'_>) -> Result<Field, DecodeError> {
    Field::read_header(r).map(|h| h.field)
}

impl std::fmt::Display for Subfield {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.field.oxm_name())?;
        match (self.is_whole(), self.bits) {
            (true, _) => f.write_str("[]"),
            (false, 1) => write!(f, "[{}]", self.offset),
            (false, bits) => write!(f, "[{}..{}]", self.offset, self.offset + bits - 1),
        }
    }
}
