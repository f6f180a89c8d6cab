//! Services and their endpoints: who must know them.
//!
//! A Service is known by the nodes that have its router, or by all; its endpoints are known where it
//! is. Endpoints may come before their Service and stay after it: nobody hears of them then.

use crate::check::{Item, invalid};
use crate::claims::{Claim, Field, Space};
use crate::cluster::Cluster;
use crate::delta::{Gathering, Ref};
use crate::domain::Domain;
use crate::error::Refused;
use crate::shared::Shared;
use crate::table::Id;
use osier_model::{Endpoints, Key, NodeName, Object, Problem, RouterName, Service, ServiceName};
use std::net::IpAddr;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct ServiceSlot {
    name: ServiceName,
    pub(crate) shared: Option<Arc<Shared>>,
    /// Who knows it now.
    audience: Option<Audience>,
}

#[derive(Debug, Default)]
pub(crate) struct EndpointsSlot {
    pub(crate) shared: Option<Arc<Shared>>,
}

// === impl ServiceSlot ===

impl ServiceSlot {
    pub(crate) fn new(name: ServiceName) -> Self {
        Self { name, shared: None, audience: None }
    }
}

/// Who knows a Service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Audience {
    /// Every node.
    All,
    /// Nodes that have a router.
    Router(Id),
}

impl Cluster {
    /// Whether a Service answers at an address.
    pub fn is_service_address(&self, address: IpAddr) -> bool {
        self.claims.is_listened_at(address)
    }

    /// Endpoints of a Service, a slice at a time.
    pub fn endpoints_of(&self, service: &ServiceName) -> impl Iterator<Item = &Endpoints> {
        let slices = self.slices.get(service).into_iter().flatten();
        slices.filter_map(|id| match self.endpoints[*id].shared.as_ref()?.object() {
            Object::Endpoints(endpoints) => Some(endpoints),
            _ => None,
        })
    }

    /// A Service, and its endpoints.
    pub(crate) fn each_of_service(&self, id: Id, each: &mut impl FnMut(Ref)) {
        each(Ref::Service(id));
        let slices = self.slices.get(&self.services[id].name);
        slices.into_iter().flatten().for_each(|slice| each(Ref::Endpoints(*slice)));
    }

    fn service(&self, id: Id) -> Option<&Service> {
        match self.services[id].shared.as_ref()?.object() {
            Object::Service(service) => Some(service),
            _ => None,
        }
    }

    /// A Service that uses a router.
    pub(crate) fn service_of(&self, router: Id, name: &RouterName) -> Option<Key> {
        let mut services = self.routers[router].services.iter().filter_map(|id| self.service(*id));
        let found = services.find(|service| service.router.as_ref() == Some(name))?;
        Some(Key::Service(found.name.clone()))
    }

    fn audience(&self, audience: Audience) -> Vec<Id> {
        match audience {
            Audience::All => self.nodes.iter().map(|(id, _)| id).collect(),
            Audience::Router(id) => self.members(Domain::Router(id)),
        }
    }

    pub(crate) fn enact_service(&mut self, id: Id, out: &mut Gathering) {
        let router = self.service(id).map(|service| service.router.clone());
        let belongs = router.and_then(|router| match router {
            None => Some(Audience::All),
            Some(name) => self.routers.id(&name).map(Audience::Router),
        });
        match belongs {
            Some(audience) if self.services[id].audience == belongs => {
                for node in self.audience(audience) {
                    out.touch(node, Ref::Service(id));
                }
            }
            _ => self.move_service(id, belongs, out),
        }
    }

    /// Tells it to others, or to nobody.
    pub(crate) fn move_service(&mut self, id: Id, to: Option<Audience>, out: &mut Gathering) {
        if let Some(from) = self.services[id].audience {
            for node in self.audience(from) {
                self.each_of_service(id, &mut |object| out.lose(node, object));
            }
            match from {
                Audience::All => self.everywhere.remove(&id),
                Audience::Router(router) => self.routers[router].services.remove(&id),
            };
        }
        self.services[id].audience = to;
        if let Some(to) = to {
            match to {
                Audience::All => self.everywhere.insert(id),
                Audience::Router(router) => self.routers[router].services.insert(id),
            };
            for node in self.audience(to) {
                self.each_of_service(id, &mut |object| out.gain(node, object));
            }
        }
    }

    pub(crate) fn enact_endpoints(&mut self, id: Id, new: bool, out: &mut Gathering) {
        let Some(Object::Endpoints(endpoints)) =
            self.endpoints[id].shared.as_ref().map(|s| s.object())
        else {
            return;
        };
        let service = endpoints.key.service.clone();
        let audience = self.services.id(&service).and_then(|id| self.services[id].audience);
        self.slices.entry(service).or_default().insert(id);
        for node in audience.map(|audience| self.audience(audience)).into_iter().flatten() {
            match new {
                true => out.gain(node, Ref::Endpoints(id)),
                false => out.touch(node, Ref::Endpoints(id)),
            }
        }
    }

    pub(crate) fn retract_endpoints(&mut self, id: Id, key: &Key, out: &mut Gathering) {
        let Key::Endpoints(key) = key else { return };
        let audience = self.services.id(&key.service).and_then(|id| self.services[id].audience);
        for node in audience.map(|audience| self.audience(audience)).into_iter().flatten() {
            out.lose(node, Ref::Endpoints(id));
        }
        if let Some(slices) = self.slices.get_mut(&key.service) {
            slices.remove(&id);
            if slices.is_empty() {
                self.slices.remove(&key.service);
            }
        }
    }

    /// A Service's addresses are nobody else's: no pod's, and inside of the cluster no machine's.
    pub(crate) fn check_service(&self, item: &Item) -> Result<(), Refused> {
        let Some(Object::Service(service)) = item.now.as_ref().map(|shared| shared.object()) else {
            return Ok(());
        };
        // Another router has addresses of its own.
        if service.router.is_some() {
            return Ok(());
        }
        let pods = |address| self.claims.owner_of(Space::Blocks, address);
        let pods_or_nodes =
            |address| pods(address).or_else(|| self.claims.holder(Claim::Underlay(address)));
        self.check_free(item, "addresses", &service.addresses, pods_or_nodes)?;
        self.check_free(item, "external", &service.external, pods)?;
        self.check_free(item, "balanced", &service.balanced, pods)
    }

    fn check_free(
        &self,
        item: &Item,
        field: &'static str,
        addresses: &[IpAddr],
        holder: impl Fn(IpAddr) -> Option<Ref>,
    ) -> Result<(), Refused> {
        for (i, address) in addresses.iter().enumerate() {
            let Some(owner) = holder(*address).and_then(|at| self.shared(at)) else { continue };
            let (value, owner) = (address.to_string(), owner.object().key().to_string());
            let problem = Problem::Taken { value, owner };
            return Err(invalid(&item.key, Field::of(field, i, ""), problem));
        }
        Ok(())
    }

    /// Endpoints name the same nodes over and over.
    pub(crate) fn intern_endpoints(&self, endpoints: &mut Endpoints) {
        if let Some(name) = self.services.key(&endpoints.key.service) {
            endpoints.key.service = name.clone();
        }
        let intern = |name: &mut NodeName| {
            if let Some(known) = self.nodes.key(name) {
                *name = known.clone();
            }
        };
        for endpoint in &mut endpoints.endpoints {
            endpoint.node.iter_mut().chain(&mut endpoint.nodes).for_each(intern);
            endpoint.zones.shrink_to_fit();
            endpoint.nodes.shrink_to_fit();
        }
        endpoints.endpoints.shrink_to_fit();
    }
}
