//! Row identities. A 128-bit UUID with the text form of RFC 4122 and the order ovsdb-server sorts
//! sets by (big-endian bytes). Named references inside one transaction are not UUIDs: see
//! [`Atom::NamedUuid`](crate::Atom::NamedUuid).

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::str::FromStr;

/// The identity of a row, or of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Uuid([u8; 16]);

/// The text is not a UUID of the form `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a UUID: {length} bytes, wrong at byte {offset}")]
pub struct UuidError {
    /// Length of the text.
    pub length: usize,
    /// The first byte that does not fit.
    pub offset: usize,
}

impl Uuid {
    /// All zero: "no transaction" in `monitor_cond_since`.
    pub const ZERO: Self = Self([0; 16]);

    /// From its number.
    pub const fn from_u128(number: u128) -> Self {
        Self(number.to_be_bytes())
    }

    /// Whether this is [`Uuid::ZERO`].
    pub fn is_zero(self) -> bool {
        self == Self::ZERO
    }

    /// A fresh version 4 UUID. The randomness is the standard library's hash seed: unique, not secret.
    pub fn random() -> Self {
        let half = || u128::from(RandomState::new().hash_one(std::time::Instant::now()));
        let mut bytes = ((half() << 64) | half()).to_be_bytes();
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        Self(bytes)
    }
}

impl FromStr for Uuid {
    type Err = UuidError;

    fn from_str(text: &str) -> Result<Self, UuidError> {
        let bytes = text.as_bytes();
        let wrong = |offset| UuidError { length: bytes.len(), offset };
        if bytes.len() != 36 {
            return Err(wrong(bytes.len().min(36)));
        }
        let mut number = 0u128;
        for (offset, &byte) in bytes.iter().enumerate() {
            if matches!(offset, 8 | 13 | 18 | 23) {
                if byte != b'-' {
                    return Err(wrong(offset));
                }
                continue;
            }
            let digit = char::from(byte).to_digit(16).ok_or(wrong(offset))?;
            number = (number << 4) | u128::from(digit);
        }
        Ok(Self::from_u128(number))
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = u128::from_be_bytes(self.0);
        write!(
            f,
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            n >> 96,
            (n >> 80) & 0xffff,
            (n >> 64) & 0xffff,
            (n >> 48) & 0xffff,
            n & 0xffff_ffff_ffff
        )
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_both_ways() {
        let text = "00f1a2b3-0001-4abc-8def-0123456789ab";
        assert_eq!(text.parse::<Uuid>().unwrap().to_string(), text);
        assert_eq!("x".parse::<Uuid>(), Err(UuidError { length: 1, offset: 1 }));
        let bad = "00f1a2b3-0001-4abc-8def-0123456789aZ";
        assert_eq!(bad.parse::<Uuid>(), Err(UuidError { length: 36, offset: 35 }));
    }

    #[test]
    fn random_is_unique() {
        let many: std::collections::BTreeSet<_> = (0..10_000).map(|_| Uuid::random()).collect();
        assert_eq!(many.len(), 10_000);
    }
}
