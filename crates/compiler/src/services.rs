//! What Services share, and the numbers of their groups.
//!
//! An address, a port that endpoints listen on, a router: many Services need the same flow for it.
//! It is there once, as long as one of them does. So a Service costs its own flows, and a change of
//! it is a change of counts.

use crate::cookie::hash;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use osier_model::{
    Fabric, Locality, Node, Service, ServiceName, ServicePort, Transport, View, VrfId,
};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

/// The groups of Services.
pub(crate) const SERVICE_GROUPS: RangeInclusive<u32> = 0x8000_0000..=0xbfff_ffff;

/// What connections to a node's ports are to, from when the machine has taken them in. Nobody's
/// addresses: they are never seen outside of a node.
pub const NODE_PORT_ADDRESSES: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(169, 254, 111, 2)),
    IpAddr::V6(Ipv6Addr::new(0xfd6f, 0x7369, 0x6572, 0, 0, 0, 0, 2)),
];

/// What connections to a machine's own addresses are to, where a Service is known by one of them outside,
/// from when the machine has taken them in: one for each address, of either family. Nobody's either.
pub const STAND_INS: [IpNet; 2] = [
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(169, 254, 111, 16), 28)),
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(0xfd6f, 0x7369, 0x6572, 0, 0, 0, 0, 0x10), 124)),
];

/// Something that Services share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Use {
    /// A router in which there are Services.
    Router(VrfId),
    /// An address of a Service that is not of the cluster's own range.
    Address(VrfId, IpAddr),
    /// A port of a Service at an address that some machine has, too: what else goes there is the
    /// machine's, answers to it among that.
    Door {
        /// Whose addresses it is of.
        vrf: VrfId,
        /// The address.
        address: IpAddr,
        /// What carries it.
        transport: Transport,
        /// The number.
        port: u16,
    },
    /// An endpoint of a Service that takes all that there is: whatever comes from it may be an answer.
    Source(VrfId, IpAddr),
    /// A port that endpoints listen on: what comes from it may be an answer.
    Target {
        /// Whose addresses the endpoints have.
        vrf: VrfId,
        /// The family.
        ipv6: bool,
        /// What carries it.
        transport: Transport,
        /// The number.
        port: u16,
    },
}

/// Which port of which Service.
type PortOf = (ServiceName, Transport, u16);

/// Which endpoints connections are led to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChoiceOf<'a> {
    pub(crate) service: &'a ServiceName,
    pub(crate) transport: Transport,
    pub(crate) port: u16,
    pub(crate) ipv6: bool,
    pub(crate) locality: Locality,
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Services {
    counts: BTreeMap<Use, usize>,
    known: BTreeMap<ServiceName, Known>,
    numbers: BTreeMap<PortOf, u32>,
    taken: BTreeMap<u32, PortOf>,
}

#[derive(Debug, Clone, Default)]
struct Known {
    uses: BTreeSet<Use>,
    ports: BTreeSet<(Transport, u16)>,
}

/// How many Services' ports have numbers: each has 256 groups, a quarter for each choice of
/// endpoints.
const NUMBERS: u32 = (*SERVICE_GROUPS.end() - *SERVICE_GROUPS.start()) / GROUPS_EACH + 1;
const GROUPS_EACH: u32 = 256;
/// Into how many groups the endpoints of one choice may be split.
pub(crate) const MAX_SHARDS: u32 = 64;

// === impl Services ===

impl Services {
    /// Follows a Service that may have changed; tells what is used now and was not, or the other
    /// way round.
    pub(crate) fn follow(&mut self, name: &ServiceName, view: &View) -> BTreeSet<Use> {
        let service = view.services().get(name);
        let uses = service.map(|service| uses(service, view)).unwrap_or_default();
        let ports = service
            .map(|service| service.ports.iter().map(|port| (port.transport, port.port)).collect());
        let ports = ports.unwrap_or_default();
        let before = self.known.remove(name).unwrap_or_default();
        self.renumber(name, &before.ports, &ports);
        let mut changed = BTreeSet::new();
        for gone in before.uses.difference(&uses) {
            let count = self.counts.entry(*gone).or_default();
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.counts.remove(gone);
                changed.insert(*gone);
            }
        }
        for come in uses.difference(&before.uses) {
            let count = self.counts.entry(*come).or_default();
            *count += 1;
            if *count == 1 {
                changed.insert(*come);
            }
        }
        if service.is_some() {
            self.known.insert(name.clone(), Known { uses, ports });
        }
        changed
    }

    /// All that is used.
    pub(crate) fn uses(&self) -> impl Iterator<Item = Use> {
        self.counts.keys().copied()
    }

    /// Whether somebody uses it.
    pub(crate) fn is_used(&self, shared: &Use) -> bool {
        self.counts.contains_key(shared)
    }

    /// The first group of a choice of endpoints.
    pub(crate) fn group(
        &self,
        service: &ServiceName,
        port: &ServicePort,
        ipv6: bool,
        locality: Locality,
    ) -> Option<u32> {
        let number = self.numbers.get(&(service.clone(), port.transport, port.port))?;
        let choice = 2 * u32::from(ipv6) + u32::from(locality == Locality::Local);
        Some(SERVICE_GROUPS.start() + number * GROUPS_EACH + choice * MAX_SHARDS)
    }

    /// Whose choice of endpoints a group is of: the other way round.
    pub(crate) fn choice_of(&self, group: u32) -> Option<ChoiceOf<'_>> {
        let place = group.checked_sub(*SERVICE_GROUPS.start())?;
        let (service, transport, port) = self.taken.get(&(place / GROUPS_EACH))?;
        let choice = place % GROUPS_EACH / MAX_SHARDS;
        let locality = if choice % 2 == 1 { Locality::Local } else { Locality::Cluster };
        Some(ChoiceOf {
            service,
            transport: *transport,
            port: *port,
            ipv6: choice / 2 == 1,
            locality,
        })
    }

    /// Numbers follow from names, so that they are the same after a restart, but for the few that
    /// meet.
    fn renumber(
        &mut self,
        name: &ServiceName,
        before: &BTreeSet<(Transport, u16)>,
        now: &BTreeSet<(Transport, u16)>,
    ) {
        for (transport, port) in before.difference(now) {
            if let Some(number) = self.numbers.remove(&(name.clone(), *transport, *port)) {
                self.taken.remove(&number);
            }
        }
        for (transport, port) in now.difference(before) {
            let wish = hash(&format!("{name}/{transport:?}/{port}")) % u64::from(NUMBERS);
            let wish = u32::try_from(wish).unwrap_or_default();
            let is_free = |number: &u32| !self.taken.contains_key(number);
            if let Some(number) = (wish..NUMBERS).chain(0..wish).find(is_free) {
                let port_of = (name.clone(), *transport, *port);
                self.taken.insert(number, port_of.clone());
                self.numbers.insert(port_of, number);
            }
        }
    }
}

/// The router whose addresses a Service uses, if that is known.
pub(crate) fn vrf_of(service: &Service, view: &View) -> Option<VrfId> {
    match &service.router {
        None => Some(VrfId::default()),
        Some(name) => view.routers().get(name).map(|router| router.vrf),
    }
}

/// The families that a Service has addresses of.
pub(crate) fn families(service: &Service) -> impl Iterator<Item = bool> {
    let all = || service.addresses.iter().chain(&service.external).chain(&service.balanced);
    [false, true].into_iter().filter(move |ipv6| all().any(|a| a.is_ipv6() == *ipv6))
}

/// Where connections to a node's ports go, by family.
pub(crate) fn node_port_address(ipv6: bool) -> IpAddr {
    NODE_PORT_ADDRESSES[usize::from(ipv6)]
}

/// What stands for an address of the machine itself, if it is one: nobody else can tell the switch that a
/// connection was to that address.
pub fn stand_in(node: &Node, address: IpAddr) -> Option<IpAddr> {
    let own = node.addresses.iter().copied().chain([node.tunnel]);
    let place = own.filter(|own| own.is_ipv6() == address.is_ipv6()).position(|a| a == address)?;
    match STAND_INS[usize::from(address.is_ipv6())] {
        IpNet::V4(v4) => v4.hosts().nth(place).map(IpAddr::V4),
        IpNet::V6(v6) => v6.hosts().nth(place).map(IpAddr::V6),
    }
}

/// Whether an address is one by which machines lead to Services.
pub(crate) fn is_of_machine(address: IpAddr) -> bool {
    NODE_PORT_ADDRESSES.contains(&address) || STAND_INS.iter().any(|all| all.contains(&address))
}

fn uses(service: &Service, view: &View) -> BTreeSet<Use> {
    let Some(vrf) = vrf_of(service, view) else { return BTreeSet::new() };
    let mut uses = BTreeSet::from([Use::Router(vrf)]);
    let addresses = service.addresses.iter().chain(&service.external).chain(&service.balanced);
    let apart = addresses.filter(|address| !is_of_range(view.fabric(), vrf, **address));
    for address in apart.copied() {
        let by_door = !view.fabric().service_gateway && is_of_some_machine(view, address);
        uses.extend(service.ports.iter().map(
            |ServicePort { transport, port, .. }| match *transport {
                Transport::Any => Use::Address(vrf, address),
                _ if !by_door => Use::Address(vrf, address),
                transport => Use::Door { vrf, address, transport, port: *port },
            },
        ));
    }
    if service.ports.iter().any(|port| port.node_port.is_some()) {
        uses.extend(families(service).map(|ipv6| Use::Address(vrf, node_port_address(ipv6))));
    }
    if let Some(own) = view.nodes().get(view.node()) {
        let known = service.external.iter().chain(&service.balanced);
        uses.extend(known.filter_map(|a| Some(Use::Address(vrf, stand_in(own, *a)?))));
    }
    for slice in view.endpoints_of(&service.name) {
        if slice.ports.iter().any(|p| p.transport == Transport::Any) {
            uses.extend(slice.endpoints.iter().map(|e| Use::Source(vrf, e.address)));
        }
        for ipv6 in [false, true] {
            if slice.endpoints.iter().any(|e| e.address.is_ipv6() == ipv6) {
                let targets = slice.ports.iter().filter(|p| p.transport != Transport::Any);
                uses.extend(targets.map(|p| Use::Target {
                    vrf,
                    ipv6,
                    transport: p.transport,
                    port: p.port,
                }));
            }
        }
    }
    uses
}

/// Whether a machine of the cluster has an address itself.
fn is_of_some_machine(view: &View, address: IpAddr) -> bool {
    view.nodes().values().any(|node| node.tunnel == address || node.addresses.contains(&address))
}

/// Whether an address is of the range that the default router leads to Services as a whole.
fn is_of_range(fabric: &Fabric, vrf: VrfId, address: IpAddr) -> bool {
    vrf == VrfId::default() && fabric.services.iter().any(|range: &IpNet| range.contains(&address))
}

impl std::fmt::Display for Use {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Router(vrf) => write!(f, "services of router {}", vrf.0),
            Self::Address(vrf, address) => write!(f, "services at {address} of router {}", vrf.0),
            Self::Door { vrf, address, transport, port } => {
                let at = std::net::SocketAddr::new(*address, *port);
                write!(f, "services at {at}/{transport} of router {}", vrf.0)
            }
            Self::Source(vrf, address) => write!(f, "endpoint {address} of router {}", vrf.0),
            Self::Target { vrf, ipv6, transport, port } => {
                let family = if *ipv6 { "IPv6" } else { "IPv4" };
                let transport = format!("{transport:?}").to_lowercase();
                write!(f, "endpoints at {transport} {port} of router {}, {family}", vrf.0)
            }
        }
    }
}
