//! `set_field`: the one form of all that sets a field to a value.

use crate::field::{Field, FieldValueError, IntoValue, Value};
use crate::subfield::Subfield;
use crate::wire::{DecodeError, Problem, Reader, Writer};
use thiserror::Error;

/// A field, its new value, and which of its bits to set.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SetField {
    field: Field,
    value: Value,
    /// `None` for all bits.
    mask: Option<Value>,
}

/// Why a field cannot be set so.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SetFieldError {
    /// The value or mask does not fit.
    #[error(transparent)]
    Value(#[from] FieldValueError),
    /// The field is read-only.
    #[error("{0} is read-only")]
    ReadOnly(Field),
    /// The value is wider than the bits to set.
    #[error("{value:#x} does not fit {bits} bits of {field}")]
    TooWide {
        /// The field.
        field: Field,
        /// The value.
        value: u128,
        /// How many bits are to be set.
        bits: u16,
    },
    /// Bits beyond the lowest 128 of a long field, set by number.
    #[error("bits of {0} above the lowest 128 cannot be set by number")]
    TooHigh(Field),
    /// A mask that is shorter or longer than its value.
    #[error("the mask of {0} is not as long as its value")]
    MaskSize(Field),
}

// === impl SetField ===

impl SetField {
    /// Sets the whole field.
    pub fn new(field: Field, value: impl IntoValue) -> Result<Self, SetFieldError> {
        Self::with_mask(field, &value.into_value(field)?, None)
    }

    /// Sets the bits of the field where `mask` has ones.
    pub fn masked(
        field: Field,
        value: impl IntoValue,
        mask: impl IntoValue,
    ) -> Result<Self, SetFieldError> {
        Self::with_mask(field, &value.into_value(field)?, Some(&mask.into_value(field)?))
    }

    /// Sets a range of bits (`load:value->dst`).
    pub fn load(dst: Subfield, value: u128) -> Result<Self, SetFieldError> {
        let (field, bits) = (dst.field(), dst.bits());
        let ones = if bits >= 128 { u128::MAX } else { (1 << bits) - 1 };
        if value & !ones != 0 {
            return Err(SetFieldError::TooWide { field, value, bits });
        }
        if dst.is_whole() && !field.is_tun_metadata() && field != Field::VLAN_VID {
            return Self::new(field, value);
        }
        let shift = u32::from(dst.offset());
        if shift + u32::from(bits.min(128)) > 128 {
            return Err(SetFieldError::TooHigh(field));
        }
        let len = field.bytes();
        let (value, mask) = (value << shift, ones << shift);
        Self::with_mask(field, &Value::from_u128(value, len), Some(&Value::from_u128(mask, len)))
    }

    fn with_mask(field: Field, value: &Value, mask: Option<&Value>) -> Result<Self, SetFieldError> {
        if !field.writable() {
            return Err(SetFieldError::ReadOnly(field));
        }
        if mask.is_some_and(|m| m.as_bytes().len() != value.as_bytes().len()) {
            return Err(SetFieldError::MaskSize(field));
        }
        Ok(Self::canonical(field, value, mask))
    }

    fn canonical(field: Field, value: &Value, mask: Option<&Value>) -> Self {
        if field.is_tun_metadata() {
            return Self::canonical_tun_metadata(field, value, mask);
        }
        let valid = field.valid_bits();
        let full = |m: &Value| m.to_u128() & valid == valid;
        match mask.filter(|m| !full(m)) {
            None => Self { field, value: value.clone(), mask: None },
            Some(mask) => Self { field, value: value.and(mask), mask: Some(mask.clone()) },
        }
    }

    /// As in a match, leading zeros say nothing: the switch knows how long the option is.
    fn canonical_tun_metadata(field: Field, value: &Value, mask: Option<&Value>) -> Self {
        let zeros = |v: &Value| v.as_bytes().iter().take_while(|b| **b == 0).count();
        let (value, mask) = match mask {
            Some(mask) => (value.and(mask), Some(mask)),
            None => (value.clone(), None),
        };
        let len = value.as_bytes().len();
        let cut = mask.map_or(zeros(&value), zeros).min(len.saturating_sub(1));
        let tail = |v: &Value| Value::from_bytes(&v.as_bytes()[cut..]);
        Self { field, value: tail(&value), mask: mask.map(tail) }
    }

    /// The field.
    pub fn field(&self) -> Field {
        self.field
    }

    /// Its new value, zero where the mask is.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Which bits to set; all if `None`.
    pub fn mask(&self) -> Option<&Value> {
        self.mask.as_ref()
    }

    /// Writes the OXM entry.
    pub(super) fn put(&self, w: &mut Writer) {
        let value = self.value.as_bytes();
        self.field.put_header(w, self.mask.is_some(), value.len());
        w.put(value);
        if let Some(mask) = &self.mask {
            w.put(mask.as_bytes());
        }
    }

    /// Reads the OXM entry.
    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        const WHAT: &str = "set_field";
        let start = r.clone();
        let header = Field::read_header(r)?;
        let field = header.field;
        let len = if header.has_mask { header.payload / 2 } else { header.payload };
        let value = Value::from_bytes(r.take(WHAT, len)?);
        let mask = match header.has_mask {
            true => Some(Value::from_bytes(r.take(WHAT, len)?)),
            false => None,
        };
        let right = match field.is_tun_metadata() {
            true => (1..=field.bytes()).contains(&len),
            false => len == field.bytes(),
        };
        if !right {
            let expected = "the size of the field";
            return Err(start.error(WHAT, Problem::Length { found: len, expected }));
        }
        Ok(Self::canonical(field, &value, mask.as_ref()))
    }
}
