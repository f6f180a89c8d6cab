//! Cookies: every flow names its owner.
//!
//! ```text
//!  63      48 47    40 39                  0
//! +----------+--------+---------------------+
//! | class    | kind   | number of the owner |
//! +----------+--------+---------------------+
//! ```

use osier_model::Key;

/// The class of our flows: "os" in ASCII.
pub const CLASS: u64 = 0x6f73 << 48;
/// The class of flows that our flows learn; they are outside of drift repair.
pub const LEARNED: u64 = 0x6f74 << 48;
/// Which bits are the class.
pub const CLASS_MASK: u64 = 0xffff << 48;

/// Whose flows a cookie marks.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Owner {
    /// The pipeline itself: what is there without any object.
    Pipeline,
    /// An object of the model.
    Object(Key),
}

// === impl Owner ===

impl Owner {
    /// The kind's number in cookies.
    fn kind(&self) -> u64 {
        match self {
            Self::Pipeline => 0,
            Self::Object(Key::Node(_)) => 1,
            Self::Object(Key::Router(_)) => 2,
            Self::Object(Key::Network(_)) => 3,
            Self::Object(Key::Port(_)) => 4,
        }
    }

    /// The cookie of this owner, whose number is `number`.
    pub(crate) fn cookie(&self, number: u64) -> u64 {
        CLASS | self.kind() << 40 | (number & 0xff_ffff_ffff)
    }
}

impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Pipeline => f.write_str("pipeline"),
            Self::Object(key) => write!(f, "{key}"),
        }
    }
}

impl From<Key> for Owner {
    fn from(key: Key) -> Self {
        Self::Object(key)
    }
}
