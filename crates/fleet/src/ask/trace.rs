//! Traces: what one switch would do with a packet.

use super::packet::Packet;
use osier_model::{NodeName, PortKey};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// A packet, and where it comes in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceRequest {
    /// Where.
    pub from: TraceFrom,
    /// The packet.
    pub packet: Packet,
}

/// Where a packet comes in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TraceFrom {
    /// From a port of the node.
    Port(PortKey),
    /// From another node: what that one's trace ended with.
    Tunnel(Transit),
    /// From the machine itself, or through it from outside.
    Gateway,
}

/// A packet between two nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transit {
    /// Which node it goes to; nothing if the sender's view has none of that address.
    pub node: Option<NodeName>,
    /// Where the tunnel begins.
    pub source: IpAddr,
    /// Where it ends.
    pub target: IpAddr,
    /// Under which key.
    pub vni: u32,
    /// What its sender is to policies, if the tunnel says that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<u32>,
}

/// What a switch would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traced {
    /// Table by table.
    pub steps: Vec<TraceStep>,
    /// What becomes of the packet.
    pub outcome: Outcome,
    /// The packet as it leaves.
    pub packet: Packet,
    /// What the switch itself said.
    pub raw: String,
}

/// Why a packet to a Service goes to its endpoint: notes of a step that chose it.
pub mod chosen {
    /// There are several.
    pub const BY_HASH: &str = "one of its endpoints, by a hash of the connection";
    /// The Service keeps its clients.
    pub const BY_AFFINITY: &str = "the endpoint that this client had before";
}

/// One table, and the flow that decided there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceStep {
    /// The table's number.
    pub table: u8,
    /// Its name.
    pub name: String,
    /// The flow's match and priority, as the switch writes them; nothing if none matched.
    pub flow: Option<String>,
    /// Whose flow it is, in the model's words.
    pub owner: Option<String>,
    /// What it did, in words or as the switch writes it.
    pub notes: Vec<String>,
}

/// What becomes of a packet at one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum Outcome {
    /// It goes to a port of the node.
    Port {
        /// Which.
        key: PortKey,
    },
    /// It goes to another node.
    Tunnel(Transit),
    /// It goes to the machine, which routes it further or answers.
    Gateway,
    /// It goes to the machine's service gateway: kube-proxy leads it to an endpoint.
    ServiceGateway,
    /// The agent is asked, and answers in the sender's direction.
    Agent {
        /// What.
        why: String,
    },
    /// It goes to several: a broadcast.
    Many {
        /// Ports of the node.
        ports: Vec<PortKey>,
        /// Other nodes.
        nodes: Vec<Transit>,
    },
    /// It goes out by a port that is nobody's.
    Stranger {
        /// Its number at the switch.
        ofport: u32,
    },
    /// It goes nowhere.
    Dropped {
        /// In which table.
        table: u8,
        /// That table's name.
        name: String,
        /// By whose flow; nothing if none matched.
        owner: Option<String>,
        /// Why, in the model's words.
        reason: String,
    },
}
