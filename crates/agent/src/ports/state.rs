//! Who has which address, number and name. Pure: time comes in, and nothing is done here.

use crate::addresses::{AddressError, Addresses};
use crate::desired::{PodPort, host_interface};
use crate::netlink::NamespaceId;
use ipnet::IpNet;
use osier_cni::config::Attachment;
use osier_model::{Mac, NetworkName, Node, PortKey};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// The numbers at the switch that pods' ports get: below are fixed ones, above those that OpenFlow
/// 1.0 keeps.
const OFPORTS: std::ops::RangeInclusive<u16> = 16..=0xfe00;

/// A port that is asked for.
#[derive(Debug)]
pub(super) struct Wish {
    pub(super) attachment: Attachment,
    pub(super) key: PortKey,
    pub(super) cni_network: String,
    pub(super) network: NetworkName,
    pub(super) mac: Option<Mac>,
    pub(super) requested: Vec<IpAddr>,
    /// By another plugin: its name, and the addresses.
    pub(super) given: Option<(String, Vec<IpAddr>)>,
    pub(super) netns: String,
    pub(super) netns_id: NamespaceId,
    pub(super) boot_id: String,
    pub(super) mtu: u16,
}

/// See the module.
#[derive(Debug)]
pub(super) struct State {
    ports: BTreeMap<Attachment, Arc<PodPort>>,
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
        let ports = living.into_iter().map(|port| (port.attachment.clone(), Arc::new(port)));
        Self {
            ports: ports.collect(),
            addresses,
            blocks: Vec::new(),
            next_tag,
            next_ofport: next_ofport.unwrap_or(*OFPORTS.start()),
        }
    }

    pub(super) fn set_blocks(&mut self, blocks: &[IpNet]) {
        let in_use: Vec<IpAddr> =
            self.ports.values().flat_map(|port| port.addresses.iter().copied()).collect();
        self.addresses.set_blocks(blocks, in_use);
        self.blocks = blocks.to_vec();
    }

    pub(super) fn len(&self) -> usize {
        self.ports.len()
    }

    pub(super) fn get(&self, attachment: &Attachment) -> Option<Arc<PodPort>> {
        self.ports.get(attachment).cloned()
    }

    /// Ports that stand where a new one shall be: of the same interface of the container, or of
    /// the same pod.
    pub(super) fn rivals(&self, attachment: &Attachment, key: &PortKey) -> Vec<Arc<PodPort>> {
        let rival = |port: &&Arc<PodPort>| port.attachment == *attachment || port.key == *key;
        self.ports.values().filter(rival).cloned().collect()
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
        let (ipam, addresses) = match wish.given {
            Some((name, addresses)) => {
                for address in &addresses {
                    self.addresses.adopt(*address);
                }
                (Some(name), addresses)
            }
            None => (None, self.addresses.allocate(&wish.requested, now)?),
        };
        let first = addresses.first().copied().ok_or(AddressError::NoBlock)?;
        let taken = |name: &str| self.ports.values().any(|port| port.host == name);
        let host = host_interface(&wish.attachment, taken);
        let tag = self.next_tag;
        self.next_tag += 1;
        let port = Arc::new(PodPort {
            attachment: wish.attachment,
            key: wish.key,
            cni_network: wish.cni_network,
            network: wish.network,
            host,
            mac: wish.mac.unwrap_or_else(|| Mac::of(first)),
            addresses,
            netns: wish.netns,
            netns_id: wish.netns_id,
            boot_id: wish.boot_id,
            ofport: self.take_ofport(),
            tag,
            mtu: wish.mtu,
            ipam,
        });
        self.ports.insert(port.attachment.clone(), Arc::clone(&port));
        Ok(port)
    }

    /// In turn, so that a number rests for long before it is used again.
    fn take_ofport(&mut self) -> u16 {
        let used = |number: u16| self.ports.values().any(|port| port.ofport == number);
        let mut number = self.next_ofport;
        for _ in OFPORTS {
            if !OFPORTS.contains(&number) {
                number = *OFPORTS.start();
            }
            if !used(number) {
                break;
            }
            number += 1;
        }
        self.next_ofport = number + 1;
        number
    }

    pub(super) fn remove(&mut self, attachment: &Attachment, now: Duration) {
        if let Some(port) = self.ports.remove(attachment) {
            self.addresses.release(&port.addresses, now);
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
            mac: None,
            requested: Vec::new(),
            given: None,
            netns: "/x".into(),
            netns_id: NamespaceId { device: 1, inode: 2 },
            boot_id: "b".into(),
            mtu: 1400,
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
        assert_eq!(a.mac, Mac::of(a.addresses[0]));
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
        let addresses = vec!["172.16.0.9".parse().unwrap()];
        let given = Wish { given: Some(("host-local".into(), addresses)), ..wish("c", "n:c") };
        let c = state.reserve(given, Duration::ZERO).unwrap();
        assert_eq!(state.gateway_for(c.addresses[0]), Some("10.1.1.1".parse().unwrap()));
    }
}
