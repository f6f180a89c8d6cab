//! Views: what one node must know.
//!
//! Objects may come in any order: a port before its network waits for it. So a view never refuses
//! a reference to what is not there yet; it refuses only what can never be right, such as one
//! tunnel key for two networks.

use crate::change::{Change, Key, Object};
use crate::error::{Invalid, Problem};
use crate::id::{Vni, VrfId};
use crate::judge::Law;
use crate::name::{
    DeviceName, NamespaceName, NetworkName, NodeName, PolicyName, PortKey, RouterName, ServiceName,
    SliceName,
};
use crate::network::{check_prefix, overlap};
use crate::policy::{Guard, Policy, Selection, SelectionId};
use crate::{Endpoints, Network, Node, Port, Router, Service, Workload};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// How packets travel between nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum Tunnel {
    /// With the sender's identity in an option.
    #[default]
    Geneve,
    /// For networks that know no Geneve: of the default network, the key tells the sender's identity.
    Vxlan,
}

impl Tunnel {
    /// Its name, which is also Open vSwitch's.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Geneve => "geneve",
            Self::Vxlan => "vxlan",
        }
    }
}

/// What holds for the whole cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub struct Fabric {
    /// How packets travel between nodes.
    pub tunnel: Tunnel,
    /// Addresses of all pods: between them nothing is translated.
    pub cluster: Vec<IpNet>,
    /// Where Services' addresses inside of the cluster are from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<IpNet>,
    /// How policies are applied.
    #[serde(skip_serializing_if = "PolicyMode::is_default")]
    pub policy: PolicyMode,
    /// Namespaces are apart: what is of one is not reached from another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Isolation>,
    /// Packets and bytes of Services are counted: by two flows more for each of their addresses and ports.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub accounting: bool,
    /// Pods are led to Services by their node's own stack, where kube-proxy is: what they send there goes
    /// through the node's service gateway. If not, every node's switch leads to them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub service_gateway: bool,
}

/// How policies are applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub struct PolicyMode {
    /// Connections that are there already are judged again when policies change, and cut if they may
    /// no longer be. Kubernetes lets them live.
    pub rejudge: bool,
    /// Denied connections are logged, with names.
    pub log: bool,
}

/// Namespaces apart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub struct Isolation {
    /// Namespaces that all reach, and that reach all: what clusters need themselves, such as their DNS.
    pub shared: BTreeSet<NamespaceName>,
}

/// What one node must know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    node: NodeName,
    fabric: Fabric,
    nodes: BTreeMap<NodeName, Node>,
    routers: BTreeMap<RouterName, Router>,
    networks: BTreeMap<NetworkName, Network>,
    ports: BTreeMap<PortKey, Port>,
    selections: BTreeMap<SelectionId, Selection>,
    policies: BTreeMap<PolicyName, Policy>,
    guards: BTreeSet<NamespaceName>,
    workloads: BTreeMap<DeviceName, Workload>,
    services: BTreeMap<ServiceName, Service>,
    endpoints: BTreeMap<ServiceName, BTreeMap<SliceName, Endpoints>>,
    /// Who refers to whom, so that a change finds what depends on it.
    networks_of: BTreeMap<RouterName, BTreeSet<NetworkName>>,
    ports_of: BTreeMap<NetworkName, BTreeMap<NodeName, BTreeSet<PortKey>>>,
    ports_at: BTreeMap<NodeName, BTreeSet<PortKey>>,
    vnis: BTreeMap<Vni, NetworkName>,
    vrfs: BTreeMap<VrfId, RouterName>,
}

// === impl Fabric ===

impl Fabric {
    /// The largest number that a network can have: half of VXLAN's keys tell of the sender.
    pub fn max_vni(&self) -> u32 {
        match self.tunnel {
            Tunnel::Geneve => 0xff_ffff,
            Tunnel::Vxlan => 0x7f_ffff,
        }
    }

    /// Whether a network's number fits.
    pub fn check_vni(&self, vni: Vni) -> Result<(), Problem> {
        let (found, max) = (vni.get().into(), self.max_vni().into());
        if found <= max { Ok(()) } else { Err(Problem::Range { found, min: 1, max }) }
    }

    /// Checks it.
    pub fn validate(&self) -> Result<(), Invalid> {
        let all: Vec<_> = [("cluster", &self.cluster), ("services", &self.services)]
            .into_iter()
            .flat_map(|(field, prefixes)| prefixes.iter().enumerate().map(move |p| (field, p)))
            .collect();
        for (n, (field, (i, prefix))) in all.iter().enumerate() {
            let fail = |problem| Invalid::new("fabric", format!("{field}[{i}]"), problem);
            check_prefix(**prefix).map_err(fail)?;
            if let Some((_, (_, other))) =
                all[..n].iter().find(|(_, (_, p))| overlap(**p, **prefix))
            {
                let (one, other) = (prefix.to_string(), other.to_string());
                return Err(fail(Problem::Overlap { one, other }));
            }
        }
        Ok(())
    }
}

// === impl PolicyMode ===

impl PolicyMode {
    /// Whether it is as Kubernetes expects.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

// === impl View ===

impl View {
    /// A view of a node that knows nothing yet.
    pub fn new(node: NodeName, fabric: Fabric) -> Self {
        Self {
            node,
            fabric,
            nodes: BTreeMap::new(),
            routers: BTreeMap::new(),
            networks: BTreeMap::new(),
            ports: BTreeMap::new(),
            selections: BTreeMap::new(),
            policies: BTreeMap::new(),
            guards: BTreeSet::new(),
            workloads: BTreeMap::new(),
            services: BTreeMap::new(),
            endpoints: BTreeMap::new(),
            networks_of: BTreeMap::new(),
            ports_of: BTreeMap::new(),
            ports_at: BTreeMap::new(),
            vnis: BTreeMap::new(),
            vrfs: BTreeMap::new(),
        }
    }

    /// Whose view this is.
    pub fn node(&self) -> &NodeName {
        &self.node
    }

    /// What holds for the whole cluster.
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// The nodes, by name.
    pub fn nodes(&self) -> &BTreeMap<NodeName, Node> {
        &self.nodes
    }

    /// The routers, by name.
    pub fn routers(&self) -> &BTreeMap<RouterName, Router> {
        &self.routers
    }

    /// The networks, by name.
    pub fn networks(&self) -> &BTreeMap<NetworkName, Network> {
        &self.networks
    }

    /// The ports, by key.
    pub fn ports(&self) -> &BTreeMap<PortKey, Port> {
        &self.ports
    }

    /// What selectors select.
    pub fn selections(&self) -> &BTreeMap<SelectionId, Selection> {
        &self.selections
    }

    /// The policies, by name.
    pub fn policies(&self) -> &BTreeMap<PolicyName, Policy> {
        &self.policies
    }

    /// Namespaces that have policies, also those whose policies this node need not know.
    pub fn guards(&self) -> &BTreeSet<NamespaceName> {
        &self.guards
    }

    /// What devices of this node are to policies, by name.
    pub fn workloads(&self) -> &BTreeMap<DeviceName, Workload> {
        &self.workloads
    }

    /// What connections are judged by.
    pub fn law(&self) -> Law<'_> {
        Law { policies: &self.policies, selections: &self.selections }
    }

    /// The Services, by name.
    pub fn services(&self) -> &BTreeMap<ServiceName, Service> {
        &self.services
    }

    /// All endpoints, by Service and slice.
    pub fn endpoints(&self) -> &BTreeMap<ServiceName, BTreeMap<SliceName, Endpoints>> {
        &self.endpoints
    }

    /// Endpoints of a Service, a slice at a time.
    pub fn endpoints_of(&self, service: &ServiceName) -> impl Iterator<Item = &Endpoints> {
        self.endpoints.get(service).into_iter().flat_map(BTreeMap::values)
    }

    /// An object of it.
    pub fn object(&self, key: &Key) -> Option<Object> {
        match key {
            Key::Node(name) => self.nodes.get(name).cloned().map(Object::Node),
            Key::Router(name) => self.routers.get(name).cloned().map(Object::Router),
            Key::Network(name) => self.networks.get(name).cloned().map(Object::Network),
            Key::Selection(id) => self.selections.get(id).cloned().map(Object::Selection),
            Key::Policy(name) => self.policies.get(name).cloned().map(Object::Policy),
            Key::Guard(name) => self.guards.get(name).cloned().map(guard),
            Key::Workload(device) => self.workloads.get(device).cloned().map(Object::Workload),
            Key::Port(key) => self.ports.get(key).cloned().map(Object::Port),
            Key::Service(name) => self.services.get(name).cloned().map(Object::Service),
            Key::Endpoints(key) => {
                let slices = self.endpoints.get(&key.service);
                slices.and_then(|slices| slices.get(&key.slice)).cloned().map(Object::Endpoints)
            }
        }
    }

    /// All of its objects, in the order of their keys.
    pub fn objects(&self) -> impl Iterator<Item = Object> {
        let nodes = self.nodes.values().cloned().map(Object::Node);
        let routers = self.routers.values().cloned().map(Object::Router);
        let networks = self.networks.values().cloned().map(Object::Network);
        let selections = self.selections.values().cloned().map(Object::Selection);
        let policies = self.policies.values().cloned().map(Object::Policy);
        let guards = self.guards.iter().cloned().map(guard);
        let ports = self.ports.values().cloned().map(Object::Port);
        let services = self.services.values().cloned().map(Object::Service);
        let slices = self.endpoints.values().flat_map(BTreeMap::values);
        let endpoints = slices.cloned().map(Object::Endpoints);
        let workloads = self.workloads.values().cloned().map(Object::Workload);
        let law = selections.chain(policies).chain(guards).chain(workloads);
        nodes
            .chain(routers)
            .chain(networks)
            .chain(law)
            .chain(ports)
            .chain(services)
            .chain(endpoints)
    }

    /// Networks that a router joins.
    pub fn networks_of(&self, router: &RouterName) -> impl Iterator<Item = &NetworkName> {
        self.networks_of.get(router).into_iter().flatten()
    }

    /// Ports of a network.
    pub fn ports_of(&self, network: &NetworkName) -> impl Iterator<Item = &PortKey> {
        self.ports_of.get(network).into_iter().flat_map(BTreeMap::values).flatten()
    }

    /// Nodes on which a network has ports.
    pub fn nodes_of(&self, network: &NetworkName) -> impl Iterator<Item = &NodeName> {
        self.ports_of.get(network).into_iter().flat_map(BTreeMap::keys)
    }

    /// Ports of a network on a node.
    pub fn ports_of_at(
        &self,
        network: &NetworkName,
        node: &NodeName,
    ) -> impl Iterator<Item = &PortKey> {
        self.ports_of.get(network).and_then(|nodes| nodes.get(node)).into_iter().flatten()
    }

    /// Ports on a node.
    pub fn ports_at(&self, node: &NodeName) -> impl Iterator<Item = &PortKey> {
        self.ports_at.get(node).into_iter().flatten()
    }

    /// The router of a network, if it has one and that is known.
    pub fn router_of(&self, network: &Network) -> Option<&Router> {
        self.routers.get(network.router.as_ref()?)
    }

    /// Makes one step. On an error the view is as it was.
    pub fn apply(&mut self, change: Change) -> Result<(), Invalid> {
        match change {
            Change::Put(object) => {
                self.check(&object)?;
                self.forget(&object.key());
                self.learn(object);
            }
            Change::Delete(key) => self.forget(&key),
        }
        Ok(())
    }

    fn check(&self, object: &Object) -> Result<(), Invalid> {
        let taken = |field: &str, value: u32, owner: String| {
            let problem = Problem::Taken { value: value.to_string(), owner };
            Err(Invalid::new(object.key().to_string(), field, problem))
        };
        object.validate()?;
        match object {
            Object::Router(router) => match self.vrfs.get(&router.vrf) {
                Some(owner) if *owner != router.name => {
                    taken("vrf", router.vrf.0.into(), format!("router {owner}"))
                }
                _ => Ok(()),
            },
            Object::Network(network) => match self.vnis.get(&network.vni) {
                Some(owner) if *owner != network.name => {
                    taken("vni", network.vni.get(), format!("network {owner}"))
                }
                _ => {
                    let fits = self.fabric.check_vni(network.vni);
                    fits.map_err(|p| Invalid::new(object.key().to_string(), "vni", p))
                }
            },
            _ => Ok(()),
        }
    }

    fn learn(&mut self, object: Object) {
        match object {
            Object::Node(node) => {
                self.nodes.insert(node.name.clone(), node);
            }
            Object::Router(router) => {
                self.vrfs.insert(router.vrf, router.name.clone());
                self.routers.insert(router.name.clone(), router);
            }
            Object::Network(network) => {
                self.vnis.insert(network.vni, network.name.clone());
                if let Some(router) = network.router.clone() {
                    self.networks_of.entry(router).or_default().insert(network.name.clone());
                }
                self.networks.insert(network.name.clone(), network);
            }
            Object::Port(port) => {
                let nodes = self.ports_of.entry(port.network.clone()).or_default();
                nodes.entry(port.node.clone()).or_default().insert(port.key.clone());
                self.ports_at.entry(port.node.clone()).or_default().insert(port.key.clone());
                self.ports.insert(port.key.clone(), port);
            }
            Object::Selection(selection) => {
                self.selections.insert(selection.id, selection);
            }
            Object::Policy(policy) => {
                self.policies.insert(policy.name.clone(), policy);
            }
            Object::Guard(guard) => {
                self.guards.insert(guard.namespace);
            }
            Object::Workload(workload) => {
                self.workloads.insert(workload.device.clone(), workload);
            }
            Object::Service(service) => {
                self.services.insert(service.name.clone(), service);
            }
            Object::Endpoints(endpoints) => {
                let slices = self.endpoints.entry(endpoints.key.service.clone()).or_default();
                slices.insert(endpoints.key.slice.clone(), endpoints);
            }
        }
    }

    fn forget(&mut self, key: &Key) {
        match key {
            Key::Node(name) => {
                self.nodes.remove(name);
            }
            Key::Router(name) => {
                if let Some(router) = self.routers.remove(name) {
                    self.vrfs.remove(&router.vrf);
                }
            }
            Key::Network(name) => {
                if let Some(network) = self.networks.remove(name) {
                    self.vnis.remove(&network.vni);
                    if let Some(router) = &network.router {
                        remove_from(&mut self.networks_of, router, name);
                    }
                }
            }
            Key::Port(key) => {
                if let Some(port) = self.ports.remove(key) {
                    if let Some(nodes) = self.ports_of.get_mut(&port.network) {
                        remove_from(nodes, &port.node, key);
                        if nodes.is_empty() {
                            self.ports_of.remove(&port.network);
                        }
                    }
                    remove_from(&mut self.ports_at, &port.node, key);
                }
            }
            Key::Selection(id) => {
                self.selections.remove(id);
            }
            Key::Policy(name) => {
                self.policies.remove(name);
            }
            Key::Guard(namespace) => {
                self.guards.remove(namespace);
            }
            Key::Workload(device) => {
                self.workloads.remove(device);
            }
            Key::Service(name) => {
                self.services.remove(name);
            }
            Key::Endpoints(key) => {
                if let Some(slices) = self.endpoints.get_mut(&key.service) {
                    slices.remove(&key.slice);
                    if slices.is_empty() {
                        self.endpoints.remove(&key.service);
                    }
                }
            }
        }
    }
}

fn guard(namespace: NamespaceName) -> Object {
    Object::Guard(Guard { namespace })
}

fn remove_from<K: Ord, V: Ord>(index: &mut BTreeMap<K, BTreeSet<V>>, key: &K, value: &V) {
    if let Some(set) = index.get_mut(key) {
        set.remove(value);
        if set.is_empty() {
            index.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(json: &str) -> Change {
        Change::Put(serde_json::from_str(json).unwrap())
    }

    fn view() -> View {
        View::new(NodeName::new("n1").unwrap(), Fabric::default())
    }

    #[test]
    fn objects_may_come_in_any_order() {
        let mut view = view();
        view.apply(put(
            r#"{"kind":"port","device":"shop:web","interface":"eth0","network":"blue","node":"n1",
                "mac":"0a:58:0a:00:00:05","addresses":["10.0.0.5","fd00::5"]}"#,
        ))
        .unwrap();
        view.apply(put(r#"{"kind":"network","name":"blue","vni":7,"router":"red",
                "subnets":[{"cidr":"10.0.0.0/24","gateway":"10.0.0.1"}]}"#))
            .unwrap();
        view.apply(put(r#"{"kind":"router","name":"red","vrf":3}"#)).unwrap();
        let network = &view.networks()[&NetworkName::new("blue").unwrap()];
        assert_eq!(view.router_of(network).unwrap().vrf, VrfId(3));
        let ports: Vec<String> = view.ports_of(&network.name).map(ToString::to_string).collect();
        assert_eq!(ports, ["shop:web"]);
    }

    #[test]
    fn errors_name_object_and_field_and_change_nothing() {
        let mut view = view();
        view.apply(put(r#"{"kind":"network","name":"blue","vni":7}"#)).unwrap();
        let before = view.clone();
        for (json, said) in [
            (
                r#"{"kind":"network","name":"green","vni":7}"#,
                "network green: vni: 7 is network blue's already",
            ),
            (
                r#"{"kind":"network","name":"blue","vni":8,"subnets":[{"cidr":"10.0.0.5/24"}]}"#,
                "network blue: subnets[0].cidr: 10.0.0.5/24 has bits behind its length: did you mean 10.0.0.0/24?",
            ),
            (
                r#"{"kind":"network","name":"blue","vni":8,"router":"r",
                    "subnets":[{"cidr":"10.0.0.0/24","gateway":"10.0.1.1"}]}"#,
                "network blue: subnets[0].gateway: 10.0.1.1 is not a usable address of 10.0.0.0/24",
            ),
            (
                r#"{"kind":"node","name":"n2","tunnel":"192.0.2.2","blocks":["10.0.0.0/24","10.0.0.0/25"]}"#,
                "node n2: blocks[1]: 10.0.0.0/25 overlaps 10.0.0.0/24",
            ),
        ] {
            assert_eq!(view.apply(put(json)).unwrap_err().to_string(), said);
            assert_eq!(view, before);
        }
        assert!(
            serde_json::from_str::<Object>(r#"{"kind":"router","name":"a b","vrf":3}"#).is_err()
        );
    }
}
