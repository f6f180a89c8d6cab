//! Which ports have a name, number or address: so that one more pod costs the same on a full node.
//! Kept by [`State`](super::state::State), which has the ports themselves.

use crate::desired::PodPort;
use osier_cni::config::Attachment;
use osier_model::PortKey;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;

/// See the module. An earlier agent may have left two ports where one belongs, so all is counted.
#[derive(Debug, Default)]
pub(super) struct Index {
    keys: BTreeMap<PortKey, BTreeSet<Attachment>>,
    hosts: HashSet<String>,
    ofports: HashMap<u16, usize>,
    addresses: HashMap<(u32, IpAddr), Vec<PortKey>>,
}

// === impl Index ===

impl Index {
    pub(super) fn add(&mut self, port: &PodPort) {
        self.keys.entry(port.key.clone()).or_default().insert(port.attachment.clone());
        self.hosts.insert(port.host.clone());
        *self.ofports.entry(port.ofport).or_default() += 1;
        for address in port.ips() {
            self.addresses.entry((port.vni, address)).or_default().push(port.key.clone());
        }
    }

    pub(super) fn remove(&mut self, port: &PodPort) {
        if let Some(attachments) = self.keys.get_mut(&port.key) {
            attachments.remove(&port.attachment);
            if attachments.is_empty() {
                self.keys.remove(&port.key);
            }
        }
        self.hosts.remove(&port.host);
        drop_one(&mut self.ofports, port.ofport);
        for address in port.ips() {
            let at = (port.vni, address);
            if let Some(keys) = self.addresses.get_mut(&at) {
                if let Some(position) = keys.iter().position(|key| *key == port.key) {
                    keys.swap_remove(position);
                }
                if keys.is_empty() {
                    self.addresses.remove(&at);
                }
            }
        }
    }

    /// Attachments that are this port of the model.
    pub(super) fn with_key(&self, key: &PortKey) -> impl Iterator<Item = &Attachment> {
        self.keys.get(key).into_iter().flatten()
    }

    pub(super) fn has_host(&self, name: &str) -> bool {
        self.hosts.contains(name)
    }

    pub(super) fn has_ofport(&self, number: u16) -> bool {
        self.ofports.contains_key(&number)
    }

    /// A port that has an address in a network.
    pub(super) fn with_address(&self, vni: u32, address: IpAddr) -> Option<&PortKey> {
        self.addresses.get(&(vni, address))?.first()
    }
}

fn drop_one(counts: &mut HashMap<u16, usize>, number: u16) {
    if let Some(count) = counts.get_mut(&number) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desired::tests::port;

    #[test]
    fn what_two_have_stays_known_until_both_are_gone() {
        let first = port();
        let mut second = port();
        second.attachment.container_id = "other".into();
        second.host = "veth2".into();
        let mut index = Index::default();
        index.add(&first);
        index.add(&second);
        assert_eq!(index.with_key(&first.key).count(), 2);
        let address = first.addresses[0].address();
        index.remove(&first);
        assert!(index.has_ofport(first.ofport) && !index.has_host(&first.host));
        assert_eq!(index.with_address(first.vni, address), Some(&second.key));
        index.remove(&second);
        assert_eq!(index.with_key(&first.key).count(), 0);
        assert!(!index.has_ofport(first.ofport) && !index.has_host("veth2"));
        assert_eq!(index.with_address(first.vni, address), None);
    }
}
