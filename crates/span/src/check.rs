//! Changes on their way in: made at once, checked against all that is there, taken back whole if
//! one is wrong.

use crate::claims::{Around, Claim, DEFAULT_VNI, Field, Space, claims_of};
use crate::cluster::Cluster;
use crate::delta::Ref;
use crate::error::Refused;
use crate::shared::Shared;
use osier_model::{
    Change, Invalid, Key, Network, NetworkName, Object, Port, Problem, Reach, RouterName,
};
use rustc_hash::FxHashMap;
use std::net::IpAddr;
use std::sync::Arc;

/// Changes whose objects are in their places, and right.
#[derive(Debug)]
pub(crate) struct Batch {
    /// Each object once, what others refer to first; none that stays as it is.
    pub(crate) items: Vec<Item>,
    index: FxHashMap<Ref, usize>,
}

/// One object's change.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) key: Key,
    pub(crate) at: Ref,
    pub(crate) was: Option<Arc<Shared>>,
    pub(crate) now: Option<Arc<Shared>>,
}

/// Changes whose objects are in their places, right or wrong, and what it takes to undo that.
struct Placed {
    items: Vec<Item>,
    held: Vec<(Ref, Claim)>,
    taken: Vec<Claim>,
}

// === impl Placed ===

impl Placed {
    fn new(cluster: &mut Cluster, changes: Vec<(Key, Option<Object>)>) -> Self {
        let mut items = Vec::with_capacity(changes.len());
        for (key, object) in changes {
            let at = cluster.find(&key).unwrap_or_else(|| cluster.reserve(&key));
            let was = cluster.shared(at).cloned();
            items.push((Item { key, at, was, now: None }, object));
        }
        for (item, object) in &mut items {
            if let Some(object) = object.take() {
                item.now = Some(Arc::new(Shared::new(cluster.intern(object))));
            }
        }
        let items: Vec<Item> = items.into_iter().map(|(item, _)| item).collect();
        let held: Vec<(Ref, Claim)> = items
            .iter()
            .filter_map(|item| Some((item.at, item.was.as_ref()?)))
            .flat_map(|(at, was)| {
                let claims = cluster.claims_of(at, was.object());
                claims.into_iter().map(move |(_, claim)| (at, claim))
            })
            .collect();
        for (_, claim) in &held {
            cluster.claims.release(*claim);
        }
        for item in &items {
            cluster.set(item.at, item.now.clone());
        }
        Self { items, held, taken: Vec::new() }
    }

    fn check(&mut self, cluster: &mut Cluster) -> Result<(), Refused> {
        let Self { items, taken, .. } = self;
        items.iter().try_for_each(|item| cluster.check_item(item))?;
        items.iter().try_for_each(|item| cluster.claim(item, taken))?;
        items.iter().try_for_each(|item| cluster.check_blocks(item))?;
        items.iter().try_for_each(|item| cluster.check_service(item))
    }

    fn undo(self, cluster: &mut Cluster) {
        for claim in self.taken {
            cluster.claims.release(claim);
        }
        for item in &self.items {
            cluster.set(item.at, item.was.clone());
        }
        for (at, claim) in self.held {
            // They were held side by side before.
            let _ = cluster.claims.take(claim, at);
        }
        for item in self.items.iter().filter(|item| item.was.is_none()) {
            cluster.vacate(&item.key);
        }
    }
}

// === impl Batch ===

impl Batch {
    /// Puts the objects in their places. On an error all is as it was.
    pub(crate) fn place(cluster: &mut Cluster, changes: Vec<Change>) -> Result<Self, Refused> {
        let changes = net(cluster, changes)?;
        let mut placed = Placed::new(cluster, changes);
        if let Err(refused) = placed.check(cluster) {
            placed.undo(cluster);
            return Err(refused);
        }
        let items = placed.items;
        let index = (0..).zip(&items).map(|(i, item)| (item.at, i)).collect();
        Ok(Self { items, index })
    }

    /// An object as it was before the changes.
    pub(crate) fn was(&self, cluster: &Cluster, at: Ref) -> Option<Arc<Shared>> {
        match self.index.get(&at) {
            Some(i) => self.items[*i].was.clone(),
            None => cluster.shared(at).cloned(),
        }
    }

    /// Gives the places of what is gone to others.
    pub(crate) fn finish(self, cluster: &mut Cluster) {
        for item in self.items.iter().filter(|item| item.now.is_none()) {
            cluster.vacate(&item.key);
        }
    }
}

/// What changes come to, each object checked alone.
fn net(cluster: &Cluster, changes: Vec<Change>) -> Result<Vec<(Key, Option<Object>)>, Refused> {
    let mut last: FxHashMap<Key, Option<Object>> = FxHashMap::default();
    for change in changes {
        match change {
            Change::Put(object) => {
                object.validate()?;
                last.insert(object.key(), Some(object));
            }
            Change::Delete(key) => {
                last.insert(key, None);
            }
        }
    }
    let new = |(key, object): &(Key, Option<Object>)| {
        cluster.get(key).map(|shared| shared.object()) != object.as_ref()
    };
    let mut net: Vec<(Key, Option<Object>)> = last.into_iter().filter(new).collect();
    // Keys are in the order of reference: nodes, routers, networks, ports, Services, endpoints.
    net.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(net)
}

pub(crate) fn invalid(key: &Key, field: impl std::fmt::Display, problem: Problem) -> Refused {
    Invalid { object: key.to_string(), field: format!("{field}"), problem }.into()
}

impl Cluster {
    /// Whether changes could be made, all of them; nothing is changed, and nobody notices.
    pub fn check(&mut self, changes: Vec<Change>) -> Result<(), Refused> {
        let changes = net(self, changes)?;
        let mut placed = Placed::new(self, changes);
        let checked = placed.check(self);
        placed.undo(self);
        checked
    }

    /// Who has an address in a network: a port, or the network itself for its gateway.
    pub fn holder(&self, network: &NetworkName, address: IpAddr) -> Option<Key> {
        let claim = Claim::Address(self.networks.id(network)?, address);
        self.shared(self.claims.holder(claim)?).map(|shared| shared.object().key())
    }

    fn claims_of(&self, at: Ref, object: &Object) -> Vec<(Field, Claim)> {
        claims_of(object, self.around(at, object))
    }

    fn around(&self, at: Ref, object: &Object) -> Around {
        let mut around = Around { network: 0, reach: Reach::Routed, router: None };
        match (at, object) {
            (Ref::Network(id), Object::Network(network)) => {
                around.network = id;
                around.router = network.router.as_ref().and_then(|name| self.routers.id(name));
            }
            (_, Object::Port(port)) => {
                if let Some(id) = self.networks.id(&port.network) {
                    around.network = id;
                    around.reach = self.network(id).map_or(Reach::Routed, |n| n.reach);
                }
            }
            (_, Object::Service(service)) => {
                around.router = service.router.as_ref().and_then(|name| self.routers.id(name));
            }
            _ => {}
        }
        around
    }

    fn network(&self, id: u32) -> Option<&Network> {
        match self.networks[id].shared.as_ref()?.object() {
            Object::Network(network) => Some(network),
            _ => None,
        }
    }

    fn port(&self, id: u32) -> Option<&Port> {
        match self.ports[id].shared.as_ref()?.object() {
            Object::Port(port) => Some(port),
            _ => None,
        }
    }

    fn claim(&mut self, item: &Item, taken: &mut Vec<Claim>) -> Result<(), Refused> {
        let Some(now) = &item.now else { return Ok(()) };
        for (field, claim) in self.claims_of(item.at, now.object()) {
            if let Err(holder) = self.claims.take(claim, item.at) {
                let holder = self.shared(holder).map(|shared| shared.object().key());
                let holder = holder.map_or_else(|| "another".to_owned(), |key| key.to_string());
                return Err(invalid(&item.key, field, claim.taken(holder)));
            }
            taken.push(claim);
        }
        Ok(())
    }

    /// References, and what else depends on other objects.
    fn check_item(&self, item: &Item) -> Result<(), Refused> {
        match (item.at, item.now.as_ref().map(|shared| shared.object())) {
            (_, Some(Object::Port(port))) => self.check_port(&item.key, port),
            (Ref::Network(id), Some(Object::Network(network))) => {
                let fits = self.fabric().check_vni(network.vni);
                fits.map_err(|problem| invalid(&item.key, "vni", problem))?;
                self.check_network(item, id, network)
            }
            (_, Some(Object::Service(service))) => {
                self.check_router(&item.key, service.router.as_ref())
            }
            (at, None) => self.check_unused(&item.key, at),
            _ => Ok(()),
        }
    }

    fn check_port(&self, key: &Key, port: &Port) -> Result<(), Refused> {
        let unknown =
            |field, kind, name: String| Err(invalid(key, field, Problem::Unknown { kind, name }));
        let network = self.networks.id(&port.network).and_then(|id| self.network(id));
        let Some(network) = network else {
            return unknown("network", "network", port.network.to_string());
        };
        if self.nodes.id(&port.node).is_none_or(|id| self.nodes[id].shared.is_none()) {
            return unknown("node", "node", port.node.to_string());
        }
        if !network.subnets.is_empty() {
            for (i, address) in port.addresses.iter().enumerate() {
                if network.subnet_of(*address).is_none() {
                    let (address, prefix) = (*address, format!("network {}", network.name));
                    let problem = Problem::NotInside { address, prefix };
                    return Err(invalid(key, Field::of("addresses", i, ""), problem));
                }
            }
        }
        Ok(())
    }

    fn check_router(&self, key: &Key, name: Option<&RouterName>) -> Result<(), Refused> {
        let known =
            |name| self.routers.id(name).is_some_and(|id| self.routers[id].shared.is_some());
        match name.filter(|name| !known(name)) {
            None => Ok(()),
            Some(name) => {
                let problem = Problem::Unknown { kind: "router", name: name.to_string() };
                Err(invalid(key, "router", problem))
            }
        }
    }

    fn check_network(&self, item: &Item, id: u32, network: &Network) -> Result<(), Refused> {
        self.check_router(&item.key, network.router.as_ref())?;
        let Some(Object::Network(was)) = item.was.as_ref().map(|shared| shared.object()) else {
            return Ok(());
        };
        let mut ports = self.networks[id].ports.iter().filter_map(|port| self.port(*port));
        if was.reach != network.reach
            && let Some(port) = ports.next()
        {
            let port = Key::Port(port.key.clone());
            return Err(Refused::ReachInUse { object: item.key.clone(), port });
        }
        if was.subnets != network.subnets {
            ports
                .filter(|port| port.network == network.name)
                .try_for_each(|port| self.check_port(&Key::Port(port.key.clone()), port))?;
        }
        Ok(())
    }

    fn check_unused(&self, key: &Key, at: Ref) -> Result<(), Refused> {
        let by = match (key, at) {
            (Key::Router(name), Ref::Router(id)) => self.routers[id]
                .networks
                .iter()
                .filter_map(|id| self.network(*id))
                .find(|network| network.router.as_ref() == Some(name))
                .map(|network| Key::Network(network.name.clone()))
                .or_else(|| self.service_of(id, name)),
            (Key::Network(name), Ref::Network(id)) => {
                let mut ports = self.networks[id].ports.iter().filter_map(|id| self.port(*id));
                ports.find(|port| port.network == *name).map(|port| Key::Port(port.key.clone()))
            }
            (Key::Node(name), Ref::Node(id)) => {
                let mut ports = self.nodes[id].ports.iter().filter_map(|id| self.port(*id));
                ports.find(|port| port.node == *name).map(|port| Key::Port(port.key.clone()))
            }
            _ => None,
        };
        match by {
            Some(by) => Err(Refused::InUse { object: key.clone(), by }),
            None => Ok(()),
        }
    }

    /// On the default network, the way to an address is the way to the node whose block it is of.
    fn check_blocks(&self, item: &Item) -> Result<(), Refused> {
        let Some(Object::Port(port)) = item.now.as_ref().map(|shared| shared.object()) else {
            return Ok(());
        };
        let network = self.networks.id(&port.network).and_then(|id| self.network(id));
        if network.is_none_or(|network| network.vni.get() != DEFAULT_VNI) {
            return Ok(());
        }
        for (i, address) in port.addresses.iter().enumerate() {
            if let Some(Ref::Node(owner)) = self.claims.owner_of(Space::Blocks, *address)
                && self.nodes.id(&port.node) != Some(owner)
            {
                let owner = self.nodes[owner].shared.as_ref().map(|s| s.object().key().to_string());
                let (value, owner) = (address.to_string(), owner.unwrap_or_default());
                let problem = Problem::Taken { value, owner };
                return Err(invalid(&item.key, Field::of("addresses", i, ""), problem));
            }
        }
        Ok(())
    }
}
