//! What is wanted of the database, by owner, and which places are to be compared with it. Pure; the
//! cost of a change is that of its own places.
//!
//! [`Desired::transact`] takes plans and [`Desired::follow`] and [`Desired::compare`] what the
//! database tells; each marks places. `diff.rs` makes operations of marked places.

use super::error::{PutError, Trouble};
use super::item::{Item, Key, items};
use super::mirror::Mirror;
use super::ownership::{Ownership, string};
use super::plan::{Owner, Plan, Transaction};
use osier_ovsdb::cache::{RowChange, Snapshot};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is wanted of a database, and what is there.
#[derive(Debug)]
pub(super) struct Desired {
    pub(super) ownership: Ownership,
    pub(super) mirror: Mirror,
    pub(super) entries: FxHashMap<Key, Entry>,
    owners: FxHashMap<Owner, Vec<Key>>,
    /// The port in which an interface is wanted.
    interfaces: FxHashMap<Arc<str>, Arc<str>>,
    /// Wanted settings.
    settings: FxHashSet<Key>,
    /// Places to compare, and why.
    pub(super) marked: BTreeMap<Key, Cause>,
    pub(super) troubles: FxHashMap<Key, Arc<Trouble>>,
}

/// What is wanted in one place.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) item: Item,
    pub(super) owners: Vec<Owner>,
    /// Whether the database held it, the last time it was compared.
    pub(super) settled: bool,
}

/// Why a place is to be compared. The last one wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cause {
    /// The database told something about it.
    Seen,
    /// What is wanted there has changed.
    Wanted,
}

/// Plans that fit together: what each place gets.
type Claims = FxHashMap<Key, (Item, Vec<Owner>)>;

impl Desired {
    /// Nothing is wanted, and nothing is known.
    pub(super) fn new(ownership: Ownership) -> Self {
        Self {
            mirror: Mirror::new(ownership.clone()),
            ownership,
            entries: FxHashMap::default(),
            owners: FxHashMap::default(),
            interfaces: FxHashMap::default(),
            settings: FxHashSet::default(),
            marked: BTreeMap::new(),
            troubles: FxHashMap::default(),
        }
    }

    /// Whether all that differs has been sent, or is in trouble.
    pub(super) fn is_settled(&self) -> bool {
        self.marked.is_empty()
    }

    /// What is wanted and is not so.
    pub(super) fn troubles(&self) -> impl Iterator<Item = &Arc<Trouble>> {
        self.troubles.values()
    }

    /// Takes a whole database: all places are to be compared.
    pub(super) fn compare(&mut self, snapshot: &Snapshot) {
        self.mirror.replace(snapshot);
        self.compare_again();
    }

    /// All places are to be compared.
    pub(super) fn compare_again(&mut self) {
        self.troubles.clear();
        let wanted: Vec<_> = self.entries.keys().cloned().collect();
        for key in self.mirror.ours().into_iter().chain(wanted) {
            self.mark(key, Cause::Seen);
        }
    }

    /// Takes changes of the database: the places that they are about are to be compared.
    pub(super) fn follow(&mut self, changes: &[RowChange]) {
        for key in self.mirror.apply(changes) {
            if let Key::Bridge(name) = &key {
                self.mark_waiting(name);
            }
            self.mark(key, Cause::Seen);
        }
        for change in changes {
            match &**change.table() {
                "Interface" => {
                    // Its name may be wanted in another port.
                    let port =
                        string(change.row(), "name").and_then(|name| self.interfaces.get(name));
                    if let Some(port) = port {
                        self.mark(Key::Port(Arc::clone(port)), Cause::Seen);
                    }
                }
                "Open_vSwitch" if settings_differ(change) => {
                    for key in self.settings.iter().cloned().collect::<Vec<_>>() {
                        self.mark(key, Cause::Seen);
                    }
                }
                _ => {}
            }
        }
    }

    /// Takes new plans in place of those that their owners had, all or none. Gives the places that
    /// they are about. Of an owner that stands twice, the last plan counts.
    pub(super) fn transact(&mut self, transaction: Transaction) -> Result<Vec<Key>, PutError> {
        let plans: FxHashMap<Owner, Plan> = transaction.plans.into_iter().collect();
        let claims = self.claims(&plans)?;
        self.check_interfaces(&plans, &claims)?;
        let mut places: FxHashSet<Key> = claims.keys().cloned().collect();
        for owner in plans.keys() {
            for key in self.owners.remove(owner).unwrap_or_default() {
                if let Some(entry) = self.entries.get_mut(&key) {
                    entry.owners.retain(|other| other != owner);
                }
                places.insert(key);
            }
        }
        for (key, (item, owners)) in claims {
            self.claim(key, item, owners);
        }
        for key in &places {
            if self.entries.get(key).is_some_and(|entry| entry.owners.is_empty()) {
                self.release(key);
            }
        }
        let mut places: Vec<_> = places.into_iter().collect();
        places.sort_unstable();
        Ok(places)
    }

    /// Marks a place.
    pub(super) fn mark(&mut self, key: Key, cause: Cause) {
        self.troubles.remove(&key);
        let held = self.marked.entry(key).or_insert(cause);
        *held = cause.max(*held);
    }

    /// Who wants what is in a place; for errors.
    pub(super) fn owner(&self, key: &Key) -> Owner {
        let owners = self.entries.get(key).map(|entry| entry.owners.as_slice());
        owners.and_then(<[_]>::first).cloned().unwrap_or_else(|| Owner::new("nobody"))
    }

    fn claims(&self, plans: &FxHashMap<Owner, Plan>) -> Result<Claims, PutError> {
        let mut claims = Claims::default();
        for (owner, plan) in plans {
            for (key, item) in items(owner, plan, &self.ownership)? {
                let clash = |other: &Owner| PutError::Clash {
                    owner: owner.clone(),
                    other: other.clone(),
                    place: key.to_string(),
                };
                if let Some(entry) = self.entries.get(&key)
                    && entry.item != item
                    && let Some(other) = entry.owners.iter().find(|o| !plans.contains_key(*o))
                {
                    return Err(clash(other));
                }
                match claims.get_mut(&key) {
                    Some((found, owners)) if *found == item => {
                        if !owners.contains(owner) {
                            owners.push(owner.clone());
                        }
                    }
                    Some((_, owners)) => return Err(clash(&owners[0])),
                    None => {
                        claims.insert(key, (item, vec![owner.clone()]));
                    }
                }
            }
        }
        Ok(claims)
    }

    /// Whether each interface is wanted in one port only.
    fn check_interfaces(
        &self,
        plans: &FxHashMap<Owner, Plan>,
        claims: &Claims,
    ) -> Result<(), PutError> {
        let mut claimed: FxHashMap<&Arc<str>, &Arc<str>> = FxHashMap::default();
        for (key, (item, owners)) in claims {
            let (Key::Port(port), Item::Port(item)) = (key, item) else { continue };
            for (interface, _) in &item.interfaces {
                let clash = |other: &Arc<str>| PutError::InterfaceClash {
                    owner: owners[0].clone(),
                    interface: interface.to_string(),
                    port: port.to_string(),
                    other: other.to_string(),
                };
                if let Some(other) = claimed.insert(interface, port) {
                    return Err(clash(other));
                }
                // A port that changes too is among the claims, or goes.
                let held = self.interfaces.get(interface).filter(|other| *other != port);
                if let Some(other) = held
                    && let Some(entry) = self.entries.get(&Key::Port(Arc::clone(other)))
                    && entry.owners.iter().any(|owner| !plans.contains_key(owner))
                {
                    return Err(clash(other));
                }
            }
        }
        Ok(())
    }

    fn claim(&mut self, key: Key, item: Item, owners: Vec<Owner>) {
        for owner in &owners {
            self.owners.entry(owner.clone()).or_default().push(key.clone());
        }
        let unchanged = |entry: &&mut Entry| entry.item == item;
        if let Some(entry) = self.entries.get_mut(&key).filter(unchanged) {
            entry.owners.extend(owners);
            if self.troubles.contains_key(&key) {
                self.mark(key, Cause::Wanted);
            }
            return;
        }
        let shared = self.release(&key).map(|entry| entry.owners).unwrap_or_default();
        if let (Key::Port(name), Item::Port(port)) = (&key, &item) {
            for (interface, _) in &port.interfaces {
                self.interfaces.insert(Arc::clone(interface), Arc::clone(name));
            }
        }
        if matches!(key, Key::Setting(..)) {
            self.settings.insert(key.clone());
        }
        let owners = shared.into_iter().chain(owners).collect();
        self.entries.insert(key.clone(), Entry { item, owners, settled: false });
        self.mark(key, Cause::Wanted);
    }

    /// What is wanted in a place is wanted no more.
    fn release(&mut self, key: &Key) -> Option<Entry> {
        let entry = self.entries.remove(key)?;
        if let (Key::Port(name), Item::Port(port)) = (key, &entry.item) {
            for (interface, _) in &port.interfaces {
                if self.interfaces.get(interface) == Some(name) {
                    self.interfaces.remove(interface);
                }
            }
        }
        self.settings.remove(key);
        self.mark(key.clone(), Cause::Wanted);
        Some(entry)
    }

    /// Marks ports that wait for a bridge.
    fn mark_waiting(&mut self, name: &str) {
        let waits = |trouble: &Trouble| matches!(trouble, Trouble::NoBridge { bridge, .. } if bridge == name);
        let waiting = self.troubles.iter().filter(|(_, trouble)| waits(trouble));
        for key in waiting.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.mark(key, Cause::Wanted);
        }
    }
}

fn settings_differ(change: &RowChange) -> bool {
    let (Some(old), Some(new)) = (&change.old, &change.new) else { return true };
    ["other_config", "external_ids"].iter().any(|column| old.get(column) != new.get(column))
}
