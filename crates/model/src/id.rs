//! Numbers that the datapath carries. Their widths are fixed: see the registers of the pipeline.

use crate::error::Problem;
use serde::{Deserialize, Serialize};

/// A network's number, also its tunnel key: 24 bits, not 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct Vni(u32);

/// A router's number: 16 bits. 0 is the default network's.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Default,
)]
#[serde(transparent)]
pub struct VrfId(pub u16);

/// What a port is to policies: a number for a set of labels. The upper bits name the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Identity(pub u32);

// === impl Vni ===

impl Vni {
    const MAX: u32 = 0xff_ffff;

    /// The number, if it is one.
    pub fn new(vni: u32) -> Result<Self, Problem> {
        match vni {
            1..=Self::MAX => Ok(Self(vni)),
            _ => Err(Problem::Range { found: vni.into(), min: 1, max: Self::MAX.into() }),
        }
    }

    /// As a number.
    pub fn get(self) -> u32 {
        self.0
    }
}

impl TryFrom<u32> for Vni {
    type Error = Problem;
    fn try_from(vni: u32) -> Result<Self, Problem> {
        Self::new(vni)
    }
}

impl From<Vni> for u32 {
    fn from(vni: Vni) -> Self {
        vni.0
    }
}

impl Identity {
    /// Of whom no policy selects, and of what is no pod.
    pub const ANY: Self = Self(1);
    /// Of a machine with pods, when it speaks for itself.
    pub const HOST: Self = Self(2);
    /// Of a pod in a namespace with policies, as long as its labels are not known: only its own node
    /// reaches it.
    pub const QUARANTINED: Self = Self(3);
    /// The first that is given to a set of labels; those before it have a meaning of their own.
    pub const FIRST: Self = Self(256);
}

impl Default for Identity {
    fn default() -> Self {
        Self::ANY
    }
}
