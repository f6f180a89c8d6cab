//! A Service: what connections to each of its addresses and ports become. A flow for each, or a few
//! where endpoints are many; endpoints are in groups (`balance`), so that their coming and going
//! changes no flow.

use super::balance::{self, Choice};
use super::priority;
use crate::conntrack::{fields, zone_of};
use crate::pipeline::Table;
use crate::plan::{Emitter, Rule};
use crate::question::Question;
use crate::registers::{Origin, Register};
use crate::services::{Services, families, node_port_address};
use ipnet::IpNet;
use osier_model::{
    Backend, Candidates, Locality, Node, Service, ServicePort, Standpoint, View, VrfId,
};
use osier_openflow::field::Field;
use std::net::IpAddr;

/// What a Service's flows depend on, beside itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scene<'a> {
    pub(crate) view: &'a View,
    pub(crate) services: &'a Services,
    pub(crate) vrf: VrfId,
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

// === impl Ways ===

impl Ways<'_> {
    fn flows(&self, out: &mut Emitter) {
        let Service { addresses, external, balanced, source_ranges, .. } = self.service;
        let of_family = |a: &&IpAddr| a.is_ipv6() == self.ipv6;
        let (internal, outward) = (self.service.internal_traffic, self.service.external_traffic);
        let mut needed = Vec::new();
        for address in addresses.iter().filter(of_family) {
            self.lead(out, self.to(*address, self.port.port), internal, &mut needed);
        }
        let node_port = self.port.node_port.map(|port| (node_port_address(self.ipv6), port));
        let outside = external.iter().filter(of_family).map(|a| (*a, self.port.port));
        for (address, port) in outside.chain(node_port) {
            self.outward_way(out, &self.to(address, port), None, outward, &mut needed);
        }
        for address in balanced.iter().filter(of_family) {
            let rule = self.to(*address, self.port.port);
            if source_ranges.is_empty() {
                self.outward_way(out, &rule, None, outward, &mut needed);
                continue;
            }
            for range in source_ranges.iter().filter(|r| r.addr().is_ipv6() == self.ipv6) {
                self.outward_way(out, &rule, Some(*range), outward, &mut needed);
            }
            // Whom the ranges do not name.
            out.add(rule.with_priority(priority::OTHERS));
        }
        needed.sort_unstable_by_key(|locality| *locality == Locality::Local);
        needed.dedup();
        for locality in needed {
            if let Some(choice) = self.choice(locality) {
                balance::groups(out, &choice);
            }
        }
    }

    /// A connection to an address.
    fn to(&self, address: IpAddr, port: u16) -> Rule {
        let (protocol, _, destination) = fields(self.port.transport);
        Rule::new(Table::Service, priority::NORMAL)
            .when(Register::VRF, self.scene.vrf.0)
            .destined(address.into())
            .eq(Field::IP_PROTO, protocol)
            .eq(destination, port)
    }

    /// Connections to an address that the outside knows. Who is inside is not bound to the local
    /// endpoints of some node.
    fn outward_way(
        &self,
        out: &mut Emitter,
        rule: &Rule,
        range: Option<IpNet>,
        locality: Locality,
        needed: &mut Vec<Locality>,
    ) {
        let of_range = |rule: Rule| match range {
            Some(range) => rule.sourced_in(range),
            None => rule,
        };
        self.lead(out, of_range(rule.clone()), Locality::Cluster, needed);
        if locality == Locality::Cluster || self.backends(Locality::Cluster).is_empty() {
            return;
        }
        let by_gateway = || rule.clone().when(Register::FROM, Origin::Gateway as u8);
        self.lead(out, of_range(by_gateway().with_priority(priority::GUARD)), locality, needed);
        let own = self.scene.view.nodes().get(self.scene.view.node());
        let may =
            |a: &IpAddr| a.is_ipv6() == self.ipv6 && range.is_none_or(|range| range.contains(a));
        for address in own.into_iter().flat_map(own_addresses).filter(may) {
            let rule = by_gateway().with_priority(priority::HIGH).sourced(address);
            self.lead(out, rule, Locality::Cluster, needed);
        }
    }

    /// Leads to the endpoints that there are.
    fn lead(&self, out: &mut Emitter, rule: Rule, locality: Locality, needed: &mut Vec<Locality>) {
        match self.choice(locality) {
            Some(choice) if choice.backends.is_empty() => {
                // Somebody answers elsewhere: the outside is to try there.
                let elsewhere =
                    locality == Locality::Local && !self.backends(Locality::Cluster).is_empty();
                out.add(if elsewhere { rule } else { rule.then(Question::Reject.ask()) });
            }
            Some(choice) => {
                balance::lead(out, &rule, &choice);
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

/// What the machine itself sends from.
fn own_addresses(node: &Node) -> impl Iterator<Item = IpAddr> {
    let gateways = node.blocks.iter().map(|block| Node::gateway_of(*block));
    node.addresses.iter().copied().chain(gateways)
}
