//! Pods: ports, and the networks and routers that they need.

use super::{
    Coe, Fact, Isolation, Kind, OPEN_ROUTER, Target, Unit, address, document, invalid, text,
};
use crate::error::{ErrorTag, Problem};
use osier_model::{Limits, Mac, NetworkName};
use osier_resource::{PortSpec, Resource, port_key};
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// A pod, as far as it matters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pod {
    uid: String,
    pub(super) namespace: Option<String>,
    name: Option<String>,
    pub(super) host: Option<IpAddr>,
    mac: Option<Mac>,
    pub(super) addresses: Vec<IpAddr>,
    /// Whether its network is its host's own.
    is_host: bool,
    /// Who came later has more.
    pub(super) order: u64,
}

// === impl Pod ===

impl Pod {
    pub(super) fn read(path: &str, value: &Value) -> Result<Self, Problem> {
        let (namespace, name) = (text(value, "network-NS"), text(value, "name"));
        for (member, part) in [("network-NS", &namespace), ("name", &name)] {
            // A colon stands between the two, and a port has no third part of a pod's choice.
            if let Some(part) = part
                && let Err(error) = port_key(&format!("x:{part}"))
            {
                return Err(invalid(path, member, error.to_string()));
            }
        }
        let mac = match text(value, "port-mac-address").map(|mac| mac.parse::<Mac>()) {
            Some(Err(error)) => return Err(invalid(path, "port-mac-address", error.to_string())),
            mac => mac.and_then(Result::ok),
        };
        let mut addresses = Vec::new();
        let interfaces = value.get("interface").and_then(Value::as_array);
        for interface in interfaces.into_iter().flatten() {
            addresses.extend(address(path, interface, "ip-address")?);
        }
        let host = address(path, value, "host-ip-address")?;
        let is_host = host.is_some_and(|host| addresses.contains(&host));
        let uid = text(value, "uid").unwrap_or_default();
        Ok(Self { uid, namespace, name, host, mac, addresses, is_host, order: 0 })
    }

    /// Whether it means the same, whenever it came.
    pub(super) fn is_as(&self, other: &Self) -> bool {
        Self { order: other.order, ..self.clone() } == *other
    }

    pub(super) fn facts(&self) -> Vec<Fact> {
        let mut facts = vec![Fact::Uid(self.uid.clone())];
        let Some((namespace, host)) = self.place() else { return facts };
        facts.push(Fact::Namespace(namespace.to_owned()));
        facts.push(Fact::Network(network_name(host, namespace)));
        facts.push(Fact::Host(host));
        facts.extend(self.port_name().map(Fact::Port));
        facts.extend(self.addresses.iter().map(|address| Fact::Address(*address)));
        facts
    }

    /// Its namespace and its host, once it has both and a network of its own.
    fn place(&self) -> Option<(&str, IpAddr)> {
        Some((self.namespace.as_deref()?, self.host?)).filter(|_| !self.is_host)
    }

    pub(super) fn uid(&self) -> &str {
        &self.uid
    }

    pub(super) fn port_name(&self) -> Option<String> {
        Some(format!("{}:{}", self.namespace.as_deref()?, self.name.as_deref()?))
    }
}

fn network_name(host: IpAddr, namespace: &str) -> String {
    format!("{host}:{namespace}")
}

impl Coe {
    /// The port of a pod: the latest of all that have its name.
    pub(super) fn port(&self, name: &str) -> Option<Resource> {
        let pods = self.pods(&Fact::Port(name.to_owned()));
        let pod = pods.max_by_key(|pod| pod.order)?;
        let (namespace, host) = pod.place()?;
        let node = self.node_of(host)?;
        let network = network_name(host, namespace);
        let addresses: Vec<IpAddr> =
            pod.addresses.iter().copied().filter(|address| !self.is_taken(pod, *address)).collect();
        // One that lost all of its addresses is over; one that had none may be given some.
        let is_given = pod.addresses.is_empty() && !self.pools_of(&network, namespace).is_empty();
        if addresses.is_empty() && !is_given {
            return None;
        }
        let network = NetworkName::new(&network).ok()?;
        let limits = Limits::default();
        let spec = PortSpec { network, node, mac: pod.mac, addresses, limits };
        Some(Resource::Port(document(name, spec)))
    }

    /// The pods of a port that say no Ethernet address themselves, as units.
    pub fn pods_of(&self, port: &str) -> Vec<String> {
        let units = self.index.get(&Fact::Port(port.to_owned())).into_iter().flatten();
        let is_silent = |unit: &&String| matches!(self.units.get(*unit), Some(Unit::Pod(pod)) if pod.mac.is_none());
        units.filter(is_silent).cloned().collect()
    }

    /// Whether a later pod of the same host has the address: one that is finished keeps its address
    /// in the data while its node gives it to others.
    fn is_taken(&self, pod: &Pod, address: IpAddr) -> bool {
        let mut others = self.pods(&Fact::Address(address));
        others.any(|other| other.host == pod.host && other.order > pod.order)
    }

    /// An address cannot be on two hosts.
    pub(super) fn check_pod(&self, path: &str, pod: &Pod) -> Result<(), Problem> {
        if pod.place().is_none() {
            return Ok(());
        }
        for address in &pod.addresses {
            let mut others = self.pods(&Fact::Address(*address));
            let is_other =
                |other: &&Pod| other.host != pod.host && other.port_name() != pod.port_name();
            if let Some(other) = others.find(is_other) {
                let other = other.port_name().unwrap_or_else(|| other.uid.clone());
                let said = format!("{address} is pod {other}'s already, on another host");
                let at = format!("/{path}/interface/ip-address");
                return Err(Problem::new(ErrorTag::InUse, at, said));
            }
        }
        Ok(())
    }

    pub(super) fn pod_targets(&self, pod: &Pod, targets: &mut BTreeSet<Target>) {
        self.attached_targets(&pod.uid, targets);
        let Some((namespace, host)) = pod.place() else { return };
        targets.insert((Kind::Router, namespace.to_owned()));
        targets.insert((Kind::Network, network_name(host, namespace)));
        targets.extend(pod.port_name().map(|name| (Kind::Port, name)));
        self.judged_targets(namespace, pod.port_name(), targets);
        for address in &pod.addresses {
            for name in self.pods(&Fact::Address(*address)).filter_map(Pod::port_name) {
                self.judged_targets(namespace, Some(name.clone()), targets);
                targets.insert((Kind::Port, name));
            }
        }
        match self.isolation {
            Isolation::None => {
                targets.insert((Kind::Router, OPEN_ROUTER.to_owned()));
            }
            Isolation::Namespaces => {
                let services = self.with(&Fact::ServiceIn(namespace.to_owned()));
                targets.extend(services.filter_map(|unit| match unit {
                    Unit::Service(service) => Some((Kind::Service, service.name.clone())),
                    _ => None,
                }));
            }
        }
    }

    /// What depends on a host having a node, and on which.
    pub(super) fn host_targets(&self, host: IpAddr, targets: &mut BTreeSet<Target>) {
        for unit in self.with(&Fact::Node(host)) {
            if let Unit::Node(node) = unit {
                targets.insert((Kind::Node, node.name.to_string()));
            }
        }
        for pod in self.pods(&Fact::Host(host)) {
            targets.extend(pod.port_name().map(|name| (Kind::Port, name)));
            if let Some((namespace, _)) = pod.place() {
                self.judged_targets(namespace, pod.port_name(), targets);
            }
            self.attached_targets(&pod.uid, targets);
        }
    }
}
