//! What is wanted in one place, ready to be compared with rows: a bridge, a port with all that
//! hangs on it, or one setting.

use super::error::PutError;
use super::ownership::Ownership;
use super::plan::{Bridge, Interface, Owner, Plan, Port, Qos, Queue, SettingColumn};
use super::wants::{BadKey, Builder, Wants, check_key};
use osier_ovsdb::Atom;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// A place. Bridges come before the ports that need them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Key {
    Bridge(Arc<str>),
    Port(Arc<str>),
    Setting(SettingColumn, Arc<str>),
}

/// What is wanted there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Item {
    Bridge(Wants),
    Port(Box<PortItem>),
    Setting(Atom),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PortItem {
    pub(super) bridge: Arc<str>,
    pub(super) wants: Wants,
    pub(super) interfaces: Vec<(Arc<str>, Wants)>,
    pub(super) qos: Option<QosItem>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct QosItem {
    pub(super) wants: Wants,
    pub(super) queues: Vec<(i64, Wants)>,
}

// === impl Key ===

impl Key {
    /// The table in which the place is.
    pub(super) fn table(&self) -> &'static str {
        match self {
            Self::Bridge(_) => "Bridge",
            Self::Port(_) => "Port",
            Self::Setting(..) => "Open_vSwitch",
        }
    }
}

/// `Port "veth1"`
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bridge(name) | Self::Port(name) => write!(f, "{} {name:?}", self.table()),
            Self::Setting(column, key) => {
                write!(f, "{} {}:{key}", self.table(), column.as_str())
            }
        }
    }
}

/// All that a plan wants.
pub(super) fn items(
    owner: &Owner,
    plan: &Plan,
    ownership: &Ownership,
) -> Result<Vec<(Key, Item)>, PutError> {
    let count = plan.bridges.len() + plan.ports.len() + plan.settings.len();
    let mut items = Vec::with_capacity(count);
    let bad = |key: &Key, bad: BadKey| PutError::Key {
        owner: owner.clone(),
        place: key.to_string(),
        column: bad.column,
        key: bad.key,
        why: bad.why,
    };
    for bridge in &plan.bridges {
        let key = Key::Bridge(bridge.name.as_str().into());
        named(owner, &key, &bridge.name)?;
        let item = bridge_item(bridge, ownership).map_err(|error| bad(&key, error))?;
        items.push((key, item));
    }
    for port in &plan.ports {
        let key = Key::Port(port.name.as_str().into());
        named(owner, &key, &port.name)?;
        let mut names = BTreeSet::new();
        for interface in &port.interfaces {
            named(owner, &key, &interface.name)?;
            if !names.insert(&interface.name) {
                let (owner, port) = (owner.clone(), port.name.clone());
                return Err(PutError::Twice { owner, port, interface: interface.name.clone() });
            }
        }
        if names.is_empty() {
            let (owner, port) = (owner.clone(), port.name.clone());
            return Err(PutError::NoInterface { owner, port });
        }
        let item = port_item(port, ownership).map_err(|error| bad(&key, error))?;
        items.push((key, item));
    }
    for setting in &plan.settings {
        let key = Key::Setting(setting.column, setting.key.as_str().into());
        let column = setting.column.as_str();
        check_key(column, &setting.key).map_err(|error| bad(&key, error))?;
        if ownership.is_reserved(&setting.key) {
            let why = "the reconciler itself uses it";
            return Err(bad(&key, BadKey { column, key: setting.key.clone(), why }));
        }
        items.push((key, Item::Setting(setting.value.as_str().into())));
    }
    Ok(items)
}

fn named(owner: &Owner, key: &Key, name: &str) -> Result<(), PutError> {
    if name.is_empty() {
        return Err(PutError::NoName { owner: owner.clone(), place: key.to_string() });
    }
    Ok(())
}

fn bridge_item(bridge: &Bridge, ownership: &Ownership) -> Result<Item, BadKey> {
    let wants = Builder::new(ownership)
        .column("datapath_type", &bridge.datapath_type.clone().unwrap_or_default())
        .column("fail_mode", &bridge.fail_mode)
        .column("protocols", &bridge.protocols)
        .map("other_config", &bridge.other_config)?
        .external_ids(&bridge.external_ids)?
        .finish();
    Ok(Item::Bridge(wants))
}

fn port_item(port: &Port, ownership: &Ownership) -> Result<Item, BadKey> {
    let trunks: BTreeSet<i64> = port.trunks.iter().map(|vlan| i64::from(*vlan)).collect();
    let wants = Builder::new(ownership)
        .column("tag", &port.tag.map(i64::from))
        .column("trunks", &trunks)
        .column("vlan_mode", &port.vlan_mode)
        .column("bond_mode", &port.bond_mode)
        .column("lacp", &port.lacp)
        .map("other_config", &port.other_config)?
        .external_ids(&port.external_ids)?
        .finish();
    let interfaces = port.interfaces.iter().map(|interface| {
        Ok((interface.name.as_str().into(), interface_wants(interface, ownership)?))
    });
    let interfaces = interfaces.collect::<Result<_, BadKey>>()?;
    let qos = port.qos.as_ref().map(|qos| qos_item(&port.name, qos, ownership)).transpose()?;
    let bridge = port.bridge.as_str().into();
    Ok(Item::Port(Box::new(PortItem { bridge, wants, interfaces, qos })))
}

fn interface_wants(interface: &Interface, ownership: &Ownership) -> Result<Wants, BadKey> {
    Ok(Builder::new(ownership)
        .column("type", &interface.kind)
        .column("ofport_request", &interface.ofport_request.map(i64::from))
        .column("mtu_request", &interface.mtu_request.map(i64::from))
        .column("mac", &interface.mac)
        .map("options", &interface.options)?
        .map("other_config", &interface.other_config)?
        .external_ids(&interface.external_ids)?
        .finish())
}

fn qos_item(port: &str, qos: &Qos, ownership: &Ownership) -> Result<QosItem, BadKey> {
    let wants = Builder::new(ownership)
        .column("type", &qos.kind)
        .map("other_config", &qos.other_config)?
        .external_ids(&qos.external_ids)?
        .tag(port)
        .finish();
    let queues: BTreeMap<u32, Wants> = qos
        .queues
        .iter()
        .map(|(number, queue)| Ok((*number, queue_wants(port, queue, ownership)?)))
        .collect::<Result<_, BadKey>>()?;
    let queues = queues.into_iter().map(|(number, wants)| (number.into(), wants)).collect();
    Ok(QosItem { wants, queues })
}

fn queue_wants(port: &str, queue: &Queue, ownership: &Ownership) -> Result<Wants, BadKey> {
    Ok(Builder::new(ownership)
        .column("dscp", &queue.dscp.map(i64::from))
        .map("other_config", &queue.other_config)?
        .external_ids(&queue.external_ids)?
        .tag(port)
        .finish())
}
