//! Hosts: nodes that a client tells of, unless somebody else made them.

use super::{Coe, Fact, Unit, address, document, invalid, text};
use crate::error::Problem;
use ipnet::IpNet;
use osier_model::NodeName;
use osier_resource::{NodeSpec, Resource};
use serde_json::Value;
use std::net::IpAddr;

/// A host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HostNode {
    pub(super) name: NodeName,
    internal: Option<IpAddr>,
    external: Option<IpAddr>,
    block: Option<IpNet>,
}

// === impl HostNode ===

impl HostNode {
    pub(super) fn read(path: &str, value: &Value) -> Result<Self, Problem> {
        let name = text(value, "host-name").or_else(|| text(value, "uid")).unwrap_or_default();
        let name = NodeName::new(&name).map_err(|e| invalid(path, "host-name", e.to_string()))?;
        let block = match text(value, "pod-cidr").map(|cidr| cidr.parse::<IpNet>()) {
            Some(Ok(block)) if block == block.trunc() => Some(block),
            Some(_) => {
                return Err(invalid(path, "pod-cidr", "it has to be an address and a length"));
            }
            None => None,
        };
        let internal = address(path, value, "internal-ip-address")?;
        let external = address(path, value, "external-ip-address")?;
        Ok(Self { name, internal, external, block })
    }

    pub(super) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.internal.into_iter().chain(self.external.filter(|e| Some(*e) != self.internal))
    }

    pub(super) fn facts(&self) -> Vec<Fact> {
        let name = Fact::NodeName(self.name.to_string());
        self.addresses().map(Fact::Node).chain([name]).collect()
    }
}

impl Coe {
    pub(super) fn host_node(&self, name: &str) -> Option<Resource> {
        let node = self.with(&Fact::NodeName(name.to_owned())).find_map(|unit| match unit {
            Unit::Node(node) => Some(node),
            _ => None,
        })?;
        // Others' nodes stay as they are.
        if node.addresses().any(|address| self.hosts.contains_key(&address)) {
            return None;
        }
        let mut addresses = node.addresses();
        let tunnel = addresses.next()?;
        let spec = NodeSpec {
            tunnel,
            addresses: addresses.collect(),
            blocks: node.block.into_iter().collect(),
            zone: None,
        };
        Some(Resource::Node(document(name, spec)))
    }
}
