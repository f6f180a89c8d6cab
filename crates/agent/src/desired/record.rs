//! A port's record: the `external_ids` of its interface, written and read.
//!
//! `iface-id`, `attached-mac` and `ip-address` are as others write them; the rest is ours. Keys that
//! came later may be missing: a record of an older agent is read, and its pod lives on.

use super::{Giver, PodAddress, PodPort, PodRoute};
use crate::netlink::NamespaceId;
use ipnet::IpNet;
use osier_cni::config::Attachment;
use osier_compiler::DEFAULT_VNI;
use osier_model::{DeviceName, InterfaceName, Limit, Limits, NetworkName, PortKey};
use osier_southbound::rows;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::str::FromStr;
use thiserror::Error;

mod keys {
    pub(super) const IFACE_ID: &str = "iface-id";
    pub(super) const MAC: &str = "attached-mac";
    pub(super) const ADDRESS: &str = "ip-address";
    pub(super) const CONTAINER: &str = "osier-container-id";
    pub(super) const IFNAME: &str = "osier-ifname";
    pub(super) const DEVICE: &str = "osier-device";
    pub(super) const CNI_NETWORK: &str = "osier-cni-network";
    pub(super) const NETWORK: &str = "osier-network";
    pub(super) const VNI: &str = "osier-vni";
    pub(super) const LINKS: &str = "osier-addresses";
    pub(super) const ROUTES: &str = "osier-routes";
    pub(super) const NETNS: &str = "osier-netns";
    pub(super) const NETNS_ID: &str = "osier-netns-id";
    pub(super) const BOOT: &str = "osier-boot-id";
    pub(super) const TAG: &str = "osier-tag";
    pub(super) const MTU: &str = "osier-mtu";
    pub(super) const IPAM: &str = "osier-ipam";
    pub(super) const INGRESS: &str = "osier-ingress-limit";
    pub(super) const EGRESS: &str = "osier-egress-limit";
    pub(super) const MASQUERADE: &str = "osier-masquerade";
    pub(super) const HAIRPIN: &str = "osier-hairpin";
    pub(super) const HOST_PORTS: &str = "osier-host-ports";
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
    /// Its record.
    pub fn external_ids(&self) -> rows::Strings {
        let NamespaceId { device, inode } = self.netns_id;
        let link = |PodAddress { net, gateway }: &PodAddress| via(*net, *gateway);
        let route = |PodRoute { to, via: by }: &PodRoute| via(*to, *by);
        let some = [
            (keys::IFACE_ID, self.key.iface_id()),
            (keys::MAC, self.mac.to_string()),
            (keys::ADDRESS, joined(self.ips().map(|address| address.to_string()))),
            (keys::CONTAINER, self.attachment.container_id.clone()),
            (keys::IFNAME, self.attachment.ifname.clone()),
            (keys::DEVICE, self.key.device.to_string()),
            (keys::CNI_NETWORK, self.cni_network.clone()),
            (keys::NETWORK, self.network.to_string()),
            (keys::VNI, self.vni.to_string()),
            (keys::LINKS, joined(self.addresses.iter().map(link))),
            (keys::ROUTES, joined(self.routes.iter().map(route))),
            (keys::NETNS, self.netns.clone()),
            (keys::NETNS_ID, format!("{device}:{inode}")),
            (keys::BOOT, self.boot_id.clone()),
            (keys::TAG, self.tag.to_string()),
            (keys::MTU, self.mtu.to_string()),
        ];
        let host_ports = joined(self.host_ports.iter().map(ToString::to_string));
        let host_ports = Some(host_ports).filter(|ports| !ports.is_empty());
        let maybe = [
            (keys::IPAM, self.giver.text()),
            (keys::INGRESS, self.limits.ingress.map(limit_text)),
            (keys::EGRESS, self.limits.egress.map(limit_text)),
            (keys::MASQUERADE, self.masquerade.map(|yes| yes.to_string())),
            (keys::HAIRPIN, (!self.hairpin).then(|| false.to_string())),
            (keys::HOST_PORTS, host_ports),
        ];
        let maybe = maybe.into_iter().filter_map(|(key, value)| Some((key, value?)));
        some.into_iter().chain(maybe).map(|(key, value)| (key.to_owned(), value)).collect()
    }

    /// Reads the record of an interface; `None` if it is no pod's.
    pub fn from_external_ids(
        host: &str,
        ofport: u16,
        ids: &BTreeMap<String, String>,
    ) -> Option<Result<Self, RecordError>> {
        ids.contains_key(keys::CONTAINER).then(|| read(host, ofport, &Record(ids)))
    }
}

fn read(host: &str, ofport: u16, ids: &Record<'_>) -> Result<PodPort, RecordError> {
    let ifname = ids.text(keys::IFNAME)?;
    let namespace = |text: &str| {
        let (device, inode) = text.split_once(':')?;
        Some(NamespaceId { device: device.parse().ok()?, inode: inode.parse().ok()? })
    };
    let addresses =
        ids.list(keys::ADDRESS, |text| Some(PodAddress::whole(text.parse().ok()?, None)));
    let link = |text: &str| read_via(text).map(|(net, gateway)| PodAddress { net, gateway });
    let links = ids.list(keys::LINKS, link)?.unwrap_or_default();
    let addresses = addresses?.ok_or(RecordError::Missing(keys::ADDRESS))?;
    let route = |text: &str| read_via(text).map(|(to, via)| PodRoute { to, via });
    Ok(PodPort {
        attachment: Attachment {
            container_id: ids.text(keys::CONTAINER)?.to_owned(),
            ifname: ifname.to_owned(),
        },
        key: PortKey {
            device: ids.read(keys::DEVICE, |text| DeviceName::new(text).ok())?,
            interface: ids.read(keys::IFNAME, |text| InterfaceName::new(text).ok())?,
        },
        cni_network: ids.text(keys::CNI_NETWORK)?.to_owned(),
        network: ids.read(keys::NETWORK, |text| NetworkName::new(text).ok())?,
        vni: ids.maybe(keys::VNI, parsed)?.unwrap_or(DEFAULT_VNI),
        host: host.to_owned(),
        mac: ids.read(keys::MAC, parsed)?,
        addresses: if links.is_empty() { addresses } else { links },
        routes: ids.list(keys::ROUTES, route)?.unwrap_or_default(),
        netns: ids.text(keys::NETNS)?.to_owned(),
        netns_id: ids.read(keys::NETNS_ID, namespace)?,
        boot_id: ids.text(keys::BOOT)?.to_owned(),
        ofport,
        tag: ids.read(keys::TAG, parsed)?,
        mtu: ids.read(keys::MTU, parsed)?,
        giver: Giver::read(ids.0.get(keys::IPAM).map(String::as_str)),
        limits: Limits {
            ingress: ids.maybe(keys::INGRESS, read_limit)?,
            egress: ids.maybe(keys::EGRESS, read_limit)?,
        },
        masquerade: ids.maybe(keys::MASQUERADE, parsed)?,
        hairpin: ids.maybe(keys::HAIRPIN, parsed)?.unwrap_or(true),
        host_ports: ids.list(keys::HOST_PORTS, parsed)?.unwrap_or_default(),
    })
}

struct Record<'a>(&'a BTreeMap<String, String>);

impl Record<'_> {
    fn text(&self, key: &'static str) -> Result<&str, RecordError> {
        self.0.get(key).map(String::as_str).ok_or(RecordError::Missing(key))
    }

    fn maybe<T>(
        &self,
        key: &'static str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, RecordError> {
        let Some(value) = self.0.get(key) else { return Ok(None) };
        let wrong = || RecordError::Value { key, value: value.clone() };
        read(value).map(Some).ok_or_else(wrong)
    }

    fn read<T>(
        &self,
        key: &'static str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, RecordError> {
        self.maybe(key, read)?.ok_or(RecordError::Missing(key))
    }

    fn list<T>(
        &self,
        key: &'static str,
        item: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<Vec<T>>, RecordError> {
        let items = |text: &str| text.split(',').filter(|t| !t.is_empty()).map(item).collect();
        self.maybe(key, items)
    }
}

fn parsed<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

fn joined(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(",")
}

/// `10.5.0.7/24>10.5.0.1`, or without a router `10.5.0.7/24`.
fn via(net: IpNet, router: Option<IpAddr>) -> String {
    router.map_or_else(|| net.to_string(), |router| format!("{net}>{router}"))
}

fn read_via(text: &str) -> Option<(IpNet, Option<IpAddr>)> {
    match text.split_once('>') {
        Some((net, router)) => Some((net.parse().ok()?, Some(router.parse().ok()?))),
        None => Some((text.parse().ok()?, None)),
    }
}

/// `20000000`, or with a burst `20000000/8000`.
fn limit_text(limit: Limit) -> String {
    let burst = limit.burst.map(|burst| format!("/{burst}"));
    format!("{}{}", limit.rate, burst.unwrap_or_default())
}

fn read_limit(text: &str) -> Option<Limit> {
    match text.split_once('/') {
        Some((rate, burst)) => {
            Some(Limit { rate: rate.parse().ok()?, burst: Some(burst.parse().ok()?) })
        }
        None => Some(Limit { rate: text.parse().ok()?, burst: None }),
    }
}

impl Giver {
    /// A plugin by its name; ours have a colon, which no plugin's name has.
    fn text(&self) -> Option<String> {
        match self {
            Self::Node => None,
            Self::View => Some("osier:view".to_owned()),
            Self::Runtime => Some("osier:runtime".to_owned()),
            Self::Controller => Some("osier:controller".to_owned()),
            Self::Plugin(name) => Some(name.clone()),
        }
    }

    fn read(text: Option<&str>) -> Self {
        match text {
            None => Self::Node,
            Some("osier:view") => Self::View,
            Some("osier:runtime") => Self::Runtime,
            Some("osier:controller") => Self::Controller,
            Some(name) => Self::Plugin(name.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::port;
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let givers = [Giver::Node, Giver::View, Giver::Runtime, Giver::Controller];
        for giver in givers.into_iter().chain([port().giver]) {
            let port = PodPort { giver, ..port() };
            let ids = port.external_ids();
            assert_eq!(ids["iface-id"], "shop:web:net1");
            assert_eq!(ids["ip-address"], "10.1.1.2,fd01::2");
            assert_eq!(ids["osier-addresses"], "10.1.1.2/24>10.1.1.1,fd01::2/64>fd01::1");
            let read = PodPort::from_external_ids("veth01234567", 17, &ids).unwrap().unwrap();
            assert_eq!(read, port);
        }
    }

    #[test]
    fn a_record_of_an_older_agent_is_read() {
        let mut ids = port().external_ids();
        for key in
            [keys::VNI, keys::LINKS, keys::ROUTES, keys::IPAM, keys::INGRESS, keys::HOST_PORTS]
        {
            ids.remove(key);
        }
        let read = PodPort::from_external_ids("veth01234567", 17, &ids).unwrap().unwrap();
        assert!(read.in_default_network() && read.giver == Giver::Node);
        assert_eq!(read.addresses[0].net.to_string(), "10.1.1.2/32");
    }

    #[test]
    fn a_record_that_is_not_whole_says_why() {
        let ids = port().external_ids();
        assert!(PodPort::from_external_ids("osier0", 2, &BTreeMap::new()).is_none());
        for key in [keys::MAC, keys::ADDRESS, keys::IFNAME, keys::DEVICE, keys::NETNS, keys::TAG] {
            let mut ids = ids.clone();
            ids.remove(key);
            let read = PodPort::from_external_ids("veth01234567", 17, &ids).unwrap();
            assert_eq!(read, Err(RecordError::Missing(key)));
        }
        for (key, value) in
            [(keys::ADDRESS, "10.1.1"), (keys::ROUTES, "10.0.0.0/8>x"), (keys::EGRESS, "fast")]
        {
            let mut ids = ids.clone();
            ids.insert(key.to_owned(), value.to_owned());
            let error = PodPort::from_external_ids("veth01234567", 17, &ids).unwrap().unwrap_err();
            assert_eq!(error.to_string(), format!("external_ids:{key} is {value:?}"));
        }
    }
}
