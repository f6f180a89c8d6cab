//! Domains: who must know what, kept as counts.
//!
//! Here is the span's definition at work (see the crate's own page). All of it is told as gains and
//! losses of nodes; what they add up to is for the gathering to find.

use crate::check::Batch;
use crate::claims::DEFAULT_VNI;
use crate::cluster::Cluster;
use crate::delta::{Gathering, Ref};
use crate::table::Id;
use osier_model::Object;
use rustc_hash::{FxHashMap, FxHashSet};

/// Networks that reach one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Domain {
    /// All of a router's.
    Router(Id),
    /// One that has no router.
    Alone(Id),
}

impl Cluster {
    /// Makes structures follow the objects. What comes is done before what goes, so that a node
    /// that changes one port for another stays in their domain.
    pub(crate) fn enact(&mut self, batch: &Batch, out: &mut Gathering) {
        for item in &batch.items {
            if let (Ref::Node(id), None, _) | (Ref::Node(id), _, None) =
                (item.at, &item.was, &item.now)
            {
                out.silent.insert(id);
            }
        }
        // Those first: the default number may be another's now.
        for item in &batch.items {
            if let Ref::Network(id) = item.at
                && self.is_misplaced(id)
            {
                self.detach(id, out);
            }
        }
        for item in batch.items.iter().filter(|item| item.now.is_some()) {
            let new = item.was.is_none();
            match item.at {
                Ref::Node(_) => self.tell_all(item.at, new, out),
                Ref::Router(id) => self.tell(Domain::Router(id), item.at, out),
                Ref::Network(id) => self.enact_network(id, out),
                Ref::Port(id) => self.enact_port(id, out),
                Ref::Service(id) => self.enact_service(id, out),
                Ref::Endpoints(id) => self.enact_endpoints(id, new, out),
                Ref::Selection(_) | Ref::Policy(_) | Ref::Guard(_) | Ref::Workload(_) => {}
            }
        }
        for item in batch.items.iter().rev().filter(|item| item.now.is_none()) {
            match item.at {
                Ref::Endpoints(id) => self.retract_endpoints(id, &item.key, out),
                Ref::Service(id) => self.move_service(id, None, out),
                Ref::Port(id) => self.unplace(id, out),
                Ref::Network(id) => self.detach(id, out),
                Ref::Router(_)
                | Ref::Selection(_)
                | Ref::Policy(_)
                | Ref::Guard(_)
                | Ref::Workload(_) => {}
                Ref::Node(id) => {
                    for (other, _) in self.nodes.iter().filter(|(other, _)| *other != id) {
                        out.lose(other, item.at);
                    }
                }
            }
        }
    }

    fn tell_all(&self, object: Ref, new: bool, out: &mut Gathering) {
        for (node, _) in self.nodes.iter() {
            match new {
                true => out.gain(node, object),
                false => out.touch(node, object),
            }
        }
    }

    fn tell(&self, domain: Domain, object: Ref, out: &mut Gathering) {
        for node in self.members(domain) {
            out.touch(node, object);
        }
    }

    /// Where a network belongs, and whether it is the default one.
    fn belongs(&self, id: Id) -> Option<(Domain, bool)> {
        let Object::Network(network) = self.networks[id].shared.as_ref()?.object() else {
            return None;
        };
        let router = network.router.as_ref().and_then(|name| self.routers.id(name));
        let domain = router.map_or(Domain::Alone(id), Domain::Router);
        Some((domain, network.vni.get() == DEFAULT_VNI))
    }

    /// Whether a network must leave its domain before it, or another, finds its place.
    fn is_misplaced(&self, id: Id) -> bool {
        let default = self.default == Some(id);
        match (self.networks[id].domain, self.belongs(id)) {
            (Some(now), Some(belongs)) => (now, default) != belongs,
            (_, None) => default,
            (None, _) => false,
        }
    }

    fn enact_network(&mut self, id: Id, out: &mut Gathering) {
        match (self.networks[id].domain, self.belongs(id)) {
            (Some(domain), _) => self.tell(domain, Ref::Network(id), out),
            (None, Some((domain, default))) => self.attach(id, domain, default, out),
            (None, None) => {}
        }
    }

    fn enact_port(&mut self, id: Id, out: &mut Gathering) {
        let Some(Object::Port(port)) = self.ports[id].shared.as_ref().map(|s| s.object()) else {
            return;
        };
        let place = self.networks.id(&port.network).zip(self.nodes.id(&port.node));
        let Some((network, node)) = place else { return };
        if self.ports[id].place == place {
            for viewer in self.viewers(network, node) {
                out.touch(viewer, Ref::Port(id));
            }
        } else {
            self.unplace(id, out);
            self.place(id, network, node, out);
        }
    }

    /// Whether the default network is in it, and with it every node.
    fn is_everywhere(&self, domain: Domain) -> bool {
        self.default.is_some_and(|id| self.networks[id].domain == Some(domain))
    }

    fn counts(&self, domain: Domain) -> &FxHashMap<Id, u32> {
        match domain {
            Domain::Router(id) => &self.routers[id].at,
            Domain::Alone(id) => &self.networks[id].at,
        }
    }

    pub(crate) fn members(&self, domain: Domain) -> Vec<Id> {
        match self.is_everywhere(domain) {
            true => self.nodes.iter().map(|(id, _)| id).collect(),
            false => self.counts(domain).keys().copied().collect(),
        }
    }

    fn is_member(&self, domain: Domain, node: Id) -> bool {
        self.is_everywhere(domain) || self.counts(domain).contains_key(&node)
    }

    /// Who must know a network's port that is on a node.
    fn viewers(&self, network: Id, node: Id) -> Vec<Id> {
        match self.networks[network].domain {
            _ if self.default == Some(network) => vec![node],
            Some(domain) => self.members(domain),
            None => Vec::new(),
        }
    }

    /// The domains that a node is in.
    pub(crate) fn domains_of(&self, node: Id) -> FxHashSet<Domain> {
        let ports = self.nodes[node].ports.iter();
        let networks = ports.filter_map(|port| self.ports[*port].place.map(|(network, _)| network));
        networks.chain(self.default).filter_map(|id| self.networks[id].domain).collect()
    }

    /// All that a node must know of a domain that it is in.
    pub(crate) fn each_of(&self, domain: Domain, node: Id, mut each: impl FnMut(Ref)) {
        match domain {
            Domain::Alone(id) => self.each_of_network(id, node, &mut each),
            Domain::Router(id) => {
                each(Ref::Router(id));
                for network in &self.routers[id].networks {
                    self.each_of_network(*network, node, &mut each);
                }
                for service in &self.routers[id].services {
                    self.each_of_service(*service, &mut each);
                }
            }
        }
    }

    fn each_of_network(&self, network: Id, node: Id, each: &mut impl FnMut(Ref)) {
        each(Ref::Network(network));
        if self.default == Some(network) {
            let ports = self.nodes[node].ports.iter();
            let here = |port: &&Id| self.ports[**port].place == Some((network, node));
            ports.filter(here).for_each(|port| each(Ref::Port(*port)));
        } else {
            self.networks[network].ports.iter().for_each(|port| each(Ref::Port(*port)));
        }
    }

    /// Nodes whose membership may change with a network.
    fn concerned(&self, network: Id, default: bool) -> Vec<Id> {
        match default {
            true => self.nodes.iter().map(|(id, _)| id).collect(),
            false => self.networks[network].at.keys().copied().collect(),
        }
    }

    fn attach(&mut self, id: Id, domain: Domain, default: bool, out: &mut Gathering) {
        let outside = |this: &Self, node: &Id| !this.is_member(domain, *node);
        let mut newcomers = self.concerned(id, default);
        if let Domain::Router(_) = domain {
            newcomers.retain(|node| outside(self, node));
        }
        // They learn what was there before; of a network alone that is nothing.
        if let Domain::Router(router) = domain {
            for node in newcomers {
                self.each_of(domain, node, |object| out.gain(node, object));
            }
            self.routers[router].networks.insert(id);
            for (node, count) in self.networks[id].at.clone() {
                *self.routers[router].at.entry(node).or_default() += count;
            }
        }
        self.networks[id].domain = Some(domain);
        if default {
            self.default = Some(id);
        }
        for node in self.members(domain) {
            self.each_of_network(id, node, &mut |object| out.gain(node, object));
        }
    }

    fn detach(&mut self, id: Id, out: &mut Gathering) {
        let Some(domain) = self.networks[id].domain else { return };
        for node in self.members(domain) {
            self.each_of_network(id, node, &mut |object| out.lose(node, object));
        }
        let default = self.default == Some(id);
        let leavers = self.concerned(id, default);
        self.networks[id].domain = None;
        if default {
            self.default = None;
        }
        if let Domain::Router(router) = domain {
            self.routers[router].networks.remove(&id);
            for (node, count) in self.networks[id].at.clone() {
                subtract(&mut self.routers[router].at, node, count);
            }
            for node in leavers {
                if !self.is_member(domain, node) {
                    self.each_of(domain, node, |object| out.lose(node, object));
                }
            }
        }
    }

    fn place(&mut self, id: Id, network: Id, node: Id, out: &mut Gathering) {
        let Some(domain) = self.networks[network].domain else { return };
        let known = self.is_member(domain, node);
        self.ports[id].place = Some((network, node));
        self.networks[network].ports.insert(id);
        self.nodes[node].ports.insert(id);
        *self.networks[network].at.entry(node).or_default() += 1;
        if let Domain::Router(router) = domain {
            *self.routers[router].at.entry(node).or_default() += 1;
        }
        if !known {
            self.each_of(domain, node, |object| out.gain(node, object));
        }
        for viewer in self.viewers(network, node) {
            out.gain(viewer, Ref::Port(id));
        }
    }

    fn unplace(&mut self, id: Id, out: &mut Gathering) {
        let Some((network, node)) = self.ports[id].place else { return };
        for viewer in self.viewers(network, node) {
            out.lose(viewer, Ref::Port(id));
        }
        self.ports[id].place = None;
        self.networks[network].ports.remove(&id);
        self.nodes[node].ports.remove(&id);
        subtract(&mut self.networks[network].at, node, 1);
        let Some(domain) = self.networks[network].domain else { return };
        if let Domain::Router(router) = domain {
            subtract(&mut self.routers[router].at, node, 1);
        }
        if !self.is_member(domain, node) {
            self.each_of(domain, node, |object| out.lose(node, object));
        }
    }
}

fn subtract(counts: &mut FxHashMap<Id, u32>, node: Id, count: u32) {
    if let Some(left) = counts.get_mut(&node) {
        *left = left.saturating_sub(count);
        if *left == 0 {
            counts.remove(&node);
        }
    }
}
