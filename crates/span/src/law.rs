//! Policies, what they select, and workloads: who must know them.
//!
//! A node knows its own workloads, and which namespaces have policies. It knows a policy if one of its
//! workloads is a subject of it, or may be sent to by its subjects (what pods send to pods is judged
//! where it arrives), and with a policy all of its selections. So a workload that comes to a node costs
//! the policies that it is in; one that another like it is there already costs nobody else anything.

use crate::check::{Batch, Item};
use crate::cluster::Cluster;
use crate::delta::{Gathering, Ref};
use crate::shared::Shared;
use crate::table::Id;
use osier_model::{
    Identity, Judgement, Key, NodeName, Object, Peer, Policy, PolicyName, SelectionId, Talk,
    Workload,
};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;
use std::hash::Hash;
use std::sync::Arc;

/// Who is where, who is meant by what, and who knows what.
#[derive(Debug, Default)]
pub(crate) struct Law {
    /// How many workloads of an identity a node has; also one that is not there yet.
    here: FxHashMap<NodeName, FxHashMap<Identity, u32>>,
    /// Where somebody has an identity.
    places: FxHashMap<Identity, FxHashSet<NodeName>>,
    /// The selections that an identity is in.
    within: FxHashMap<Identity, FxHashSet<SelectionId>>,
    /// The policies that matter to who is in a selection.
    matters: FxHashMap<SelectionId, FxHashSet<PolicyName>>,
    /// What each node that is there knows.
    known: FxHashMap<Id, Known>,
}

#[derive(Debug, Default)]
struct Known {
    policies: FxHashSet<PolicyName>,
    /// For how many of them a selection is known.
    selections: FxHashMap<SelectionId, u32>,
}

/// Pairs of a node and a policy of which it may know now, or no longer.
type Affected = BTreeSet<(NodeName, PolicyName)>;

// === impl Law ===

impl Law {
    /// A workload comes to a node, or goes.
    fn settle(&mut self, workload: &Workload, comes: bool, affected: &mut Affected) {
        let Workload { node, identity, .. } = workload;
        let here = self.here.entry(node.clone()).or_default();
        let count = here.entry(*identity).or_default();
        *count = if comes { *count + 1 } else { count.saturating_sub(1) };
        match (comes, *count) {
            (true, 1) => {
                self.places.entry(*identity).or_default().insert(node.clone());
            }
            (false, 0) => {
                here.remove(identity);
                if here.is_empty() {
                    self.here.remove(node);
                }
                drop_from(&mut self.places, identity, node);
            }
            _ => return,
        }
        affected.extend(self.policies_of(*identity).map(|name| (node.clone(), name.clone())));
    }

    /// The policies that matter to who has an identity.
    fn policies_of(&self, identity: Identity) -> impl Iterator<Item = &PolicyName> {
        let within = self.within.get(&identity).into_iter().flatten();
        within.filter_map(|id| self.matters.get(id)).flatten()
    }

    /// Somebody is in a selection, or no longer.
    fn enter(&mut self, id: SelectionId, identity: Identity, is_in: bool, out: &mut Affected) {
        match is_in {
            true => drop(self.within.entry(identity).or_default().insert(id)),
            false => drop_from(&mut self.within, &identity, &id),
        }
        let policies = self.matters.get(&id);
        for node in self.places.get(&identity).into_iter().flatten() {
            out.extend(policies.into_iter().flatten().map(|name| (node.clone(), name.clone())));
        }
    }
}

/// The selections whose members' nodes must know a policy: its subjects, and those to whom they may
/// send by rules that only the receiver's node can judge.
fn meant(policy: &Policy) -> FxHashSet<SelectionId> {
    let mut meant = FxHashSet::from_iter([policy.subjects]);
    for rule in policy.egress.iter().flatten() {
        let peers = rule.peers.iter().flatten();
        meant.extend(peers.filter_map(|peer| match peer {
            Peer::Selection(id) => Some(*id),
            Peer::Block(_) => None,
        }));
        // Only where it arrives is known which number a name has there.
        let mut peers = rule.peers.iter().flatten();
        if rule.peers.is_none() || peers.any(|peer| matches!(peer, Peer::Block(_))) {
            meant.extend(rule.ports.iter().flatten().filter_map(|port| port.of));
        }
    }
    meant
}

fn policy(shared: Option<&Arc<Shared>>) -> Option<&Policy> {
    match shared?.object() {
        Object::Policy(policy) => Some(policy),
        _ => None,
    }
}

fn workload(shared: Option<&Arc<Shared>>) -> Option<&Workload> {
    match shared?.object() {
        Object::Workload(workload) => Some(workload),
        _ => None,
    }
}

fn members(shared: Option<&Arc<Shared>>) -> Option<&BTreeSet<Identity>> {
    match shared?.object() {
        Object::Selection(selection) => Some(&selection.members),
        _ => None,
    }
}

// === impl Cluster ===

impl Cluster {
    /// What a node must know of policies.
    pub(crate) fn each_of_law(&self, node: Id, mut each: impl FnMut(Ref)) {
        self.guards.iter().for_each(|(id, _)| each(Ref::Guard(id)));
        if let Some(Object::Node(node)) = self.nodes[node].shared.as_ref().map(|s| s.object()) {
            let there = self.workloads_at.get(&node.name).into_iter().flatten();
            there.for_each(|id| each(Ref::Workload(*id)));
        }
        let Some(known) = self.law.known.get(&node) else { return };
        known
            .policies
            .iter()
            .filter_map(|p| self.policies.id(p))
            .for_each(|p| each(Ref::Policy(p)));
        let selections = known.selections.keys().filter_map(|id| self.selections.id(id));
        selections.for_each(|id| each(Ref::Selection(id)));
    }

    /// What policies say of a connection, all of them.
    pub fn judge(&self, talk: &Talk) -> Judgement {
        let policies = self.policies.iter().filter_map(|(_, shared)| policy(shared.as_ref()));
        let policies = policies.map(|policy| (policy.name.clone(), policy.clone())).collect();
        let selection = |shared: &Option<Arc<Shared>>| match shared.as_ref()?.object() {
            Object::Selection(selection) => Some((selection.id, selection.clone())),
            _ => None,
        };
        let selections = self.selections.iter().filter_map(|(_, s)| selection(s)).collect();
        osier_model::Law { policies: &policies, selections: &selections }.judge(talk)
    }

    /// How many workloads a policy is about.
    pub fn subjects_of(&self, name: &PolicyName) -> Option<usize> {
        let policy = policy(self.policies[self.policies.id(name)?].as_ref())?;
        let subjects = members(self.selections[self.selections.id(&policy.subjects)?].as_ref())?;
        let places = |identity: &Identity| self.law.places.get(identity).into_iter().flatten();
        let count = |identity: &Identity| -> usize {
            let here = places(identity).filter_map(|node| self.law.here.get(node)?.get(identity));
            here.map(|count| *count as usize).sum()
        };
        Some(subjects.iter().map(count).sum())
    }

    /// Follows the changes of a batch that policies are concerned by.
    pub(crate) fn enact_law(&mut self, batch: &Batch, out: &mut Gathering) {
        let mut affected = Affected::new();
        for item in &batch.items {
            match item.at {
                Ref::Node(id) => self.law_of_node(id, item, &mut affected),
                Ref::Guard(_) => self.tell_guard(item, out),
                Ref::Workload(id) => self.enact_workload(id, item, &mut affected, out),
                Ref::Selection(_) => self.enact_selection(item, &mut affected, out),
                Ref::Policy(_) => self.enact_policy(item, &mut affected, out),
                _ => {}
            }
        }
        for (node, name) in affected {
            if let Some(node) = self.nodes.id(&node) {
                self.concern(node, &name, out);
            }
        }
    }

    fn law_of_node(&mut self, id: Id, item: &Item, affected: &mut Affected) {
        let Key::Node(name) = &item.key else { return };
        match (&item.was, &item.now) {
            (None, Some(_)) => {
                self.law.known.insert(id, Known::default());
                let here = self.law.here.get(name).into_iter().flat_map(FxHashMap::keys);
                let policies = here.flat_map(|identity| self.law.policies_of(*identity));
                affected.extend(policies.map(|policy| (name.clone(), policy.clone())));
            }
            (_, None) => drop(self.law.known.remove(&id)),
            _ => {}
        }
    }

    fn tell_guard(&self, item: &Item, out: &mut Gathering) {
        for (node, _) in self.nodes.iter() {
            match item.now {
                Some(_) => out.gain(node, item.at),
                None => out.lose(node, item.at),
            }
        }
    }

    fn enact_workload(
        &mut self,
        id: Id,
        item: &Item,
        affected: &mut Affected,
        out: &mut Gathering,
    ) {
        let (was, now) = (workload(item.was.as_ref()), workload(item.now.as_ref()));
        let is_moved = was.map(|was| &was.node) != now.map(|now| &now.node);
        // What comes is done before what goes, so that nothing is lost in between.
        if let Some(now) = now {
            self.law.settle(now, true, affected);
        }
        if let Some(was) = was {
            self.law.settle(was, false, affected);
            if is_moved {
                drop_from(&mut self.workloads_at, &was.node, &id);
            }
            if let Some(node) = self.nodes.id(&was.node).filter(|_| is_moved) {
                out.lose(node, item.at);
            }
        }
        if let Some(now) = now {
            self.workloads_at.entry(now.node.clone()).or_default().insert(id);
            if let Some(node) = self.nodes.id(&now.node) {
                match is_moved {
                    true => out.gain(node, item.at),
                    false => out.touch(node, item.at),
                }
            }
        }
    }

    fn enact_selection(&mut self, item: &Item, affected: &mut Affected, out: &mut Gathering) {
        let Key::Selection(id) = &item.key else { return };
        let none = BTreeSet::new();
        let was = members(item.was.as_ref()).unwrap_or(&none);
        let now = members(item.now.as_ref()).unwrap_or(&none);
        for identity in now.difference(was) {
            self.law.enter(*id, *identity, true, affected);
        }
        for identity in was.difference(now) {
            self.law.enter(*id, *identity, false, affected);
        }
        for (node, _) in self.law.known.iter().filter(|(_, k)| k.selections.contains_key(id)) {
            match (&item.was, &item.now) {
                (None, _) => out.gain(*node, item.at),
                (_, None) => out.lose(*node, item.at),
                _ => out.touch(*node, item.at),
            }
        }
    }

    fn enact_policy(&mut self, item: &Item, affected: &mut Affected, out: &mut Gathering) {
        let Key::Policy(name) = &item.key else { return };
        let (was, now) = (policy(item.was.as_ref()), policy(item.now.as_ref()));
        let before = was.map(meant).unwrap_or_default();
        let after = now.map(meant).unwrap_or_default();
        for id in before.difference(&after) {
            drop_from(&mut self.law.matters, id, name);
        }
        for id in &after {
            self.law.matters.entry(*id).or_default().insert(name.clone());
        }
        for id in before.symmetric_difference(&after) {
            let members =
                self.selections.id(id).and_then(|at| members(self.selections[at].as_ref()));
            for identity in members.into_iter().flatten() {
                let places = self.law.places.get(identity).into_iter().flatten();
                affected.extend(places.map(|node| (node.clone(), name.clone())));
            }
        }
        // Who knows it keeps it here, in its new form; who need not know it is found later.
        let uses = |policy: Option<&Policy>| policy.map(Policy::selections).unwrap_or_default();
        let (before, after) = (uses(was), uses(now));
        let knows = |(_, known): &(&Id, &Known)| known.policies.contains(name);
        let knowing: Vec<Id> = self.law.known.iter().filter(knows).map(|(node, _)| *node).collect();
        for node in knowing {
            self.use_selections(node, &after, true, out);
            self.use_selections(node, &before, false, out);
            if now.is_some() {
                out.touch(node, item.at);
            } else {
                out.lose(node, item.at);
                if let Some(known) = self.law.known.get_mut(&node) {
                    known.policies.remove(name);
                }
            }
        }
    }

    /// A node needs these selections for one policy more, or less.
    fn use_selections(
        &mut self,
        node: Id,
        selections: &BTreeSet<SelectionId>,
        more: bool,
        out: &mut Gathering,
    ) {
        let Some(known) = self.law.known.get_mut(&node) else { return };
        for id in selections {
            let count = known.selections.entry(*id).or_default();
            *count = if more { *count + 1 } else { count.saturating_sub(1) };
            let count = *count;
            if count == 0 {
                known.selections.remove(id);
            }
            let Some(at) = self.selections.id(id) else { continue };
            match (more, count) {
                (true, 1) => out.gain(node, Ref::Selection(at)),
                (false, 0) => out.lose(node, Ref::Selection(at)),
                _ => {}
            }
        }
    }

    /// Whether a node must know a policy now, and tells it so.
    fn concern(&mut self, node: Id, name: &PolicyName, out: &mut Gathering) {
        let Some(at) = self.policies.id(name) else { return };
        let Some(policy) = policy(self.policies[at].as_ref()) else { return };
        let uses = policy.selections();
        let Some(Object::Node(of)) = self.nodes[node].shared.as_ref().map(|s| s.object()) else {
            return;
        };
        let is_needed = self.law.here.get(&of.name).is_some_and(|here| {
            meant(policy).iter().any(|id| {
                let members =
                    self.selections.id(id).map(|at| members(self.selections[at].as_ref()));
                members.flatten().is_some_and(|members| meet(members, here))
            })
        });
        let Some(known) = self.law.known.get_mut(&node) else { return };
        let is_known = known.policies.contains(name);
        if is_needed && !is_known {
            known.policies.insert(name.clone());
            out.gain(node, Ref::Policy(at));
            self.use_selections(node, &uses, true, out);
        } else if is_known && !is_needed {
            known.policies.remove(name);
            out.lose(node, Ref::Policy(at));
            self.use_selections(node, &uses, false, out);
        }
    }
}

/// Whether somebody is in both.
fn meet(members: &BTreeSet<Identity>, here: &FxHashMap<Identity, u32>) -> bool {
    match members.len() < here.len() {
        true => members.iter().any(|identity| here.contains_key(identity)),
        false => here.keys().any(|identity| members.contains(identity)),
    }
}

fn drop_from<K: Hash + Eq, V: Hash + Eq>(
    index: &mut FxHashMap<K, FxHashSet<V>>,
    key: &K,
    value: &V,
) {
    if let Some(set) = index.get_mut(key) {
        set.remove(value);
        if set.is_empty() {
            index.remove(key);
        }
    }
}
