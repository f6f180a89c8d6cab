//! What a pod's port shall be, as values: its record in the database, its row, its place in the
//! model, and what the runtime is told. Pure: nothing here looks at the machine.
//!
//! The record (`record`) is all that the agent ever knows of a pod, and is complete before the pod
//! sees its address; so a new agent knows what the last one did.

mod host_port;
mod record;

pub use host_port::HostPort;
pub use record::RecordError;

use crate::netlink::{NamespaceId, PodInterface};
use ipnet::IpNet;
use osier_cni::config::Attachment;
use osier_cni::spec::{AddResult, Cidr, Dns, Interface as CniInterface, Ip, Route};
use osier_compiler::DEFAULT_VNI;
use osier_model::{Identity, Limits, Mac, NetworkName, NodeName, Port, PortKey};
use osier_southbound::rows;
use std::fmt::Write as _;
use std::net::IpAddr;

/// The prefix of our own keys in `external_ids`.
pub const PREFIX: &str = "osier-";

/// A pod's port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodPort {
    /// Which interface of which container.
    pub attachment: Attachment,
    /// Which port of the model.
    pub key: PortKey,
    /// The network's name for the runtime.
    pub cni_network: String,
    /// The network of the model.
    pub network: NetworkName,
    /// That network's number.
    pub vni: u32,
    /// The switch's end.
    pub host: String,
    /// The pod's Ethernet address.
    pub mac: Mac,
    /// The pod's addresses.
    pub addresses: Vec<PodAddress>,
    /// The pod's routes by this port.
    pub routes: Vec<PodRoute>,
    /// The path of the pod's namespace.
    pub netns: String,
    /// Which namespace that is.
    pub netns_id: NamespaceId,
    /// In which life of the machine it was made: paths and inodes come again after a boot.
    pub boot_id: String,
    /// The number at the switch that we ask for.
    pub ofport: u16,
    /// Its tag in the pipeline.
    pub tag: u32,
    /// Its MTU.
    pub mtu: u16,
    /// Who gave its addresses.
    pub giver: Giver,
    /// How fast its runtime wants it to be.
    pub limits: Limits,
    /// Whether what it sends outside gets the machine's address; unsaid, as the agent has it.
    pub masquerade: Option<bool>,
    /// Whether it may reach itself by an address that the machine translates.
    pub hairpin: bool,
    /// Ports of the node that lead to it.
    pub host_ports: Vec<HostPort>,
}

/// An address of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PodAddress {
    /// The address, with the length of what is on the link with it.
    pub net: IpNet,
    /// The router for what is not.
    pub gateway: Option<IpAddr>,
}

/// A route of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PodRoute {
    /// Where to.
    pub to: IpNet,
    /// By which router; without one it is on the link.
    pub via: Option<IpAddr>,
}

/// Who gave a port its addresses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Giver {
    /// The node, of its own blocks.
    #[default]
    Node,
    /// The view, which has the port.
    View,
    /// The runtime, which asked for them.
    Runtime,
    /// The controller, which was asked.
    Controller,
    /// The plugin of this name.
    Plugin(String),
}

// === impl Giver ===

impl Giver {
    /// The plugin's name, if it was one.
    pub fn plugin(&self) -> Option<&str> {
        match self {
            Self::Plugin(name) => Some(name),
            _ => None,
        }
    }
}

// === impl PodAddress ===

impl PodAddress {
    /// The address alone.
    pub fn address(&self) -> IpAddr {
        self.net.addr()
    }

    /// An address with nothing else on its link.
    pub fn whole(address: IpAddr, gateway: Option<IpAddr>) -> Self {
        Self { net: address.into(), gateway }
    }
}

// === impl PodPort ===

impl PodPort {
    /// Who wants its row and its flows.
    pub fn owner(&self) -> String {
        format!("port {}", self.key)
    }

    /// Its addresses alone.
    pub fn ips(&self) -> impl Iterator<Item = IpAddr> {
        self.addresses.iter().map(PodAddress::address)
    }

    /// Whether the firewall treats it unlike others.
    pub fn is_exception(&self) -> bool {
        self.masquerade.is_some() || !self.hairpin || !self.host_ports.is_empty()
    }

    /// Whether it is in the network whose addresses are of the node's blocks.
    pub fn in_default_network(&self) -> bool {
        self.vni == DEFAULT_VNI
    }

    /// Its row.
    pub fn rows(&self, bridge: &str) -> rows::Plan {
        let mut port = rows::Port::new(bridge, &self.host);
        port.interfaces[0].ofport_request = Some(self.ofport.into());
        port.interfaces[0].external_ids = self.external_ids();
        rows::Plan::default().port(port)
    }

    /// What it is in the model.
    pub fn object(&self, node: &NodeName) -> Port {
        Port {
            key: self.key.clone(),
            network: self.network.clone(),
            node: node.clone(),
            mac: self.mac,
            addresses: self.ips().collect(),
            identity: Identity::ANY,
            limits: self.limits,
        }
    }

    /// What its interface in the pod shall be.
    pub fn interface(&self, full_checksums: bool) -> PodInterface {
        PodInterface {
            name: self.attachment.ifname.clone(),
            addresses: self.addresses.iter().map(|address| address.net).collect(),
            routers: self.addresses.iter().filter_map(|address| address.gateway).collect(),
            router_mac: Mac::GATEWAY,
            routes: self.routes.iter().map(|route| (route.to, route.via)).collect(),
            full_checksums,
        }
    }

    /// What the runtime is told.
    pub fn result(&self, dns: &Dns) -> AddResult {
        let mtu = Some(u32::from(self.mtu));
        let host = CniInterface { name: self.host.clone(), mtu, ..CniInterface::default() };
        let pod = CniInterface {
            name: self.attachment.ifname.clone(),
            mac: Some(self.mac.to_string()),
            mtu,
            sandbox: Some(self.netns.clone()),
            ..CniInterface::default()
        };
        let cidr = |net: IpNet| Cidr { address: net.addr(), prefix: net.prefix_len() };
        let ip = |PodAddress { net, gateway }: &PodAddress| Ip {
            address: cidr(*net),
            gateway: *gateway,
            interface: Some(1),
        };
        let route = |PodRoute { to, via }: &PodRoute| Route::new(cidr(*to), *via);
        AddResult {
            interfaces: vec![host, pod],
            ips: self.addresses.iter().map(ip).collect(),
            routes: self.routes.iter().map(route).collect(),
            dns: dns.clone(),
        }
    }
}

/// The name of the switch's end: the same for one attachment, unless that is taken.
pub fn host_interface(attachment: &Attachment, taken: impl Fn(&str) -> bool) -> String {
    // FNV-1a, 32 bits: short, spread, and the same in every version of the agent.
    let hash = |salt: u32| {
        let ids = [&attachment.container_id, "/", &attachment.ifname];
        let bytes = ids.iter().flat_map(|id| id.bytes()).chain(salt.to_be_bytes());
        bytes.fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
    };
    let mut name = String::new();
    for salt in 0..=u32::MAX {
        name.clear();
        // Writing to a string cannot fail.
        let _ = write!(name, "veth{:08x}", hash(salt));
        if !taken(&name) {
            break;
        }
    }
    name
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use osier_model::Limit;

    pub(crate) fn port() -> PodPort {
        let address = |net: &str, gateway: &str| PodAddress {
            net: net.parse().unwrap(),
            gateway: Some(gateway.parse().unwrap()),
        };
        PodPort {
            attachment: Attachment { container_id: "c0ffee".into(), ifname: "net1".into() },
            key: PortKey {
                device: "shop:web".parse().unwrap(),
                interface: "net1".parse().unwrap(),
            },
            cni_network: "default".into(),
            network: "pods".parse().unwrap(),
            vni: 7,
            host: "veth01234567".into(),
            mac: Mac([0x0a, 0x58, 10, 1, 1, 2]),
            addresses: vec![address("10.1.1.2/24", "10.1.1.1"), address("fd01::2/64", "fd01::1")],
            routes: vec![
                PodRoute {
                    to: "0.0.0.0/0".parse().unwrap(),
                    via: Some("10.1.1.1".parse().unwrap()),
                },
                PodRoute { to: "fd02::/64".parse().unwrap(), via: None },
            ],
            netns: "/run/netns/x".into(),
            netns_id: NamespaceId { device: 4, inode: 4_026_532_000 },
            boot_id: "b".into(),
            ofport: 17,
            tag: 5,
            mtu: 1442,
            giver: Giver::Plugin("host-local".into()),
            limits: Limits {
                ingress: Some(Limit { rate: 1000, burst: Some(5) }),
                egress: Some(Limit { rate: 2000, burst: None }),
            },
            masquerade: Some(false),
            hairpin: false,
            host_ports: vec!["tcp/8080>80".parse().unwrap(), "udp/fd00::1/53>53".parse().unwrap()],
        }
    }

    #[test]
    fn names_are_steady_and_avoid_what_is_taken() {
        let attachment = port().attachment;
        let name = host_interface(&attachment, |_| false);
        assert!(name.len() == 12 && name.starts_with("veth"), "{name}");
        assert_eq!(name, host_interface(&attachment, |_| false));
        assert_ne!(name, host_interface(&attachment, |taken| taken == name));
    }

    #[test]
    fn the_runtime_hears_of_prefixes_and_routes() {
        let result = port().result(&Dns::default());
        assert_eq!(result.ips[0].address.to_string(), "10.1.1.2/24");
        assert_eq!(result.routes[1].dst.to_string(), "fd02::/64");
        assert_eq!(result.routes[1].gw, None);
    }
}
