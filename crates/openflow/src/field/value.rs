//! Values of fields: big-endian bytes of the field's size.

use super::{Field, MAX_VALUE};
use smallvec::SmallVec;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use thiserror::Error;

/// A field's value, or a mask over it, as it stands on the wire.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Value(SmallVec<[u8; 16]>);

/// A value that its field cannot hold.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FieldValueError {
    /// The number has more bits than the field.
    #[error("{value:#x} does not fit {field}, which has {bits} bits")]
    TooLarge {
        /// The field.
        field: Field,
        /// The number.
        value: u128,
        /// The field's width.
        bits: u16,
    },
    /// Bytes of another size than the field's.
    #[error("{found} bytes for {field}, which has {expected}")]
    Size {
        /// The field.
        field: Field,
        /// The size given.
        found: usize,
        /// The field's size.
        expected: usize,
    },
}

/// An Ethernet address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Mac(pub [u8; 6]);

/// What can be a field's value: integers, addresses, bytes.
pub trait IntoValue {
    /// The value, if the field can hold it.
    fn into_value(self, field: Field) -> Result<Value, FieldValueError>;
}

// === impl Value ===

impl Value {
    /// Bytes as they stand on the wire.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self(SmallVec::from_slice(bytes))
    }

    /// A number in `len` bytes; what does not fit is cut, so check before.
    pub(crate) fn from_u128(v: u128, len: usize) -> Self {
        let mut out = SmallVec::from_elem(0, len);
        put_low(&mut out, v);
        Self(out)
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// As a number; of more than 16 bytes the low 16.
    pub fn to_u128(&self) -> u128 {
        to_u128(&self.0)
    }

    /// Whether all bits are zero.
    pub fn is_zero(&self) -> bool {
        self.0.iter().all(|b| *b == 0)
    }

    /// The bits that `mask` has as well.
    #[must_use]
    pub(crate) fn and(&self, mask: &Self) -> Self {
        Self(self.0.iter().zip(&mask.0).map(|(v, m)| v & m).collect())
    }
}

/// Big-endian bytes as a number; of more than 16 bytes the low 16.
pub(crate) fn to_u128(bytes: &[u8]) -> u128 {
    let low = &bytes[bytes.len().saturating_sub(16)..];
    low.iter().fold(0, |v, b| v << 8 | u128::from(*b))
}

/// Writes the low bits of `v` to the end of `out`.
fn put_low(out: &mut [u8], v: u128) {
    let bytes = v.to_be_bytes();
    let n = out.len().min(16);
    let at = out.len() - n;
    out[at..].copy_from_slice(&bytes[16 - n..]);
}

// === impl IntoValue ===

impl IntoValue for u128 {
    fn into_value(self, field: Field) -> Result<Value, FieldValueError> {
        if field.is_tun_metadata() {
            // As short as it can be: the size of the option is known to the switch alone.
            let len = (128 - self.leading_zeros()).div_ceil(8).max(1);
            return Ok(Value::from_u128(self, len as usize));
        }
        if self & !field.valid_bits() != 0 {
            let bits = field.bits();
            return Err(FieldValueError::TooLarge { field, value: self, bits });
        }
        Ok(Value::from_u128(self, field.bytes()))
    }
}

macro_rules! as_number {
    ($($t:ty: $number:expr;)*) => {
        $(impl IntoValue for $t {
            fn into_value(self, field: Field) -> Result<Value, FieldValueError> {
                let number: fn($t) -> u128 = $number;
                number(self).into_value(field)
            }
        })*
    };
}

as_number! {
    u8: u128::from;
    u16: u128::from;
    u32: u128::from;
    u64: u128::from;
    Mac: |mac| to_u128(&mac.0);
    Ipv4Addr: |ip| ip.to_bits().into();
    Ipv6Addr: |ip| ip.to_bits();
}

impl IntoValue for IpAddr {
    fn into_value(self, field: Field) -> Result<Value, FieldValueError> {
        match self {
            IpAddr::V4(ip) => ip.into_value(field),
            IpAddr::V6(ip) => ip.into_value(field),
        }
    }
}

impl IntoValue for Value {
    fn into_value(self, field: Field) -> Result<Value, FieldValueError> {
        self.as_bytes().into_value(field)
    }
}

impl IntoValue for &Value {
    fn into_value(self, field: Field) -> Result<Value, FieldValueError> {
        self.as_bytes().into_value(field)
    }
}

impl IntoValue for &[u8] {
    fn into_value(self, field: Field) -> Result<Value, FieldValueError> {
        let fits = match field.is_tun_metadata() {
            true => self.len() <= MAX_VALUE,
            false => self.len() == field.bytes(),
        };
        if !fits {
            let (found, expected) = (self.len(), field.bytes());
            return Err(FieldValueError::Size { field, found, expected });
        }
        let value = Value::from_bytes(self);
        if !field.is_tun_metadata() && value.to_u128() & !field.valid_bits() != 0 {
            let (value, bits) = (value.to_u128(), field.bits());
            return Err(FieldValueError::TooLarge { field, value, bits });
        }
        Ok(value)
    }
}

// === impl Mac ===

impl std::fmt::Display for Mac {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, byte) in self.0.iter().enumerate() {
            write!(f, "{}{byte:02x}", if i == 0 { "" } else { ":" })?;
        }
        Ok(())
    }
}

impl std::fmt::Debug for Mac {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// Text that is not an Ethernet address.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0:?} is not an Ethernet address (six hexadecimal bytes with colons)")]
pub struct ParseMacError(String);

impl std::str::FromStr for Mac {
    type Err = ParseMacError;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let bad = || ParseMacError(s.to_owned());
        let mut mac = [0; 6];
        let mut parts = s.split(':');
        for byte in &mut mac {
            let part = parts.next().filter(|p| (1..=2).contains(&p.len())).ok_or_else(bad)?;
            *byte = u8::from_str_radix(part, 16).map_err(|_| bad())?;
        }
        if parts.next().is_some() { Err(bad()) } else { Ok(Self(mac)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_does_not_fit_is_an_error() {
        let e = 0x10_0000_u32.into_value(Field::MPLS_LABEL).unwrap_err();
        assert_eq!(e.to_string(), "0x100000 does not fit mpls_label, which has 20 bits");
        assert!(256_u16.into_value(Field::IP_PROTO).is_err());
        assert!(0x1fff_u16.into_value(Field::VLAN_VID).is_ok());
    }

    #[test]
    fn mac_text() {
        let mac: Mac = "00:1b:2c:3d:4e:5f".parse().unwrap();
        assert_eq!(mac.to_string(), "00:1b:2c:3d:4e:5f");
        assert!("00:1b:2c:3d:4e".parse::<Mac>().is_err());
        assert!("00:1b:2c:3d:4e:5f:60".parse::<Mac>().is_err());
    }
}
