//! Keys: paths such as `ports/shop:web`.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;
use thiserror::Error;

/// What a document is stored under. Cloning one is cheap.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Arc<str>);

/// Text that is no key.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum KeyError {
    /// Nothing at all.
    #[error("a key may not be empty")]
    Empty,
    /// More than fits.
    #[error("a key of {found} bytes is too long: at most {max}")]
    TooLong {
        /// Its size.
        found: usize,
        /// What fits.
        max: usize,
    },
    /// A character that cannot be seen.
    #[error("{key:?} has a control character at byte {at}")]
    Control {
        /// The text.
        key: String,
        /// Where.
        at: usize,
    },
}

// === impl Key ===

impl Key {
    /// The longest key, in bytes.
    pub const MAX: usize = 1024;

    /// The key, if it is one.
    pub fn new(key: &str) -> Result<Self, KeyError> {
        if key.is_empty() {
            return Err(KeyError::Empty);
        }
        if key.len() > Self::MAX {
            return Err(KeyError::TooLong { found: key.len(), max: Self::MAX });
        }
        match key.char_indices().find(|(_, c)| c.is_control()) {
            Some((at, _)) => Err(KeyError::Control { key: key.to_owned(), at }),
            None => Ok(Self(key.into())),
        }
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::str::FromStr for Key {
    type Err = KeyError;
    fn from_str(key: &str) -> Result<Self, KeyError> {
        Self::new(key)
    }
}

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
