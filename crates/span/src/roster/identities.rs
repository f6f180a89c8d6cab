//! Identities: numbers for what workloads are to policies.

use osier_model::{Identity, Labels, NamedPort, NamespaceName};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// The last number: the bits above are of clusters.
const LAST: u32 = (1 << 28) - 1;
/// How far behind the highest number known a new start begins: more may have been given than was
/// remembered when the last one ended, and no number is given twice.
const LEAP: u32 = 4096;
/// Identities that nobody has are kept, for who comes back: this many, and one for every eight that
/// somebody has.
const SPARE: usize = 128;

/// What workloads with one identity have in common.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Traits {
    /// Their namespace.
    pub namespace: NamespaceName,
    /// Their labels that some policy looks at.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// Their ports that some policy names.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub ports: BTreeSet<NamedPort>,
}

#[derive(Debug)]
pub(super) struct Identities {
    numbers: FxHashMap<Arc<Traits>, Identity>,
    known: FxHashMap<Identity, Known>,
    by_namespace: FxHashMap<NamespaceName, FxHashSet<Identity>>,
    /// Keys of labels, and names of ports, that matter.
    keys: FxHashSet<String>,
    names: FxHashSet<String>,
    next: u32,
    given: Vec<(Identity, Arc<Traits>)>,
    /// When which was left by its last workload, the earliest first; somebody may have it again.
    left: VecDeque<(Identity, u64)>,
    leavings: u64,
    unused: usize,
}

#[derive(Debug)]
struct Known {
    traits: Arc<Traits>,
    workloads: u32,
    left: u64,
    /// It stood for workloads that are told apart now. Nodes that have not heard of that still use
    /// it, so it stays where it was selected, and is selected nowhere else.
    is_split: bool,
}

// === impl Identities ===

impl Default for Identities {
    fn default() -> Self {
        Self {
            numbers: FxHashMap::default(),
            known: FxHashMap::default(),
            by_namespace: FxHashMap::default(),
            keys: FxHashSet::default(),
            names: FxHashSet::default(),
            next: Identity::FIRST.0,
            given: Vec::new(),
            left: VecDeque::new(),
            leavings: 0,
            unused: 0,
        }
    }
}

impl Identities {
    pub(super) fn recall(&mut self, identity: Identity, traits: Arc<Traits>) {
        // What mattered once goes on to matter, or numbers would be others after a restart.
        self.keys.extend(traits.labels.keys().cloned());
        self.names.extend(traits.ports.iter().map(|port| port.name.clone()));
        if self.known.contains_key(&identity) || self.numbers.contains_key(&traits) {
            return;
        }
        self.next = self.next.max(identity.0.saturating_add(LEAP));
        self.learn(identity, traits);
        self.note_left(identity);
    }

    fn note_left(&mut self, identity: Identity) {
        self.leavings += 1;
        self.unused += 1;
        if let Some(known) = self.known.get_mut(&identity) {
            known.left = self.leavings;
        }
        self.left.push_back((identity, self.leavings));
        if self.left.len() > 1024 + 2 * self.known.len() {
            let known = &self.known;
            self.left.retain(|(identity, at)| known.get(identity).is_some_and(|k| k.left == *at));
        }
    }

    /// Of a workload's traits, those that matter.
    pub(super) fn traits_among(
        &self,
        namespace: &NamespaceName,
        labels: &Labels,
        ports: &[NamedPort],
    ) -> Traits {
        let matters = |(key, _): &(&String, &String)| self.keys.contains(*key);
        let labels = labels.iter().filter(matters).map(|(k, v)| (k.clone(), v.clone())).collect();
        let ports = ports.iter().filter(|port| self.names.contains(&port.name)).cloned().collect();
        Traits { namespace: namespace.clone(), labels, ports }
    }

    /// Keys begin to matter; those that did not before.
    pub(super) fn look_at<'a>(&mut self, keys: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
        begin(&mut self.keys, keys)
    }

    /// The same, for names of ports.
    pub(super) fn ask_for<'a>(&mut self, names: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
        begin(&mut self.names, names)
    }

    /// The identity of traits, with one workload more; and the traits, if it is new.
    pub(super) fn join(&mut self, traits: Traits) -> (Identity, Option<Arc<Traits>>) {
        if let Some(identity) = self.numbers.get(&traits).copied() {
            if let Some(known) = self.known.get_mut(&identity) {
                self.unused -= usize::from(known.workloads == 0);
                known.workloads += 1;
            }
            return (identity, None);
        }
        let (identity, traits) = (self.number(), Arc::new(traits));
        self.learn(identity, Arc::clone(&traits));
        if let Some(known) = self.known.get_mut(&identity) {
            known.workloads = 1;
        }
        self.given.push((identity, Arc::clone(&traits)));
        (identity, Some(traits))
    }

    fn learn(&mut self, identity: Identity, traits: Arc<Traits>) {
        self.numbers.insert(Arc::clone(&traits), identity);
        self.by_namespace.entry(traits.namespace.clone()).or_default().insert(identity);
        let known = Known { traits, workloads: 0, left: 0, is_split: false };
        self.known.insert(identity, known);
    }

    /// One after the other, so that a number is given again only after all others were.
    fn number(&mut self) -> Identity {
        loop {
            let number = if self.next > LAST { Identity::FIRST.0 } else { self.next };
            self.next = number + 1;
            if !self.known.contains_key(&Identity(number)) {
                return Identity(number);
            }
        }
    }

    /// One workload less.
    pub(super) fn leave(&mut self, identity: Identity) {
        let Some(known) = self.known.get_mut(&identity) else { return };
        known.workloads -= 1;
        if known.workloads == 0 {
            self.note_left(identity);
        }
    }

    /// Its workloads are told apart from now on: nobody gets it any more.
    pub(super) fn split(&mut self, identity: Identity) {
        if let Some(known) = self.known.get_mut(&identity) {
            known.is_split = true;
            self.numbers.remove(&known.traits);
        }
    }

    pub(super) fn is_split(&self, identity: Identity) -> bool {
        self.known.get(&identity).is_some_and(|known| known.is_split)
    }

    /// Forgets those that were left first, if there are many.
    pub(super) fn retire(&mut self) -> Vec<(Identity, Arc<Traits>)> {
        let mut retired = Vec::new();
        while self.unused > SPARE + (self.known.len() - self.unused) / 8 {
            let Some((identity, at)) = self.left.pop_front() else { break };
            let is_it = |known: &Known| known.workloads == 0 && known.left == at;
            if !self.known.get(&identity).is_some_and(is_it) {
                continue;
            }
            let Some(known) = self.known.remove(&identity) else { continue };
            self.unused -= 1;
            if !known.is_split {
                self.numbers.remove(&known.traits);
            }
            if let Some(there) = self.by_namespace.get_mut(&known.traits.namespace) {
                there.remove(&identity);
                if there.is_empty() {
                    self.by_namespace.remove(&known.traits.namespace);
                }
            }
            retired.push((identity, known.traits));
        }
        retired
    }

    pub(super) fn take_given(&mut self) -> Vec<(Identity, Arc<Traits>)> {
        std::mem::take(&mut self.given)
    }

    pub(super) fn traits(&self, identity: Identity) -> Option<&Arc<Traits>> {
        self.known.get(&identity).map(|known| &known.traits)
    }

    /// Those of a namespace.
    pub(super) fn in_namespace(&self, namespace: &NamespaceName) -> Vec<(Identity, &Arc<Traits>)> {
        let there = self.by_namespace.get(namespace).into_iter().flatten();
        there.filter_map(|identity| Some((*identity, self.traits(*identity)?))).collect()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Identity, &Arc<Traits>)> {
        self.known.iter().map(|(identity, known)| (*identity, &known.traits))
    }

    pub(super) fn namespaces(&self) -> impl Iterator<Item = &NamespaceName> {
        self.by_namespace.keys()
    }
}

fn begin<'a>(
    known: &mut FxHashSet<String>,
    words: impl Iterator<Item = &'a str>,
) -> BTreeSet<String> {
    let new: BTreeSet<String> =
        words.filter(|word| !known.contains(*word)).map(str::to_owned).collect();
    known.extend(new.iter().cloned());
    new
}
