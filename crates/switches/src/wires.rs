//! What a switch's database says of its bridge and of the wires on it, by identity. A change costs the
//! rows that it is of.

use osier_model::Mac;
use osier_ovsdb::cache::{RowChange, Snapshot};
use osier_ovsdb::{Atom, Row, Uuid, Value};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

/// An interface that says which port of the model it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wire {
    /// Its name at the switch.
    pub(crate) name: String,
    /// `iface-id`.
    pub(crate) id: String,
    /// `attached-mac`.
    pub(crate) mac: Option<Mac>,
    /// `ip-address`.
    pub(crate) address: Option<IpAddr>,
    /// Its number, once the switch has it.
    pub(crate) ofport: Option<u16>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Wires {
    root: Option<Arc<Row>>,
    bridges: FxHashMap<Uuid, Arc<Row>>,
    /// The port that an interface is of, and the interfaces of a port.
    holders: FxHashMap<Uuid, Uuid>,
    ports: FxHashMap<Uuid, Vec<Uuid>>,
    /// Interfaces that say which port they are.
    claiming: FxHashMap<Uuid, Wire>,
    bridge: Option<Uuid>,
    /// The name of the bridge, where nothing says which it is.
    usual: String,
}

// === impl Wire ===

impl Wire {
    fn read(row: &Row) -> Option<Self> {
        let id = external_id(row, "iface-id").filter(|id| !id.is_empty())?.to_owned();
        let ofport = match row.get("ofport")?.atoms() {
            [Atom::Integer(number)] => u16::try_from(*number).ok().filter(|number| *number > 0),
            _ => None,
        };
        Some(Self {
            name: text(row, "name")?.to_owned(),
            id,
            mac: external_id(row, "attached-mac").and_then(|mac| mac.parse().ok()),
            address: external_id(row, "ip-address").and_then(|address| address.parse().ok()),
            ofport,
        })
    }
}

// === impl Wires ===

impl Wires {
    pub(crate) fn new(usual: &str) -> Self {
        Self { usual: usual.to_owned(), ..Self::default() }
    }

    /// All rows anew. Whose wires may be others now.
    pub(crate) fn take(&mut self, snapshot: &Snapshot) -> BTreeSet<Uuid> {
        let before = std::mem::replace(self, Self::new(&self.usual));
        let mut touched: BTreeSet<Uuid> = before.claiming.into_keys().collect();
        for table in ["Open_vSwitch", "Bridge", "Port", "Interface"] {
            for row in snapshot.rows(table) {
                self.put(row, &mut touched);
            }
        }
        self.choose(&mut touched);
        touched
    }

    /// Some rows. Whose wires may be others now.
    pub(crate) fn follow(&mut self, changes: &[RowChange]) -> BTreeSet<Uuid> {
        let mut touched = BTreeSet::new();
        for change in changes {
            match &change.new {
                Some(row) => self.put(row, &mut touched),
                None => self.forget(change.row(), &mut touched),
            }
        }
        self.choose(&mut touched);
        touched
    }

    /// A wire, if it is on the bridge.
    pub(crate) fn get(&self, interface: Uuid) -> Option<&Wire> {
        let port = self.holders.get(&interface)?;
        let is_here = self.bridge()?.get("ports")?.contains(&Atom::Uuid(*port));
        self.claiming.get(&interface).filter(|_| is_here)
    }

    /// All wires.
    pub(crate) fn all(&self) -> BTreeSet<Uuid> {
        self.claiming.keys().copied().collect()
    }

    /// The switch's version.
    pub(crate) fn version(&self) -> Option<&str> {
        text(self.root.as_deref()?, "ovs_version")
    }

    /// The row of the switch itself.
    pub(crate) fn root(&self) -> Option<&Arc<Row>> {
        self.root.as_ref()
    }

    /// The bridge that the controller drives.
    pub(crate) fn bridge(&self) -> Option<&Arc<Row>> {
        self.bridges.get(&self.bridge?)
    }

    fn put(&mut self, row: &Arc<Row>, touched: &mut BTreeSet<Uuid>) {
        match &**row.table() {
            "Open_vSwitch" => self.root = Some(Arc::clone(row)),
            "Bridge" => {
                let before = self.bridges.insert(row.uuid(), Arc::clone(row));
                // A port may leave a bridge, and be there still.
                let ports = |row: &Row| row.get("ports").cloned().unwrap_or_else(Value::empty_set);
                let before = before.map_or_else(Value::empty_set, |row| ports(&row));
                for port in difference(before.atoms(), ports(row).atoms()) {
                    touched.extend(self.ports.get(&port).into_iter().flatten());
                }
            }
            "Port" => {
                let interfaces = uuids(row.get("interfaces").map_or(&[][..], Value::atoms));
                self.hold(row.uuid(), interfaces.collect(), touched);
            }
            "Interface" => match Wire::read(row) {
                Some(wire) if self.claiming.get(&row.uuid()) != Some(&wire) => {
                    self.claiming.insert(row.uuid(), wire);
                    touched.insert(row.uuid());
                }
                Some(_) => {}
                None => {
                    if self.claiming.remove(&row.uuid()).is_some() {
                        touched.insert(row.uuid());
                    }
                }
            },
            _ => {}
        }
    }

    /// A port has these interfaces now.
    fn hold(&mut self, port: Uuid, interfaces: Vec<Uuid>, touched: &mut BTreeSet<Uuid>) {
        for before in self.ports.remove(&port).into_iter().flatten() {
            if self.holders.get(&before) == Some(&port) {
                self.holders.remove(&before);
            }
            touched.insert(before);
        }
        for interface in &interfaces {
            self.holders.insert(*interface, port);
            touched.insert(*interface);
        }
        if !interfaces.is_empty() {
            self.ports.insert(port, interfaces);
        }
    }

    fn forget(&mut self, row: &Row, touched: &mut BTreeSet<Uuid>) {
        match &**row.table() {
            "Bridge" => drop(self.bridges.remove(&row.uuid())),
            "Port" => self.hold(row.uuid(), Vec::new(), touched),
            "Interface" => {
                self.holders.remove(&row.uuid());
                if self.claiming.remove(&row.uuid()).is_some() {
                    touched.insert(row.uuid());
                }
            }
            _ => {}
        }
    }

    /// Which bridge it is: the one that the switch names, or the one that has a controller; of several,
    /// that of the usual name.
    fn choose(&mut self, touched: &mut BTreeSet<Uuid>) {
        let said = self.root.as_deref().and_then(|root| external_id(root, "br-name"));
        let has_controller = |row: &&Arc<Row>| row.get("controller").is_some_and(|c| !c.is_empty());
        let controlled: Vec<&Arc<Row>> = self.bridges.values().filter(has_controller).collect();
        let is = |row: &Row, name: &str| text(row, "name") == Some(name);
        let bridge = match (said, &controlled[..]) {
            (Some(name), _) => self.bridges.values().find(|row| is(row, name)),
            (None, [only]) => Some(*only),
            (None, several) => several.iter().copied().find(|row| is(row, &self.usual)),
        };
        let bridge = bridge.map(|row| row.uuid());
        if bridge != self.bridge {
            self.bridge = bridge;
            touched.extend(self.claiming.keys());
        }
    }
}

/// The rows that atoms name.
fn uuids(atoms: &[Atom]) -> impl Iterator<Item = Uuid> {
    atoms.iter().filter_map(|atom| match atom {
        Atom::Uuid(uuid) => Some(*uuid),
        _ => None,
    })
}

/// Rows that only one of two sets names. Both are sorted.
fn difference(mut one: &[Atom], mut other: &[Atom]) -> Vec<Uuid> {
    let mut differ = Vec::new();
    while let ([a, one_rest @ ..], [b, other_rest @ ..]) = (one, other) {
        if a <= b {
            one = one_rest;
        }
        if b <= a {
            other = other_rest;
        }
        if a != b {
            differ.extend(uuids(std::slice::from_ref(a.min(b))));
        }
    }
    differ.extend(uuids(one).chain(uuids(other)));
    differ
}

/// A key of `external_ids`.
pub(crate) fn external_id<'a>(row: &'a Row, key: &str) -> Option<&'a str> {
    match row.get("external_ids")?.get(&key.into())? {
        Atom::String(text) => Some(text),
        _ => None,
    }
}

/// The string of a column.
pub(crate) fn text<'a>(row: &'a Row, column: &str) -> Option<&'a str> {
    match row.get(column)?.atoms() {
        [Atom::String(text)] => Some(text),
        _ => None,
    }
}
