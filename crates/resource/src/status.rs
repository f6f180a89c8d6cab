//! What the controller reports of each kind. Users read it, and never write it.

use crate::leaf;
use ipnet::IpNet;
use osier_model::{Identity, Mac, Vni, VrfId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Something that is so, or not, and since when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Condition {
    /// What: `Ready`, `Converged`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it is so.
    pub status: Truth,
    /// Why, in one word.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Since when (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<String>,
}

/// Whether something is so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Truth {
    /// It is.
    True,
    /// It is not.
    False,
    /// Nobody can say.
    Unknown,
}

/// Of the whole cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct FabricStatus {
    /// What is so.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// Of a node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct NodeStatus {
    /// Addresses for its pods that were allocated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<leaf::Prefix>")]
    pub blocks: Vec<IpNet>,
    /// The version of its agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<String>,
    /// How many ports it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ports: Option<u64>,
    /// When it was heard of last (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_seen: Option<String>,
    /// What is so.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// Of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct PoolStatus {
    /// Addresses in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<u64>,
    /// Addresses that can be given; as text, for IPv6 has many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<String>,
    /// What is so.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// Of a router.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct RouterStatus {
    /// Its number in the datapath.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<u16>")]
    pub vrf: Option<VrfId>,
    /// What is so.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// Of a network.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct NetworkStatus {
    /// Its number, and tunnel key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<leaf::Vni>")]
    pub vni: Option<Vni>,
    /// How many ports it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ports: Option<u64>,
    /// What is so.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// Of a port.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct PortStatus {
    /// Its Ethernet address.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<leaf::MacAddress>")]
    pub mac: Option<Mac>,
    /// Its addresses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<leaf::Address>")]
    pub addresses: Vec<IpAddr>,
    /// What it is to policies.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<u32>")]
    pub identity: Option<Identity>,
    /// What is so.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}
