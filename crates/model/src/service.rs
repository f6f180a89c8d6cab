//! Services and their endpoints.
//!
//! They are apart, and endpoints come in slices: a Service with thousands of endpoints is not told
//! again whole because one of them came or went. Which endpoints a node uses (its own, those of its
//! zone, those that end) is decided on that node, by [`Service`]'s policies and each endpoint's
//! state.

use crate::error::{Invalid, Problem};
use crate::name::{EndpointsKey, NodeName, RouterName, ServiceName};
use crate::network::check_prefix;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// What carries a Service's traffic.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Default,
)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// TCP.
    #[default]
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
    /// Whatever there is: all that goes to the address, as to a floating IP. Such a port's number is 0.
    Any,
}

/// Virtual addresses behind which endpoints answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// Its name: `namespace:service`.
    pub name: ServiceName,
    /// Whose addresses it uses; those of the default router if it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub router: Option<RouterName>,
    /// Its addresses inside of the cluster (Kubernetes: cluster IPs).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<IpAddr>,
    /// Addresses of it that the outside knows, and leads to some node by itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub external: Vec<IpAddr>,
    /// The same, given by load balancers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub balanced: Vec<IpAddr>,
    /// What it listens on.
    pub ports: Vec<ServicePort>,
    /// For how many seconds a client stays with its endpoint; each connection for itself if it is
    /// not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<u32>,
    /// Which endpoints clients inside of the cluster reach.
    #[serde(default, skip_serializing_if = "Locality::is_cluster")]
    pub internal_traffic: Locality,
    /// Which endpoints clients outside of it reach. With [`Locality::Local`] they keep their
    /// addresses.
    #[serde(default, skip_serializing_if = "Locality::is_cluster")]
    pub external_traffic: Locality,
    /// Who may use the addresses that load balancers gave; everyone if it is empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub source_ranges: Vec<IpNet>,
    /// Where each node says whether it has endpoints of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_port: Option<u16>,
}

/// One port that a Service listens on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServicePort {
    /// Its name; endpoints give their own port by it. May be empty if there is only one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// What carries it.
    #[serde(default)]
    pub transport: Transport,
    /// Its number at the Service's addresses.
    pub port: u16,
    /// Its number at every node's own addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_port: Option<u16>,
}

/// Which endpoints a node sends connections to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum Locality {
    /// All of them.
    #[default]
    Cluster,
    /// Only its own.
    Local,
}

/// Some of a Service's endpoints: those that share their ports, of one family.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoints {
    /// Of which Service, and which of its slices.
    #[serde(flatten)]
    pub key: EndpointsKey,
    /// Where they listen, by the names of the Service's ports.
    pub ports: Vec<EndpointPort>,
    /// Who they are.
    #[serde(default)]
    pub endpoints: Vec<Endpoint>,
}

/// Where endpoints listen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndpointPort {
    /// The Service's port.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// What carries it.
    #[serde(default)]
    pub transport: Transport,
    /// The number.
    pub port: u16,
}

/// Who answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    /// Its address: a pod's, a node's, or one outside of the cluster.
    pub address: IpAddr,
    /// The node that it is on, if it is on one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeName>,
    /// Whether it takes connections.
    #[serde(default)]
    pub state: EndpointState,
    /// Its share of connections, beside the others'.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub weight: u16,
    /// Zones that should prefer it; with no hint it is for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<String>,
    /// Nodes that should prefer it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeName>,
}

/// Whether an endpoint takes connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum EndpointState {
    /// It does.
    #[default]
    Ready,
    /// It ends, and still answers: used when nobody else is there.
    Terminating,
    /// It does not; connections that it has may go on.
    Unready,
}

fn one() -> u16 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's form")]
fn is_one(weight: &u16) -> bool {
    *weight == 1
}

// === impl Transport ===

impl Transport {
    /// Its number in IP's header; 0 for all.
    pub fn number(self) -> u8 {
        match self {
            Self::Any => 0,
            Self::Tcp => 6,
            Self::Udp => 17,
            Self::Sctp => 132,
        }
    }
}

impl std::fmt::Display for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Sctp => "sctp",
            Self::Any => "any",
        })
    }
}

// === impl Locality ===

impl Locality {
    /// Whether it is the usual.
    pub fn is_cluster(&self) -> bool {
        *self == Self::Cluster
    }
}

// === impl Service ===

impl Service {
    /// The longest affinity, a day.
    pub const MAX_AFFINITY: u32 = 86_400;
    const MAX_PORTS: usize = 1024;
    const MAX_ADDRESSES: usize = 64;

    /// Checks what can be checked without other objects.
    pub fn validate(&self) -> Result<(), Invalid> {
        let object = format!("service {}", self.name);
        let fail = |field: String, problem| Err(Invalid::new(&object, field, problem));
        let count = |field: &str, found: usize, max: usize| {
            let problem = Problem::Range { found: found as u64, min: 0, max: max as u64 };
            (found <= max).then_some(()).ok_or_else(|| Invalid::new(&object, field, problem))
        };
        count("ports", self.ports.len(), Self::MAX_PORTS)?;
        count("addresses", self.addresses.len(), Self::MAX_ADDRESSES)?;
        count("external", self.external.len(), Self::MAX_ADDRESSES)?;
        count("balanced", self.balanced.len(), Self::MAX_ADDRESSES)?;
        let all = [
            ("addresses", &self.addresses),
            ("external", &self.external),
            ("balanced", &self.balanced),
        ];
        for (field, addresses) in all {
            for (i, address) in addresses.iter().enumerate() {
                if let Err(problem) = check_address(*address) {
                    return fail(format!("{field}[{i}]"), problem);
                }
                if addresses[..i].contains(address) {
                    return fail(format!("{field}[{i}]"), Problem::Twice(address.to_string()));
                }
            }
        }
        for (i, port) in self.ports.iter().enumerate() {
            let is_any = port.transport == Transport::Any;
            if (port.port == 0) != is_any
                || port.node_port == Some(0)
                || (is_any && port.node_port.is_some())
            {
                let problem = Problem::Range { found: 0, min: 1, max: 65535 };
                return fail(format!("ports[{i}]"), problem);
            }
            let same = |p: &&ServicePort| {
                let nodes = (port.node_port.is_some() && p.node_port == port.node_port)
                    || p.port == port.port;
                p.name == port.name || (p.transport == port.transport && nodes)
            };
            if self.ports[..i].iter().any(|p| same(&p)) {
                let said = format!("{:?} {}", port.name, port.port);
                return fail(format!("ports[{i}]"), Problem::Twice(said));
            }
        }
        if let Some(seconds) = self.affinity
            && !(1..=Self::MAX_AFFINITY).contains(&seconds)
        {
            let (found, max) = (seconds.into(), Self::MAX_AFFINITY.into());
            return fail("affinity".into(), Problem::Range { found, min: 1, max });
        }
        for (i, range) in self.source_ranges.iter().enumerate() {
            if let Err(problem) = check_prefix(*range) {
                return fail(format!("source_ranges[{i}]"), problem);
            }
        }
        Ok(())
    }
}

// === impl Endpoints ===

impl Endpoints {
    const MAX: usize = 1000;

    /// Checks what can be checked without other objects.
    pub fn validate(&self) -> Result<(), Invalid> {
        let object = format!("endpoints {}", self.key);
        let fail = |field: String, problem| Err(Invalid::new(&object, field, problem));
        if self.endpoints.len() > Self::MAX {
            let problem = Problem::Range {
                found: self.endpoints.len() as u64,
                min: 0,
                max: Self::MAX as u64,
            };
            return fail("endpoints".into(), problem);
        }
        for (i, port) in self.ports.iter().enumerate() {
            if (port.port == 0) != (port.transport == Transport::Any) {
                let problem = Problem::Range { found: 0, min: 1, max: 65535 };
                return fail(format!("ports[{i}].port"), problem);
            }
        }
        for (i, endpoint) in self.endpoints.iter().enumerate() {
            if let Err(problem) = check_address(endpoint.address) {
                return fail(format!("endpoints[{i}].address"), problem);
            }
        }
        Ok(())
    }
}

fn check_address(address: IpAddr) -> Result<(), Problem> {
    match address.is_unspecified() || address.is_multicast() || address.is_loopback() {
        true => Err(Problem::NotUnicast(address.to_string())),
        false => Ok(()),
    }
}
