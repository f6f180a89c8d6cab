//! Nodes as peers: what a node sends to pods of others carries its gateway's address, while who writes
//! a policy names the address that the machine has. So a block that has a node's address means its
//! gateway too, and one that excepts it does not.

use super::{Dirty, Roster};
use ipnet::IpNet;
use osier_model::{Block, Direction, Node, NodeName, Peer, PolicyName, StatedPeer, StatedPolicy};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

#[derive(Debug, Default)]
pub(super) struct Machines {
    known: FxHashMap<NodeName, Machine>,
    by_address: BTreeMap<IpAddr, BTreeSet<NodeName>>,
    /// Policies that let blocks in.
    naming: FxHashSet<PolicyName>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Machine {
    own: BTreeSet<IpAddr>,
    gateways: BTreeSet<IpAddr>,
}

// === impl Roster ===

impl Roster {
    /// A node is so now, or is no longer.
    pub(super) fn put_machine(&mut self, name: &NodeName, node: Option<&Node>, dirty: &mut Dirty) {
        let now = node.map(Machine::of);
        let before = self.machines.put(name, now.clone());
        if before == now {
            return;
        }
        let moved: BTreeSet<IpAddr> =
            before.iter().chain(&now).flat_map(|machine| machine.own.iter().copied()).collect();
        let naming = self.machines.naming.iter().filter(|policy| {
            let stated = self.policies.get(*policy).map(|held| &held.stated);
            let mut blocks = stated.into_iter().flat_map(|stated| blocks_in(stated));
            blocks.any(|block| moved.iter().any(|address| block.cidr.contains(address)))
        });
        dirty.renamed.extend(naming.cloned());
    }

    /// A policy is so now, or is no longer.
    pub(super) fn note_blocks(&mut self, name: &PolicyName, stated: Option<&StatedPolicy>) {
        match stated.is_some_and(|stated| blocks_in(stated).next().is_some()) {
            true => drop(self.machines.naming.insert(name.clone())),
            false => drop(self.machines.naming.remove(name)),
        }
    }

    /// Who comes from a block.
    pub(super) fn senders(&self, block: &Block) -> Vec<Peer> {
        let mut meant = block.clone();
        let mut gateways = BTreeSet::new();
        for machine in self.machines.within(block.cidr) {
            for gateway in &machine.gateways {
                let (is_named, is_apart) = machine.is_named(block, *gateway);
                let is_in = block.contains(*gateway);
                match (is_named, is_apart) {
                    (true, _) if !is_in => drop(gateways.insert(*gateway)),
                    (false, true) if is_in => meant.except.push(IpNet::from(*gateway)),
                    _ => {}
                }
            }
        }
        let one = |address| Block { cidr: IpNet::from(address), except: Vec::new() };
        std::iter::once(meant).chain(gateways.into_iter().map(one)).map(Peer::Block).collect()
    }
}

/// What a policy lets in by address.
fn blocks_in(policy: &StatedPolicy) -> impl Iterator<Item = &Block> {
    let rules = policy.rules(Direction::Ingress).unwrap_or_default().iter();
    rules.flat_map(|rule| rule.peers.iter().flatten()).filter_map(|peer| match peer {
        StatedPeer::Block(block) => Some(block),
        StatedPeer::Workloads { .. } | StatedPeer::Nodes => None,
    })
}

// === impl Machines ===

impl Machines {
    /// A machine takes the place of what was there, which is returned.
    fn put(&mut self, name: &NodeName, now: Option<Machine>) -> Option<Machine> {
        let before = self.known.remove(name);
        for address in before.iter().flat_map(|machine| &machine.own) {
            if let Some(there) = self.by_address.get_mut(address) {
                there.remove(name);
                if there.is_empty() {
                    self.by_address.remove(address);
                }
            }
        }
        if let Some(now) = now {
            for address in &now.own {
                self.by_address.entry(*address).or_default().insert(name.clone());
            }
            self.known.insert(name.clone(), now);
        }
        before
    }

    /// Machines with an address in a prefix.
    fn within(&self, prefix: IpNet) -> impl Iterator<Item = &Machine> {
        let there = self.by_address.range(prefix.network()..=prefix.broadcast());
        let names: BTreeSet<&NodeName> = there.flat_map(|(_, names)| names).collect();
        names.into_iter().filter_map(|name| self.known.get(name))
    }
}

// === impl Machine ===

impl Machine {
    fn of(node: &Node) -> Self {
        Self {
            own: node.addresses.iter().copied().chain([node.tunnel]).collect(),
            gateways: node.blocks.iter().map(|block| Node::gateway_of(*block)).collect(),
        }
    }

    /// Whether a block has the machine, for what it sends from a gateway's address; and whether it
    /// excepts it. A machine without an address of that family is known by the others.
    fn is_named(&self, block: &Block, gateway: IpAddr) -> (bool, bool) {
        let is_like = |address: &&IpAddr| address.is_ipv4() == gateway.is_ipv4();
        let like: Vec<&IpAddr> = self.own.iter().filter(is_like).collect();
        let asked = if like.is_empty() { self.own.iter().collect() } else { like };
        let is_named = asked.iter().any(|address| block.contains(**address));
        let mut excepted = block.except.iter();
        let is_apart = excepted.any(|except| asked.iter().any(|address| except.contains(*address)));
        (is_named, is_apart)
    }
}
