//! What a pod's port shall be, as values: its record in the database, its row, its place in the
//! model, and what the runtime is told. Pure: nothing here looks at the machine.
//!
//! The record is the `external_ids` of the port's interface. It is all that the agent ever knows
//! of a pod, and is complete before the pod sees its address; so a new agent knows what the last
//! one did.

use crate::netlink::{NamespaceId, PodInterface};
use osier_cni::config::{Attachment, NetworkConfig};
use osier_cni::spec::{AddResult, Cidr, Interface as CniInterface, Ip, Route};
use osier_model::{
    DeviceName, Identity, InterfaceName, Limits, Mac, NetworkName, NodeName, Port, PortKey,
};
use osier_southbound::rows;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;
use thiserror::Error;

/// The prefix of our own keys in `external_ids`.
pub const PREFIX: &str = "osier-";

mod keys {
    pub(super) const IFACE_ID: &str = "iface-id";
    pub(super) const MAC: &str = "attached-mac";
    pub(super) const ADDRESS: &str = "ip-address";
    pub(super) const CONTAINER: &str = "osier-container-id";
    pub(super) const IFNAME: &str = "osier-ifname";
    pub(super) const DEVICE: &str = "osier-device";
    pub(super) const CNI_NETWORK: &str = "osier-cni-network";
    pub(super) const NETWORK: &str = "osier-network";
    pub(super) const NETNS: &str = "osier-netns";
    pub(super) const NETNS_ID: &str = "osier-netns-id";
    pub(super) const BOOT: &str = "osier-boot-id";
    pub(super) const TAG: &str = "osier-tag";
    pub(super) const MTU: &str = "osier-mtu";
    pub(super) const IPAM: &str = "osier-ipam";
}

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
    /// The switch's end.
    pub host: String,
    /// The pod's Ethernet address.
    pub mac: Mac,
    /// The pod's addresses.
    pub addresses: Vec<IpAddr>,
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
    /// The plugin that gave its addresses, if that was not us.
    pub ipam: Option<String>,
}

/// A record that is not whole.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RecordError {
    /// A key is missing.
    #[error("external_ids have no {0}")]
    Missing(&'static str),
    /// A key's value cannot be read.
    #[error("external_ids:{key} is {value:?}")]
    Value {
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
    },
}

// === impl PodPort ===

impl PodPort {
    /// Who wants its row and its flows.
    pub fn owner(&self) -> String {
        format!("port {}", self.key)
    }

    /// Its record.
    pub fn external_ids(&self) -> rows::Strings {
        let addresses: Vec<String> = self.addresses.iter().map(ToString::to_string).collect();
        let NamespaceId { device, inode } = self.netns_id;
        let mut ids: rows::Strings = [
            (keys::IFACE_ID, self.key.iface_id()),
            (keys::MAC, self.mac.to_string()),
            (keys::ADDRESS, addresses.join(",")),
            (keys::CONTAINER, self.attachment.container_id.clone()),
            (keys::IFNAME, self.attachment.ifname.clone()),
            (keys::DEVICE, self.key.device.to_string()),
            (keys::CNI_NETWORK, self.cni_network.clone()),
            (keys::NETWORK, self.network.to_string()),
            (keys::NETNS, self.netns.clone()),
            (keys::NETNS_ID, format!("{device}:{inode}")),
            (keys::BOOT, self.boot_id.clone()),
            (keys::TAG, self.tag.to_string()),
            (keys::MTU, self.mtu.to_string()),
        ]
        .map(|(key, value)| (key.to_owned(), value))
        .into();
        ids.extend(self.ipam.clone().map(|name| (keys::IPAM.to_owned(), name)));
        ids
    }

    /// Reads the record of an interface; `None` if it is no pod's.
    pub fn from_external_ids(
        host: &str,
        ofport: u16,
        ids: &BTreeMap<String, String>,
    ) -> Option<Result<Self, RecordError>> {
        ids.contains_key(keys::CONTAINER).then(|| Self::read(host, ofport, ids))
    }

    fn read(host: &str, ofport: u16, ids: &BTreeMap<String, String>) -> Result<Self, RecordError> {
        let text = |key| ids.get(key).map(String::as_str).ok_or(RecordError::Missing(key));
        let wrong =
            |key| RecordError::Value { key, value: ids.get(key).cloned().unwrap_or_default() };
        let addresses = text(keys::ADDRESS)?.split(',').filter(|a| !a.is_empty());
        let addresses: Result<Vec<IpAddr>, _> = addresses.map(str::parse).collect();
        let (device, inode) =
            text(keys::NETNS_ID)?.split_once(':').ok_or_else(|| wrong(keys::NETNS_ID))?;
        let number = |text: &str| text.parse().map_err(|_| wrong(keys::NETNS_ID));
        let ifname = text(keys::IFNAME)?;
        let container_id = text(keys::CONTAINER)?.to_owned();
        Ok(Self {
            attachment: Attachment { container_id, ifname: ifname.to_owned() },
            key: PortKey {
                device: DeviceName::new(text(keys::DEVICE)?).map_err(|_| wrong(keys::DEVICE))?,
                interface: InterfaceName::new(ifname).map_err(|_| wrong(keys::IFNAME))?,
            },
            cni_network: text(keys::CNI_NETWORK)?.to_owned(),
            network: NetworkName::new(text(keys::NETWORK)?).map_err(|_| wrong(keys::NETWORK))?,
            host: host.to_owned(),
            mac: text(keys::MAC)?.parse().map_err(|_| wrong(keys::MAC))?,
            addresses: addresses.map_err(|_| wrong(keys::ADDRESS))?,
            netns: text(keys::NETNS)?.to_owned(),
            netns_id: NamespaceId { device: number(device)?, inode: number(inode)? },
            boot_id: text(keys::BOOT)?.to_owned(),
            ofport,
            tag: text(keys::TAG)?.parse().map_err(|_| wrong(keys::TAG))?,
            mtu: text(keys::MTU)?.parse().map_err(|_| wrong(keys::MTU))?,
            ipam: ids.get(keys::IPAM).cloned(),
        })
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
            addresses: self.addresses.clone(),
            identity: Identity::ANY,
            limits: Limits::default(),
        }
    }

    /// What its interface in the pod shall be.
    pub fn interface(
        &self,
        gateways: &[(IpAddr, IpAddr)],
        default_route: bool,
        full_checksums: bool,
    ) -> PodInterface {
        PodInterface {
            name: self.attachment.ifname.clone(),
            addresses: gateways.to_vec(),
            router: Mac::GATEWAY,
            default_route,
            full_checksums,
        }
    }

    /// What the runtime is told.
    pub fn result(&self, gateways: &[(IpAddr, IpAddr)], config: &NetworkConfig) -> AddResult {
        let mtu = Some(u32::from(self.mtu));
        let host = CniInterface { name: self.host.clone(), mtu, ..CniInterface::default() };
        let pod = CniInterface {
            name: self.attachment.ifname.clone(),
            mac: Some(self.mac.to_string()),
            mtu,
            sandbox: Some(self.netns.clone()),
            ..CniInterface::default()
        };
        let ip = |(address, gateway): &(IpAddr, IpAddr)| Ip {
            address: Cidr::host(*address),
            gateway: Some(*gateway),
            interface: Some(1),
        };
        let route = |(_, gateway): &(IpAddr, IpAddr)| {
            let any = if gateway.is_ipv4() { [0; 4].into() } else { [0_u16; 8].into() };
            Route::new(Cidr { address: any, prefix: 0 }, Some(*gateway))
        };
        let routes = match config.default_route {
            Some(false) => Vec::new(),
            _ => gateways.iter().map(route).collect(),
        };
        AddResult {
            interfaces: vec![host, pod],
            ips: gateways.iter().map(ip).collect(),
            routes,
            dns: config.dns.clone(),
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
mod tests {
    use super::*;

    fn port() -> PodPort {
        PodPort {
            attachment: Attachment { container_id: "c0ffee".into(), ifname: "net1".into() },
            key: PortKey {
                device: "shop:web".parse().unwrap(),
                interface: "net1".parse().unwrap(),
            },
            cni_network: "default".into(),
            network: "pods".parse().unwrap(),
            host: "veth01234567".into(),
            mac: Mac([0x0a, 0x58, 10, 1, 1, 2]),
            addresses: vec!["10.1.1.2".parse().unwrap(), "fd01::2".parse().unwrap()],
            netns: "/run/netns/x".into(),
            netns_id: NamespaceId { device: 4, inode: 4_026_532_000 },
            boot_id: "b".into(),
            ofport: 17,
            tag: 5,
            mtu: 1442,
            ipam: Some("host-local".into()),
        }
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let ids = port().external_ids();
        assert_eq!(ids["iface-id"], "shop:web:net1");
        assert_eq!(ids["ip-address"], "10.1.1.2,fd01::2");
        let read = PodPort::from_external_ids("veth01234567", 17, &ids).unwrap().unwrap();
        assert_eq!(read, port());
    }

    #[test]
    fn a_record_that_is_not_whole_says_why() {
        let ids = port().external_ids();
        assert!(PodPort::from_external_ids("osier0", 2, &BTreeMap::new()).is_none());
        for key in ids.keys().filter(|key| !["iface-id", "osier-ipam"].contains(&key.as_str())) {
            let mut ids = ids.clone();
            ids.remove(key);
            let read = PodPort::from_external_ids("veth01234567", 17, &ids);
            assert!(!matches!(read, Some(Ok(_))), "{key}");
        }
        let mut ids = ids;
        ids.insert("ip-address".into(), "10.1.1".into());
        let error = PodPort::from_external_ids("veth01234567", 17, &ids).unwrap().unwrap_err();
        assert_eq!(error.to_string(), "external_ids:ip-address is \"10.1.1\"");
    }

    #[test]
    fn names_are_steady_and_avoid_what_is_taken() {
        let attachment = port().attachment;
        let name = host_interface(&attachment, |_| false);
        assert!(name.len() == 12 && name.starts_with("veth"), "{name}");
        assert_eq!(name, host_interface(&attachment, |_| false));
        assert_ne!(name, host_interface(&attachment, |taken| taken == name));
    }
}
