//! The database as last seen, by the names that plans use. Each change costs its own row; which
//! places it is about is told, so that only those are compared again.

use super::item::Key;
use super::ownership::{Ownership, external_id, string};
use super::plan::SettingColumn;
use osier_ovsdb::cache::{RowChange, Snapshot};
use osier_ovsdb::monitor::Monitor;
use osier_ovsdb::{Atom, Row, Uuid, Value};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// What a session must follow for a reconciler.
pub fn monitor() -> Monitor {
    const MAPS: [&str; 2] = ["external_ids", "other_config"];
    let columns = |monitor: Monitor, table: &'static str, columns: &[&'static str]| {
        monitor.columns(table, &[&MAPS, columns].concat())
    };
    let monitor = columns(Monitor::new(), "Open_vSwitch", &["bridges", "cur_cfg", "next_cfg"]);
    let bridge = ["name", "ports", "datapath_type", "fail_mode", "protocols"];
    let monitor = columns(monitor, "Bridge", &bridge);
    let port = ["name", "interfaces", "qos", "tag", "trunks", "vlan_mode", "bond_mode", "lacp"];
    let monitor = columns(monitor, "Port", &port);
    let interface =
        ["name", "type", "options", "ofport_request", "mtu_request", "mac", "ofport", "error"];
    let monitor = columns(monitor, "Interface", &interface);
    let monitor = columns(monitor, "QoS", &["type", "queues"]);
    columns(monitor, "Queue", &["dscp"])
}

/// Rows by identity and by name.
#[derive(Debug, Default)]
pub(super) struct Table {
    rows: FxHashMap<Uuid, Arc<Row>>,
    names: FxHashMap<Arc<str>, Uuid>,
}

/// The rows that are for a port and do not go with it.
#[derive(Debug, Default, Clone)]
pub(super) struct Tagged {
    pub(super) qos: Vec<Uuid>,
    pub(super) queues: Vec<Uuid>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Mirror {
    ownership: Ownership,
    pub(super) root: Option<Arc<Row>>,
    pub(super) bridges: Table,
    pub(super) ports: Table,
    pub(super) interfaces: Table,
    pub(super) qos: Table,
    pub(super) queues: Table,
    /// Rows that have our mark, or had it since we look.
    ours: FxHashSet<Uuid>,
    /// The port of an interface.
    holders: FxHashMap<Uuid, Uuid>,
    tagged: FxHashMap<Arc<str>, Tagged>,
}

// === impl Table ===

impl Table {
    pub(super) fn get(&self, uuid: Uuid) -> Option<&Arc<Row>> {
        self.rows.get(&uuid)
    }

    pub(super) fn named(&self, name: &str) -> Option<&Arc<Row>> {
        self.rows.get(self.names.get(name)?)
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = &Arc<Row>> {
        self.rows.values()
    }

    fn remove(&mut self, row: &Row) {
        self.rows.remove(&row.uuid());
        if let Some(name) = string(row, "name")
            && self.names.get(name) == Some(&row.uuid())
        {
            self.names.remove(name);
        }
    }

    fn add(&mut self, row: &Arc<Row>) {
        if let Some(name) = string(row, "name") {
            self.names.insert(name.into(), row.uuid());
        }
        self.rows.insert(row.uuid(), Arc::clone(row));
    }
}

// === impl Mirror ===

impl Mirror {
    pub(super) fn new(ownership: Ownership) -> Self {
        Self {
            ownership,
            root: None,
            bridges: Table::default(),
            ports: Table::default(),
            interfaces: Table::default(),
            qos: Table::default(),
            queues: Table::default(),
            ours: FxHashSet::default(),
            holders: FxHashMap::default(),
            tagged: FxHashMap::default(),
        }
    }

    /// Forgets all rows and takes these.
    pub(super) fn replace(&mut self, snapshot: &Snapshot) {
        let ours = std::mem::take(&mut self.ours);
        *self = Self::new(self.ownership.clone());
        for table in ["Open_vSwitch", "Bridge", "Port", "Interface", "QoS", "Queue"] {
            for row in snapshot.rows(table) {
                if ours.contains(&row.uuid()) {
                    self.ours.insert(row.uuid());
                }
                self.add(row);
            }
        }
    }

    /// The places of all that is ours.
    pub(super) fn ours(&self) -> Vec<Key> {
        let bridges = self.bridges.rows().filter(|row| self.is_ours(row));
        let bridges = bridges.filter_map(|row| Some(Key::Bridge(string(row, "name")?.into())));
        let ports = self.ports.rows().filter(|row| self.is_ours(row));
        let ports = ports.filter_map(|row| Some(Key::Port(string(row, "name")?.into())));
        let tagged = self.tagged.keys().map(|port| Key::Port(Arc::clone(port)));
        bridges.chain(ports).chain(tagged).chain(self.recorded_settings()).collect()
    }

    /// Takes changes. Tells the places they are about; of settings, only those that are recorded.
    pub(super) fn apply(&mut self, changes: &[RowChange]) -> Vec<Key> {
        let mut places = Vec::new();
        for RowChange { old, new } in changes {
            // Before the change is taken and behind it: both ends of a reference count.
            if let Some(old) = old {
                self.places(old, &mut places);
                self.remove(old, new.is_none());
            }
            if let Some(new) = new {
                self.add(new);
                self.places(new, &mut places);
            }
            if let (Some(old), Some(new)) = (old, new)
                && &**new.table() == "Bridge"
            {
                self.moved_ports(old, new, &mut places);
            }
        }
        places
    }

    /// Whether the row is ours: its own mark says so, or did.
    pub(super) fn is_ours(&self, row: &Row) -> bool {
        self.ours.contains(&row.uuid())
    }

    /// The port that has an interface.
    pub(super) fn holder(&self, interface: Uuid) -> Option<&Arc<Row>> {
        self.ports.get(*self.holders.get(&interface)?)
    }

    /// The bridges that have a port: one, if the database is sound.
    pub(super) fn bridges_with(&self, port: Uuid) -> impl Iterator<Item = &Arc<Row>> {
        let port = Atom::Uuid(port);
        self.bridges.rows().filter(move |row| has(row, "ports", &port))
    }

    /// QoS and queues for a port of this name.
    pub(super) fn tagged(&self, port: &str) -> Tagged {
        self.tagged.get(port).cloned().unwrap_or_default()
    }

    /// The settings that the switch's row says are ours.
    pub(super) fn recorded_settings(&self) -> impl Iterator<Item = Key> {
        let record = self.root.as_deref().map(|root| self.ownership.recorded(root));
        record.unwrap_or_default().split(' ').filter_map(|name| {
            let (column, key) = name.split_once(':')?;
            let columns = [SettingColumn::OtherConfig, SettingColumn::ExternalIds];
            let column = columns.into_iter().find(|known| known.as_str() == column)?;
            Some(Key::Setting(column, key.into()))
        })
    }

    /// Counters of the switch's row: configurations asked for, and acted on.
    pub(super) fn configurations(&self) -> Option<(i64, i64)> {
        let root = self.root.as_deref()?;
        Some((integer(root, "next_cfg")?, integer(root, "cur_cfg")?))
    }

    fn remove(&mut self, row: &Arc<Row>, gone: bool) {
        if gone {
            self.ours.remove(&row.uuid());
        }
        match &**row.table() {
            "Open_vSwitch" => self.root = None,
            "Bridge" => self.bridges.remove(row),
            "Port" => {
                self.ports.remove(row);
                for interface in references(row, "interfaces") {
                    if self.holders.get(&interface) == Some(&row.uuid()) {
                        self.holders.remove(&interface);
                    }
                }
            }
            "Interface" => self.interfaces.remove(row),
            "QoS" => {
                self.qos.remove(row);
                self.untag(row, |tagged| &mut tagged.qos);
            }
            "Queue" => {
                self.queues.remove(row);
                self.untag(row, |tagged| &mut tagged.queues);
            }
            _ => {}
        }
    }

    fn add(&mut self, row: &Arc<Row>) {
        if self.ownership.marks(row) {
            self.ours.insert(row.uuid());
        }
        match &**row.table() {
            "Open_vSwitch" => self.root = Some(Arc::clone(row)),
            "Bridge" => self.bridges.add(row),
            "Port" => {
                self.ports.add(row);
                for interface in references(row, "interfaces") {
                    self.holders.insert(interface, row.uuid());
                }
            }
            "Interface" => self.interfaces.add(row),
            "QoS" => {
                self.qos.add(row);
                self.tag(row, |tagged| &mut tagged.qos);
            }
            "Queue" => {
                self.queues.add(row);
                self.tag(row, |tagged| &mut tagged.queues);
            }
            _ => {}
        }
    }

    fn tag(&mut self, row: &Row, rows: impl Fn(&mut Tagged) -> &mut Vec<Uuid>) {
        if self.ownership.marks(row)
            && let Some(port) = external_id(row, &self.ownership.names.port)
        {
            rows(self.tagged.entry(port.into()).or_default()).push(row.uuid());
        }
    }

    fn untag(&mut self, row: &Row, rows: impl Fn(&mut Tagged) -> &mut Vec<Uuid>) {
        let Some(port) = external_id(row, &self.ownership.names.port) else { return };
        if let Some(tagged) = self.tagged.get_mut(port) {
            rows(tagged).retain(|uuid| *uuid != row.uuid());
            if tagged.qos.is_empty() && tagged.queues.is_empty() {
                self.tagged.remove(port);
            }
        }
    }

    /// The places that a row is about.
    fn places(&self, row: &Row, places: &mut Vec<Key>) {
        let name = || string(row, "name").map(Arc::from);
        match &**row.table() {
            "Open_vSwitch" => places.extend(self.recorded_settings()),
            "Bridge" => places.extend(name().map(Key::Bridge)),
            "Port" => places.extend(name().map(Key::Port)),
            "Interface" => {
                let holder = self.holder(row.uuid()).and_then(|port| string(port, "name"));
                places.extend(holder.map(|port| Key::Port(port.into())));
            }
            "QoS" | "Queue" => {
                let port = external_id(row, &self.ownership.names.port);
                places.extend(port.map(|port| Key::Port(port.into())));
            }
            _ => {}
        }
    }

    /// Ports that left a bridge or came to it. Both sets are sorted.
    fn moved_ports(&self, old: &Row, new: &Row, places: &mut Vec<Key>) {
        let [old, new] =
            [old, new].map(|row| row.get("ports").map(Value::atoms).unwrap_or_default());
        let moved = differences(old, new);
        let names = moved.filter_map(|atom| match atom {
            Atom::Uuid(port) => string(self.ports.get(*port)?, "name"),
            _ => None,
        });
        places.extend(names.map(|name| Key::Port(name.into())));
    }
}

/// Whether a set has an element.
pub(super) fn has(row: &Row, column: &str, atom: &Atom) -> bool {
    row.get(column).is_some_and(|set| set.contains(atom))
}

/// The rows that a set refers to.
pub(super) fn references(row: &Row, column: &str) -> impl Iterator<Item = Uuid> {
    let atoms = row.get(column).map(Value::atoms).unwrap_or_default();
    atoms.iter().filter_map(|atom| if let Atom::Uuid(uuid) = atom { Some(*uuid) } else { None })
}

/// The integer that a column holds.
pub(super) fn integer(row: &Row, column: &str) -> Option<i64> {
    if let [Atom::Integer(number)] = row.get(column)?.atoms() { Some(*number) } else { None }
}

/// The elements that are in only one of two sorted lists.
fn differences<'a>(mut a: &'a [Atom], mut b: &'a [Atom]) -> impl Iterator<Item = &'a Atom> {
    std::iter::from_fn(move || {
        loop {
            match (a.first(), b.first()) {
                (Some(x), Some(y)) if x == y => (a, b) = (&a[1..], &b[1..]),
                (Some(x), y) if y.is_none_or(|y| x < y) => {
                    a = &a[1..];
                    return Some(x);
                }
                (_, Some(y)) => {
                    b = &b[1..];
                    return Some(y);
                }
                _ => return None,
            }
        }
    })
}
