//! What agents tell of themselves.

use osier_model::{Key, NodeName, Port};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// An agent has made its view real.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Applied {
    /// Which history of the model the revision is of.
    pub epoch: u64,
    /// Up to this revision.
    pub revision: u64,
    /// But for these.
    pub faults: Vec<Fault>,
}

/// An object that could not be made real.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Which; nothing if it is of a kind that is not known.
    pub key: Option<Key>,
    /// Why.
    pub text: String,
}

/// How a node is, complete: what it does not have is not there.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// Ports of the node that it made itself.
    pub ports: Vec<Port>,
    /// The history of the model (epoch) that was told of all that the node uses: whoever gives
    /// addresses may rely on that. A report that is older than a restore names another one.
    pub affirmed: Option<u64>,
    /// Tunnels to other nodes.
    pub tunnels: Vec<TunnelHealth>,
    /// Versions: `agent`, `ovs`, `kernel` and so on.
    pub versions: BTreeMap<String, String>,
    /// What is wrong, in words, by what it is wrong with: `switch`, `clock`, `mtu` and so on.
    pub problems: BTreeMap<String, String>,
    /// Whether the agent was told to leave its switch as it is.
    pub paused: bool,
    /// When the agent's certificate ends, in seconds since 1970.
    pub certificate_expires: Option<u64>,
}

/// A tunnel, as one end sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TunnelHealth {
    /// The other end.
    pub node: NodeName,
    /// Whether it answers; nothing if that was not tried.
    pub up: Option<bool>,
    /// Round trip, in microseconds.
    #[serde(default)]
    pub round_trip_us: Option<u64>,
    /// When it last answered, in seconds since 1970.
    #[serde(default)]
    pub last_seen: Option<u64>,
}
