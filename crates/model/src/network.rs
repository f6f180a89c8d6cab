//! Networks and their subnets.

use crate::dhcp::Dhcp;
use crate::error::{Invalid, Problem};
use crate::id::Vni;
use crate::name::{NetworkName, RouterName};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// An L2 domain with subnets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// Its name.
    pub name: NetworkName,
    /// Its number, and tunnel key.
    pub vni: Vni,
    /// The router that joins it to others; alone if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub router: Option<RouterName>,
    /// How its ports reach one another.
    #[serde(default)]
    pub reach: Reach,
    /// Its addresses, of either family.
    #[serde(default)]
    pub subnets: Vec<Subnet>,
    /// Addresses of ports of it that answer as DHCP servers. Answers of others are dropped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dhcp_servers: Vec<IpAddr>,
    /// What ports of it are told by their node that ask for their addresses; nobody answers if it
    /// is not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dhcp: Option<Dhcp>,
}

/// How ports of a network reach one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum Reach {
    /// By Ethernet address, with ARP, neighbour discovery, broadcast and multicast.
    #[default]
    Bridged,
    /// Through the router always: no broadcast, and fewer flows. Pods' default network is so.
    Routed,
}

/// Addresses of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subnet {
    /// The prefix.
    pub cidr: IpNet,
    /// The router's address in it, if the network has a router.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<IpAddr>,
}

// === impl Network ===

impl Network {
    /// Checks what can be checked without other objects.
    pub fn validate(&self) -> Result<(), Invalid> {
        let object = format!("network {}", self.name);
        for (i, subnet) in self.subnets.iter().enumerate() {
            let field = |name: &str| format!("subnets[{i}].{name}");
            let fail = |name: &str, problem| Err(Invalid::new(&object, field(name), problem));
            if let Err(problem) = check_prefix(subnet.cidr) {
                return fail("cidr", problem);
            }
            if let Some(other) = self.subnets[..i].iter().find(|s| overlap(s.cidr, subnet.cidr)) {
                let (one, other) = (subnet.cidr.to_string(), other.cidr.to_string());
                return fail("cidr", Problem::Overlap { one, other });
            }
            match subnet.gateway {
                Some(address) if !is_usable(subnet.cidr, address) => {
                    let prefix = subnet.cidr.to_string();
                    return fail("gateway", Problem::NotInside { address, prefix });
                }
                Some(_) if self.router.is_none() => {
                    return fail("gateway", Problem::Missing("the network's router"));
                }
                _ => {}
            }
        }
        if let Some(dhcp) = &self.dhcp {
            dhcp.validate(&object)?;
            if !dhcp.subnets.is_empty() && !self.subnets.is_empty() {
                let problem = Problem::Idle("another list of subnets", "the network's own");
                return Err(Invalid::new(&object, "dhcp.subnets", problem));
            }
            if !self.dhcp_servers.is_empty() {
                let problem = Problem::Idle("a list of servers", "dhcp");
                return Err(Invalid::new(&object, "dhcp_servers", problem));
            }
        }
        for (i, address) in self.dhcp_servers.iter().enumerate() {
            if !self.subnets.is_empty() && self.subnet_of(*address).is_none() {
                let prefixes: Vec<String> =
                    self.subnets.iter().map(|subnet| subnet.cidr.to_string()).collect();
                let problem = Problem::NotInside { address: *address, prefix: prefixes.join(", ") };
                return Err(Invalid::new(&object, format!("dhcp_servers[{i}]"), problem));
            }
        }
        Ok(())
    }

    /// The subnet that an address is of.
    pub fn subnet_of(&self, address: IpAddr) -> Option<&Subnet> {
        self.subnets.iter().find(|s| s.cidr.contains(&address))
    }

    /// The same as ports are told: a network whose addresses come from pools has their subnets.
    pub fn told_subnet_of(&self, address: IpAddr) -> Option<&Subnet> {
        let told = self.dhcp.iter().flat_map(|dhcp| &dhcp.subnets);
        self.subnets.iter().chain(told).find(|s| s.cidr.contains(&address))
    }
}

/// Whether a prefix has no bits behind its length.
pub(crate) fn check_prefix(prefix: IpNet) -> Result<(), Problem> {
    match prefix == prefix.trunc() {
        true => Ok(()),
        false => {
            Err(Problem::HostBits { found: prefix.to_string(), meant: prefix.trunc().to_string() })
        }
    }
}

/// Whether two prefixes share an address.
pub(crate) fn overlap(one: IpNet, other: IpNet) -> bool {
    one.contains(&other.network()) || other.contains(&one.network())
}

/// Whether a device can have this address of the prefix: not the prefix's own, nor its broadcast.
pub(crate) fn is_usable(prefix: IpNet, address: IpAddr) -> bool {
    let whole = prefix.max_prefix_len() - prefix.prefix_len() < 2;
    let ends = match prefix {
        IpNet::V4(v4) => [IpAddr::from(v4.network()), IpAddr::from(v4.broadcast())],
        // The first is the routers' anycast address; the last is an address like others.
        IpNet::V6(v6) => [IpAddr::from(v6.network()); 2],
    };
    prefix.contains(&address) && (whole || !ends.contains(&address))
}
