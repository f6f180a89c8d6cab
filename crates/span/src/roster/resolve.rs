//! Policies resolved: selectors to selections, named ports to numbers.

use super::selections::{Choice, Scope};
use super::{Dirty, Resolved, Roster, labels_of};
use osier_model::{
    Direction, Identity, NamedPort, NamespaceName, Peer, Policy, PolicyName, PolicyRule,
    PortChoice, PortRange, RulePort, SelectionId, Selector, StatedPeer, StatedPolicy, StatedPort,
    StatedRule, Transport,
};
use std::collections::BTreeSet;
use std::sync::Arc;

// === impl Roster ===

impl Roster {
    pub(super) fn put_policy(&mut self, said: StatedPolicy, dirty: &mut Dirty) {
        let Some(namespace) = said.namespace() else { return };
        self.look_closer(&said, dirty);
        let stated = Arc::new(said);
        self.name(&stated);
        self.note_blocks(&stated.name, Some(&stated));
        let (policy, uses) = self.resolve(&stated, &namespace, dirty);
        let name = stated.name.clone();
        dirty.policies.insert(name.clone());
        let now = Resolved { stated: Arc::clone(&stated), policy, uses };
        if let Some(before) = self.policies.insert(name, now) {
            self.unname(&before.stated, &stated);
            for id in before.uses {
                self.selections.release(id, &mut dirty.selections);
            }
        } else {
            *self.guards.entry(namespace.clone()).or_default() += 1;
            dirty.guards.insert(namespace);
        }
    }

    pub(super) fn drop_policy(&mut self, name: &PolicyName, dirty: &mut Dirty) {
        let Some(held) = self.policies.remove(name) else { return };
        let nothing = StatedPolicy { ingress: None, egress: None, ..held.stated.as_ref().clone() };
        self.unname(&held.stated, &nothing);
        self.note_blocks(name, None);
        for id in held.uses {
            self.selections.release(id, &mut dirty.selections);
        }
        if let Some(namespace) = held.stated.namespace() {
            let count = self.guards.entry(namespace.clone()).or_default();
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.guards.remove(&namespace);
            }
            dirty.guards.insert(namespace);
        }
        dirty.policies.insert(name.clone());
    }

    /// Resolves policies whose named ports may have other numbers now, or whose blocks other nodes.
    pub(super) fn resolve_renamed(&mut self, dirty: &mut Dirty) {
        for name in std::mem::take(&mut dirty.renamed) {
            let Some(stated) = self.policies.get(&name).map(|held| Arc::clone(&held.stated)) else {
                continue;
            };
            let Some(namespace) = stated.namespace() else { continue };
            let (policy, uses) = self.resolve(&stated, &namespace, dirty);
            let now = Resolved { stated, policy, uses };
            let before = self.policies.insert(name.clone(), now);
            for id in before.into_iter().flat_map(|before| before.uses) {
                self.selections.release(id, &mut dirty.selections);
            }
            dirty.policies.insert(name);
        }
    }

    fn name(&mut self, policy: &StatedPolicy) {
        for (port, transport) in policy.port_names() {
            let namers = self.namers.entry((port.to_owned(), transport)).or_default();
            namers.insert(policy.name.clone());
        }
    }

    /// Forgets names that a policy no longer has.
    fn unname(&mut self, before: &StatedPolicy, after: &StatedPolicy) {
        let kept: BTreeSet<(&str, Transport)> = after.port_names().collect();
        for (port, transport) in before.port_names().filter(|name| !kept.contains(name)) {
            let key = (port.to_owned(), transport);
            if let Some(namers) = self.namers.get_mut(&key) {
                namers.remove(&before.name);
                if namers.is_empty() {
                    self.namers.remove(&key);
                }
            }
        }
    }

    /// A policy as nodes know it, and the selections that it uses.
    fn resolve(
        &mut self,
        stated: &StatedPolicy,
        own: &NamespaceName,
        dirty: &mut Dirty,
    ) -> (Policy, Vec<SelectionId>) {
        let mut uses = Vec::new();
        let mut select = |this: &mut Self, choice| {
            let id = this.select(choice, dirty);
            uses.push(id);
            id
        };
        let (scope, labels) = (Scope::One(own.clone()), stated.subjects.clone());
        let subjects = select(self, Choice::Labels { scope, labels });
        let mut resolved = |direction| {
            let rules = stated.rules(direction)?.iter();
            let resolve = |rule| self.rule(rule, direction, own, &mut select);
            Some(rules.map(resolve).collect::<Vec<_>>())
        };
        let (ingress, egress) = (resolved(Direction::Ingress), resolved(Direction::Egress));
        (Policy { name: stated.name.clone(), subjects, ingress, egress }, uses)
    }

    fn rule(
        &mut self,
        rule: &StatedRule,
        direction: Direction,
        own: &NamespaceName,
        select: &mut impl FnMut(&mut Self, Choice) -> SelectionId,
    ) -> PolicyRule {
        let peers = rule.peers.as_ref().map(|peers| {
            let peer = |peer: &StatedPeer| match peer {
                StatedPeer::Block(block) => match direction {
                    Direction::Ingress => self.senders(block),
                    Direction::Egress => vec![Peer::Block(block.clone())],
                },
                StatedPeer::Nodes => vec![Peer::Selection(select(self, Choice::Nodes))],
                StatedPeer::Workloads { namespaces, labels } => {
                    let like = |like: &Selector| Scope::Like(like.clone());
                    let scope = namespaces.as_ref().map_or_else(|| Scope::One(own.clone()), like);
                    let choice = Choice::Labels { scope, labels: labels.clone() };
                    vec![Peer::Selection(select(self, choice))]
                }
            };
            peers.iter().flat_map(peer).collect()
        });
        let ports = rule.ports.as_ref().map(|ports| {
            let resolve = |port: &StatedPort| {
                let transport = port.transport;
                match &port.port {
                    PortChoice::Any => vec![RulePort { transport, range: None, of: None }],
                    PortChoice::Numbers(range) => {
                        vec![RulePort { transport, range: Some(*range), of: None }]
                    }
                    PortChoice::Named(name) => {
                        let numbers = self.numbers_of(name, transport).into_iter();
                        let port = |port: NamedPort| {
                            let range = Some(PortRange::one(port.port));
                            let of = Some(select(self, Choice::Port(port)));
                            RulePort { transport, range, of }
                        };
                        numbers.map(port).collect()
                    }
                }
            };
            ports.iter().flat_map(resolve).collect()
        });
        PolicyRule { peers, ports }
    }

    /// The selection of a choice, with one user more.
    fn select(&mut self, choice: Choice, dirty: &mut Dirty) -> SelectionId {
        let Self { namespaces, identities, selections, .. } = self;
        let all = |choice: &Choice| {
            if *choice == Choice::Nodes {
                return BTreeSet::from([Identity::HOST]);
            }
            let there: Vec<&NamespaceName> = match choice {
                Choice::Labels { scope: Scope::One(namespace), .. } => vec![namespace],
                _ => identities.namespaces().collect(),
            };
            let mut members = BTreeSet::new();
            for namespace in there {
                let around = labels_of(namespaces, namespace);
                let there = identities.in_namespace(namespace).into_iter();
                let there = there.filter(|(identity, _)| !identities.is_split(*identity));
                let taken = there.filter(|(_, traits)| choice.takes(traits, &around));
                members.extend(taken.map(|(identity, _)| identity));
            }
            members
        };
        selections.acquire(choice, all, &mut dirty.selections)
    }

    /// The ports that somebody has by a name.
    fn numbers_of(&self, name: &str, transport: Transport) -> BTreeSet<NamedPort> {
        let ports = self.identities.iter().flat_map(|(_, traits)| &traits.ports);
        let those = ports.filter(|port| port.name == name && port.transport == transport);
        those.cloned().collect()
    }
}
