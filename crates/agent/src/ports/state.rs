//! Who has which address, number and name. Pure: time comes in, and nothing is done here.

use super::grant::{Addresses as Given, Routing};
use super::index::Index;
use crate::addresses::{AddressError, Addresses};
use crate::desired::{Giver, HostPort, PodAddress, PodPort, host_interface};
use crate::firewall::Exceptions;
use crate::netlink::NamespaceId;
use ipnet::IpNet;
use osier_cni::config::Attachment;
use osier_compiler::DEFAULT_VNI;
use osier_model::{Limits, Mac, NetworkName, Node, PortKey};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// The numbers at the switch that pods' ports get: below are fixed ones, above those that OpenFlow
/// 1.0 keeps.
const OFPORTS: std::ops::RangeInclusive<u16> = 16..=0xfe00;

/// So many are remembered whose addresses are to be taken back: more than a node has pods.
const MAX_OWED: usize = 4096;

/// A port that is asked for.
#[derive(Debug)]
pub(super) struct Wish {
    pub(super) attachment: Attachment,
    pub(super) key: PortKey,
    pub(super) cni_network: String,
    pub(super) network: NetworkName,
    pub(super) vni: u32,
    pub(super) giver: Giver,
    pub(super) mac: Option<Mac>,
    pub(super) given: Given,
    pub(super) routing: Routing,
    pub(super) netns: String,
    pub(super) netns_id: NamespaceId,
    pub(super) boot_id: String,
    pub(super) mtu: u16,
    pub(super) limits: Limits,
    pub(super) masquerade: Option<bool>,
    pub(super) hairpin: bool,
    pub(super) host_ports: Vec<HostPort>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct State {
    ports: BTreeMap<Attachment, Arc<PodPort>>,
    index: Index,
    /// Detached, but what gave their addresses has not taken them back: the runtime asks again.
    owed: BTreeSet<Attachment>,
    pub(super) addresses: Addresses,
    blocks: Vec<IpNet>,
    next_tag: u32,
    next_ofport: u16,
}

// === impl State ===

impl State {
    pub(super) fn new(addresses: Addresses, living: Vec<PodPort>) -> Self {
        let next_tag = living.iter().map(|port| port.tag + 1).max().unwrap_or(1);
        let next_ofport = living.iter().map(|port| port.ofport + 1).max();
        let mut state = Self {
            ports: BTreeMap::new(),
            index: Index::default(),
            owed: BTreeSet::new(),
            addresses,
            blocks: Vec::new(),
            next_tag,
            next_ofport: next_ofport.unwrap_or(*OFPORTS.start()),
        };
        for port in living {
            state.replace(port);
        }
        state
    }

    pub(super) fn set_blocks(&mut self, blocks: &[IpNet]) {
        let ports = self.ports.values().filter(|port| port.in_default_network());
        let in_use: Vec<IpAddr> = ports.flat_map(|port| port.ips()).collect();
        self.addresses.set_blocks(blocks, in_use);
        self.blocks = blocks.to_vec();
    }

    pub(super) fn len(&self) -> usize {
        self.ports.len()
    }

    pub(super) fn all(&self) -> Vec<Arc<PodPort>> {
        self.ports.values().cloned().collect()
    }

    pub(super) fn get(&self, attachment: &Attachment) -> Option<Arc<PodPort>> {
        self.ports.get(attachment).cloned()
    }

    /// Whether there is such a port, or there was one whose addresses are still to be taken back.
    pub(super) fn is_known(&self, attachment: &Attachment) -> bool {
        self.ports.contains_key(attachment) || self.owed.contains(attachment)
    }

    /// Notes whether the addresses of one that is detached are still to be taken back.
    pub(super) fn set_owed(&mut self, attachment: &Attachment, owed: bool) {
        if !owed {
            self.owed.remove(attachment);
        } else if self.owed.len() < MAX_OWED {
            self.owed.insert(attachment.clone());
        }
    }

    /// Ports that stand where a new one shall be: of the same interface of the container, or of
    /// the same pod.
    pub(super) fn rivals(&self, attachment: &Attachment, key: &PortKey) -> Vec<Arc<PodPort>> {
        let same_key = self.index.with_key(key).filter(|other| *other != attachment);
        let all = std::iter::once(attachment).chain(same_key);
        all.filter_map(|attachment| self.ports.get(attachment)).cloned().collect()
    }

    /// Attachments to a network that are not listed.
    pub(super) fn stale(&self, cni_network: &str, valid: &[Attachment]) -> Vec<Attachment> {
        let of_network = self.ports.values().filter(|port| port.cni_network == cni_network);
        let attachments = of_network.map(|port| &port.attachment);
        attachments.filter(|attachment| !valid.contains(attachment)).cloned().collect()
    }

    /// Gives out all that a port needs, or nothing.
    pub(super) fn reserve(
        &mut self,
        wish: Wish,
        now: Duration,
    ) -> Result<Arc<PodPort>, AddressError> {
        let addresses = self.give(&wish.given, wish.vni, now)?;
        let first = addresses.first().map(|address| Mac::of(address.address()));
        let mac = wish.mac.or(first);
        let mac = mac.filter(|_| first.is_some() || matches!(wish.given, Given::Later));
        let mac = mac.ok_or(AddressError::NoBlock)?;
        let host = host_interface(&wish.attachment, |name| self.index.has_host(name));
        let tag = self.next_tag;
        self.next_tag += 1;
        let ofport = self.take_ofport();
        Ok(self.replace(PodPort {
            attachment: wish.attachment,
            key: wish.key,
            cni_network: wish.cni_network,
            network: wish.network,
            vni: wish.vni,
            host,
            mac,
            routes: wish.routing.routes(&addresses),
            addresses,
            netns: wish.netns,
            netns_id: wish.netns_id,
            boot_id: wish.boot_id,
            ofport,
            tag,
            mtu: wish.mtu,
            giver: wish.giver,
            limits: wish.limits,
            masquerade: wish.masquerade,
            hairpin: wish.hairpin,
            host_ports: wish.host_ports,
        }))
    }

    /// Gives its addresses to a port that had none yet.
    pub(super) fn complete(
        &mut self,
        port: &PodPort,
        given: &Given,
        routing: &Routing,
        now: Duration,
    ) -> Result<Arc<PodPort>, AddressError> {
        let addresses = self.give(given, port.vni, now)?;
        let routes = routing.routes(&addresses);
        Ok(self.replace(PodPort { addresses, routes, ..port.clone() }))
    }

    /// Knows a port as it is now.
    pub(super) fn replace(&mut self, port: PodPort) -> Arc<PodPort> {
        let port = Arc::new(port);
        if let Some(before) = self.ports.insert(port.attachment.clone(), Arc::clone(&port)) {
            self.index.remove(&before);
        }
        self.index.add(&port);
        port
    }

    fn give(
        &mut self,
        given: &Given,
        vni: u32,
        now: Duration,
    ) -> Result<Vec<PodAddress>, AddressError> {
        match given {
            Given::Later => Ok(Vec::new()),
            Given::OfBlocks(requested) => {
                let given = self.addresses.allocate(requested, now)?;
                Ok(given.into_iter().map(|a| PodAddress::whole(a, self.gateway_for(a))).collect())
            }
            Given::These(links) if vni == DEFAULT_VNI => {
                let addresses: Vec<IpAddr> = links.iter().map(PodAddress::address).collect();
                self.addresses.claim(&addresses, now)?;
                let whole = |address| PodAddress::whole(address, self.gateway_for(address));
                Ok(addresses.into_iter().map(whole).collect())
            }
            Given::These(links) => {
                for address in links.iter().map(PodAddress::address) {
                    if let Some(key) = self.index.with_address(vni, address) {
                        let port = key.to_string();
                        return Err(AddressError::Taken { address, port });
                    }
                }
                Ok(links.clone())
            }
        }
    }

    /// Pods that the firewall treats unlike others; `usual` is whether it translates.
    pub(super) fn exceptions(&self, usual: bool) -> Exceptions {
        let of = |unlike: &dyn Fn(&PodPort) -> bool| -> BTreeSet<IpAddr> {
            let ports = self.ports.values().filter(|port| port.in_default_network());
            ports.filter(|port| unlike(port)).flat_map(|port| port.ips()).collect()
        };
        let ports = self.ports.values().filter(|port| port.in_default_network());
        let mapped = ports.flat_map(|port| {
            let rules = |host: HostPort| port.ips().filter_map(move |ip| host.rule(ip));
            port.host_ports.iter().copied().flat_map(rules)
        });
        Exceptions {
            host_ports: mapped.collect(),
            masquerade: of(&|port| port.masquerade.is_some_and(|yes| yes != usual)),
            hairpin: of(&|port| !port.hairpin),
        }
    }

    /// In turn, so that a number rests for long before it is used again.
    fn take_ofport(&mut self) -> u16 {
        let mut number = self.next_ofport;
        for _ in OFPORTS {
            if !OFPORTS.contains(&number) {
                number = *OFPORTS.start();
            }
            if !self.index.has_ofport(number) {
                break;
            }
            number += 1;
        }
        self.next_ofport = number + 1;
        number
    }

    pub(super) fn remove(&mut self, attachment: &Attachment, now: Duration) {
        let Some(port) = self.ports.remove(attachment) else { return };
        self.index.remove(&port);
        if port.in_default_network() {
            let addresses: Vec<IpAddr> = port.ips().collect();
            self.addresses.release(&addresses, now);
        }
    }

    /// The router for an address: that of its block, or of any of the family. All are the same.
    pub(super) fn gateway_for(&self, address: IpAddr) -> Option<IpAddr> {
        let any = || self.blocks.iter().find(|block| block.addr().is_ipv4() == address.is_ipv4());
        self.addresses.gateway_of(address).or_else(|| any().map(|block| Node::gateway_of(*block)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(container: &str, device: &str) -> Wish {
        Wish {
            attachment: Attachment { container_id: container.into(), ifname: "eth0".into() },
            key: PortKey { device: device.parse().unwrap(), interface: "eth0".parse().unwrap() },
            cni_network: "net".into(),
            network: "pods".parse().unwrap(),
            vni: DEFAULT_VNI,
            giver: Giver::Node,
            mac: None,
            given: Given::default(),
            routing: Routing { default: true, ..Routing::default() },
            netns: "/x".into(),
            netns_id: NamespaceId { device: 1, inode: 2 },
            boot_id: "b".into(),
            mtu: 1400,
            limits: Limits::default(),
            masquerade: None,
            hairpin: true,
            host_ports: Vec::new(),
        }
    }

    fn state(living: Vec<PodPort>) -> State {
        let mut state = State::new(Addresses::new(Duration::from_mins(1)), living);
        state.set_blocks(&["10.1.1.0/29".parse().unwrap()]);
        state
    }

    #[test]
    fn nothing_is_given_twice_also_after_a_restart() {
        let mut first = state(Vec::new());
        let a = first.reserve(wish("a", "n:a"), Duration::ZERO).unwrap();
        let b = first.reserve(wish("b", "n:b"), Duration::ZERO).unwrap();
        assert_ne!((a.ofport, a.tag, a.mac), (b.ofport, b.tag, b.mac));
        assert_eq!(a.mac, Mac::of(a.addresses[0].address()));
        assert_eq!(a.routes[0].via, a.addresses[0].gateway);
        let mut second = state(vec![(*b).clone()]);
        let c = second.reserve(wish("c", "n:c"), Duration::ZERO).unwrap();
        assert!(c.ofport > b.ofport && c.tag > b.tag && c.addresses != b.addresses);
        assert_eq!(second.len(), 2);
        assert_eq!(second.rivals(&wish("x", "n:b").attachment, &b.key), [b]);
    }

    #[test]
    fn garbage_is_what_is_of_the_network_and_not_listed() {
        let mut state = state(Vec::new());
        let a = state.reserve(wish("a", "n:a"), Duration::ZERO).unwrap();
        let b = state.reserve(wish("b", "n:b"), Duration::ZERO).unwrap();
        assert_eq!(
            state.stale("net", std::slice::from_ref(&a.attachment)),
            vec![b.attachment.clone()]
        );
        assert!(state.stale("other", &[]).is_empty());
        state.remove(&b.attachment, Duration::ZERO);
        assert_eq!(state.len(), 1);
    }

    #[test]
    fn numbers_come_in_turn_and_around() {
        let mut state = state(Vec::new());
        state.next_ofport = *OFPORTS.end();
        let a = state.reserve(wish("a", "n:a"), Duration::ZERO).unwrap();
        let b = state.reserve(wish("b", "n:b"), Duration::ZERO).unwrap();
        assert_eq!((a.ofport, b.ofport), (0xfe00, 16));
        let c = state.reserve(these("c", 1, "172.16.0.9"), Duration::ZERO).unwrap();
        assert_eq!(c.addresses[0].gateway, Some("10.1.1.1".parse().unwrap()));
        assert!(state.reserve(these("d", 1, "172.16.0.9"), Duration::ZERO).is_err());
    }

    fn these(container: &str, vni: u32, address: &str) -> Wish {
        let given = Given::These(vec![PodAddress::whole(address.parse().unwrap(), None)]);
        Wish { vni, given, ..wish(container, &format!("n:{container}")) }
    }

    #[test]
    fn networks_have_their_own_addresses() {
        let mut state = state(Vec::new());
        let a = state.reserve(wish("a", "n:a"), Duration::ZERO).unwrap();
        let same = a.addresses[0].address().to_string();
        let b = state.reserve(these("b", 7, &same), Duration::ZERO).unwrap();
        state.reserve(these("c", 8, &same), Duration::ZERO).unwrap();
        let taken = state.reserve(these("d", 7, &same), Duration::ZERO).unwrap_err();
        assert_eq!(taken.to_string(), format!("{same} is that of port n:b"));
        // Those of others come and go without a trace in the node's blocks.
        state.remove(&b.attachment, Duration::ZERO);
        state.set_blocks(&["10.1.1.0/29".parse().unwrap()]);
        assert!(state.addresses.allocate(&[a.addresses[0].address()], Duration::ZERO).is_err());
        assert_eq!(state.addresses.used().next().unwrap().1, 1);
    }
}
