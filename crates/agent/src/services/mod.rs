//! What Services need beside flows: the machine's own routes and ports, and connections that are to
//! be forgotten. Values only; `gateway` and `flush` bring them where they belong.

mod flush;
mod health;
mod taken;

pub(crate) use flush::{Flusher, Stale};
pub(crate) use health::HealthPorts;
pub(crate) use taken::taken;

use ipnet::IpNet;
use osier_compiler::conntrack::zone_of;
use osier_compiler::{NODE_PORT_ADDRESSES, STAND_INS, stand_in};
use osier_model::{Candidates, Service, ServiceName, ServicePort, Transport, View, VrfId};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

/// A port of the machine that leads to a Service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodePort {
    /// What carries it.
    pub(crate) transport: Transport,
    /// The number.
    pub(crate) port: u16,
}

/// An address of the machine by which the outside knows a Service, at one of its ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OwnAddress {
    /// The address.
    pub(crate) address: IpAddr,
    /// The Service's port.
    pub(crate) port: NodePort,
    /// What the switch knows it by.
    pub(crate) stand_in: IpAddr,
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
    /// Addresses of its own that lead there, at some ports.
    pub(crate) own: BTreeSet<OwnAddress>,
}

/// What each Service asks of the machine. Most ask nothing, so a change of one costs that one.
#[derive(Debug, Default)]
pub(crate) struct Outward(BTreeMap<ServiceName, Asked>);

#[derive(Debug, Default, PartialEq, Eq)]
struct Asked {
    /// Addresses that are not of the cluster's own range.
    addresses: Vec<IpAddr>,
    node_ports: Vec<NodePort>,
    /// Those of the addresses that are this machine's.
    own: Vec<OwnAddress>,
    /// Where to say how many endpoints are here.
    health: Option<(u16, usize)>,
}

// === impl Outward ===

impl Outward {
    /// What a view's Services ask.
    pub(crate) fn of(view: &View) -> Self {
        let mut outward = Self::default();
        for name in view.services().keys() {
            outward.follow(view, name);
        }
        outward
    }

    /// Follows a Service that may have changed, or its endpoints. Whether the machine's routes or
    /// ports are others now.
    pub(crate) fn follow(&mut self, view: &View, name: &ServiceName) -> bool {
        let now = view.services().get(name).map(|service| Asked::by(service, view));
        let now = now.unwrap_or_default();
        let was = self.0.remove(name).unwrap_or_default();
        let of_machine =
            |asked: &Asked| (asked.addresses.clone(), asked.node_ports.clone(), asked.own.clone());
        let differs = of_machine(&was) != of_machine(&now);
        if now != Asked::default() {
            self.0.insert(name.clone(), now);
        }
        differs
    }

    /// All of it, for a machine with this view.
    pub(crate) fn published(&self, view: &View) -> Published {
        // An address of a machine is the way to that machine, which leads from there.
        let machines: BTreeSet<IpAddr> = view
            .nodes()
            .values()
            .flat_map(|node| node.addresses.iter().copied().chain([node.tunnel]))
            .collect();
        let addresses = self.0.values().flat_map(|asked| &asked.addresses);
        let apart = addresses.filter(|address| !machines.contains(address));
        let mut prefixes: BTreeSet<IpNet> = apart.map(|address| (*address).into()).collect();
        prefixes.extend(&view.fabric().services);
        let node_ports: BTreeSet<NodePort> =
            self.0.values().flat_map(|asked| asked.node_ports.iter().copied()).collect();
        if !node_ports.is_empty() {
            prefixes.extend(NODE_PORT_ADDRESSES.map(IpNet::from));
        }
        let own: BTreeSet<OwnAddress> =
            self.0.values().flat_map(|asked| asked.own.iter().copied()).collect();
        if !own.is_empty() {
            prefixes.extend(STAND_INS);
        }
        Published { prefixes, node_ports, own }
    }

    /// Ports of the machine that lead to Services, each with whose it is.
    pub(crate) fn node_ports(&self) -> BTreeMap<NodePort, &ServiceName> {
        let all = self.0.iter();
        all.flat_map(|(name, asked)| asked.node_ports.iter().map(move |p| (*p, name))).collect()
    }

    /// Where this node says what, by port.
    pub(crate) fn health(&self) -> BTreeMap<u16, Health> {
        let told = self.0.iter().filter_map(|(service, asked)| {
            let (port, local) = asked.health?;
            Some((port, Health { service: service.clone(), local }))
        });
        told.collect()
    }
}

// === impl Asked ===

impl Asked {
    fn by(service: &Service, view: &View) -> Self {
        let health = service.health_port.map(|port| (port, ready_here(service, view)));
        if !is_of_default_router(service, view) {
            return Self { health, ..Self::default() };
        }
        let ranges = &view.fabric().services;
        let addresses = service.addresses.iter().chain(&service.external).chain(&service.balanced);
        let apart =
            addresses.filter(|address| !ranges.iter().any(|range| range.contains(*address)));
        let node_ports = service
            .ports
            .iter()
            .filter_map(|port| Some(NodePort { transport: port.transport, port: port.node_port? }));
        let node = view.nodes().get(view.node());
        let known = service.external.iter().chain(&service.balanced);
        let stand_ins = known.filter_map(|a| Some((*a, stand_in(node?, *a)?)));
        let own = stand_ins.flat_map(|(address, stand_in)| {
            let ports = service.ports.iter().filter(|port| port.transport != Transport::Any);
            ports.map(move |ServicePort { transport, port, .. }| {
                let port = NodePort { transport: *transport, port: *port };
                OwnAddress { address, port, stand_in }
            })
        });
        Self {
            addresses: apart.copied().collect(),
            node_ports: node_ports.collect(),
            own: own.collect(),
            health,
        }
    }
}

/// Where connections to a Service are tracked; nowhere if its router is not known.
pub(crate) fn zone_of_service(service: &Service, view: &View) -> Option<u16> {
    let vrf = match &service.router {
        None => VrfId::default(),
        Some(name) => view.routers().get(name)?.vrf,
    };
    Some(zone_of(vrf))
}

/// Where a Service is asked: each of its ports at each of its addresses, and at nodes.
pub(crate) fn fronts<'a>(
    service: &'a Service,
    view: &'a View,
) -> impl Iterator<Item = (&'a ServicePort, (IpAddr, u16))> {
    let node = view.nodes().get(view.node());
    let known = service.addresses.iter().chain(&service.external).chain(&service.balanced);
    let of_machine = known.clone().filter_map(move |a| stand_in(node?, *a));
    service.ports.iter().flat_map(move |port| {
        let known = known.clone().copied().chain(of_machine.clone());
        let known = known.map(|address| (address, port.port));
        let at_nodes = NODE_PORT_ADDRESSES.map(|address| port.node_port.map(|n| (address, n)));
        known.chain(at_nodes.into_iter().flatten()).map(move |at| (port, at))
    })
}

/// How many endpoints of a Service this node has that are ready.
fn ready_here(service: &Service, view: &View) -> usize {
    let ready = |port| {
        let at = |ipv6| {
            let slices = view.endpoints_of(&service.name);
            Candidates::new(slices, port, ipv6).ready_at(view.node())
        };
        at(false).max(at(true))
    };
    service.ports.iter().map(ready).max().unwrap_or_default()
}

/// Machines know the default router's addresses alone.
fn is_of_default_router(service: &Service, view: &View) -> bool {
    let vrf = |name| view.routers().get(name).map(|router| router.vrf);
    service.router.as_ref().is_none_or(|name| vrf(name) == Some(VrfId::default()))
}

/// As an element of a map of nftables.
impl fmt::Display for OwnAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} . {} : {}", self.address, self.port, self.stand_in)
    }
}

/// As an element of a set of nftables.
impl fmt::Display for NodePort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} . {}", self.transport, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use osier_model::{Change, Fabric, Key};

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
        let mut outward = Outward::of(&view);
        let published = outward.published(&view);
        let prefixes: Vec<String> = published.prefixes.iter().map(ToString::to_string).collect();
        let expected = [
            "10.96.0.0/16",
            "10.97.0.1/32",
            "169.254.111.2/32",
            "169.254.111.16/28",
            "203.0.113.1/32",
            "203.0.113.2/32",
            "fd6f:7369:6572::2/128",
            "fd6f:7369:6572::10/124",
        ];
        assert_eq!(prefixes, expected);
        let ports: Vec<String> = published.node_ports.iter().map(ToString::to_string).collect();
        assert_eq!(ports, ["tcp . 30080"]);
        // Known by an address of the machine.
        let own: Vec<String> = published.own.iter().map(ToString::to_string).collect();
        let expected = ["tcp . 80", "udp . 53"];
        assert_eq!(own, expected.map(|port| format!("192.0.2.9 . {port} : 169.254.111.17")));

        // Endpoints change nothing there, and a Service without anything outward neither.
        let a = "a".parse().unwrap();
        let inward = "{ kind: service, name: c, addresses: [10.96.0.2], ports: [{ port: 80 }] }";
        view.apply(Change::Put(serde_saphyr::from_str(inward).unwrap())).unwrap();
        assert!(!outward.follow(&view, &a) && !outward.follow(&view, &"c".parse().unwrap()));
        assert_eq!(outward.published(&view), published);
        view.apply(Change::Delete(Key::Service(a.clone()))).unwrap();
        assert!(outward.follow(&view, &a));
        let left = outward.published(&view);
        assert_eq!(left, Outward::of(&view).published(&view));
        assert!(left.node_ports.is_empty() && left.prefixes.len() == 1, "{left:?}");
    }
}
