//! Nodes.

use crate::error::{Invalid, Problem};
use crate::name::NodeName;
use crate::network::{check_prefix, is_usable, overlap};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// A machine with a switch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Its name.
    pub name: NodeName,
    /// Where tunnels to it end.
    pub tunnel: IpAddr,
    /// Addresses of the machine itself.
    #[serde(default)]
    pub addresses: Vec<IpAddr>,
    /// Addresses for its pods, which it gives out without asking anyone.
    #[serde(default)]
    pub blocks: Vec<IpNet>,
    /// Where it stands, for endpoints that are better near.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

// === impl Node ===

impl Node {
    /// Checks what can be checked without other objects.
    pub fn validate(&self) -> Result<(), Invalid> {
        let object = format!("node {}", self.name);
        if self.tunnel.is_unspecified() || self.tunnel.is_multicast() || self.tunnel.is_loopback() {
            return Err(Invalid::new(
                object,
                "tunnel",
                Problem::NotUnicast(self.tunnel.to_string()),
            ));
        }
        for (i, block) in self.blocks.iter().enumerate() {
            let fail = |problem| Err(Invalid::new(&object, format!("blocks[{i}]"), problem));
            if let Err(problem) = check_prefix(*block) {
                return fail(problem);
            }
            if let Some(other) = self.blocks[..i].iter().find(|b| overlap(**b, *block)) {
                let (one, other) = (block.to_string(), other.to_string());
                return fail(Problem::Overlap { one, other });
            }
        }
        Ok(())
    }

    /// The gateway's address in a block: its first usable one.
    pub fn gateway_of(block: IpNet) -> IpAddr {
        block.hosts().find(|address| is_usable(block, *address)).unwrap_or(block.network())
    }

    /// The address of a block that stands for clients whose own address a Service hides: its last
    /// usable one, which no pod has. A block of a few addresses has none to spare.
    pub fn service_address_of(block: IpNet) -> Option<IpAddr> {
        const SPARE_BITS: u8 = 4;
        if block.max_prefix_len() - block.prefix_len() < SPARE_BITS {
            return None;
        }
        Some(match block {
            IpNet::V4(v4) => (u32::from(v4.broadcast()) - 1).to_be_bytes().into(),
            IpNet::V6(v6) => v6.broadcast().into(),
        })
    }

    /// Such an address of each family that it has.
    pub fn service_addresses(&self) -> impl Iterator<Item = IpAddr> {
        let first = |ipv6: bool| {
            let of_family = self.blocks.iter().filter(move |b| b.addr().is_ipv6() == ipv6);
            of_family.copied().find_map(Self::service_address_of)
        };
        [false, true].into_iter().filter_map(first)
    }
}
