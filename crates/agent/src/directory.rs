//! Whose an address is, as far as a node's view tells.
//!
//! Routers may have the same addresses, so they are looked up by where they are tracked.

use crate::services::{fronts, zone_of_service};
use osier_compiler::conntrack::{zone_in, zone_of};
use osier_fleet::ask::{Side, Who};
use osier_model::{Node, NodeName, PortKey, ServiceName, View, VrfId};
use std::collections::HashMap;
use std::net::IpAddr;

/// See the module. Made anew for each question.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    ports: HashMap<(u16, IpAddr), PortKey>,
    /// By zone, protocol, address and port.
    services: HashMap<(u16, u8, IpAddr, u16), ServiceName>,
    nodes: HashMap<IpAddr, NodeName>,
}

// === impl Directory ===

impl Directory {
    pub(crate) fn of(view: &View) -> Self {
        let mut directory = Self::default();
        for port in view.ports().values() {
            let Some(network) = view.networks().get(&port.network) else { continue };
            let zone = zone_in(view, network);
            let keys = port.addresses.iter().map(|address| ((zone, *address), port.key.clone()));
            directory.ports.extend(keys);
        }
        for service in view.services().values() {
            let Some(zone) = zone_of_service(service, view) else { continue };
            for (port, (address, number)) in fronts(service, view) {
                let key = (zone, port.transport.number(), address, number);
                directory.services.insert(key, service.name.clone());
            }
        }
        for node in view.nodes().values() {
            let own = addresses_of(node).map(|address| (address, node.name.clone()));
            directory.nodes.extend(own);
        }
        directory
    }

    /// The Service that is asked at an address.
    pub(crate) fn service(
        &self,
        zone: u16,
        protocol: u8,
        at: (IpAddr, u16),
    ) -> Option<&ServiceName> {
        self.services.get(&(zone, protocol, at.0, at.1))
    }

    /// A side of a connection, with its name. Only who is asked may be a Service.
    pub(crate) fn side(
        &self,
        (zone, protocol): (u16, u8),
        (address, port): (IpAddr, Option<u16>),
        is_asked: bool,
    ) -> Side {
        let service = port.filter(|_| is_asked);
        let service = service.and_then(|port| self.service(zone, protocol, (address, port)));
        let node = || self.nodes.get(&address).filter(|_| zone == zone_of(VrfId::default()));
        let who = match (service, self.ports.get(&(zone, address))) {
            (Some(service), _) => Some(Who::Service(service.clone())),
            (None, Some(port)) => Some(Who::Port(port.clone())),
            (None, None) => node().cloned().map(Who::Node),
        };
        Side { address, port, who }
    }
}

/// All addresses that a node itself talks from.
pub(crate) fn addresses_of(node: &Node) -> impl Iterator<Item = IpAddr> {
    let gateways = node.blocks.iter().map(|block| Node::gateway_of(*block));
    let own = node.addresses.iter().copied().chain([node.tunnel]);
    own.chain(gateways).chain(node.service_addresses())
}

#[cfg(test)]
mod tests {
    use super::*;
    use osier_model::{Change, Fabric};

    #[test]
    fn the_same_address_is_of_others_elsewhere() {
        let mut view = View::new("n1".parse().unwrap(), Fabric::default());
        for text in [
            "{ kind: node, name: n2, tunnel: 192.0.2.2, blocks: [10.1.2.0/24] }",
            "{ kind: router, name: red, vrf: 3 }",
            "{ kind: network, name: pods, vni: 1, reach: routed, router: default }",
            "{ kind: router, name: default, vrf: 0 }",
            "{ kind: network, name: r, vni: 5000, router: red, subnets: [{ cidr: 10.1.1.0/24 }] }",
            "{ kind: port, device: 'shop:web', interface: eth0, network: pods, node: n1, \
               mac: '02:00:00:00:00:01', addresses: [10.1.1.5] }",
            "{ kind: port, device: 'shop:red', interface: eth0, network: r, node: n1, \
               mac: '02:00:00:00:00:02', addresses: [10.1.1.5] }",
            "{ kind: service, name: 'shop:db', addresses: [10.96.0.1], ports: [{ port: 80, node_port: 30080 }] }",
        ] {
            view.apply(Change::Put(serde_saphyr::from_str(text).unwrap())).unwrap();
        }
        let directory = Directory::of(&view);
        let who = |zone, address: &str, port, is_asked| {
            let side = directory.side((zone, 6), (address.parse().unwrap(), port), is_asked);
            side.who.map(|who| match who {
                Who::Port(key) => key.to_string(),
                Who::Service(name) => format!("svc {name}"),
                Who::Node(name) => format!("node {name}"),
            })
        };
        assert_eq!(who(2, "10.1.1.5", None, false).as_deref(), Some("shop:web"));
        assert_eq!(who(5, "10.1.1.5", Some(80), true).as_deref(), Some("shop:red"));
        assert_eq!(who(2, "10.96.0.1", Some(80), true).as_deref(), Some("svc shop:db"));
        assert_eq!(who(2, "169.254.111.2", Some(30080), true).as_deref(), Some("svc shop:db"));
        assert_eq!(who(2, "10.96.0.1", Some(80), false), None);
        assert_eq!(who(2, "10.1.2.1", None, false).as_deref(), Some("node n2"));
        assert_eq!(who(5, "10.1.2.1", None, false), None);
    }
}
