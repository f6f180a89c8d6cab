//! Selections: what each selector selects, once, however many policies have it.

use super::identities::Traits;
use osier_model::{Identity, Labels, NamedPort, NamespaceName, Selection, SelectionId, Selector};
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// What selects.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Choice {
    /// By labels.
    Labels {
        /// In which namespaces.
        scope: Scope,
        /// Who is like this.
        labels: Selector,
    },
    /// Who has such a port.
    Port(NamedPort),
    /// No workload: what comes by nodes.
    Nodes,
}

/// Namespaces.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Scope {
    /// One.
    One(NamespaceName),
    /// Those that are like this.
    Like(Selector),
}

/// A place where a choice is found by what it needs: a namespace and a label, as far as it names one.
type Anchor = (Option<NamespaceName>, Option<(String, String)>);

#[derive(Debug, Default)]
pub(super) struct Selections {
    ids: FxHashMap<Arc<Choice>, SelectionId>,
    table: BTreeMap<SelectionId, Selected>,
    anchors: FxHashMap<Anchor, FxHashSet<SelectionId>>,
    /// Choices by their selectors of namespaces.
    scopes: FxHashMap<Selector, FxHashSet<SelectionId>>,
    /// Who is where.
    of: FxHashMap<Identity, BTreeSet<SelectionId>>,
}

#[derive(Debug)]
struct Selected {
    choice: Arc<Choice>,
    members: BTreeSet<Identity>,
    users: u32,
}

// === impl Choice ===

impl Choice {
    pub(super) fn takes(&self, traits: &Traits, around: &Labels) -> bool {
        match self {
            Self::Labels { scope: Scope::One(namespace), labels } => {
                traits.namespace == *namespace && labels.takes(&traits.labels)
            }
            Self::Labels { scope: Scope::Like(namespaces), labels } => {
                namespaces.takes(around) && labels.takes(&traits.labels)
            }
            Self::Port(port) => traits.ports.contains(port),
            Self::Nodes => false,
        }
    }

    /// Where it is found; a choice of ports is found by itself.
    fn anchors(&self) -> Vec<Anchor> {
        let Self::Labels { scope, labels } = self else { return Vec::new() };
        let namespace = match scope {
            Scope::One(namespace) => Some(namespace.clone()),
            Scope::Like(_) => None,
        };
        let Some((key, values)) = labels.anchor() else { return vec![(namespace, None)] };
        let anchor = |value: &String| (namespace.clone(), Some((key.to_owned(), value.clone())));
        values.iter().map(anchor).collect()
    }
}

// === impl Selections ===

impl Selections {
    /// The selection of a choice, with one user more. `all` finds who is in it, if it is new.
    pub(super) fn acquire(
        &mut self,
        choice: Choice,
        all: impl FnOnce(&Choice) -> BTreeSet<Identity>,
        dirty: &mut BTreeSet<SelectionId>,
    ) -> SelectionId {
        if let Some(id) = self.ids.get(&choice).copied() {
            if let Some(selected) = self.table.get_mut(&id) {
                selected.users += 1;
            }
            return id;
        }
        let members = all(&choice);
        let id = self.id_of(&choice);
        for identity in &members {
            self.of.entry(*identity).or_default().insert(id);
        }
        for anchor in choice.anchors() {
            self.anchors.entry(anchor).or_default().insert(id);
        }
        if let Choice::Labels { scope: Scope::Like(namespaces), .. } = &choice {
            self.scopes.entry(namespaces.clone()).or_default().insert(id);
        }
        let choice = Arc::new(choice);
        self.ids.insert(Arc::clone(&choice), id);
        self.table.insert(id, Selected { choice, members, users: 1 });
        dirty.insert(id);
        id
    }

    /// A number for the choice: the same after a restart, but for the rare two that meet.
    fn id_of(&self, choice: &Choice) -> SelectionId {
        let mut hasher = FxHasher::default();
        choice.hash(&mut hasher);
        let mut id = SelectionId(hasher.finish());
        while self.table.contains_key(&id) {
            id = SelectionId(id.0.wrapping_add(1));
        }
        id
    }

    /// One user less.
    pub(super) fn release(&mut self, id: SelectionId, dirty: &mut BTreeSet<SelectionId>) {
        let Some(selected) = self.table.get_mut(&id) else { return };
        selected.users -= 1;
        if selected.users > 0 {
            return;
        }
        let Some(Selected { choice, members, .. }) = self.table.remove(&id) else { return };
        self.ids.remove(&choice);
        for identity in members {
            remove(&mut self.of, &identity, |of| {
                of.remove(&id);
                of.is_empty()
            });
        }
        for anchor in choice.anchors() {
            remove(&mut self.anchors, &anchor, |found| {
                found.remove(&id);
                found.is_empty()
            });
        }
        if let Choice::Labels { scope: Scope::Like(namespaces), .. } = choice.as_ref() {
            remove(&mut self.scopes, namespaces, |found| {
                found.remove(&id);
                found.is_empty()
            });
        }
        dirty.insert(id);
    }

    /// Somebody new.
    pub(super) fn admit(
        &mut self,
        identity: Identity,
        traits: &Traits,
        around: &Labels,
        dirty: &mut BTreeSet<SelectionId>,
    ) {
        for id in self.candidates(traits) {
            if self.table.get(&id).is_some_and(|s| s.choice.takes(traits, around)) {
                self.enter(id, identity, dirty);
            }
        }
    }

    /// Who could be of them, without looking at others.
    fn candidates(&self, traits: &Traits) -> Vec<SelectionId> {
        let mut found = Vec::new();
        for namespace in [Some(traits.namespace.clone()), None] {
            let labels = traits.labels.iter().map(|(k, v)| Some((k.clone(), v.clone())));
            for label in labels.chain([None]) {
                let there = self.anchors.get(&(namespace.clone(), label));
                found.extend(there.into_iter().flatten());
            }
        }
        let ports = traits.ports.iter().filter_map(|p| self.ids.get(&Choice::Port(p.clone())));
        found.extend(ports);
        found
    }

    fn enter(&mut self, id: SelectionId, identity: Identity, dirty: &mut BTreeSet<SelectionId>) {
        if self.table.get_mut(&id).is_some_and(|selected| selected.members.insert(identity)) {
            self.of.entry(identity).or_default().insert(id);
            dirty.insert(id);
        }
    }

    /// Somebody is forgotten.
    pub(super) fn dismiss(&mut self, identity: Identity, dirty: &mut BTreeSet<SelectionId>) {
        for id in self.of.remove(&identity).into_iter().flatten() {
            if let Some(selected) = self.table.get_mut(&id) {
                selected.members.remove(&identity);
            }
            dirty.insert(id);
        }
    }

    /// A namespace has other labels; `there` is who is in it.
    pub(super) fn relabel(
        &mut self,
        (before, after): (&Labels, &Labels),
        there: &[(Identity, &Arc<Traits>)],
        is_split: impl Fn(Identity) -> bool,
        dirty: &mut BTreeSet<SelectionId>,
    ) {
        let moved =
            |(namespaces, _): &(&Selector, _)| namespaces.takes(before) != namespaces.takes(after);
        let moved: Vec<SelectionId> =
            self.scopes.iter().filter(moved).flat_map(|(_, ids)| ids.iter().copied()).collect();
        for id in moved {
            let Some(choice) = self.table.get(&id).map(|selected| Arc::clone(&selected.choice))
            else {
                continue;
            };
            for (identity, traits) in there {
                if choice.takes(traits, after) {
                    if !is_split(*identity) {
                        self.enter(id, *identity, dirty);
                    }
                } else if self.table.get_mut(&id).is_some_and(|s| s.members.remove(identity)) {
                    remove(&mut self.of, identity, |of| {
                        of.remove(&id);
                        of.is_empty()
                    });
                    dirty.insert(id);
                }
            }
        }
    }

    pub(super) fn members(&self, id: SelectionId) -> Option<&BTreeSet<Identity>> {
        self.table.get(&id).map(|selected| &selected.members)
    }

    pub(super) fn object(&self, id: SelectionId) -> Option<Selection> {
        let members = self.members(id)?.clone();
        Some(Selection { id, members, addresses: BTreeSet::new() })
    }
}

/// Changes an entry, which goes if that says so.
fn remove<K: Hash + Eq, V>(
    map: &mut FxHashMap<K, V>,
    key: &K,
    change: impl FnOnce(&mut V) -> bool,
) {
    if map.get_mut(key).is_some_and(change) {
        map.remove(key);
    }
}
