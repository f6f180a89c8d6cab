//! Policies, as a node's switch applies them.

use osier_model::{PortKey, RuleRef};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// How often a rule granted something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleHits {
    /// Which rule. Rules that say the same, whichever policies they stand in, count together.
    pub rule: RuleRef,
    /// Connections that it granted: what came of them later is not judged again.
    pub connections: u64,
}

/// A connection that a node's switch tracks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrackedConnection {
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
}

/// One side of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Side {
    /// Its address.
    pub address: IpAddr,
    /// Its port, if the protocol has such.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Which port of the node it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<PortKey>,
}

/// Why a connection passes on one side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "by", content = "rules")]
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
}
