//! Connections, as a node's switch tracks them.

use osier_model::{NamespaceName, NodeName, PolicyName, PortKey, RuleRef, ServiceName};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// Which connections are asked for: those that all that is said fits, and what may be another node's part
/// of one of them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ConnectionsRequest {
    /// Of one of these protocols, by number; none is any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub protocols: Vec<u8>,
    /// From, to or answered from this port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Whose; of anybody if it is not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<Parties>,
}

/// Who is at one side of a connection: any of these.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Parties {
    /// Who has one of these addresses.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub addresses: BTreeSet<IpAddr>,
    /// Who is of this namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<NamespaceName>,
    /// This Service, or who answers for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceName>,
}

/// What a node tells of them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TrackedConnections {
    /// Those that fit, as many as are told at once.
    pub connections: Vec<TrackedConnection>,
    /// How many more fit.
    pub left_out: usize,
}

/// A connection that a node's switch tracks, or that policies denied lately.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrackedConnection {
    /// Where it is tracked: nodes have the same zone for the same addresses.
    pub zone: u16,
    /// The number of its protocol.
    pub protocol: u8,
    /// Who asked.
    pub source: Side,
    /// Whom it asked.
    pub target: Side,
    /// Who answers: another than was asked, if that was a Service.
    pub answering: Side,
    /// The state of its protocol, such as `ESTABLISHED`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Why its sender may send it.
    pub egress: Grounds,
    /// Why its receiver may receive it.
    pub ingress: Grounds,
    /// What came and went, where the switch's tracker counts that: Linux' does if it is told to, that of
    /// Open vSwitch itself does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<Counted>,
    /// How often it was tried in vain, if it was denied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denied: Option<Denied>,
}

/// What was counted of a connection, both ways together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counted {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

/// How often and when something was denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denied {
    /// Packets that the agent heard of.
    pub times: u64,
    /// How many seconds ago it was, the last time.
    pub seconds_ago: u64,
}

/// One side of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Side {
    /// Its address.
    pub address: IpAddr,
    /// Its port, if the protocol has such.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Who that is, as far as the node knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<Who>,
}

/// Whose an address is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Who {
    /// A port's.
    Port(PortKey),
    /// A Service's.
    Service(ServiceName),
    /// A node's own.
    Node(NodeName),
}

/// Why a connection passes on one side, or does not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "by", content = "of")]
pub enum Grounds {
    /// No policy was about that side here.
    Open,
    /// These rules, which say the same.
    Rules(Vec<RuleRef>),
    /// The node itself asked.
    Node,
    /// The port asked itself.
    Itself,
    /// The receiver's node judged.
    Elsewhere,
    /// A rule that is no more.
    Gone,
    /// These policies are about it, and no rule of them grants it.
    Denied(Vec<PolicyName>),
}

// === impl Who ===

impl Who {
    /// The namespace that it is of.
    pub fn namespace(&self) -> Option<NamespaceName> {
        match self {
            Self::Port(key) => key.device.namespace(),
            Self::Service(name) => name.namespace(),
            Self::Node(_) => None,
        }
    }
}
