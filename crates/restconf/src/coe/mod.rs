//! What the data of Netvirt COE means to the model.
//!
//! A pod is a port `namespace:pod-name` on the network `node-ip:namespace`; that network, and the
//! router `namespace`, are there from the first pod to the last. By default all networks are of one
//! router, so that all pods may talk; with [`Isolation::Namespaces`] each is of its namespace's.
//!
//! Units are learnt one by one. Which resources a unit may change is asked before and after
//! ([`Coe::learn`]), and what a resource has to be then of [`Coe::wanted`]: a change costs what it
//! touches. Nothing here knows what is stored.

mod node;
mod pod;
mod policy;
mod pool;
mod service;

use crate::datastore::UnitChange;
use crate::error::{ErrorTag, Problem};
use node::HostNode;
use osier_model::{NodeName, Reach, RouterName, VrfId};
use osier_resource::{Document, Kind, Metadata, NetworkSpec, Resource, RouterSpec};
use pod::Pod;
use policy::CoePolicy;
pub use policy::{NAMESPACE_NAME, POD_NAME};
use pool::PoolNetwork;
use serde_json::Value;
use service::{CoeEndpoints, CoeService};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Whether namespaces are kept apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Isolation {
    /// All pods may talk.
    #[default]
    None,
    /// Only those of one namespace.
    Namespaces,
}

/// A resource, by kind and name.
pub type Target = (Kind, String);

/// The label of all resources that are made here, and its value.
pub const LABEL: (&str, &str) = ("osier.dev/from", "restconf");

/// The router of all networks, unless namespaces are kept apart.
const OPEN_ROUTER: &str = "default";

/// All units, by what they mean.
#[derive(Debug, Default)]
pub struct Coe {
    isolation: Isolation,
    units: BTreeMap<String, Unit>,
    index: BTreeMap<Fact, BTreeSet<String>>,
    /// Nodes that others made, by their addresses.
    hosts: BTreeMap<IpAddr, NodeName>,
    /// Addresses that ports were given, from pools.
    given: BTreeMap<String, Vec<IpAddr>>,
    clock: u64,
}

/// A unit that means something.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Unit {
    Pod(Pod),
    Service(CoeService),
    Endpoints(CoeEndpoints),
    Node(HostNode),
    Pool(PoolNetwork),
    Policy(CoePolicy),
}

/// By what units are found.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Fact {
    /// Pods of a port.
    Port(String),
    /// Pods of a network.
    Network(String),
    /// Pods of a namespace.
    Namespace(String),
    /// Pods with an address.
    Address(IpAddr),
    /// Pods on a host.
    Host(IpAddr),
    /// The unit with this UUID.
    Uid(String),
    /// Services with a name.
    Service(String),
    /// Services of a namespace.
    ServiceIn(String),
    /// Services that name this UUID as an endpoint.
    Attached(String),
    /// Endpoints by the name of their resources.
    Slice(String),
    /// Nodes with an address.
    Node(IpAddr),
    /// Nodes with a name.
    NodeName(String),
    /// Pools for a network or a namespace.
    PoolsOf(String),
    /// The pools with a name.
    Pool(String),
    /// All policies.
    Policies,
    /// Policies with a name, whatever their namespace.
    Policy(String),
}

/// What units were before.
#[derive(Debug)]
pub struct Undo(Vec<(String, Option<Unit>)>);

// === impl Unit ===

impl Unit {
    /// Reads a unit, if it means anything.
    fn read(path: &str, value: &Value) -> Result<Option<Self>, Problem> {
        let list = path.split_once('=').map_or(path, |(list, _)| list);
        Ok(Some(match list {
            "pod:coe/pods" => Self::Pod(Pod::read(path, value)?),
            "service:service-information/services" => Self::Service(CoeService::read(path, value)?),
            "service:endpoints-info/endpoints" => Self::Endpoints(CoeEndpoints::read(path, value)?),
            "k8s-node:k8s-nodes-info/k8s-nodes" => Self::Node(HostNode::read(path, value)?),
            "dhcp_allocation_pool:dhcp_allocation_pool/network" => {
                Self::Pool(PoolNetwork::read(path, value)?)
            }
            "k8s:k8s/network-policies/network-policy" => {
                Self::Policy(CoePolicy::read(path, value)?)
            }
            _ => return Ok(None),
        }))
    }

    fn facts(&self) -> Vec<Fact> {
        match self {
            Self::Pod(pod) => pod.facts(),
            Self::Service(service) => service.facts(),
            Self::Endpoints(endpoints) => endpoints.facts(),
            Self::Node(node) => node.facts(),
            Self::Pool(pool) => pool.facts(),
            Self::Policy(policy) => policy.facts(),
        }
    }
}

// === impl Coe ===

impl Coe {
    /// Nothing yet.
    pub fn new(isolation: Isolation) -> Self {
        Self { isolation, ..Self::default() }
    }

    /// Takes changes in. Which resources may be others now, and how to undo it; on an error nothing
    /// was taken in.
    pub fn learn(&mut self, changes: &[UnitChange]) -> Result<(BTreeSet<Target>, Undo), Problem> {
        let mut read = Vec::with_capacity(changes.len());
        for (path, value) in changes {
            let unit = value.as_ref().map(|value| Unit::read(path, value)).transpose()?.flatten();
            read.push((path, unit));
        }
        let mut targets = BTreeSet::new();
        let mut before = Vec::with_capacity(read.len());
        let mut learnt = Vec::new();
        for (path, unit) in read {
            self.targets_of(path, &mut targets);
            before.push((path.clone(), self.replace(path, unit)));
            learnt.push(path);
        }
        before.reverse();
        let undo = Undo(before);
        for path in learnt {
            if let Err(problem) = self.check(path) {
                self.undo(undo);
                return Err(problem);
            }
            self.targets_of(path, &mut targets);
        }
        Ok((targets, undo))
    }

    /// Takes back what was learnt last.
    pub fn undo(&mut self, Undo(before): Undo) {
        for (path, unit) in before {
            self.put(&path, unit);
        }
    }

    /// Nodes that others made, by their addresses. Which resources may be others now.
    pub fn set_hosts(&mut self, hosts: BTreeMap<IpAddr, NodeName>) -> BTreeSet<Target> {
        let changed: Vec<IpAddr> = hosts
            .iter()
            .chain(&self.hosts)
            .filter(|(address, _)| hosts.get(address) != self.hosts.get(address))
            .map(|(address, _)| *address)
            .collect();
        let mut targets = BTreeSet::new();
        self.hosts = hosts;
        for address in changed {
            self.host_targets(address, &mut targets);
        }
        targets
    }

    /// A port was given these addresses, from a pool. Which resources may be others now.
    pub fn set_given(&mut self, port: &str, addresses: &[IpAddr]) -> BTreeSet<Target> {
        let before = match addresses {
            [] => self.given.remove(port),
            given => self.given.insert(port.to_owned(), given.to_vec()),
        };
        let mut targets = BTreeSet::new();
        if before.as_deref().unwrap_or_default() != addresses {
            for pod in self.pods(&Fact::Port(port.to_owned())) {
                self.attached_targets(pod.uid(), &mut targets);
            }
        }
        targets
    }

    /// All resources that there have to be.
    pub fn targets(&self) -> BTreeSet<Target> {
        let mut targets = BTreeSet::new();
        for path in self.units.keys() {
            self.targets_of(path, &mut targets);
        }
        targets
    }

    /// What a resource has to be; nothing if it has not to be there.
    pub fn wanted(&self, (kind, name): &Target) -> Option<Resource> {
        match kind {
            Kind::Router => self.router(name),
            Kind::Network => self.network(name),
            Kind::Port => self.port(name),
            Kind::Service => self.service(name),
            Kind::Endpoints => self.endpoints(name),
            Kind::Node => self.host_node(name),
            Kind::Pool => self.pool(name),
            Kind::NetworkPolicy => self.policy(name),
            Kind::Workload => self.workload(name),
            Kind::Fabric | Kind::Namespace => None,
        }
    }

    fn replace(&mut self, path: &str, mut unit: Option<Unit>) -> Option<Unit> {
        if let Some(Unit::Pod(pod)) = &mut unit {
            self.clock += 1;
            pod.order = match self.units.get(path) {
                // Whoever says the same again is no younger.
                Some(Unit::Pod(was)) if was.is_as(pod) => was.order,
                _ => self.clock,
            };
        }
        self.put(path, unit)
    }

    fn put(&mut self, path: &str, unit: Option<Unit>) -> Option<Unit> {
        let before = self.units.remove(path);
        for fact in before.iter().flat_map(Unit::facts) {
            if let Some(paths) = self.index.get_mut(&fact) {
                paths.remove(path);
                if paths.is_empty() {
                    self.index.remove(&fact);
                }
            }
        }
        if let Some(unit) = unit {
            for fact in unit.facts() {
                self.index.entry(fact).or_default().insert(path.to_owned());
            }
            self.units.insert(path.to_owned(), unit);
        }
        before
    }

    /// Units with a fact.
    fn with<'a>(&'a self, fact: &Fact) -> impl Iterator<Item = &'a Unit> + use<'a> {
        self.index.get(fact).into_iter().flatten().filter_map(|path| self.units.get(path))
    }

    fn has(&self, fact: &Fact) -> bool {
        self.index.contains_key(fact)
    }

    fn pods<'a>(&'a self, fact: &Fact) -> impl Iterator<Item = &'a Pod> + use<'a> {
        self.with(fact).filter_map(|unit| match unit {
            Unit::Pod(pod) => Some(pod),
            _ => None,
        })
    }

    fn check(&self, path: &str) -> Result<(), Problem> {
        match self.units.get(path) {
            Some(Unit::Pod(pod)) => self.check_pod(path, pod),
            Some(Unit::Pool(pool)) => self.check_pool(path, pool),
            Some(Unit::Policy(policy)) => self.check_policy(path, policy),
            _ => Ok(()),
        }
    }

    /// Resources that a unit has something to do with.
    fn targets_of(&self, path: &str, targets: &mut BTreeSet<Target>) {
        match self.units.get(path) {
            Some(Unit::Pod(pod)) => self.pod_targets(pod, targets),
            Some(Unit::Service(service)) => {
                targets.insert((Kind::Service, service.name.clone()));
                targets.extend(service.slices().map(|name| (Kind::Endpoints, name)));
            }
            Some(Unit::Endpoints(endpoints)) => {
                targets.extend(endpoints.slices().map(|name| (Kind::Endpoints, name)));
                self.attached_targets(&endpoints.uid, targets);
            }
            Some(Unit::Node(node)) => {
                targets.insert((Kind::Node, node.name.to_string()));
                for address in node.addresses() {
                    self.host_targets(address, targets);
                }
            }
            Some(Unit::Pool(pool)) => self.pool_targets(pool, targets),
            Some(Unit::Policy(policy)) => self.policy_targets(policy, targets),
            None => {}
        }
    }

    /// The node of a host, by its address.
    fn node_of(&self, host: IpAddr) -> Option<NodeName> {
        self.hosts.get(&host).cloned().or_else(|| {
            let mut nodes = self.with(&Fact::Node(host));
            nodes.find_map(|unit| match unit {
                Unit::Node(node) => Some(node.name.clone()),
                _ => None,
            })
        })
    }

    fn router(&self, name: &str) -> Option<Resource> {
        let is_open = self.isolation == Isolation::None && name == OPEN_ROUTER;
        let is_there = match is_open {
            true => {
                let from = Fact::Namespace(String::new());
                self.index
                    .range(from..)
                    .next()
                    .is_some_and(|(f, _)| matches!(f, Fact::Namespace(_)))
            }
            false => self.has(&Fact::Namespace(name.to_owned())),
        };
        let spec = RouterSpec { vrf: is_open.then_some(VrfId(0)) };
        is_there.then(|| Resource::Router(document(name, spec)))
    }

    /// The router that a namespace's networks are of.
    fn router_of(&self, namespace: &str) -> Option<RouterName> {
        RouterName::new(match self.isolation {
            Isolation::None => OPEN_ROUTER,
            Isolation::Namespaces => namespace,
        })
        .ok()
    }

    fn network(&self, name: &str) -> Option<Resource> {
        let pod = self.pods(&Fact::Network(name.to_owned())).next()?;
        let namespace = pod.namespace.as_deref()?;
        let pools = self.pools_of(name, namespace);
        let spec = NetworkSpec {
            router: self.router_of(namespace),
            reach: Reach::Routed,
            dhcp: self.dhcp_of(&pools),
            pools,
            ..NetworkSpec::default()
        };
        Some(Resource::Network(document(name, spec)))
    }
}

/// A resource's envelope, with our label.
fn document<S, T: Default>(name: &str, spec: S) -> Document<S, T> {
    let mut metadata = Metadata::named(name);
    metadata.labels.insert(LABEL.0.to_owned(), LABEL.1.to_owned());
    Document { metadata, spec, status: T::default() }
}

/// Whether a resource was made here.
pub fn is_ours(resource: &Resource) -> bool {
    resource.metadata().labels.get(LABEL.0).is_some_and(|from| from == LABEL.1)
}

/// A member as text, if it is there and not empty.
fn text(value: &Value, member: &str) -> Option<String> {
    value.get(member).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// A member as an address. A zone is of one machine only, so an address with one cannot be routed.
fn address(path: &str, value: &Value, member: &str) -> Result<Option<IpAddr>, Problem> {
    let Some(text) = text(value, member) else { return Ok(None) };
    match text.parse() {
        Ok(address) => Ok(Some(address)),
        Err(_) => Err(invalid(path, member, format!("{text} is no address that can be routed"))),
    }
}

fn invalid(path: &str, member: &str, said: impl Into<String>) -> Problem {
    Problem::new(ErrorTag::InvalidValue, format!("/{path}/{member}"), said)
}
