//! What an earlier agent left: which ports live, and which go.
//!
//! A port lives if the machine did not boot since, and its namespace's path still leads to the
//! same namespace. Living ones are taken over as they are, dead ones are simply not wanted, and so
//! go. Pure but for [`boot_id`]: the database's rows and the namespaces come in as values.

use crate::desired::PodPort;
use crate::gateway;
use crate::netlink::NamespaceId;
use osier_ovsdb::{Atom, Row, Value};
use osier_southbound::rows::Ownership;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use tracing::{info, warn};

/// What is taken over.
#[derive(Debug, Default)]
pub struct Adopted {
    /// Ports of pods that live.
    pub living: Vec<PodPort>,
    /// Ports of pods that are gone.
    pub dead: Vec<PodPort>,
    /// Interfaces of ours whose record cannot be read. They go.
    pub unreadable: Vec<String>,
    /// Whether the bridge is there and somebody else's. Then it is used as it is.
    pub foreign_bridge: bool,
    /// Whether there is a service gateway of ours.
    pub service_gateway: bool,
}

/// Which life of the machine this is.
pub fn boot_id() -> io::Result<String> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    Ok(id.trim().to_owned())
}

/// Sorts what the database has. `namespace` tells what is at a path now.
pub fn adopt(
    bridges: &[Arc<Row>],
    interfaces: &[Arc<Row>],
    ownership: &Ownership,
    bridge: &str,
    boot_id: &str,
    namespace: impl Fn(&str) -> Option<NamespaceId>,
) -> Adopted {
    let foreign = |row: &Arc<Row>| text(row, "name") == Some(bridge) && !ownership.marks(row);
    let foreign_bridge = bridges.iter().any(foreign);
    let mut adopted = Adopted { foreign_bridge, ..Adopted::default() };
    for row in interfaces.iter().filter(|row| ownership.marks(row)) {
        let name = text(row, "name").unwrap_or_default();
        adopted.service_gateway |= name == gateway::SERVICES;
        match PodPort::from_external_ids(name, number(row), &external_ids(row)) {
            None => {}
            Some(Err(error)) => {
                warn!(interface = name, %error, "a port of ours has no whole record");
                adopted.unreadable.push(name.to_owned());
            }
            Some(Ok(port)) if lives(&port, boot_id, &namespace) => adopted.living.push(port),
            Some(Ok(port)) => {
                info!(port = %port.key, interface = name, "its pod is gone");
                adopted.dead.push(port);
            }
        }
    }
    // In the order in which they came: so are the numbers that the compiler gives.
    adopted.living.sort_by_key(|port| port.tag);
    adopted
}

/// Whether the pod of a port is still there.
pub fn lives(
    port: &PodPort,
    boot_id: &str,
    namespace: impl Fn(&str) -> Option<NamespaceId>,
) -> bool {
    port.boot_id == boot_id && namespace(&port.netns) == Some(port.netns_id)
}

pub(crate) fn text<'a>(row: &'a Row, column: &str) -> Option<&'a str> {
    match row.get(column)? {
        Value::Atom(Atom::String(text)) => Some(text),
        _ => None,
    }
}

/// The number that a port has, or else the one that was asked for.
fn number(row: &Row) -> u16 {
    let column = |name| match row.get(name)?.atoms().first()? {
        Atom::Integer(number) => u16::try_from(*number).ok(),
        _ => None,
    };
    column("ofport").or_else(|| column("ofport_request")).unwrap_or_default()
}

fn external_ids(row: &Row) -> BTreeMap<String, String> {
    let pairs = row.get("external_ids").map(Value::pairs).unwrap_or_default();
    let text = |atom: &Atom| match atom {
        Atom::String(text) => Some(text.to_string()),
        _ => None,
    };
    pairs.iter().filter_map(|(key, value)| Some((text(key)?, text(value)?))).collect()
}
