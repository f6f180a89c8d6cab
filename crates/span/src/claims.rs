//! What only one object may have: numbers, addresses, prefixes.

use crate::delta::Ref;
use crate::table::Id;
use ipnet::IpNet;
use osier_model::{
    Mac, Network, Node, Object, Port, Problem, Reach, Router, Service, Transport, Vni, VrfId,
};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, SocketAddr};

/// The number of the default network, which every node has: pods are born there without asking.
pub const DEFAULT_VNI: u32 = 1;

/// Something that only one object may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Claim {
    Vrf(VrfId),
    Vni(Vni),
    /// An address of a machine, in the network below.
    Underlay(IpAddr),
    /// In a network.
    Address(Id, IpAddr),
    /// In a bridged network; where everything is routed, nobody meets another's.
    Mac(Id, Mac),
    /// An address and port at which a Service answers, of a router's or of the default addresses.
    Listener(Option<Id>, Transport, SocketAddr),
    /// A port of every machine.
    NodePort(Transport, u16),
    /// No address of it may be another's.
    Prefix(Space, IpNet),
}

/// In which addresses are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Space {
    /// Blocks of nodes.
    Blocks,
    /// Subnets of a router's networks.
    Router(Id),
}

/// A field of an object, for errors.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field {
    name: &'static str,
    at: Option<(usize, &'static str)>,
}

/// Who has what.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    single: FxHashMap<Claim, Ref>,
    /// By last address; they never overlap.
    prefixes: BTreeMap<(Space, IpAddr), (IpNet, Ref)>,
    /// How many listeners an address has.
    listeners: FxHashMap<IpAddr, u32>,
}

// === impl Field ===

impl Field {
    const fn one(name: &'static str) -> Self {
        Self { name, at: None }
    }

    pub(crate) const fn of(name: &'static str, index: usize, rest: &'static str) -> Self {
        Self { name, at: Some((index, rest)) }
    }
}

impl std::fmt::Display for Field {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.at {
            Some((index, rest)) => write!(f, "{}[{index}]{rest}", self.name),
            None => f.write_str(self.name),
        }
    }
}

// === impl Claims ===

impl Claims {
    /// Takes it, unless another has it.
    pub(crate) fn take(&mut self, claim: Claim, owner: Ref) -> Result<(), Ref> {
        match claim {
            Claim::Prefix(space, prefix) => {
                // The first that ends behind our start is the only one that can reach into ours.
                let next = self.prefixes.range((space, prefix.network())..).next();
                match next {
                    Some(((s, _), (other, holder)))
                        if *s == space && other.network() <= prefix.broadcast() =>
                    {
                        Err(*holder)
                    }
                    _ => {
                        self.prefixes.insert((space, prefix.broadcast()), (prefix, owner));
                        Ok(())
                    }
                }
            }
            single => match self.single.entry(single) {
                Entry::Occupied(held) if *held.get() != owner => Err(*held.get()),
                Entry::Occupied(_) => Ok(()),
                Entry::Vacant(free) => {
                    free.insert(owner);
                    if let Claim::Listener(_, _, at) = single {
                        *self.listeners.entry(at.ip()).or_default() += 1;
                    }
                    Ok(())
                }
            },
        }
    }

    /// Gives it back.
    pub(crate) fn release(&mut self, claim: Claim) {
        match claim {
            Claim::Prefix(space, prefix) => {
                self.prefixes.remove(&(space, prefix.broadcast()));
            }
            single => {
                if let (Some(_), Claim::Listener(_, _, at)) = (self.single.remove(&single), single)
                    && let Some(count) = self.listeners.get_mut(&at.ip())
                {
                    *count -= 1;
                    if *count == 0 {
                        self.listeners.remove(&at.ip());
                    }
                }
            }
        }
    }

    /// Who has it, if it is no prefix.
    pub(crate) fn holder(&self, claim: Claim) -> Option<Ref> {
        self.single.get(&claim).copied()
    }

    /// Whether a Service answers at an address.
    pub(crate) fn is_listened_at(&self, address: IpAddr) -> bool {
        self.listeners.contains_key(&address)
    }

    /// Whose prefix an address is of.
    pub(crate) fn owner_of(&self, space: Space, address: IpAddr) -> Option<Ref> {
        let ((s, _), (prefix, owner)) = self.prefixes.range((space, address)..).next()?;
        (*s == space && prefix.contains(&address)).then_some(*owner)
    }
}

impl Claim {
    /// What is wrong if it is another's.
    pub(crate) fn taken(self, owner: String) -> Problem {
        let taken = |value: String, owner| Problem::Taken { value, owner };
        match self {
            Self::Vrf(vrf) => taken(vrf.0.to_string(), owner),
            Self::Vni(vni) => taken(vni.get().to_string(), owner),
            Self::Underlay(address) | Self::Address(_, address) => {
                taken(address.to_string(), owner)
            }
            Self::Mac(_, mac) => taken(mac.to_string(), owner),
            Self::Listener(_, transport, address) => taken(format!("{address}/{transport}"), owner),
            Self::NodePort(transport, port) => taken(format!("{port}/{transport}"), owner),
            Self::Prefix(_, prefix) => Problem::Overlap { one: prefix.to_string(), other: owner },
        }
    }
}

/// What claims depend on, beside the object itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Around {
    /// The number of the object's network (a port's), or of itself (a network).
    pub(crate) network: Id,
    pub(crate) reach: Reach,
    pub(crate) router: Option<Id>,
}

/// What an object claims, and for which field.
pub(crate) fn claims_of(object: &Object, around: Around) -> Vec<(Field, Claim)> {
    match object {
        Object::Router(Router { vrf, .. }) => vec![(Field::one("vrf"), Claim::Vrf(*vrf))],
        Object::Node(node) => of_node(node),
        Object::Network(network) => of_network(network, around),
        Object::Port(port) => of_port(port, around),
        Object::Service(service) => of_service(service, around.router),
        Object::Endpoints(_)
        | Object::Selection(_)
        | Object::Policy(_)
        | Object::Guard(_)
        | Object::Workload(_) => Vec::new(),
    }
}

fn of_node(node: &Node) -> Vec<(Field, Claim)> {
    let tunnel = [(Field::one("tunnel"), Claim::Underlay(node.tunnel))].into_iter();
    let addresses = node.addresses.iter().enumerate();
    let addresses = addresses.map(|(i, a)| (Field::of("addresses", i, ""), Claim::Underlay(*a)));
    let blocks = node.blocks.iter().enumerate();
    let blocks =
        blocks.map(|(i, b)| (Field::of("blocks", i, ""), Claim::Prefix(Space::Blocks, *b)));
    tunnel.chain(addresses).chain(blocks).collect()
}

fn of_network(network: &Network, around: Around) -> Vec<(Field, Claim)> {
    let mut claims = vec![(Field::one("vni"), Claim::Vni(network.vni))];
    for (i, subnet) in network.subnets.iter().enumerate() {
        if let Some(router) = around.router {
            let claim = Claim::Prefix(Space::Router(router), subnet.cidr);
            claims.push((Field::of("subnets", i, ".cidr"), claim));
        }
        if let Some(gateway) = subnet.gateway {
            let claim = Claim::Address(around.network, gateway);
            claims.push((Field::of("subnets", i, ".gateway"), claim));
        }
    }
    claims
}

fn of_port(port: &Port, around: Around) -> Vec<(Field, Claim)> {
    let mut claims = Vec::with_capacity(port.addresses.len() + 1);
    // Addresses first: a MAC address often follows from them, and then they are the reason.
    for (i, address) in port.addresses.iter().enumerate() {
        claims.push((Field::of("addresses", i, ""), Claim::Address(around.network, *address)));
    }
    if around.reach == Reach::Bridged {
        claims.push((Field::one("mac"), Claim::Mac(around.network, port.mac)));
    }
    claims
}

fn of_service(service: &Service, router: Option<Id>) -> Vec<(Field, Claim)> {
    let mut claims = Vec::new();
    let all = [
        ("addresses", &service.addresses),
        ("external", &service.external),
        ("balanced", &service.balanced),
    ];
    for (name, addresses) in all {
        for (i, address) in addresses.iter().enumerate() {
            claims.extend(service.ports.iter().map(|port| {
                let at = SocketAddr::new(*address, port.port);
                (Field::of(name, i, ""), Claim::Listener(router, port.transport, at))
            }));
        }
    }
    for (i, port) in service.ports.iter().enumerate() {
        let claim = |number| Claim::NodePort(port.transport, number);
        let field = Field::of("ports", i, ".node_port");
        claims.extend(port.node_port.map(|number| (field, claim(number))));
    }
    let health = service.health_port.map(|number| Claim::NodePort(Transport::Tcp, number));
    claims.extend(health.map(|claim| (Field::one("health_port"), claim)));
    claims
}
