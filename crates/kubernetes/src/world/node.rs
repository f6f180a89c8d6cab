//! Nodes, and what they are to the model.

use super::{partial, slim};
use ipnet::IpNet;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use std::net::IpAddr;

/// Where tunnels to a node end, if not at its first address.
pub(crate) const TUNNEL_ADDRESS: &str = "osier.dev/tunnel-address";
/// That a node's switch is left alone.
pub(crate) const PAUSED: &str = "osier.dev/paused";
/// What keeps pods from a node until its agent is ready.
pub(crate) const TAINT: &str = "node.osier.dev/agent-not-ready";
/// The condition that says whether a node has a network.
pub(crate) const NETWORK_UNAVAILABLE: &str = "NetworkUnavailable";

/// Where a node stands.
const ZONE: &str = "topology.kubernetes.io/zone";

/// A node, as it is read.
#[derive(Deserialize, Debug, Clone)]
pub(crate) struct NodeObject {
    #[serde(deserialize_with = "slim", default)]
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

partial!(NodeObject, ClusterResourceScope, "", "v1", "Node", "nodes");

#[derive(Deserialize, Debug, Clone, Default)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    #[serde(rename = "podCIDR")]
    pod_cidr: Option<String>,
    #[serde(rename = "podCIDRs")]
    pod_cidrs: Vec<String>,
    taints: Vec<Taint>,
}

#[derive(Deserialize, Debug, Clone, Default)]
#[serde(default)]
struct Taint {
    key: String,
}

#[derive(Deserialize, Debug, Clone, Default)]
#[serde(default)]
struct Status {
    addresses: Vec<Address>,
    conditions: Vec<ConditionSeen>,
}

#[derive(Deserialize, Debug, Clone, Default)]
#[serde(default)]
struct Address {
    #[serde(rename = "type")]
    kind: String,
    address: String,
}

/// A condition of a node.
#[derive(Deserialize, Debug, Clone, Default, PartialEq, Eq)]
#[serde(default)]
pub(crate) struct ConditionSeen {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) status: String,
    pub(crate) reason: String,
    pub(crate) message: String,
}

/// A node, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeSeen {
    pub(crate) name: String,
    pub(crate) uid: String,
    /// Where tunnels to it end.
    pub(crate) tunnel: Result<IpAddr, NoTunnel>,
    /// Addresses of the machine itself.
    pub(crate) addresses: Vec<IpAddr>,
    /// What the cluster gave it for its pods.
    pub(crate) pod_cidrs: Vec<IpNet>,
    /// What of that is no prefix.
    pub(crate) bad_cidrs: Vec<String>,
    pub(crate) zone: Option<String>,
    pub(crate) is_tainted: bool,
    pub(crate) is_paused: bool,
    pub(crate) network: Option<ConditionSeen>,
}

/// Why nobody can send to a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoTunnel {
    /// It has no address.
    Missing,
    /// Its annotation is none.
    Annotation(String),
}

// === impl NodeSeen ===

impl From<NodeObject> for NodeSeen {
    fn from(node: NodeObject) -> Self {
        let NodeObject { metadata, spec, status } = node;
        let of = |kind: &str| -> Vec<IpAddr> {
            let own = status.addresses.iter().filter(|address| address.kind == kind);
            own.filter_map(|address| address.address.parse().ok()).collect()
        };
        let internal = of("InternalIP");
        let annotations = metadata.annotations.unwrap_or_default();
        let tunnel = match annotations.get(TUNNEL_ADDRESS).map(|text| (text, text.trim().parse())) {
            Some((_, Ok(address))) => Ok(address),
            Some((text, Err(_))) => Err(NoTunnel::Annotation(text.clone())),
            None => internal.first().copied().ok_or(NoTunnel::Missing),
        };
        let mut addresses = internal;
        addresses.extend(of("ExternalIP"));
        addresses.extend(tunnel.as_ref().ok());
        let mut unique = Vec::with_capacity(addresses.len());
        for address in addresses {
            if !unique.contains(&address) {
                unique.push(address);
            }
        }
        let texts = match spec.pod_cidrs.is_empty() {
            true => spec.pod_cidr.into_iter().collect(),
            false => spec.pod_cidrs,
        };
        let (mut pod_cidrs, mut bad_cidrs) = (Vec::new(), Vec::new());
        for text in texts.into_iter().filter(|text| !text.is_empty()) {
            match text.parse::<IpNet>() {
                Ok(cidr) => pod_cidrs.push(cidr.trunc()),
                Err(_) => bad_cidrs.push(text),
            }
        }
        let is_ours = |condition: &ConditionSeen| condition.kind == NETWORK_UNAVAILABLE;
        Self {
            name: metadata.name.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
            tunnel,
            addresses: unique,
            pod_cidrs,
            bad_cidrs,
            zone: metadata.labels.and_then(|mut labels| labels.remove(ZONE)),
            is_tainted: spec.taints.iter().any(|taint| taint.key == TAINT),
            is_paused: annotations.get(PAUSED).is_some_and(|paused| paused == "true"),
            network: status.conditions.into_iter().find(is_ours),
        }
    }
}
