//! Cookies: every flow names its owner.
//!
//! ```text
//!  63      48 47    40 39                  0
//! +----------+--------+---------------------+
//! | class    | kind   | number of the owner |
//! +----------+--------+---------------------+
//! ```
//!
//! A number follows from what the owner is, never from when it came: a local port's is its tag,
//! which its agent keeps; a network's its VNI; a router's its VRF; of others it is a hash of their
//! name. So a restarted agent makes the same cookies, and rewrites nothing. Hashes may meet: a
//! cookie explains a flow, it does not decide whose it is.

use crate::policies::Article;
use crate::services::Use;
use osier_model::{Key, View};

/// The class of our flows: "os" in ASCII.
pub const CLASS: u64 = 0x6f73 << 48;
/// The class of flows that our flows learn; they are outside of drift repair.
pub const LEARNED: u64 = 0x6f74 << 48;
/// Which bits are the class.
pub const CLASS_MASK: u64 = 0xffff << 48;

/// The cookies of one kind of owners.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CookieRange {
    /// What they have in common.
    pub value: u64,
    /// Which bits that is.
    pub mask: u64,
}

/// Those of the pipeline's own flows.
pub const PIPELINE: CookieRange = CookieRange::of_kind(0);
/// Those of Services' flows.
pub const SERVICES: CookieRange = CookieRange::of_kind(5);
/// Those of what rules of policies grant.
pub const RULES: CookieRange = CookieRange::of_kind(8);

/// Whose flows a cookie marks.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Owner {
    /// The pipeline itself: what is there without any object.
    Pipeline,
    /// An object of the model.
    Object(Key),
    /// What several Services need, and is there once.
    Shared(Use),
    /// What policies come to.
    Article(Article),
}

// === impl CookieRange ===

impl CookieRange {
    const fn of_kind(kind: u64) -> Self {
        Self { value: CLASS | kind << 40, mask: CLASS_MASK | 0xff << 40 }
    }
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
            // Endpoints are their Service's.
            Self::Object(Key::Service(_) | Key::Endpoints(_)) => 5,
            Self::Shared(_) => 6,
            // What they come to is owned by articles.
            Self::Object(Key::Selection(_) | Key::Policy(_) | Key::Guard(_) | Key::Workload(_))
            | Self::Article(Article::Clause(..)) => 7,
            Self::Article(Article::Rule(_)) => 8,
            Self::Article(Article::Subject(_)) => 9,
        }
    }

    /// The cookie of this owner; `tag` is a local port's.
    pub(crate) fn cookie(&self, view: &View, tag: Option<u32>) -> u64 {
        let number = match self {
            Self::Pipeline => 0,
            Self::Object(Key::Network(name)) => {
                view.networks().get(name).map_or(0, |network| network.vni.get().into())
            }
            Self::Object(Key::Router(name)) => {
                view.routers().get(name).map_or(0, |router| router.vrf.0.into())
            }
            Self::Object(Key::Node(name)) => hash(name.as_str()),
            Self::Object(Key::Service(name)) => hash(name.as_str()),
            Self::Object(Key::Endpoints(key)) => hash(key.service.as_str()),
            Self::Article(Article::Rule(rule)) => rule.0.into(),
            Self::Article(Article::Subject(identity)) => identity.0.into(),
            Self::Article(clause) => hash(&clause.to_string()),
            Self::Object(
                key @ (Key::Selection(_) | Key::Policy(_) | Key::Guard(_) | Key::Workload(_)),
            ) => hash(&key.to_string()),
            Self::Shared(shared) => hash(&shared.to_string()),
            Self::Object(Key::Port(key)) => match tag {
                Some(tag) => tag.into(),
                None => REMOTE | hash(&key.to_string()),
            },
        };
        CLASS | self.kind() << 40 | number
    }
}

/// Set in the number of a port of another node, which has no tag here.
const REMOTE: u64 = 1 << 39;

/// FNV-1a, folded to 39 bits: spread well, and the same in every version.
pub(crate) fn hash(name: &str) -> u64 {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    (hash >> 39 ^ hash) & (REMOTE - 1)
}

impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Pipeline => f.write_str("pipeline"),
            Self::Object(key) => write!(f, "{key}"),
            Self::Article(article) => write!(f, "{article}"),
            Self::Shared(shared) => write!(f, "{shared}"),
        }
    }
}

impl From<Key> for Owner {
    fn from(key: Key) -> Self {
        Self::Object(key)
    }
}
