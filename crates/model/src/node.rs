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
}
