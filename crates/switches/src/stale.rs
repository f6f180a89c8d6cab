//! Connections that are to be forgotten, since whom they were led to is no endpoint any more: the switch
//! keeps a connection on its endpoint, whatever becomes of the group.

use osier_compiler::conntrack::zone_of;
use osier_model::{Change, Key, Object, ServiceName, View, VrfId};
use osier_openflow::message::{CtFlush, CtTuple, Message};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// What connections are of: ICMP, TCP, UDP, SCTP, and ICMP of IPv6.
const PROTOCOLS: [u8; 5] = [1, 6, 17, 132, 58];

/// A way that connections may have taken: in a zone, from a Service's address to an endpoint's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Way {
    zone: u16,
    service: IpAddr,
    endpoint: IpAddr,
}

/// The Services that changes are of.
pub(crate) fn services_of(changes: &[Change]) -> BTreeSet<ServiceName> {
    let of = |change: &Change| match change {
        Change::Put(Object::Service(service)) => Some(service.name.clone()),
        Change::Put(Object::Endpoints(endpoints)) => Some(endpoints.key.service.clone()),
        Change::Delete(Key::Service(name)) => Some(name.clone()),
        Change::Delete(Key::Endpoints(key)) => Some(key.service.clone()),
        _ => None,
    };
    changes.iter().filter_map(of).collect()
}

// === impl Way ===

impl Way {
    /// The ways of Services.
    pub(crate) fn all(view: &View, services: &BTreeSet<ServiceName>) -> BTreeSet<Self> {
        let mut ways = BTreeSet::new();
        for service in services.iter().filter_map(|name| view.services().get(name)) {
            let router = service.router.as_ref().and_then(|name| view.routers().get(name));
            let zone = zone_of(router.map_or(VrfId::default(), |router| router.vrf));
            let fronts =
                || service.addresses.iter().chain(&service.external).chain(&service.balanced);
            for endpoint in view.endpoints_of(&service.name).flat_map(|slice| &slice.endpoints) {
                let endpoint = endpoint.address;
                ways.extend(fronts().map(|front| Self { zone, service: *front, endpoint }));
            }
        }
        ways
    }

    /// What has its connections forgotten.
    pub(crate) fn messages(self) -> impl Iterator<Item = Message> {
        PROTOCOLS.into_iter().map(move |ip_proto| {
            let original = CtTuple { dst: Some(self.service), ..CtTuple::default() };
            let reply = CtTuple { src: Some(self.endpoint), ..CtTuple::default() };
            Message::CtFlush(CtFlush { zone: Some(self.zone), ip_proto, original, reply })
        })
    }
}
