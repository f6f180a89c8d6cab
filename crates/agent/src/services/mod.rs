//! What Services need beside flows: the machine's own routes and ports, and connections that are to
//! be forgotten. Values only; `gateway` and `flush` bring them where they belong.

mod flush;
mod health;

pub(crate) use flush::{Flusher, Stale};
pub(crate) use health::HealthPorts;

use ipnet::IpNet;
use osier_compiler::NODE_PORT_ADDRESSES;
use osier_model::{Candidates, Service, ServiceName, Transport, View, VrfId};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

/// A port of the machine that leads to a Service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodePort {
    /// What carries it.
    pub transport: Transport,
    /// The number.
    pub port: u16,
}

/// What a node says of a Service to those who balance load over nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Health {
    /// Which Service.
    pub(crate) service: ServiceName,
    /// How many endpoints this node has that are ready.
    pub(crate) local: usize,
}

/// What of Services the machine itself has to know.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Published {
    /// Addresses that it reaches by the switch.
    pub(crate) prefixes: BTreeSet<IpNet>,
    /// Ports of its own that lead there.
    pub(crate) node_ports: BTreeSet<NodePort>,
}

// === impl Published ===

impl Published {
    /// What a view says.
    pub(crate) fn of(view: &View) -> Self {
        let ranges = &view.fabric().services;
        let mut published = Self::default();
        // An address of a machine is the way to that machine, whoever else claims it.
        let machines: BTreeSet<IpAddr> = view
            .nodes()
            .values()
            .flat_map(|node| node.addresses.iter().copied().chain([node.tunnel]))
            .collect();
        for service in view.services().values().filter(|s| is_of_default_router(s, view)) {
            let addresses = service.addresses.iter().chain(&service.external);
            for address in addresses.chain(&service.balanced) {
                let known = ranges.iter().any(|range| range.contains(address));
                if !known && !machines.contains(address) {
                    published.prefixes.insert((*address).into());
                }
            }
            for port in &service.ports {
                let transport = port.transport;
                let node_port = port.node_port.map(|port| NodePort { transport, port });
                published.node_ports.extend(node_port);
            }
        }
        published.prefixes.extend(ranges);
        if !published.node_ports.is_empty() {
            published.prefixes.extend(NODE_PORT_ADDRESSES.map(IpNet::from));
        }
        published
    }
}

/// Where this node says what, by port.
pub(crate) fn health(view: &View) -> BTreeMap<u16, Health> {
    let of = |service: &Service| {
        let ready = |port| {
            let at = |ipv6| {
                let slices = view.endpoints_of(&service.name);
                Candidates::new(slices, port, ipv6).ready_at(view.node())
            };
            at(false).max(at(true))
        };
        let local = service.ports.iter().map(ready).max().unwrap_or_default();
        Some((service.health_port?, Health { service: service.name.clone(), local }))
    };
    view.services().values().filter(|s| s.health_port.is_some()).filter_map(of).collect()
}

/// Machines know the default router's addresses alone.
fn is_of_default_router(service: &Service, view: &View) -> bool {
    let vrf = |name| view.routers().get(name).map(|router| router.vrf);
    service.router.as_ref().is_none_or(|name| vrf(name) == Some(VrfId::default()))
}

/// As an element of a set of nftables.
impl fmt::Display for NodePort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let transport = match self.transport {
            Transport::Tcp => "tcp",
            Transport::Udp => "udp",
            Transport::Sctp => "sctp",
        };
        write!(f, "{transport} . {}", self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use osier_model::{Change, Fabric};

    #[test]
    fn the_machine_knows_what_is_reached_by_the_switch() {
        let fabric =
            Fabric { services: vec!["10.96.0.0/16".parse().unwrap()], ..Fabric::default() };
        let mut view = View::new("n1".parse().unwrap(), fabric);
        for text in [
            "{ kind: node, name: n1, tunnel: 192.0.2.1, addresses: [192.0.2.9] }",
            "{ kind: router, name: red, vrf: 3 }",
            "{ kind: service, name: a, addresses: [10.96.0.1, 10.97.0.1], external: [192.0.2.9, 203.0.113.1], \
               balanced: [203.0.113.2], ports: [{ port: 80, node_port: 30080 }, { name: dns, transport: udp, port: 53 }] }",
            "{ kind: service, name: b, router: red, addresses: [172.16.0.1], ports: [{ port: 80, node_port: 30081 }] }",
        ] {
            view.apply(Change::Put(serde_saphyr::from_str(text).unwrap())).unwrap();
        }
        let published = Published::of(&view);
        let prefixes: Vec<String> = published.prefixes.iter().map(ToString::to_string).collect();
        let expected = [
            "10.96.0.0/16",
            "10.97.0.1/32",
            "169.254.111.2/32",
            "203.0.113.1/32",
            "203.0.113.2/32",
            "fd6f:7369:6572::2/128",
        ];
        assert_eq!(prefixes, expected);
        let ports: Vec<String> = published.node_ports.iter().map(ToString::to_string).collect();
        assert_eq!(ports, ["tcp . 30080"]);
    }
}
