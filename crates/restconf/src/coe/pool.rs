//! Pools: addresses from one to another of a subnet, and what clients that ask for theirs are told
//! beside them. A pool is one network's, one namespace's, or, by its name, all pods' or all Services'.

use super::{Coe, Fact, Kind, Target, Unit, document, invalid, text};
use crate::error::{ErrorTag, Problem};
use ipnet::{IpNet, Ipv4Subnets, Ipv6Subnets};
use osier_model::{Dhcp, PoolName, Subnet};
use osier_resource::{PoolSpec, Resource};
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The pool of all pods that no other one is for.
const PODS: &str = "pod-pool";
/// The pool of Services that have no address of their own.
const SERVICES: &str = "service-pool";

/// The pools of a network or a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PoolNetwork {
    id: String,
    pools: Vec<Range>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Range {
    subnet: IpNet,
    from: IpAddr,
    to: IpAddr,
    gateway: Option<IpAddr>,
    dns: Vec<IpAddr>,
    /// The gateway, and what is promised to somebody.
    reserved: Vec<IpAddr>,
}

// === impl PoolNetwork ===

impl PoolNetwork {
    pub(super) fn read(path: &str, value: &Value) -> Result<Self, Problem> {
        let id = text(value, "network-id").unwrap_or_default();
        PoolName::new(&id).map_err(|e| invalid(path, "network-id", e.to_string()))?;
        let entries =
            |member: &str| value.get(member).and_then(Value::as_array).into_iter().flatten();
        let mut pools = Vec::new();
        for pool in entries("allocation-pool") {
            let mut range = Range::read(path, pool)?;
            let subnet = text(pool, "subnet");
            for given in entries("allocations").filter(|given| text(given, "subnet") == subnet) {
                let instances = given.get("allocation-instance").and_then(Value::as_array);
                let address =
                    |i: &Value| text(i, "allocated-ip").and_then(|ip| ip.parse::<IpAddr>().ok());
                range.reserved.extend(instances.into_iter().flatten().filter_map(address));
            }
            pools.push(range);
        }
        Ok(Self { id, pools })
    }

    pub(super) fn names(&self) -> impl Iterator<Item = String> {
        self.pools.iter().map(|pool| pool_name(&self.id, pool.subnet))
    }

    pub(super) fn facts(&self) -> Vec<Fact> {
        self.names().map(Fact::Pool).chain([Fact::PoolsOf(self.id.clone())]).collect()
    }
}

/// A slash cannot be in a name.
fn pool_name(id: &str, subnet: IpNet) -> String {
    format!("{id}:{}-{}", subnet.network(), subnet.prefix_len())
}

// === impl Range ===

impl Range {
    fn read(path: &str, value: &Value) -> Result<Self, Problem> {
        let wrong =
            |member: &str, said: String| invalid(path, &format!("allocation-pool/{member}"), said);
        let subnet: IpNet = text(value, "subnet")
            .and_then(|subnet| subnet.parse().ok())
            .ok_or_else(|| wrong("subnet", "it is missing".to_owned()))?;
        let end = |member: &str, default: IpAddr| match text(value, member) {
            None => Ok(default),
            Some(text) => match text.parse::<IpAddr>() {
                Ok(address) if subnet.contains(&address) => Ok(address),
                _ => Err(wrong(member, format!("{text} is not of {subnet}"))),
            },
        };
        let from = end("allocate-from", subnet.network())?;
        let to = end("allocate-to", subnet.broadcast())?;
        if from > to {
            return Err(wrong("allocate-to", format!("{to} comes before {from}")));
        }
        let gateway = text(value, "gateway").map(|_| end("gateway", from)).transpose()?;
        let servers = value.get("dns-servers").and_then(Value::as_array).into_iter().flatten();
        let dns: Vec<IpAddr> =
            servers.filter_map(|s| s.as_str().and_then(|s| s.parse().ok())).collect();
        if dns.len() > Dhcp::MOST_DNS {
            let (found, most) = (dns.len(), Dhcp::MOST_DNS);
            return Err(wrong("dns-servers", format!("{found} are more than {most}")));
        }
        let reserved = gateway.into_iter().collect();
        let range = Self { subnet, from, to, gateway, dns, reserved };
        match range.is_empty() {
            true => Err(wrong("allocate-to", "the pool has no address to give".to_owned())),
            false => Ok(range),
        }
    }

    fn is_empty(&self) -> bool {
        let is_usable = |address: IpAddr| {
            let is_end = self.subnet.max_prefix_len() - self.subnet.prefix_len() >= 2
                && (address == self.subnet.network()
                    || (address.is_ipv4() && address == self.subnet.broadcast()));
            !is_end && !self.reserved.contains(&address)
        };
        // As many as could be reserved, and one more.
        let few = self.addresses().take(self.reserved.len() + 3);
        !few.into_iter().any(is_usable)
    }

    fn addresses(&self) -> Box<dyn Iterator<Item = IpAddr>> {
        match (self.from, self.to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                Box::new((u32::from(from)..=u32::from(to)).map(|n| IpAddr::V4(n.into())))
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                Box::new((u128::from(from)..=u128::from(to)).map(|n| IpAddr::V6(n.into())))
            }
            _ => Box::new(std::iter::empty()),
        }
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.from.is_ipv4() == other.from.is_ipv4()
            && self.from <= other.to
            && other.from <= self.to
    }

    /// All of the subnet that is not to be given out.
    fn excluded(&self) -> Vec<IpNet> {
        let (first, last) = (self.subnet.network(), self.subnet.broadcast());
        let mut excluded: Vec<IpNet> = match (first, self.from, self.to, last) {
            (IpAddr::V4(first), IpAddr::V4(from), IpAddr::V4(to), IpAddr::V4(last)) => {
                let below = (from > first).then(|| Ipv4Subnets::new(first, before4(from), 0));
                let above = (to < last).then(|| Ipv4Subnets::new(after4(to), last, 0));
                below.into_iter().chain(above).flatten().map(IpNet::V4).collect()
            }
            (IpAddr::V6(first), IpAddr::V6(from), IpAddr::V6(to), IpAddr::V6(last)) => {
                let below = (from > first).then(|| Ipv6Subnets::new(first, before6(from), 0));
                let above = (to < last).then(|| Ipv6Subnets::new(after6(to), last, 0));
                below.into_iter().chain(above).flatten().map(IpNet::V6).collect()
            }
            _ => Vec::new(),
        };
        let inside = self.reserved.iter().filter(|a| (self.from..=self.to).contains(*a));
        excluded.extend(inside.map(|address| IpNet::from(*address)));
        excluded.sort_unstable();
        excluded.dedup();
        excluded
    }
}

fn before4(address: Ipv4Addr) -> Ipv4Addr {
    u32::from(address).saturating_sub(1).into()
}

fn after4(address: Ipv4Addr) -> Ipv4Addr {
    u32::from(address).saturating_add(1).into()
}

fn before6(address: Ipv6Addr) -> Ipv6Addr {
    u128::from(address).saturating_sub(1).into()
}

fn after6(address: Ipv6Addr) -> Ipv6Addr {
    u128::from(address).saturating_add(1).into()
}

impl Coe {
    pub(super) fn pool(&self, name: &str) -> Option<Resource> {
        let range = self.range(name)?;
        let spec = PoolSpec { cidr: range.subnet, exclude: range.excluded() };
        Some(Resource::Pool(document(name, spec)))
    }

    /// The range of a pool.
    fn range(&self, name: &str) -> Option<&Range> {
        self.with(&Fact::Pool(name.to_owned())).find_map(|unit| {
            let Unit::Pool(network) = unit else { return None };
            network.pools.iter().find(|range| pool_name(&network.id, range.subnet) == name)
        })
    }

    /// The pools of a network: its own, its namespace's, or all pods'.
    pub(super) fn pools_of(&self, network: &str, namespace: &str) -> Vec<PoolName> {
        let names = [network, namespace, PODS].into_iter().map(|id| self.pools_named(id));
        names.into_iter().find(|names| !names.is_empty()).unwrap_or_default()
    }

    /// The pools of Services that have no address of their own.
    pub(super) fn service_pools(&self) -> Vec<PoolName> {
        self.pools_named(SERVICES)
    }

    fn pools_named(&self, id: &str) -> Vec<PoolName> {
        let units = self.with(&Fact::PoolsOf(id.to_owned()));
        let names = units.flat_map(|unit| match unit {
            Unit::Pool(pool) => pool.names().collect(),
            _ => Vec::new(),
        });
        names.filter_map(|name| PoolName::new(&name).ok()).collect()
    }

    /// What clients of a network with these pools are told.
    pub(super) fn dhcp_of(&self, pools: &[PoolName]) -> Option<Dhcp> {
        let mut dhcp = Dhcp::default();
        for range in pools.iter().filter_map(|name| self.range(name.as_str())) {
            dhcp.subnets.push(Subnet { cidr: range.subnet, gateway: range.gateway });
            for server in &range.dns {
                if !dhcp.dns.contains(server) {
                    dhcp.dns.push(*server);
                }
            }
        }
        dhcp.dns.truncate(Dhcp::MOST_DNS);
        (!pools.is_empty()).then_some(dhcp)
    }

    /// An address is given out once: no two pools may have it.
    pub(super) fn check_pool(&self, path: &str, network: &PoolNetwork) -> Result<(), Problem> {
        let refuse = |range: &Range, id: &str, other: &Range| {
            let (a, b) = (range.subnet, other.subnet);
            let said = format!("{a} and {b} of network {id} overlap in what they give out");
            Err(Problem::new(ErrorTag::InUse, format!("/{path}/allocation-pool"), said))
        };
        for (i, range) in network.pools.iter().enumerate() {
            if let Some(other) = network.pools[..i].iter().find(|other| other.overlaps(range)) {
                return refuse(range, &network.id, other);
            }
            for (at, unit) in &self.units {
                let Unit::Pool(others) = unit else { continue };
                let mut overlapping = others.pools.iter().filter(|other| other.overlaps(range));
                if let Some(other) = overlapping.next().filter(|_| at != path) {
                    return refuse(range, &others.id, other);
                }
            }
        }
        Ok(())
    }

    pub(super) fn pool_targets(&self, pool: &PoolNetwork, targets: &mut BTreeSet<Target>) {
        targets.extend(pool.names().map(|name| (Kind::Pool, name)));
        match pool.id.as_str() {
            PODS => {
                for unit in self.units.values() {
                    if let Unit::Pod(pod) = unit {
                        self.pod_targets(pod, targets);
                    }
                }
            }
            SERVICES => targets.extend(self.units.values().filter_map(|unit| match unit {
                Unit::Service(service) => Some((Kind::Service, service.name.clone())),
                _ => None,
            })),
            _ => {}
        }
        for fact in [Fact::Network(pool.id.clone()), Fact::Namespace(pool.id.clone())] {
            for pod in self.pods(&fact) {
                self.pod_targets(pod, targets);
            }
        }
    }
}
