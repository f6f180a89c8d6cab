//! The cluster: every object, and the indices that make a change cheap.

use crate::check::{Batch, invalid};
use crate::claims::Claims;
use crate::delta::{Delta, Deltas, Gathering, Ref, Step};
use crate::domain::Domain;
use crate::error::Refused;
use crate::law::Law;
use crate::service::{EndpointsSlot, ServiceSlot};
use crate::shared::Shared;
use crate::table::{Id, Table};
use osier_model::{
    Change, DeviceName, EndpointsKey, Fabric, InterfaceName, Invalid, Key, NamespaceName,
    NetworkName, NodeName, Object, PolicyName, PortKey, RouterName, SelectionId, ServiceName, View,
};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// The whole model, valid at all times.
#[derive(Debug, Default)]
pub struct Cluster {
    fabric: Fabric,
    pub(crate) nodes: Table<NodeName, NodeSlot>,
    pub(crate) routers: Table<RouterName, RouterSlot>,
    pub(crate) networks: Table<NetworkName, NetworkSlot>,
    pub(crate) ports: Table<PortKey, PortSlot>,
    pub(crate) services: Table<ServiceName, ServiceSlot>,
    pub(crate) endpoints: Table<EndpointsKey, EndpointsSlot>,
    /// Endpoints by Service, also of one that is not there yet.
    pub(crate) slices: FxHashMap<ServiceName, FxHashSet<Id>>,
    /// Services that every node knows.
    pub(crate) everywhere: FxHashSet<Id>,
    pub(crate) selections: Table<SelectionId, Option<Arc<Shared>>>,
    pub(crate) policies: Table<PolicyName, Option<Arc<Shared>>>,
    pub(crate) guards: Table<NamespaceName, Option<Arc<Shared>>>,
    pub(crate) workloads: Table<DeviceName, Option<Arc<Shared>>>,
    /// Workloads by node, also of one that is not there yet.
    pub(crate) workloads_at: FxHashMap<NodeName, FxHashSet<Id>>,
    pub(crate) law: Law,
    pub(crate) claims: Claims,
    /// The network with the default number.
    pub(crate) default: Option<Id>,
    /// Names that many ports have.
    interfaces: FxHashSet<InterfaceName>,
}

/// What a node must know, complete.
#[derive(Debug, Clone)]
pub struct NodeView {
    /// Whose.
    pub node: NodeName,
    /// What holds for the whole cluster.
    pub fabric: Fabric,
    /// Each object once, in no order.
    pub objects: Vec<Arc<Shared>>,
}

/// A node. In all slots, the object is missing only while a change is under way.
#[derive(Debug, Default)]
pub(crate) struct NodeSlot {
    pub(crate) shared: Option<Arc<Shared>>,
    pub(crate) ports: FxHashSet<Id>,
}

#[derive(Debug, Default)]
pub(crate) struct RouterSlot {
    pub(crate) shared: Option<Arc<Shared>>,
    pub(crate) networks: FxHashSet<Id>,
    pub(crate) services: FxHashSet<Id>,
    /// How many ports of its networks a node has.
    pub(crate) at: FxHashMap<Id, u32>,
}

#[derive(Debug, Default)]
pub(crate) struct NetworkSlot {
    pub(crate) shared: Option<Arc<Shared>>,
    /// Of which domain it is a part now.
    pub(crate) domain: Option<Domain>,
    pub(crate) ports: FxHashSet<Id>,
    /// How many of its ports a node has.
    pub(crate) at: FxHashMap<Id, u32>,
}

#[derive(Debug, Default)]
pub(crate) struct PortSlot {
    pub(crate) shared: Option<Arc<Shared>>,
    /// Of which network and on which node it is now.
    pub(crate) place: Option<(Id, Id)>,
}

// === impl NodeView ===

impl NodeView {
    /// As a view.
    pub fn view(&self) -> Result<View, Invalid> {
        let mut view = View::new(self.node.clone(), self.fabric.clone());
        for shared in &self.objects {
            view.apply(Change::Put(shared.object().clone()))?;
        }
        Ok(view)
    }
}

// === impl Cluster ===

impl Cluster {
    /// A cluster without objects.
    pub fn new(fabric: Fabric) -> Result<Self, Refused> {
        fabric.validate()?;
        Ok(Self { fabric, ..Self::default() })
    }

    /// What holds for the whole cluster.
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// Changes what holds for the whole cluster: every node's view is another then.
    pub fn set_fabric(&mut self, fabric: Fabric) -> Result<(), Refused> {
        fabric.validate()?;
        for (_, slot) in self.networks.iter() {
            if let Some(Object::Network(network)) = slot.shared.as_ref().map(|it| it.object()) {
                let key = Key::Network(network.name.clone());
                let fits = fabric.check_vni(network.vni);
                fits.map_err(|problem| invalid(&key, "vni", problem))?;
            }
        }
        self.fabric = fabric;
        Ok(())
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        let joined = self.nodes.len() + self.routers.len() + self.networks.len();
        let law = self.selections.len() + self.policies.len() + self.guards.len();
        let law = law + self.workloads.len();
        joined + law + self.ports.len() + self.services.len() + self.endpoints.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// An object.
    pub fn get(&self, key: &Key) -> Option<&Arc<Shared>> {
        self.find(key).and_then(|at| self.shared(at))
    }

    /// The nodes' names.
    pub fn node_names(&self) -> impl Iterator<Item = &NodeName> {
        self.nodes.iter().filter_map(|(_, slot)| match slot.shared.as_ref()?.object() {
            Object::Node(node) => Some(&node.name),
            _ => None,
        })
    }

    /// Makes all changes or none, and tells what they mean to each node. Only what they lead to
    /// must be right: their order does not matter, and of several for one object the last holds.
    pub fn apply(&mut self, changes: Vec<Change>) -> Result<Deltas, Refused> {
        let batch = Batch::place(self, changes)?;
        let mut gathering = Gathering::default();
        self.enact(&batch, &mut gathering);
        self.enact_law(&batch, &mut gathering);
        let deltas = self.deltas(&batch, gathering);
        batch.finish(self);
        Ok(deltas)
    }

    /// What a node must know, if there is such a node.
    pub fn view_of(&self, node: &NodeName) -> Option<NodeView> {
        let id = self.nodes.id(node)?;
        let mut refs: Vec<Ref> = self.nodes.iter().map(|(id, _)| Ref::Node(id)).collect();
        for domain in self.domains_of(id) {
            self.each_of(domain, id, |object| refs.push(object));
        }
        for service in &self.everywhere {
            self.each_of_service(*service, &mut |object| refs.push(object));
        }
        self.each_of_law(id, |object| refs.push(object));
        let objects = refs.into_iter().filter_map(|at| self.shared(at).cloned()).collect();
        Some(NodeView { node: node.clone(), fabric: self.fabric.clone(), objects })
    }

    fn deltas(&self, batch: &Batch, gathering: Gathering) -> Deltas {
        let mut deltas = Deltas::default();
        for item in &batch.items {
            match (&item.key, &item.was, &item.now) {
                (Key::Node(name), None, _) => deltas.added.push(name.clone()),
                (Key::Node(name), _, None) => deltas.removed.push(name.clone()),
                _ => {}
            }
        }
        for (node, objects) in gathering.nodes {
            let steps = objects.into_iter().filter_map(|(at, seen)| {
                let was = if seen.had { batch.was(self, at) } else { None };
                let now = if seen.has { self.shared(at).cloned() } else { None };
                let same = match (&was, &now) {
                    (Some(was), Some(now)) => Arc::ptr_eq(was, now),
                    (None, None) => true,
                    _ => false,
                };
                (!same).then_some(Step { was, now })
            });
            let steps: Vec<Step> = steps.collect();
            let name = self.nodes[node].shared.as_ref().map(|shared| shared.object());
            if let (false, Some(Object::Node(name))) = (steps.is_empty(), name) {
                deltas.changed.push(Delta { node: name.name.clone(), steps });
            }
        }
        deltas
    }

    /// The object's number, if it is known.
    pub(crate) fn find(&self, key: &Key) -> Option<Ref> {
        match key {
            Key::Node(name) => self.nodes.id(name).map(Ref::Node),
            Key::Router(name) => self.routers.id(name).map(Ref::Router),
            Key::Network(name) => self.networks.id(name).map(Ref::Network),
            Key::Selection(id) => self.selections.id(id).map(Ref::Selection),
            Key::Policy(name) => self.policies.id(name).map(Ref::Policy),
            Key::Guard(namespace) => self.guards.id(namespace).map(Ref::Guard),
            Key::Workload(device) => self.workloads.id(device).map(Ref::Workload),
            Key::Port(key) => self.ports.id(key).map(Ref::Port),
            Key::Service(name) => self.services.id(name).map(Ref::Service),
            Key::Endpoints(key) => self.endpoints.id(key).map(Ref::Endpoints),
        }
    }

    pub(crate) fn shared(&self, at: Ref) -> Option<&Arc<Shared>> {
        match at {
            Ref::Node(id) => self.nodes[id].shared.as_ref(),
            Ref::Router(id) => self.routers[id].shared.as_ref(),
            Ref::Network(id) => self.networks[id].shared.as_ref(),
            Ref::Port(id) => self.ports[id].shared.as_ref(),
            Ref::Service(id) => self.services[id].shared.as_ref(),
            Ref::Endpoints(id) => self.endpoints[id].shared.as_ref(),
            Ref::Selection(id) => self.selections[id].as_ref(),
            Ref::Policy(id) => self.policies[id].as_ref(),
            Ref::Guard(id) => self.guards[id].as_ref(),
            Ref::Workload(id) => self.workloads[id].as_ref(),
        }
    }

    pub(crate) fn set(&mut self, at: Ref, shared: Option<Arc<Shared>>) {
        match at {
            Ref::Node(id) => self.nodes[id].shared = shared,
            Ref::Router(id) => self.routers[id].shared = shared,
            Ref::Network(id) => self.networks[id].shared = shared,
            Ref::Port(id) => self.ports[id].shared = shared,
            Ref::Service(id) => self.services[id].shared = shared,
            Ref::Endpoints(id) => self.endpoints[id].shared = shared,
            Ref::Selection(id) => self.selections[id] = shared,
            Ref::Policy(id) => self.policies[id] = shared,
            Ref::Guard(id) => self.guards[id] = shared,
            Ref::Workload(id) => self.workloads[id] = shared,
        }
    }

    /// A place for an object that is to come.
    pub(crate) fn reserve(&mut self, key: &Key) -> Ref {
        match key.clone() {
            Key::Node(name) => Ref::Node(self.nodes.insert(name, NodeSlot::default())),
            Key::Router(name) => Ref::Router(self.routers.insert(name, RouterSlot::default())),
            Key::Network(name) => Ref::Network(self.networks.insert(name, NetworkSlot::default())),
            Key::Selection(id) => Ref::Selection(self.selections.insert(id, None)),
            Key::Policy(name) => Ref::Policy(self.policies.insert(name, None)),
            Key::Guard(namespace) => Ref::Guard(self.guards.insert(namespace, None)),
            Key::Workload(device) => Ref::Workload(self.workloads.insert(device, None)),
            Key::Port(key) => Ref::Port(self.ports.insert(key, PortSlot::default())),
            Key::Service(name) => {
                let slot = ServiceSlot::new(name.clone());
                Ref::Service(self.services.insert(name, slot))
            }
            Key::Endpoints(key) => {
                Ref::Endpoints(self.endpoints.insert(key, EndpointsSlot::default()))
            }
        }
    }

    pub(crate) fn vacate(&mut self, key: &Key) {
        match key {
            Key::Node(name) => self.nodes.remove(name),
            Key::Router(name) => self.routers.remove(name),
            Key::Network(name) => self.networks.remove(name),
            Key::Selection(id) => self.selections.remove(id),
            Key::Policy(name) => self.policies.remove(name),
            Key::Guard(namespace) => self.guards.remove(namespace),
            Key::Workload(device) => self.workloads.remove(device),
            Key::Port(key) => self.ports.remove(key),
            Key::Service(name) => self.services.remove(name),
            Key::Endpoints(key) => self.endpoints.remove(key),
        }
    }

    /// The same object, with its names' text shared with the objects that they name.
    pub(crate) fn intern(&mut self, mut object: Object) -> Object {
        match &mut object {
            Object::Port(port) => {
                if let Some(name) = self.networks.key(&port.network) {
                    port.network = name.clone();
                }
                if let Some(name) = self.nodes.key(&port.node) {
                    port.node = name.clone();
                }
                match self.interfaces.get(&port.key.interface) {
                    Some(name) => port.key.interface = name.clone(),
                    // Few in any real cluster; no memory for those who make them up.
                    None if self.interfaces.len() < 1024 => {
                        self.interfaces.insert(port.key.interface.clone());
                    }
                    None => {}
                }
                if let Some(known) = self.ports.key(&port.key) {
                    port.key = known.clone();
                }
                port.addresses.shrink_to_fit();
            }
            Object::Network(network) => {
                let router = network.router.as_ref().and_then(|name| self.routers.key(name));
                if let Some(name) = router {
                    network.router = Some(name.clone());
                }
            }
            Object::Service(service) => {
                let router = service.router.as_ref().and_then(|name| self.routers.key(name));
                if let Some(name) = router {
                    service.router = Some(name.clone());
                }
            }
            Object::Endpoints(endpoints) => self.intern_endpoints(endpoints),
            Object::Workload(workload) => {
                if let Some(name) = self.nodes.key(&workload.node) {
                    workload.node = name.clone();
                }
            }
            Object::Node(_)
            | Object::Router(_)
            | Object::Selection(_)
            | Object::Policy(_)
            | Object::Guard(_) => {}
        }
        object
    }
}
