//! Which port of the model a wire is.
//!
//! COE's plugin wrote `namespace:pod` into `iface-id` first, and later `cluster:pod`, which says less:
//! pods of one name in two namespaces have the same. There the address decides, then the Ethernet
//! address; and where neither does, nobody guesses.

use crate::wires::Wire;
use osier_model::{DeviceName, InterfaceName, NodeName, Port, PortKey, View};
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// Why a wire is no port.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum Refusal {
    /// Nobody has told of it yet.
    #[error("{0} is no port of this node")]
    Unknown(String),
    /// It is another node's.
    #[error("{port} is a port of node {node}")]
    Elsewhere {
        /// Which.
        port: PortKey,
        /// Whose.
        node: NodeName,
    },
    /// It may be one of several.
    #[error("{id} may be {}", named(.ports))]
    Ambiguous {
        /// What it says.
        id: String,
        /// Which.
        ports: Vec<PortKey>,
    },
    /// Another wire has it.
    #[error("{port} is on {wire} already")]
    Held {
        /// Which.
        port: PortKey,
        /// By which.
        wire: String,
    },
    /// It is no pod's: the bridge itself, or the tunnel.
    #[error("{0} is the switch's own")]
    Own(String),
}

/// The ports of a view by their pods' names.
#[derive(Debug, Default)]
pub(crate) struct Names(BTreeMap<String, BTreeSet<PortKey>>);

// === impl Names ===

impl Names {
    pub(crate) fn add(&mut self, key: &PortKey) {
        self.0.entry(pod(key).to_owned()).or_default().insert(key.clone());
    }

    pub(crate) fn remove(&mut self, key: &PortKey) {
        if let Some(keys) = self.0.get_mut(pod(key)) {
            keys.remove(key);
            if keys.is_empty() {
                self.0.remove(pod(key));
            }
        }
    }

    fn ports<'a>(&'a self, pod: &str, view: &'a View) -> impl Iterator<Item = &'a Port> {
        self.0.get(pod).into_iter().flatten().filter_map(|key| view.ports().get(key))
    }

    /// Ports of pods of the same name, of whichever namespace.
    pub(crate) fn namesakes(&self, key: &PortKey) -> impl Iterator<Item = &PortKey> {
        self.0.get(pod(key)).into_iter().flatten()
    }
}

/// A pod's name without its namespace.
fn pod(key: &PortKey) -> &str {
    let device = key.device.as_str();
    device.split_once(':').map_or(device, |(_, pod)| pod)
}

/// The port of this node that a wire is.
pub(crate) fn resolve(wire: &Wire, view: &View, names: &Names) -> Result<PortKey, Refusal> {
    let is_here = |port: &&Port| port.node == *view.node();
    let elsewhere =
        |port: &Port| Refusal::Elsewhere { port: port.key.clone(), node: port.node.clone() };
    if let Some(port) = key(&wire.id).and_then(|key| view.ports().get(&key)) {
        return if is_here(&port) { Ok(port.key.clone()) } else { Err(elsewhere(port)) };
    }
    let unknown = || Refusal::Unknown(wire.id.clone());
    // No pod has a colon in its name: with a second one it is the first form, and names no port.
    let (_, pod) =
        wire.id.split_once(':').filter(|(_, pod)| !pod.contains(':')).ok_or_else(unknown)?;
    let may_be = |port: &&Port| {
        let has = |address| port.addresses.is_empty() || port.addresses.contains(&address);
        wire.address.is_none_or(has)
    };
    let found: Vec<&Port> = names.ports(pod, view).filter(may_be).collect();
    let here: Vec<&Port> = found.iter().copied().filter(|port| is_here(port)).collect();
    match here[..] {
        [port] => Ok(port.key.clone()),
        [] => Err(found.first().map_or_else(unknown, |port| elsewhere(port))),
        _ => {
            let mut same = here.iter().filter(|port| Some(port.mac) == wire.mac);
            if let (Some(port), None) = (same.next(), same.next()) {
                return Ok(port.key.clone());
            }
            let ports = here.iter().map(|port| port.key.clone()).collect();
            Err(Refusal::Ambiguous { id: wire.id.clone(), ports })
        }
    }
}

/// The port that an id names outright.
pub(crate) fn key(id: &str) -> Option<PortKey> {
    let (namespace, rest) = id.split_once(':')?;
    let (pod, interface) = rest.split_once(':').unwrap_or((rest, "eth0"));
    let device = DeviceName::new(&format!("{namespace}:{pod}")).ok()?;
    Some(PortKey { device, interface: InterfaceName::new(interface).ok()? })
}

fn named(ports: &[PortKey]) -> String {
    ports.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use osier_model::{Change, Fabric, Object};

    const CLUSTER: &str = "00000000-0000-0000-0000-000000000001";

    fn port(name: &str, node: &str, address: &str) -> Port {
        Port {
            key: key(name).unwrap(),
            network: "net".parse().unwrap(),
            node: node.parse().unwrap(),
            mac: "0a:00:00:00:00:01".parse().unwrap(),
            addresses: vec![address.parse().unwrap()],
            identity: osier_model::Identity::ANY,
            limits: osier_model::Limits::default(),
        }
    }

    fn wire(id: &str, address: Option<&str>) -> Wire {
        let address = address.map(|address| address.parse().unwrap());
        Wire { name: "veth0".into(), id: id.into(), mac: None, address, ofport: Some(5) }
    }

    fn said(id: &str, address: Option<&str>) -> String {
        let mut view = View::new("n1".parse().unwrap(), Fabric::default());
        let mut names = Names::default();
        for port in [
            port("red:web", "n1", "10.11.1.4"),
            port("blue:web", "n1", "10.11.1.5"),
            port("red:db", "n2", "10.11.2.4"),
            port("red:only", "n1", "10.11.1.6"),
        ] {
            names.add(&port.key);
            view.apply(Change::Put(Object::Port(port))).unwrap();
        }
        match resolve(&wire(id, address), &view, &names) {
            Ok(key) => key.to_string(),
            Err(refusal) => refusal.to_string(),
        }
    }

    #[test]
    fn each_form_of_an_id_finds_its_port_and_nobody_guesses() {
        assert_eq!(said("red:web", None), "red:web");
        assert_eq!(said(&format!("{CLUSTER}:only"), None), "red:only");
        assert_eq!(said(&format!("{CLUSTER}:web"), Some("10.11.1.5")), "blue:web");
        let ambiguous = format!("{CLUSTER}:web may be blue:web or red:web");
        assert_eq!(said(&format!("{CLUSTER}:web"), None), ambiguous);
        assert_eq!(said("red:db", None), "red:db is a port of node n2");
        assert_eq!(said(&format!("{CLUSTER}:db"), None), "red:db is a port of node n2");
        let other = format!("{CLUSTER}:only is no port of this node");
        assert_eq!(said(&format!("{CLUSTER}:only"), Some("10.9.9.9")), other);
        for id in ["nonsense", "red:only:eth1", ":", "::", "red:"] {
            assert_eq!(said(id, None), format!("{id} is no port of this node"));
        }
    }
}
