//! Ports.

use crate::error::{Invalid, Problem};
use crate::id::Identity;
use crate::mac::Mac;
use crate::name::{NetworkName, NodeName, PortKey};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// An attachment of a device to a network. A pod may have several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    /// Which one.
    #[serde(flatten)]
    pub key: PortKey,
    /// Of which network.
    pub network: NetworkName,
    /// On which node.
    pub node: NodeName,
    /// Its Ethernet address.
    pub mac: Mac,
    /// Its addresses, of either family.
    pub addresses: Vec<IpAddr>,
    /// What it is to policies.
    #[serde(default)]
    pub identity: Identity,
}

// === impl Port ===

impl Port {
    /// Checks what can be checked without other objects.
    pub fn validate(&self) -> Result<(), Invalid> {
        let object = format!("port {}", self.key);
        if !self.mac.is_unicast() || self.mac == Mac::GATEWAY {
            return Err(Invalid::new(object, "mac", Problem::NotUnicast(self.mac.to_string())));
        }
        for (i, address) in self.addresses.iter().enumerate() {
            let fail = |problem| Err(Invalid::new(&object, format!("addresses[{i}]"), problem));
            if address.is_unspecified() || address.is_multicast() || address.is_loopback() {
                return fail(Problem::NotUnicast(address.to_string()));
            }
            if self.addresses[..i].contains(address) {
                return fail(Problem::Twice(address.to_string()));
            }
        }
        Ok(())
    }
}
