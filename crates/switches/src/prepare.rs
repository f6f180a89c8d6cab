//! What a bridge that a CNI plugin made needs before flows can be brought to it: a version of
//! OpenFlow that we speak, to keep forwarding when nobody controls it, an Ethernet address that does
//! not follow its ports, and a tunnel.

use crate::wires::text;
use osier_model::{Mac, Node, Tunnel};
use osier_ovsdb::monitor::Monitor;
use osier_ovsdb::{Atom, Mutation, Row, Transaction, Uuid, Value};
use osier_southbound::rows::{self, Ownership, Plan, Port};
use std::time::Duration;

/// The tunnel's port.
pub(crate) const TUNNEL: &str = "osier-tun";
/// The number that it asks for: high, for a switch gives low ones.
const TUNNEL_OFPORT: u32 = 65_000;
/// What else of a bridge is looked at, and of the switch.
const BRIDGE: [&str; 2] = ["controller", "datapath_id"];
const SWITCH: [&str; 2] = ["ovs_version", "manager_options"];
/// What a bridge speaks that does not say so.
const SPOKEN: [&str; 5] = ["OpenFlow10", "OpenFlow11", "OpenFlow12", "OpenFlow13", "OpenFlow14"];
const OURS: &str = "OpenFlow15";
/// How long a switch waits between tries to connect, in milliseconds: the least that it takes.
const BACKOFF: i64 = 1000;

/// Whose rows are ours: an agent's are not.
pub(crate) fn ownership() -> Ownership {
    Ownership::new("osier-", "controller")
}

/// What to follow of the database.
pub(crate) fn monitor() -> Monitor {
    let mut monitor = rows::monitor();
    for (table, more) in [("Bridge", &BRIDGE[..]), ("Open_vSwitch", &SWITCH[..])] {
        let columns = monitor.tables.get_mut(table).and_then(|table| table.columns.as_mut());
        columns.expect("it names columns").extend(more.iter().map(|&column| column.into()));
    }
    monitor
}

/// The number of a bridge's datapath, once the switch has made it.
pub(crate) fn datapath_id(bridge: &Row) -> Option<u64> {
    u64::from_str_radix(text(bridge, "datapath_id")?, 16).ok()
}

/// What makes a bridge fit; nothing if it is.
pub(crate) fn transaction(bridge: &Row) -> Option<Transaction> {
    let id = text(bridge, "datapath_id")?;
    let mut mutations = Vec::new();
    let column = |name: &str| bridge.get(name).cloned().unwrap_or_else(Value::empty_set);
    let protocols = column("protocols");
    if !protocols.contains(&OURS.into()) {
        let usual = SPOKEN.iter().copied().filter(|_| protocols.is_empty());
        let added = usual.chain([OURS]).map(Atom::from);
        mutations.push(Mutation::insert("protocols", Value::set(added)));
    }
    let settings = column("other_config");
    let hwaddr = Mac::GATEWAY.to_string();
    let wanted = [("hwaddr", hwaddr.as_str()), ("disable-in-band", "true"), ("datapath-id", id)];
    let differs = |(key, value): &(&str, &str)| {
        let found = settings.get(&(*key).into());
        // Its number is kept as it is: its address was what it came from.
        found != Some(&(*value).into()) && !(*key == "datapath-id" && found.is_some())
    };
    let wanted: Vec<(&str, &str)> = wanted.into_iter().filter(differs).collect();
    if !wanted.is_empty() {
        let keys = Value::set(wanted.iter().map(|(key, _)| Atom::from(*key)));
        let pairs = wanted.iter().map(|(key, value)| (Atom::from(*key), Atom::from(*value)));
        mutations.push(Mutation::delete("other_config", keys));
        mutations.push(Mutation::insert("other_config", Value::map(pairs)));
    }
    let mut transaction = Transaction::new("make the bridge fit");
    if !mutations.is_empty() {
        transaction.mutate("Bridge", bridge.uuid(), mutations);
    }
    if text(bridge, "fail_mode") != Some("secure") {
        let fields = vec![("fail_mode".into(), Value::from("secure"))];
        transaction.update("Bridge", bridge.uuid(), fields);
    }
    (!transaction.is_empty()).then_some(transaction)
}

/// Has a switch look for its controllers each second. Left alone it waits for 8 s in the end, and for so
/// long nobody would drive it when its controller has died.
///
/// A bridge takes that only while it is connected, and only when something differs (OVS 3.1): so this is
/// sent over each new connection, and never says the same. It counts whole seconds.
pub(crate) fn eagerness(root: &Row, bridge: &Row, now: Duration) -> Transaction {
    let mut transaction = Transaction::new("have the switch look for its controllers");
    let differs = BACKOFF + i64::from(now.subsec_millis());
    let rows = references(bridge, "controller").map(|row| ("Controller", row, differs));
    let managers = references(root, "manager_options").map(|row| ("Manager", row, BACKOFF));
    for (table, row, backoff) in rows.chain(managers) {
        let fields = vec![("max_backoff".into(), Value::from(Atom::Integer(backoff)))];
        transaction.update(table, row, fields);
    }
    transaction
}

fn references<'a>(row: &'a Row, column: &str) -> impl Iterator<Item = Uuid> + 'a {
    let atoms = row.get(column).map_or(&[][..], Value::atoms);
    atoms.iter().filter_map(|atom| match atom {
        Atom::Uuid(uuid) => Some(*uuid),
        _ => None,
    })
}

/// The tunnel of a node.
pub(crate) fn plan(bridge: &str, node: &Node, tunnel: Tunnel) -> Plan {
    let (kind, local) = (tunnel.as_str(), node.tunnel);
    Plan::default().port(Port::tunnel(bridge, TUNNEL, kind, local, TUNNEL_OFPORT))
}
