//! From marked places to the operations of one transaction: only what differs, and nothing of
//! others. A place that cannot be made as wanted is left out, with the reason.
//!
//! Guards: a bridge to which ports are added must still be there, else they would silently go as
//! unreferenced rows do. That a name is still free is the database's own constraint.

mod port;
mod root;

use super::desired::{Cause, Desired, Entry};
use super::error::Trouble;
use super::item::{Item, Key};
use super::mirror::{Mirror, references};
use super::ownership::{Ownership, string, text};
use super::wants::{RowDiff, Wants};
use osier_ovsdb::error::OperationError;
use osier_ovsdb::op::Until;
use osier_ovsdb::{Atom, Condition, Fields, Mutation, Operation, Row, Transaction, Uuid, Value};
use root::Settings;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A transaction that makes places as wanted.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) transaction: Transaction,
    /// The place that each operation is for, if it is for one.
    pub(super) origins: Vec<Option<Key>>,
    pub(super) places: Vec<Place>,
    pub(super) effects: Effects,
}

/// A place that a batch changes.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) key: Key,
    pub(super) cause: Cause,
    /// Whether somebody else made it differ.
    pub(super) repair: bool,
}

/// What a batch does, for counting.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Effects {
    pub(super) inserted: u64,
    pub(super) updated: u64,
    pub(super) deleted: u64,
}

/// Why a place cannot be made as wanted.
#[derive(Debug)]
pub(super) enum Obstacle {
    Foreign { table: &'static str, name: String, row: Uuid },
    NoBridge(String),
    Kept { port: String, row: Uuid },
    Taken { found: String, row: Uuid },
}

/// The operations so far.
pub(super) struct Build<'a> {
    pub(super) ownership: &'a Ownership,
    pub(super) mirror: &'a Mirror,
    entries: &'a FxHashMap<Key, Entry>,
    operations: Vec<(Operation, Option<Key>)>,
    /// The place at which we are.
    pub(super) place: Option<Key>,
    new_bridges: BTreeMap<Arc<str>, (Key, Fields)>,
    gone_bridges: BTreeSet<Uuid>,
    /// Ports that come to bridges, by name, and go from them.
    added_ports: BTreeMap<Arc<str>, Vec<Atom>>,
    removed_ports: BTreeMap<Uuid, Vec<Atom>>,
    settings: Settings,
    pub(super) effects: Effects,
}

// === impl Desired ===

impl Desired {
    /// The operations for up to `most` marked places that `ready` accepts; their marks go. `None`
    /// if nothing differs.
    pub(super) fn batch(&mut self, most: usize, ready: impl Fn(&Key) -> bool) -> Option<Batch> {
        let marked: Vec<_> = self.marked.iter().map(|(key, cause)| (key.clone(), *cause)).collect();
        let (mut places, mut obstacles, mut settled) = (Vec::new(), Vec::new(), Vec::new());
        let mut build = Build::new(self);
        for (key, cause) in marked {
            if places.len() >= most {
                break;
            }
            if !ready(&key) {
                continue;
            }
            let before = build.effects;
            build.place = Some(key.clone());
            match build.compare(&key) {
                Err(obstacle) => obstacles.push((key, obstacle)),
                Ok(()) if build.effects == before => settled.push(key),
                Ok(()) => {
                    let settled = self.entries.get(&key).is_none_or(|entry| entry.settled);
                    places.push(Place { key, cause, repair: settled && cause == Cause::Seen });
                }
            }
        }
        let batch = build.finish(places);
        for key in settled {
            self.marked.remove(&key);
            if let Some(entry) = self.entries.get_mut(&key) {
                entry.settled = true;
            }
        }
        for (key, obstacle) in obstacles {
            self.marked.remove(&key);
            self.obstruct(key, obstacle);
        }
        for place in batch.iter().flat_map(|batch| &batch.places) {
            self.marked.remove(&place.key);
        }
        batch
    }

    /// The batch was not done: its places differ as before.
    pub(super) fn undone(&mut self, batch: Batch) {
        for place in batch.places {
            self.mark(place.key, place.cause);
        }
    }

    /// The database will not have what is wanted in a place.
    pub(super) fn refuse(&mut self, key: &Key, error: &OperationError) {
        let (owner, place) = (self.owner(key), key.to_string());
        self.marked.remove(key);
        if let Some(entry) = self.entries.get_mut(key) {
            entry.settled = false;
        }
        let trouble = Trouble::Refused { owner, place, error: error.clone() };
        self.troubles.insert(key.clone(), Arc::new(trouble));
    }

    fn obstruct(&mut self, key: Key, obstacle: Obstacle) {
        let (owner, place) = (self.owner(&key), key.to_string());
        let trouble = match obstacle {
            Obstacle::Foreign { table, name, row } => {
                Trouble::Conflict { owner, place, table, name, row }
            }
            Obstacle::NoBridge(bridge) => Trouble::NoBridge { owner, place, bridge },
            Obstacle::Kept { port, row } => Trouble::Kept { place, port, row },
            Obstacle::Taken { found, row } => {
                let item = self.entries.get(&key).map(|entry| &entry.item);
                let wanted = match item {
                    Some(Item::Setting(value)) => text(value).unwrap_or_default().to_owned(),
                    _ => String::new(),
                };
                Trouble::Taken { owner, place, wanted, found, row }
            }
        };
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.settled = false;
        }
        self.troubles.insert(key, Arc::new(trouble));
    }
}

// === impl Batch ===

impl Batch {
    /// The same, behind what has to hold for it.
    pub(super) fn guarded(mut self, guards: &[Operation]) -> Self {
        self.transaction = self.transaction.guarded(guards);
        self.origins.splice(0..0, guards.iter().map(|_| None));
        self
    }
}

// === impl Build ===

impl<'a> Build<'a> {
    fn new(desired: &'a Desired) -> Self {
        Self {
            ownership: &desired.ownership,
            mirror: &desired.mirror,
            entries: &desired.entries,
            operations: Vec::new(),
            place: None,
            new_bridges: BTreeMap::new(),
            gone_bridges: BTreeSet::new(),
            added_ports: BTreeMap::new(),
            removed_ports: BTreeMap::new(),
            settings: Settings::default(),
            effects: Effects::default(),
        }
    }

    fn compare(&mut self, key: &Key) -> Result<(), Obstacle> {
        let item = self.entries.get(key).map(|entry| &entry.item);
        match (key, item) {
            (Key::Bridge(name), Some(Item::Bridge(wants))) => self.put_bridge(name, wants),
            (Key::Bridge(name), _) => self.remove_bridge(name),
            (Key::Port(name), Some(Item::Port(port))) => self.put_port(name, port),
            (Key::Port(name), _) => {
                self.remove_port(name);
                Ok(())
            }
            (Key::Setting(column, name), Some(Item::Setting(value))) => {
                self.put_setting(*column, name, value)
            }
            (Key::Setting(column, name), _) => {
                self.remove_setting(*column, name);
                Ok(())
            }
        }
    }

    fn put_bridge(&mut self, name: &Arc<str>, wants: &Wants) -> Result<(), Obstacle> {
        match self.mirror.bridges.named(name) {
            None => {
                let mut fields = wants.fields();
                fields.push(("name".into(), (&**name).into()));
                self.new_bridges.insert(Arc::clone(name), (Key::Bridge(Arc::clone(name)), fields));
                self.effects.inserted += 1;
            }
            Some(row) if self.mirror.is_ours(row) => {
                self.update(row, wants.diff(row, self.ownership));
            }
            Some(row) => return Err(foreign("Bridge", name, row)),
        }
        Ok(())
    }

    /// A bridge takes its ports along, so none may be of others, or wanted.
    fn remove_bridge(&mut self, name: &Arc<str>) -> Result<(), Obstacle> {
        let Some(row) = self.mirror.bridges.named(name).filter(|row| self.mirror.is_ours(row))
        else {
            return Ok(());
        };
        for port in references(row, "ports").filter_map(|port| self.mirror.ports.get(port)) {
            let port_name = string(port, "name").unwrap_or_default();
            let entry = self.entries.get(&Key::Port(port_name.into())).map(|entry| &entry.item);
            let wanted = matches!(entry, Some(Item::Port(port)) if port.bridge == *name);
            if wanted || !self.mirror.is_ours(port) {
                return Err(Obstacle::Kept { port: port_name.to_owned(), row: port.uuid() });
            }
        }
        self.gone_bridges.insert(row.uuid());
        self.effects.deleted += 1;
        Ok(())
    }

    fn is_wanted(&self, key: &Key) -> bool {
        self.entries.contains_key(key)
    }

    /// Whether there is a bridge of this name, behind what is done so far.
    fn has_bridge(&self, name: &str) -> bool {
        let row = self.mirror.bridges.named(name);
        self.new_bridges.contains_key(name)
            || row.is_some_and(|row| !self.gone_bridges.contains(&row.uuid()))
    }

    /// Adds a port to a bridge.
    fn attach(&mut self, bridge: &Arc<str>, port: Atom) {
        self.added_ports.entry(Arc::clone(bridge)).or_default().push(port);
        self.effects.updated += 1;
    }

    /// Takes a port from the bridges that have it, except one.
    fn detach(&mut self, port: Uuid, except: Option<&str>) {
        let mirror = self.mirror;
        for bridge in mirror.bridges_with(port) {
            let stays = except.is_some() && string(bridge, "name") == except;
            if !stays && !self.gone_bridges.contains(&bridge.uuid()) {
                self.removed_ports.entry(bridge.uuid()).or_default().push(port.into());
                self.effects.updated += 1;
            }
        }
    }

    /// Changes a row.
    fn update(&mut self, row: &Row, diff: RowDiff) {
        let (table, conditions) = (row.table().to_string(), vec![Condition::uuid(row.uuid())]);
        if !(diff.update.is_empty() && diff.mutations.is_empty()) {
            self.effects.updated += 1;
        }
        if !diff.update.is_empty() {
            let (table, conditions) = (table.clone().into(), conditions.clone());
            self.push(Operation::Update { table, conditions, row: diff.update });
        }
        if !diff.mutations.is_empty() {
            let mutations = diff.mutations;
            self.push(Operation::Mutate { table: table.into(), conditions, mutations });
        }
    }

    /// Inserts a row, and gives how to refer to it.
    fn insert(&mut self, table: &'static str, row: Fields) -> Atom {
        let name = format!("row{}", self.operations.len());
        let reference = Atom::NamedUuid(name.as_str().into());
        let name = Some(name.into());
        self.push(Operation::Insert { table: table.into(), row, name, uuid: None });
        self.effects.inserted += 1;
        reference
    }

    /// Deletes a row that nothing holds.
    fn delete(&mut self, table: &'static str, row: Uuid) {
        let conditions = vec![Condition::uuid(row)];
        self.push(Operation::Delete { table: table.into(), conditions });
        self.effects.deleted += 1;
    }

    fn push(&mut self, operation: Operation) {
        self.operations.push((operation, self.place.clone()));
    }

    /// The transaction. Bridges come behind their ports, and the switch's row behind its bridges.
    fn finish(mut self, places: Vec<Place>) -> Option<Batch> {
        if places.is_empty() {
            return None;
        }
        let mut bridges = Vec::new();
        for (name, (key, mut fields)) in std::mem::take(&mut self.new_bridges) {
            let ports = self.added_ports.remove(&name).unwrap_or_default();
            fields.push(("ports".into(), Value::set(ports)));
            self.place = Some(key);
            bridges.push(self.insert("Bridge", fields));
            self.effects.inserted -= 1;
        }
        self.place = None;
        let guards = self.change_ports();
        self.change_root(bridges);
        let mut transaction = Transaction::new("make the database as wanted");
        let mut origins = Vec::with_capacity(guards.len() + self.operations.len());
        let guards = guards.into_iter().map(|guard| (guard, None));
        for (operation, origin) in guards.chain(self.operations) {
            transaction.push(operation);
            origins.push(origin);
        }
        Some(Batch { transaction, origins, places, effects: self.effects })
    }

    /// Adds ports to bridges and takes them away; gives what must hold for that.
    fn change_ports(&mut self) -> Vec<Operation> {
        let mirror = self.mirror;
        let mut guards = Vec::new();
        let mut changes: BTreeMap<Uuid, Vec<Mutation>> = BTreeMap::new();
        for (bridge, ports) in std::mem::take(&mut self.removed_ports) {
            changes.entry(bridge).or_default().push(Mutation::delete("ports", Value::set(ports)));
        }
        for (name, ports) in std::mem::take(&mut self.added_ports) {
            let Some(bridge) = mirror.bridges.named(&name) else { continue };
            let insertion = Mutation::insert("ports", Value::set(ports));
            changes.entry(bridge.uuid()).or_default().push(insertion);
            guards.push(Operation::Wait {
                table: "Bridge".into(),
                timeout: Some(0),
                conditions: vec![Condition::uuid(bridge.uuid())],
                columns: Some(vec!["name".into()]),
                until: Until::Equal,
                rows: vec![vec![("name".into(), (&*name).into())]],
            });
        }
        for (bridge, mutations) in changes {
            let conditions = vec![Condition::uuid(bridge)];
            self.push(Operation::Mutate { table: "Bridge".into(), conditions, mutations });
        }
        guards
    }
}

fn foreign(table: &'static str, name: &str, row: &Row) -> Obstacle {
    Obstacle::Foreign { table, name: name.to_owned(), row: row.uuid() }
}
