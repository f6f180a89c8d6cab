//! The roster: what labels and selectors come to.
//!
//! Users speak of policies in labels; nodes know identities only. The roster hears what is said
//! ([`Saying`]), gives each set of labels that policies can tell apart a number, keeps what each
//! selector selects, and tells what of that is new as changes of the model. How those travel to
//! whom is the [`Cluster`](crate::Cluster)'s.
//!
//! **Identity.** Two workloads have the same if they are of one namespace and alike in all labels and
//! named ports that some policy has ever looked at. Labels that no policy names make no identities,
//! so that a build number or a pod's own name costs nobody anything. Labels of namespaces are not in
//! it: they follow from the namespace, and change what is selected, never who is who.
//!
//! **Cost.** A workload with known traits costs itself. A new identity costs the selectors that name
//! one of its labels, found by that. A new selector costs the identities of its namespaces. Only a
//! policy that is the first to name some label looks at all workloads, once.

mod apart;
mod identities;
mod machines;
mod resolve;
mod selections;

pub use identities::Traits;

use identities::Identities;
use machines::Machines;
use osier_model::{
    Change, DeviceName, Guard, Identity, Isolation, Key, Labels, NamedPort, NamespaceName,
    NodeName, Object, Policy, PolicyName, Saying, SelectionId, Selector, StatedNamespace,
    StatedPolicy, StatedWorkload, Statement, StatementKey, Transport, Workload,
};
use rustc_hash::{FxHashMap, FxHashSet};
use selections::Selections;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The label by which Kubernetes lets a namespace be selected by its name.
const NAME: &str = "kubernetes.io/metadata.name";

/// See the module.
#[derive(Debug, Default)]
pub struct Roster {
    namespaces: FxHashMap<NamespaceName, Labels>,
    workloads: FxHashMap<DeviceName, Held>,
    /// Labels of workloads: many have the same.
    labels: FxHashSet<Arc<Labels>>,
    policies: FxHashMap<PolicyName, Resolved>,
    /// How many policies a namespace has.
    guards: FxHashMap<NamespaceName, u32>,
    identities: Identities,
    selections: Selections,
    /// How namespaces are apart.
    apart: Option<Isolation>,
    /// Policies that name a port.
    namers: FxHashMap<(String, Transport), FxHashSet<PolicyName>>,
    machines: Machines,
}

/// What changes with what was said.
#[derive(Debug, Default)]
pub struct Resolution {
    /// Changes of the model.
    pub changes: Vec<Change>,
    /// Identities that are new, to be remembered before anybody hears of them.
    pub given: Vec<(Identity, Arc<Traits>)>,
    /// Identities that nobody has had for long, and that may be forgotten.
    pub retired: Vec<Identity>,
}

#[derive(Debug)]
struct Held {
    node: Option<NodeName>,
    labels: Arc<Labels>,
    ports: Box<[NamedPort]>,
    identity: Identity,
}

/// A policy, and what it uses.
#[derive(Debug)]
struct Resolved {
    stated: Arc<StatedPolicy>,
    /// As nodes know it.
    policy: Policy,
    /// Its selections, each as often as it uses it; first that of its subjects.
    uses: Vec<SelectionId>,
}

/// What is to be told.
#[derive(Debug, Default)]
struct Dirty {
    selections: BTreeSet<SelectionId>,
    policies: BTreeSet<PolicyName>,
    /// Policies whose named ports may have other numbers, or whose blocks mean other nodes.
    renamed: BTreeSet<PolicyName>,
    workloads: BTreeSet<DeviceName>,
    guards: BTreeSet<NamespaceName>,
    /// Whether somebody has left.
    is_left: bool,
}

// === impl Roster ===

impl Roster {
    /// Recalls an identity that was given before. Only before anything is said.
    pub fn recall(&mut self, identity: Identity, traits: Traits) {
        self.identities.recall(identity, Arc::new(traits));
    }

    /// Hears what is said; of several for one thing the last holds.
    pub fn hear(&mut self, mut sayings: Vec<Saying>) -> Resolution {
        let mut dirty = Dirty::default();
        // Policies before workloads: who is told apart is known when they get their numbers.
        sayings.sort_by_key(|saying| match saying {
            Saying::Put(Statement::Workload(_)) | Saying::Delete(StatementKey::Workload(_)) => 1,
            _ => 0,
        });
        for saying in sayings {
            match saying {
                Saying::Put(Statement::Namespace(said)) => self.put_namespace(said, &mut dirty),
                Saying::Put(Statement::Workload(said)) => self.put_workload(said, &mut dirty),
                Saying::Put(Statement::Policy(said)) => self.put_policy(said, &mut dirty),
                Saying::Delete(StatementKey::Namespace(name)) => {
                    let labels = Labels::new();
                    self.put_namespace(StatedNamespace { name: name.clone(), labels }, &mut dirty);
                    self.namespaces.remove(&name);
                    self.part(&name, &mut dirty);
                }
                Saying::Delete(StatementKey::Workload(device)) => {
                    self.drop_workload(device, &mut dirty);
                }
                Saying::Delete(StatementKey::Policy(name)) => self.drop_policy(&name, &mut dirty),
                Saying::Apart(said) => self.keep_apart(said, &mut dirty),
                Saying::Node(node) => self.put_machine(&node.name, Some(&node), &mut dirty),
                Saying::NodeGone(name) => self.put_machine(&name, None, &mut dirty),
            }
        }
        let retired = if dirty.is_left { self.retire(&mut dirty) } else { Vec::new() };
        self.resolve_renamed(&mut dirty);
        let given = self.identities.take_given();
        Resolution { changes: self.tell(&dirty), given, retired }
    }

    /// What a workload is to policies.
    pub fn identity_of(&self, device: &DeviceName) -> Option<Identity> {
        self.workloads.get(device).map(|held| held.identity)
    }

    /// What an identity stands for.
    pub fn traits_of(&self, identity: Identity) -> Option<&Arc<Traits>> {
        self.identities.traits(identity)
    }

    /// Workloads that a policy is about, and those that its rules select: how many identities.
    pub fn subjects_of(&self, policy: &PolicyName) -> Option<usize> {
        let subjects = *self.policies.get(policy)?.uses.first()?;
        Some(self.selections.members(subjects).map_or(0, BTreeSet::len))
    }

    fn put_namespace(&mut self, said: StatedNamespace, dirty: &mut Dirty) {
        self.meet(&said.name, dirty);
        let before = labels_of(&self.namespaces, &said.name);
        self.namespaces.insert(said.name.clone(), said.labels);
        let after = labels_of(&self.namespaces, &said.name);
        if before != after {
            let there = self.identities.in_namespace(&said.name);
            let is_split = |identity| self.identities.is_split(identity);
            self.selections.relabel((&before, &after), &there, is_split, &mut dirty.selections);
        }
    }

    fn put_workload(&mut self, said: StatedWorkload, dirty: &mut Dirty) {
        let StatedWorkload { device, node, labels, mut ports } = said;
        let Some(namespace) = device.namespace() else { return };
        self.meet(&namespace, dirty);
        ports.sort();
        let labels = self.share_labels(labels);
        let traits = self.identities.traits_among(&namespace, &labels, &ports);
        let identity = self.join(traits, dirty);
        let held = Held { node, labels, ports: ports.into(), identity };
        if let Some(before) = self.workloads.insert(device.clone(), held) {
            self.identities.leave(before.identity);
            self.forget_labels(&before.labels);
            dirty.is_left |= before.identity != identity;
        }
        dirty.workloads.insert(device);
    }

    fn drop_workload(&mut self, device: DeviceName, dirty: &mut Dirty) {
        if let Some(held) = self.workloads.remove(&device) {
            self.identities.leave(held.identity);
            self.forget_labels(&held.labels);
            dirty.workloads.insert(device);
            dirty.is_left = true;
        }
    }

    /// The identity of these traits, with one workload more.
    fn join(&mut self, traits: Traits, dirty: &mut Dirty) -> Identity {
        let (identity, new) = self.identities.join(traits);
        if let Some(traits) = new {
            let around = labels_of(&self.namespaces, &traits.namespace);
            self.selections.admit(identity, &traits, &around, &mut dirty.selections);
            self.rename(&traits, dirty);
        }
        identity
    }

    /// Policies that name a port which these traits have are resolved again.
    fn rename(&self, traits: &Traits, dirty: &mut Dirty) {
        for port in &traits.ports {
            let namers = self.namers.get(&(port.name.clone(), port.transport));
            dirty.renamed.extend(namers.into_iter().flatten().cloned());
        }
    }

    fn share_labels(&mut self, labels: Labels) -> Arc<Labels> {
        if let Some(known) = self.labels.get(&labels) {
            return Arc::clone(known);
        }
        let labels = Arc::new(labels);
        self.labels.insert(Arc::clone(&labels));
        labels
    }

    fn forget_labels(&mut self, labels: &Arc<Labels>) {
        // The table's, and the one in hand.
        if Arc::strong_count(labels) <= 2 {
            self.labels.remove(labels);
        }
    }

    /// Policies look at more than before: workloads that differ in it are told apart. All of an
    /// identity get other numbers then, also those that the old one would still describe: a node that
    /// has not heard of it yet uses the old one for the others, too.
    fn look_closer(&mut self, policy: &StatedPolicy, dirty: &mut Dirty) {
        let keys = policy.selectors().flat_map(Selector::keys);
        let keys = self.identities.look_at(keys);
        let names = self.identities.ask_for(policy.port_names().map(|(name, _)| name));
        if keys.is_empty() && names.is_empty() {
            return;
        }
        let concerned = |held: &Held| {
            keys.iter().any(|key| held.labels.contains_key(key))
                || held.ports.iter().any(|port| names.contains(&port.name))
        };
        let split: FxHashSet<Identity> = self
            .workloads
            .values()
            .filter(|held| concerned(held))
            .map(|held| held.identity)
            .collect();
        for identity in &split {
            self.identities.split(*identity);
        }
        let concerned = |(_, held): &(&DeviceName, &Held)| split.contains(&held.identity);
        let devices: Vec<DeviceName> =
            self.workloads.iter().filter(concerned).map(|(device, _)| device.clone()).collect();
        for device in devices {
            let Some(namespace) = device.namespace() else { continue };
            let Some(held) = self.workloads.get(&device) else { continue };
            let traits = self.identities.traits_among(&namespace, &held.labels, &held.ports);
            let before = held.identity;
            let identity = self.join(traits, dirty);
            self.identities.leave(before);
            if let Some(held) = self.workloads.get_mut(&device) {
                held.identity = identity;
            }
            dirty.workloads.insert(device);
            dirty.is_left = true;
        }
    }

    fn retire(&mut self, dirty: &mut Dirty) -> Vec<Identity> {
        let retired = self.identities.retire();
        for (identity, traits) in &retired {
            self.selections.dismiss(*identity, &mut dirty.selections);
            self.rename(traits, dirty);
        }
        retired.into_iter().map(|(identity, _)| identity).collect()
    }

    /// What is dirty, as changes.
    fn tell(&self, dirty: &Dirty) -> Vec<Change> {
        let mut changes = Vec::new();
        let put = |key: Key, object: Option<Object>| match object {
            Some(object) => Change::Put(object),
            None => Change::Delete(key),
        };
        for id in &dirty.selections {
            let selection = self.selections.object(*id).map(Object::Selection);
            changes.push(put(Key::Selection(*id), selection));
        }
        for name in &dirty.policies {
            let policy = self.policies.get(name).map(|held| Object::Policy(held.policy.clone()));
            changes.push(put(Key::Policy(name.clone()), policy));
        }
        for namespace in &dirty.guards {
            let is_guarded = self.guards.contains_key(namespace);
            let guard = is_guarded.then(|| Object::Guard(Guard { namespace: namespace.clone() }));
            changes.push(put(Key::Guard(namespace.clone()), guard));
        }
        for device in &dirty.workloads {
            let workload = self.workloads.get(device).and_then(|held| {
                let (node, identity) = (held.node.clone()?, held.identity);
                Some(Object::Workload(Workload { device: device.clone(), node, identity }))
            });
            changes.push(put(Key::Workload(device.clone()), workload));
        }
        changes
    }
}

/// A namespace's labels, with the one that all have.
fn labels_of(known: &FxHashMap<NamespaceName, Labels>, namespace: &NamespaceName) -> Labels {
    let mut labels = known.get(namespace).cloned().unwrap_or_default();
    labels.entry(NAME.to_owned()).or_insert_with(|| namespace.to_string());
    labels
}
