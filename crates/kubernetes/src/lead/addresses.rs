//! Nodes' addresses for pods: those that the cluster gives, or our own blocks: claimed for nodes that
//! have few left, taken back from those that have too many.

use super::Leader;
use crate::blocks::{Ledger, Rules};
use crate::error::failed;
use crate::plan::Problem;
use crate::problems::Whose;
use crate::waits::Waits;
use crate::world::block::BlockSeen;
use crate::world::held::Held;
use crate::world::node::NodeSeen;
use ipnet::IpNet;
use osier_controller::config::AddressSource;
use osier_model::NodeName;
use osier_resource::Kind;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;
use tokio::time::Instant;

/// How long a new node may wait for addresses of the cluster before it gets ours.
const GRACE: Duration = Duration::from_secs(5);
/// How long after an agent has given up a block its report is believed.
const SURE: Duration = Duration::from_secs(5);
/// Claims at once.
const AT_ONCE: usize = 32;
/// Where addresses come from, and what is about to change.
pub(super) struct Addresses {
    source: AddressSource,
    rules: Rules,
    ledger: Ledger,
    /// When nodes were first seen.
    first: BTreeMap<String, Instant>,
    /// Blocks that their nodes are to give up.
    retiring: BTreeMap<IpNet, Retiring>,
    /// Blocks that somebody has deleted, though their nodes have them.
    lost: Vec<BlockSeen>,
    /// Since when blocks are of nodes that are not there.
    orphans: BTreeMap<IpNet, Instant>,
    /// When blocks may be claimed again, and how long that takes when the API server does not answer.
    again: Instant,
    waits: Waits,
}

struct Retiring {
    node: String,
    /// When the node's agent had given it up.
    since: Option<Instant>,
}

// === impl Addresses ===

impl Addresses {
    pub(super) fn new(source: AddressSource, rules: Rules, ledger: Ledger) -> Self {
        Self {
            source,
            rules,
            ledger,
            first: BTreeMap::new(),
            retiring: BTreeMap::new(),
            lost: Vec::new(),
            orphans: BTreeMap::new(),
            again: Instant::now(),
            waits: Waits::default(),
        }
    }

    /// A node's addresses for pods.
    pub(super) fn of(&self, node: &NodeSeen, blocks: &Held<String, BlockSeen>) -> Vec<IpNet> {
        let from_node = match self.source {
            AddressSource::Node => true,
            AddressSource::Auto => !node.pod_cidrs.is_empty(),
            AddressSource::Blocks => false,
        };
        if from_node {
            return node.pod_cidrs.clone();
        }
        let own = blocks.values().filter(|block| block.spec.node == node.name);
        let mut own: Vec<&BlockSeen> =
            own.filter(|block| !self.retiring.contains_key(&block.spec.cidr)).collect();
        own.sort_by_key(|block| (block.made.as_ref().map(|made| made.0), block.spec.cidr));
        own.into_iter().map(|block| block.spec.cidr).collect()
    }

    /// Somebody has deleted a block.
    pub(super) fn lost(&mut self, block: BlockSeen) {
        self.ledger.forget(&block.spec.cidr);
        if self.retiring.remove(&block.spec.cidr).is_none() {
            self.lost.push(block);
        }
    }

    /// Whether the API server has answered all claims.
    pub(super) fn answered(&mut self, all: bool) {
        match all {
            true => self.waits.reset(),
            false => self.again = Instant::now() + self.waits.next(),
        }
    }

    /// Blocks that somebody has deleted.
    pub(super) fn take_lost(&mut self) -> Vec<BlockSeen> {
        std::mem::take(&mut self.lost)
    }

    /// Whether a node came a moment ago.
    pub(super) fn is_early(&self, name: &str) -> bool {
        self.first.get(name).is_none_or(|first| first.elapsed() < GRACE)
    }
}

// === impl Leader ===

impl Leader {
    /// Whether nodes get our own blocks.
    fn gives_blocks(&self) -> bool {
        let addresses = &self.addresses;
        if addresses.rules.cluster.is_empty() {
            return false;
        }
        match addresses.source {
            AddressSource::Node => false,
            AddressSource::Blocks => true,
            AddressSource::Auto => self.nodes.values().all(|node| node.pod_cidrs.is_empty()),
        }
    }

    /// Gives nodes what they need, and takes what they need no longer.
    pub(super) async fn look_after_blocks(&mut self) {
        let now = Instant::now();
        let names: BTreeSet<String> = self.nodes.iter().map(|(name, _)| name.clone()).collect();
        let addresses = &mut self.addresses;
        addresses.first.retain(|name, _| names.contains(name));
        for name in &names {
            let known = addresses.first.contains_key(name);
            if !known {
                addresses.first.insert(name.clone(), now);
            } else if addresses.first[name].elapsed() >= GRACE {
                // Those that have none yet are told of now.
                self.is_stale |= addresses.first[name].elapsed() < GRACE + 2 * super::TICK;
            }
        }
        if now >= self.addresses.again {
            self.reclaim(&names).await;
            if self.gives_blocks() {
                self.grow().await;
            }
        }
        if self.gives_blocks() {
            self.retire(now);
        }
        self.give_back(now).await;
        self.forget_orphans(&names, now).await;
        self.forget_controllers().await;
    }

    /// Addresses that a node uses, if its agent has told of them.
    fn used_by(&self, name: &str) -> Option<Vec<IpAddr>> {
        self.states.as_ref()?.addresses(&NodeName::new(name).ok()?)
    }

    /// Claims blocks for nodes that have none, or few addresses left.
    async fn grow(&mut self) {
        let machines: BTreeSet<IpAddr> =
            self.nodes.values().flat_map(|node| node.addresses.iter().copied()).collect();
        let mut taken: BTreeSet<IpNet> =
            self.blocks.values().map(|block| block.spec.cidr).collect();
        taken.extend(self.nodes.values().flat_map(|node| node.pod_cidrs.iter().copied()));
        let mut claims: Vec<(IpNet, String)> = Vec::new();
        let mut lacking: BTreeSet<String> = BTreeSet::new();
        for node in self.nodes.values().filter(|node| node.tunnel.is_ok()) {
            let own = self.addresses.of(node, &self.blocks);
            if own.is_empty() && self.addresses.is_early(&node.name) {
                continue;
            }
            let used = self.used_by(&node.name);
            for v4 in Ledger::needs(&self.addresses.rules, &own, used.as_deref()) {
                if claims.len() >= AT_ONCE {
                    break;
                }
                let Addresses { ledger, rules, .. } = &mut self.addresses;
                match ledger.next(rules, v4, &taken, &machines) {
                    Some(block) => {
                        taken.insert(block);
                        claims.push((block, node.name.clone()));
                    }
                    None => drop(lacking.insert(node.name.clone())),
                }
            }
        }
        for name in &lacking {
            let text = "no block is free for the node's pods: give [kubernetes] cluster_cidrs one \
                        more prefix, or smaller blocks"
                .to_owned();
            let problem = Problem { reason: "AddressesExhausted", text };
            self.problems.set(&Whose::node(name), &["AddressesExhausted"], Some(problem));
        }
        self.problems.retain("AddressesExhausted", |whose| lacking.contains(&whose.name));
        if !claims.is_empty() {
            self.claim(&claims).await;
        }
    }

    /// Lets nodes give up blocks that they do not need.
    fn retire(&mut self, now: Instant) {
        let names: Vec<String> = self.nodes.iter().map(|(name, _)| name.clone()).collect();
        for name in names {
            let Some(node) = self.nodes.get(&name) else { continue };
            let own = self.addresses.of(node, &self.blocks);
            let Some(used) = self.used_by(&name) else { continue };
            let Addresses { ledger, rules, retiring, .. } = &mut self.addresses;
            if retiring.values().any(|retiring| retiring.node == name) {
                continue;
            }
            if let Some(block) = ledger.spare(rules, &own, &used, now) {
                tracing::info!(node = name, cidr = %block, "block is given up");
                retiring.insert(block, Retiring { node: name, since: None });
                self.is_stale = true;
            }
        }
    }

    /// Deletes blocks that nodes have given up; one that came into use meanwhile stays theirs.
    async fn give_back(&mut self, now: Instant) {
        let blocks: Vec<IpNet> = self.addresses.retiring.keys().copied().collect();
        for block in blocks {
            let Some(node) = self.addresses.retiring.get(&block).map(|r| r.node.clone()) else {
                continue;
            };
            let state = NodeName::new(&node).ok().zip(self.states.as_ref()).map(|(n, s)| s.of(&n));
            let Some(state) = state.filter(|state| state.connected) else { continue };
            let used = self.used_by(&node).unwrap_or_default();
            if used.iter().any(|address| block.contains(address)) {
                self.addresses.retiring.remove(&block);
                self.addresses.ledger.forget(&block);
                self.is_stale = true;
                continue;
            }
            let name = (Kind::Node, node.clone());
            let without = self.mirror.is(&name).filter(|(resource, _)| match resource {
                osier_resource::Resource::Node(node) => !node.spec.blocks.contains(&block),
                _ => false,
            });
            let Some((_, revision)) = without else { continue };
            if state.applied.is_none_or(|applied| applied < revision) {
                continue;
            }
            let Some(retiring) = self.addresses.retiring.get_mut(&block) else { continue };
            if now - *retiring.since.get_or_insert(now) >= SURE && self.delete(block).await {
                self.addresses.retiring.remove(&block);
                self.addresses.ledger.forget(&block);
            }
        }
    }

    /// Blocks of nodes that are gone rest for a while: their pods may still be there.
    async fn forget_orphans(&mut self, names: &BTreeSet<String>, now: Instant) {
        let orphans: BTreeSet<IpNet> = self
            .blocks
            .values()
            .filter(|block| !names.contains(&block.spec.node))
            .map(|block| block.spec.cidr)
            .collect();
        self.addresses.orphans.retain(|block, _| orphans.contains(block));
        for block in orphans {
            let since = *self.addresses.orphans.entry(block).or_insert(now);
            if now - since >= self.addresses.rules.rest && self.delete(block).await {
                self.addresses.orphans.remove(&block);
            }
        }
    }

    /// Agents need not look for controllers that are gone.
    async fn forget_controllers(&mut self) {
        if !self.setup.is_pod {
            return;
        }
        let living = {
            let pods = self.shared.pods.read().unwrap_or_else(std::sync::PoisonError::into_inner);
            pods.controllers(&self.setup.namespace)
        };
        if living.is_empty() || self.known_controllers == living {
            return;
        }
        let addresses: Vec<IpAddr> = living.iter().copied().collect();
        match self.setup.announcer.forget_all_but(&addresses).await {
            Ok(()) => self.known_controllers = living,
            Err(error) => tracing::warn!(error = %failed(&error), "old controllers stay announced"),
        }
    }
}
