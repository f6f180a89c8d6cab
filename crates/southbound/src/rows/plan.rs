//! What an owner wants of the database: bridges, ports with their interfaces and queues, and
//! settings of the switch. What is not named here (`None`, an empty map or set, a key that is not
//! in a map) is not ours and stays as it is.

pub use crate::flows::Owner;
use osier_ovsdb::rows::vswitch::{
    BridgeFailMode, BridgeProtocols, PortBondMode, PortLacp, PortVlanMode,
};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Keys and their values, as in `other_config` and `external_ids`.
pub type Strings = BTreeMap<String, String>;

/// All that one owner wants of the database.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// Bridges.
    pub bridges: Vec<Bridge>,
    /// Ports, on bridges of anybody.
    pub ports: Vec<Port>,
    /// Settings of the switch.
    pub settings: Vec<Setting>,
}

/// A bridge. Its local port is a port as any other: see [`Plan::bridge`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bridge {
    /// Its name.
    pub name: String,
    /// `system` or `netdev`.
    pub datapath_type: Option<String>,
    /// What it does without a controller.
    pub fail_mode: Option<BridgeFailMode>,
    /// The versions of OpenFlow it speaks.
    pub protocols: BTreeSet<BridgeProtocols>,
    /// Keys of `other_config`.
    pub other_config: Strings,
    /// Keys of `external_ids`.
    pub external_ids: Strings,
}

/// A port.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// The name of the bridge it is on.
    pub bridge: String,
    /// Its interfaces: one, or several of a bond.
    pub interfaces: Vec<Interface>,
    /// The VLAN of an access port.
    pub tag: Option<u16>,
    /// The VLANs of a trunk.
    pub trunks: BTreeSet<u16>,
    /// How VLANs are used.
    pub vlan_mode: Option<PortVlanMode>,
    /// How a bond spreads its load.
    pub bond_mode: Option<PortBondMode>,
    /// Whether a bond speaks LACP.
    pub lacp: Option<PortLacp>,
    /// Its queues.
    pub qos: Option<Qos>,
    /// Keys of `other_config`.
    pub other_config: Strings,
    /// Keys of `external_ids`.
    pub external_ids: Strings,
}

/// An interface.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its type, such as `internal`; empty for a device of the system.
    pub kind: String,
    /// Keys of `options`.
    pub options: Strings,
    /// The OpenFlow port number that it should get.
    pub ofport_request: Option<u32>,
    /// The MTU that it should get.
    pub mtu_request: Option<u32>,
    /// The Ethernet address that it should get.
    pub mac: Option<String>,
    /// Keys of `other_config`.
    pub other_config: Strings,
    /// Keys of `external_ids`.
    pub external_ids: Strings,
}

/// How a port shapes what leaves through it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Qos {
    /// Its type, such as `linux-htb`.
    pub kind: String,
    /// By number.
    pub queues: BTreeMap<u32, Queue>,
    /// Keys of `other_config`, such as `max-rate`.
    pub other_config: Strings,
    /// Keys of `external_ids`.
    pub external_ids: Strings,
}

/// A queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Queue {
    /// The DSCP bits of what leaves through it.
    pub dscp: Option<u8>,
    /// Keys of `other_config`, such as `min-rate` and `max-rate`.
    pub other_config: Strings,
    /// Keys of `external_ids`.
    pub external_ids: Strings,
}

/// A key of the switch's own row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Where.
    pub column: SettingColumn,
    /// The key.
    pub key: String,
    /// Its value.
    pub value: String,
}

/// A column of `Open_vSwitch` that holds settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SettingColumn {
    /// `other_config`: settings for the switch.
    OtherConfig,
    /// `external_ids`: facts for others.
    ExternalIds,
}

/// What must have happened before a change counts as done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Wait {
    /// The database holds it.
    Database,
    /// `ovs-vswitchd` has acted on it, and every interface works.
    #[default]
    Switch,
    /// Every interface works. Unlike with [`Self::Switch`], one that does not is waited for: what it
    /// needs may be on its way, and the switch looks again when an interface of the machine changes.
    Attached,
}

/// New plans of some owners, accepted or rejected together.
#[derive(Debug, Clone, Default)]
pub struct Transaction {
    pub(super) plans: Vec<(Owner, Plan)>,
    pub(super) wait: Option<Wait>,
}

// === impl Plan ===

impl Plan {
    /// With a bridge and its local port, as `ovs-vsctl add-br` makes them.
    #[must_use]
    pub fn bridge(mut self, bridge: Bridge) -> Self {
        let local = Port::internal(&bridge.name, &bridge.name);
        self.bridges.push(bridge);
        self.port(local)
    }

    /// With a port.
    #[must_use]
    pub fn port(mut self, port: Port) -> Self {
        self.ports.push(port);
        self
    }

    /// With a setting of the switch.
    #[must_use]
    pub fn setting(
        mut self,
        column: SettingColumn,
        key: impl Into<String>,
        value: impl Into<String>,
    ) -> Self {
        self.settings.push(Setting { column, key: key.into(), value: value.into() });
        self
    }
}

// === impl Port ===

impl Port {
    /// A port with one interface of its name.
    pub fn new(bridge: impl Into<String>, name: impl Into<String>) -> Self {
        let name = name.into();
        let interface = Interface { name: name.clone(), ..Interface::default() };
        Self { name, bridge: bridge.into(), interfaces: vec![interface], ..Self::default() }
    }

    /// A port with one interface of its name that the switch itself makes.
    pub fn internal(bridge: impl Into<String>, name: impl Into<String>) -> Self {
        let mut port = Self::new(bridge, name);
        "internal".clone_into(&mut port.interfaces[0].kind);
        port
    }

    /// A tunnel of this kind from one address to all others: flows say where to, and as what.
    pub fn tunnel(
        bridge: impl Into<String>,
        name: impl Into<String>,
        kind: &str,
        local: IpAddr,
        ofport: u32,
    ) -> Self {
        let mut port = Self::new(bridge, name);
        let local = local.to_string();
        let options = [("remote_ip", "flow"), ("key", "flow"), ("local_ip", &local)];
        let interface = &mut port.interfaces[0];
        kind.clone_into(&mut interface.kind);
        interface.ofport_request = Some(ofport);
        interface.options = options.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        port
    }
}

// === impl SettingColumn ===

impl SettingColumn {
    /// The column's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OtherConfig => "other_config",
            Self::ExternalIds => "external_ids",
        }
    }
}

// === impl Transaction ===

impl Transaction {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The owner wants this from now on, and nothing else.
    #[must_use]
    pub fn put(mut self, owner: impl Into<Owner>, plan: Plan) -> Self {
        self.plans.push((owner.into(), plan));
        self
    }

    /// The owner wants nothing any more.
    #[must_use]
    pub fn remove(self, owner: impl Into<Owner>) -> Self {
        self.put(owner, Plan::default())
    }

    /// What to wait for, if it is not what the reconciler's options say.
    #[must_use]
    pub fn wait(mut self, wait: Wait) -> Self {
        self.wait = Some(wait);
        self
    }
}
