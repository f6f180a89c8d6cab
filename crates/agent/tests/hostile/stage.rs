//! The stage: two nodes; `mallory`, who is hostile, and `bob` on the first, `carol` on the second.
//! Each has an interface in the routed network of all pods, and one in a bridged network.

use crate::cluster::{Addressing, Cluster};
use crate::frame::Mac;
use crate::lab::{Pod, port};
use osier_testbed::Netns;
use osier_testbed::traffic::PacketSocket;
use serde_json::Value;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The bridged network, and its ports: other nodes must know of them.
const LAN: &str = "\
- { kind: router, name: red, vrf: 3 }
- { kind: network, name: lan, vni: 31, router: red, subnets: [
    { cidr: 10.5.0.0/24, gateway: 10.5.0.1 }, { cidr: 'fd05::/64', gateway: 'fd05::1' }] }
";
const PODS: [(&str, usize); 3] = [("mallory", 0), ("bob", 0), ("carol", 1)];

pub(crate) struct Stage {
    pub(crate) guests: [Guest; 3],
    pub(crate) cluster: Cluster,
}

/// A pod with both of its interfaces.
pub(crate) struct Guest {
    pub(crate) pod: Pod,
    pub(crate) routed: Side,
    pub(crate) bridged: Side,
    /// The switch's end of its first interface.
    pub(crate) host_end: String,
}

/// One interface of a pod.
pub(crate) struct Side {
    pub(crate) mac: Mac,
    pub(crate) v4: Ipv4Addr,
    pub(crate) v6: Ipv6Addr,
    pub(crate) socket: PacketSocket,
}

// === impl Side ===

impl Side {
    fn of(netns: &Netns, interface: &str, addresses: &[IpAddr]) -> Self {
        let v4 =
            addresses.iter().find_map(|a| if let IpAddr::V4(v4) = a { Some(*v4) } else { None });
        let v6 =
            addresses.iter().find_map(|a| if let IpAddr::V6(v6) = a { Some(*v6) } else { None });
        let socket = PacketSocket::open(netns, interface).unwrap();
        Self { mac: mac_of(netns, interface), v4: v4.unwrap(), v6: v6.unwrap(), socket }
    }

    pub(crate) fn at(&self, ipv6: bool) -> IpAddr {
        if ipv6 { self.v6.into() } else { self.v4.into() }
    }

    /// What IPv6 gives to it for the link (RFC 4291, appendix A).
    pub(crate) fn link_local(&self) -> Ipv6Addr {
        osier_model::Mac(self.mac).link_local()
    }
}

// === impl Stage ===

impl Stage {
    pub(crate) fn new() -> Self {
        Self::with(|view| view)
    }

    /// One whose view is another.
    pub(crate) fn with(change: impl FnOnce(String) -> String) -> Self {
        Self::with_wishes(change, &[])
    }

    /// One whose pods' runtime wishes something for some of them, by name.
    pub(crate) fn with_wishes(
        change: impl FnOnce(String) -> String,
        wishes: &[(&str, Value)],
    ) -> Self {
        let cluster =
            Cluster::start_with(Addressing::Dual, 2, |view| change(view + LAN + &lan_ports()));
        let guests = PODS.map(|(name, node)| {
            let mut pod = cluster.pod(node, name);
            if let Some((_, wish)) = wishes.iter().find(|(whose, _)| *whose == name) {
                pod.config["runtimeConfig"] = wish.clone();
            }
            let result = pod.add();
            let host_end = result["interfaces"][0]["name"].as_str().unwrap().to_owned();
            let routed = Side::of(&pod.netns, "eth0", &crate::lab::addresses(&result));
            let mut second = pod.second("net1", "lan");
            second.config.as_object_mut().unwrap().remove("runtimeConfig");
            let second = second.addresses();
            let bridged = Side::of(&pod.netns, "net1", &second);
            Guest { pod, routed, bridged, host_end }
        });
        Self { guests, cluster }
    }

    /// What nodes are told.
    pub(crate) fn view(&self, change: impl FnOnce(String) -> String) -> String {
        change(self.cluster.addressing.view(2) + LAN + &lan_ports())
    }

    pub(crate) fn node(&self, n: usize) -> &Netns {
        self.cluster.fabric.nodes()[n].netns()
    }

    /// Packets that a node's own stack gets from its switch.
    pub(crate) fn gateway(&self, node: usize) -> PacketSocket {
        PacketSocket::open(self.node(node), "osier0").unwrap()
    }
}

fn lan_ports() -> String {
    let one = |(n, (name, node)): (usize, (&str, usize))| {
        let n = n + 10;
        let rest = format!("mac: '02:00:00:00:00:{n}', addresses: [10.5.0.{n}, 'fd05::{n}']");
        port(name, "net1", "lan", &format!("n{}", node + 1), &rest)
    };
    PODS.into_iter().enumerate().map(one).collect()
}

/// The Ethernet address of an interface, as `ip` says it.
pub(crate) fn mac_of(netns: &Netns, interface: &str) -> Mac {
    let said = netns.ip(&format!("-brief link show {interface}")).unwrap();
    let text = said.split_whitespace().nth(2).unwrap();
    let bytes: Vec<u8> =
        text.split(':').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
    bytes.try_into().unwrap()
}
