//! Where a store stands.

use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// How many transactions were committed, and leaps. Never goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Revision(pub u64);

/// A life of the store, by a random number. One that was restored begins another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Epoch(pub u64);

/// A revision of an epoch: the token that a watch goes on from. As text it is
/// `9f3c0a1b2c3d4e5f-42`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Position {
    /// Of which life.
    pub epoch: Epoch,
    /// How far.
    pub revision: Revision,
}

/// Text that is not a position.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0:?} is not a position (an epoch in hexadecimal, a dash, a revision)")]
pub struct ParsePositionError(String);

/// How far a restored store leaps: more than anyone can have written since the backup was made.
/// All numbers stay exact in JSON for millions of restores.
const LEAP: u64 = 1_000_000_000;

// === impl Revision ===

impl Revision {
    /// The one after it.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// Where the next epoch begins.
    pub(crate) fn leap(self) -> Self {
        Self((self.0 / LEAP + 1) * LEAP)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

// === impl Epoch ===

impl Epoch {
    /// One that was never before.
    pub(crate) fn random() -> std::io::Result<Self> {
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
        Ok(Self(u64::from_le_bytes(bytes)))
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

// === impl Position ===

impl Position {
    /// The same epoch, at another revision.
    #[must_use]
    pub fn at(self, revision: Revision) -> Self {
        Self { revision, ..self }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.epoch, self.revision)
    }
}

impl FromStr for Position {
    type Err = ParsePositionError;

    fn from_str(text: &str) -> Result<Self, ParsePositionError> {
        let parse = || {
            let (epoch, revision) = text.split_once('-')?;
            let digits = |t: &str| t.bytes().all(|b| b.is_ascii_hexdigit());
            let right = epoch.len() == 16 && digits(epoch) && digits(revision);
            let epoch = Epoch(u64::from_str_radix(epoch, 16).ok().filter(|_| right)?);
            Some(Self { epoch, revision: Revision(revision.parse().ok()?) })
        };
        parse().ok_or_else(|| ParsePositionError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_text_and_back() {
        let position = Position { epoch: Epoch(0xabc), revision: Revision(42) };
        assert_eq!(position.to_string(), "0000000000000abc-42");
        assert_eq!(position.to_string().parse(), Ok(position));
        for wrong in ["", "-", "42", "abc-42", "0000000000000abc-", "0000000000000abc-+4"] {
            assert!(wrong.parse::<Position>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_leap_is_past_all_that_could_be_written() {
        assert_eq!(Revision(0).leap(), Revision(LEAP));
        assert_eq!(Revision(LEAP).leap(), Revision(2 * LEAP));
        assert_eq!(Revision(LEAP + 7).leap(), Revision(2 * LEAP));
    }
}
