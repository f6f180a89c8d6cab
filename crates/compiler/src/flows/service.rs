//! A Service: what connections to each of its addresses and ports become. A flow for each, or a few
//! where endpoints are many; endpoints are in groups (`balance`), so that their coming and going
//! changes no flow.

use super::affinity;
use super::balance::{self, Choice, Door};
use super::node::own_addresses;
use super::{priority, service_gateway};
use crate::conntrack::{fields, state, zone_of};
use crate::pipeline::Table;
use crate::plan::{Emitter, Rule};
use crate::question::Question;
use crate::registers::{Origin, Register};
use crate::services::{Services, families, node_port_address, stand_in, vrf_of};
use ipnet::IpNet;
use osier_model::{
    Backend, Candidates, Locality, Service, ServicePort, Standpoint, Transport, View, VrfId,
};
use osier_openflow::field::Field;
use osier_openflow::flow::Flow;
use osier_openflow::message::FlowRemoved;
use osier_openflow::port_no::PortNo;
use std::net::IpAddr;

/// The bit of `ip_frag` that all fragments have.
const FRAGMENT: u8 = 1;
/// The header of fragments: all that flows are told of those of IPv6 that are not the first.
const FRAGMENT_HEADER: u8 = 44;

/// What a Service's flows depend on, beside itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scene<'a> {
    pub(crate) view: &'a View,
    pub(crate) services: &'a Services,
    pub(crate) vrf: VrfId,
    /// The port by which the machine leads, if it does.
    pub(crate) gateway: Option<PortNo>,
}

/// Who asks for endpoints of one port and family, and what there is.
struct Ways<'a> {
    scene: Scene<'a>,
    service: &'a Service,
    port: &'a ServicePort,
    ipv6: bool,
    candidates: Candidates<'a>,
}

pub(crate) fn flows(out: &mut Emitter, service: &Service, scene: Scene<'_>) {
    for port in &service.ports {
        for ipv6 in families(service) {
            let slices = scene.view.endpoints_of(&service.name);
            let candidates = Candidates::new(slices, port, ipv6);
            Ways { scene, service, port, ipv6, candidates }.flows(out);
        }
    }
}

/// What keeps a client of a Service with its endpoint, when what was learned of it has ended and its
/// time has not.
pub(crate) fn prolonged(removed: &FlowRemoved, view: &View, services: &Services) -> Option<Flow> {
    let of = services.choice_of(affinity::group_of(removed)?)?;
    let service = view.services().get(of.service)?;
    let scene = Scene { view, services, vrf: vrf_of(service, view)?, gateway: None };
    let port =
        service.ports.iter().find(|port| (port.transport, port.port) == (of.transport, of.port))?;
    let candidates = Candidates::new(view.endpoints_of(of.service), port, of.ipv6);
    let ways = Ways { scene, service, port, ipv6: of.ipv6, candidates };
    affinity::prolonged(&ways.choice(of.locality)?, removed)
}

// === impl Ways ===

impl Ways<'_> {
    fn flows(&self, out: &mut Emitter) {
        let Service { addresses, external, balanced, source_ranges, .. } = self.service;
        let of_family = |a: &&IpAddr| a.is_ipv6() == self.ipv6;
        if self.scene.view.fabric().accounting {
            self.count(out);
        }
        if let Some(gateway) = self.scene.gateway {
            return self.lead_by_machine(out, gateway);
        }
        let (internal, outward) = (self.service.internal_traffic, self.service.external_traffic);
        let mut needed = Vec::new();
        for address in addresses.iter().filter(of_family) {
            let pieces = self.in_pieces(*address);
            for door in [self.to(*address, self.port.port)].into_iter().chain(pieces) {
                self.lead(out, door, internal, &mut needed);
            }
        }
        let node_port = self.port.node_port.map(|port| (node_port_address(self.ipv6), port));
        let outside = self.known_by(external).map(|a| (a, self.port.port));
        for door in outside.chain(node_port).map(|(address, port)| self.to(address, port)) {
            self.outward_way(out, &door, None, outward, &mut needed);
        }
        let balanced = self.known_by(balanced);
        for door in balanced.map(|address| self.to(address, self.port.port)) {
            if source_ranges.is_empty() {
                self.outward_way(out, &door, None, outward, &mut needed);
                continue;
            }
            for range in source_ranges.iter().filter(|r| r.addr().is_ipv6() == self.ipv6) {
                self.outward_way(out, &door, Some(*range), outward, &mut needed);
            }
            // Whom the ranges do not name.
            out.add(door.rule.with_priority(priority::OTHERS));
        }
        needed.sort_unstable_by_key(|locality| *locality == Locality::Local);
        needed.dedup();
        for locality in needed {
            if let Some(choice) = self.choice(locality) {
                balance::groups(out, &choice);
            }
        }
    }

    /// Addresses of the family that the outside knows, with what stands for those of this machine.
    fn known_by<'a>(&'a self, addresses: &'a [IpAddr]) -> impl Iterator<Item = IpAddr> + 'a {
        let own = self.scene.view.nodes().get(self.scene.view.node());
        let of_family = addresses.iter().copied().filter(|a| a.is_ipv6() == self.ipv6);
        of_family.flat_map(move |a| [Some(a), own.and_then(|own| stand_in(own, a))]).flatten()
    }

    /// The machine leads, as kube-proxy tells it; what is of the cluster's range goes there as a whole.
    fn lead_by_machine(&self, out: &mut Emitter, gateway: PortNo) {
        let Service { addresses, external, balanced, .. } = self.service;
        let ranges = &self.scene.view.fabric().services;
        let all = addresses.iter().chain(external).chain(balanced);
        let apart = all.filter(|a| !ranges.iter().any(|range| range.contains(*a)));
        for address in apart.filter(|a| a.is_ipv6() == self.ipv6) {
            let Door { rule, .. } = self.to(*address, self.port.port);
            out.add(service_gateway::lead_new(rule, gateway));
        }
    }

    /// Counts what goes through connections that are there: what begins one is counted by what leads it.
    fn count(&self, out: &mut Emitter) {
        let Service { addresses, external, balanced, .. } = self.service;
        let ServicePort { transport, port, node_port, .. } = *self.port;
        let outside = self.known_by(external).chain(self.known_by(balanced));
        let known = addresses.iter().copied().chain(outside).map(|a| (a, port));
        let at_nodes = node_port.map(|port| (node_port_address(self.ipv6), port));
        let of_family = known.chain(at_nodes).filter(|(a, _)| a.is_ipv6() == self.ipv6);
        for (address, port) in of_family {
            let counts = |table, priority, state| {
                let rule = Rule::new(table, priority).when(Register::VRF, self.scene.vrf.0);
                rule.tracked(state).begun_to(address, transport, port)
            };
            let asks = counts(Table::Service, priority::COUNTED, state::DESTINATION_TRANSLATED);
            out.add(asks.load(Register::FROM_SERVICE, 1_u8).to(Table::Route));
            let answers = counts(Table::Account, priority::NORMAL, state::ANSWER);
            out.add(answers.to(Table::GatewayMac));
        }
    }

    /// Connections to an address.
    fn to(&self, address: IpAddr, port: u16) -> Door {
        let Some((protocol, source, destination)) = fields(self.port.transport) else {
            // What the Service's other ports are not for.
            return Door { rule: self.at(address).with_priority(priority::OTHERS), source: None };
        };
        let rule = self.at(address).eq(Field::IP_PROTO, protocol).eq(destination, port);
        Door { rule, source: Some(source) }
    }

    /// Datagrams in pieces: only the first tells its port to flows, so an address of its own with one
    /// such port needs none. Who connects before it sends has nothing in pieces yet. In the kernel's
    /// datapath the tracker has made them whole by here.
    fn in_pieces(&self, address: IpAddr) -> Vec<Door> {
        let datagrams = |port: &&ServicePort| port.transport == Transport::Udp;
        let only = self.service.ports.iter().filter(datagrams).count() == 1;
        let Some((protocol, ..)) = fields(self.port.transport) else { return Vec::new() };
        if !only || !datagrams(&self.port) {
            return Vec::new();
        }
        let later = self.ipv6.then_some(FRAGMENT_HEADER);
        let door = |protocol| {
            let rule =
                self.at(address).with_priority(priority::GUARD).eq(Field::IP_PROTO, protocol);
            Door { rule: rule.masked(Field::IP_FRAG, FRAGMENT, FRAGMENT), source: None }
        };
        [protocol].into_iter().chain(later).map(door).collect()
    }

    fn at(&self, address: IpAddr) -> Rule {
        Rule::new(Table::Service, priority::NORMAL)
            .when(Register::VRF, self.scene.vrf.0)
            .destined(address.into())
    }

    /// Connections to an address that the outside knows. Who is inside is not bound to the local
    /// endpoints of some node.
    fn outward_way(
        &self,
        out: &mut Emitter,
        door: &Door,
        range: Option<IpNet>,
        locality: Locality,
        needed: &mut Vec<Locality>,
    ) {
        let of_range = |rule: Rule| match range {
            Some(range) => rule.sourced_in(range),
            None => rule,
        };
        let for_rule = |rule: Rule| Door { rule, source: door.source };
        self.lead(out, for_rule(of_range(door.rule.clone())), Locality::Cluster, needed);
        if locality == Locality::Cluster || self.backends(Locality::Cluster).is_empty() {
            return;
        }
        let by_gateway = || door.rule.clone().when(Register::FROM, Origin::Gateway as u8);
        let local = of_range(by_gateway().with_priority(priority::GUARD));
        self.lead(out, for_rule(local), locality, needed);
        let own = self.scene.view.nodes().get(self.scene.view.node());
        let may =
            |a: &IpAddr| a.is_ipv6() == self.ipv6 && range.is_none_or(|range| range.contains(a));
        for address in own.into_iter().flat_map(own_addresses).filter(may) {
            let rule = by_gateway().with_priority(priority::HIGH).sourced(address);
            self.lead(out, for_rule(rule), Locality::Cluster, needed);
        }
    }

    /// Leads to the endpoints that there are.
    fn lead(&self, out: &mut Emitter, door: Door, locality: Locality, needed: &mut Vec<Locality>) {
        match self.choice(locality) {
            Some(choice) if choice.backends.is_empty() => {
                // Somebody answers elsewhere: the outside is to try there.
                let elsewhere =
                    locality == Locality::Local && !self.backends(Locality::Cluster).is_empty();
                let Door { rule, .. } = door;
                out.add(if elsewhere { rule } else { rule.then(Question::Reject.ask()) });
            }
            Some(choice) => {
                balance::lead(out, &door, &choice);
                needed.push(locality);
            }
            None => {}
        }
    }

    fn backends(&self, locality: Locality) -> Vec<Backend> {
        let view = self.scene.view;
        let node = view.node();
        let zone = view.nodes().get(node).and_then(|own| own.zone.as_deref());
        self.candidates.choose(locality, Standpoint { node, zone })
    }

    fn choice(&self, locality: Locality) -> Option<Choice> {
        let Scene { services, vrf, .. } = self.scene;
        Some(Choice {
            group: services.group(&self.service.name, self.port, self.ipv6, locality)?,
            zone: zone_of(vrf),
            transport: self.port.transport,
            port: self.port.port,
            ipv6: self.ipv6,
            affinity: self.service.affinity,
            backends: self.backends(locality),
        })
    }
}
