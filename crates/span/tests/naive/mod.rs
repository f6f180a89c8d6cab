//! The span and the rules by their definitions, with loops over everything.

use osier_model::{
    Fabric, Key, Network, NodeName, Object, Peer, Policy, Port, Reach, SelectionId, Service,
    Transport, View,
};
use osier_span::DEFAULT_VNI;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

pub(crate) type Objects = BTreeMap<Key, Object>;

fn networks(objects: &Objects) -> impl Iterator<Item = &Network> {
    objects.values().filter_map(|o| if let Object::Network(n) = o { Some(n) } else { None })
}

fn ports(objects: &Objects) -> impl Iterator<Item = &Port> {
    objects.values().filter_map(|o| if let Object::Port(p) = o { Some(p) } else { None })
}

fn policies(objects: &Objects) -> impl Iterator<Item = &Policy> {
    objects.values().filter_map(|o| if let Object::Policy(p) = o { Some(p) } else { None })
}

/// Whether one of a node's workloads is a policy's subject, or one whom its subjects may send to.
fn needs_policy(objects: &Objects, node: &NodeName, policy: &Policy) -> bool {
    let is_here = |id: SelectionId| {
        let Some(Object::Selection(selection)) = objects.get(&Key::Selection(id)) else {
            return false;
        };
        objects.values().any(|o| {
            matches!(o, Object::Workload(w) if w.node == *node && selection.members.contains(&w.identity))
        })
    };
    let rules = policy.egress.iter().flatten();
    is_here(policy.subjects)
        || rules.into_iter().any(|rule| {
            let peers = rule.peers.as_deref().unwrap_or_default();
            let by_address =
                rule.peers.is_none() || peers.iter().any(|p| matches!(p, Peer::Block(_)));
            peers.iter().any(|p| matches!(p, Peer::Selection(id) if is_here(*id)))
                || by_address && rule.ports.iter().flatten().any(|p| p.of.is_some_and(is_here))
        })
}

/// What a node must know.
pub(crate) fn view(objects: &Objects, node: &NodeName, fabric: &Fabric) -> View {
    let is_local = |n: &&Network| {
        n.vni.get() == DEFAULT_VNI || ports(objects).any(|p| p.node == *node && p.network == n.name)
    };
    let local: Vec<&Network> = networks(objects).filter(is_local).collect();
    let routers: BTreeSet<_> = local.iter().filter_map(|n| n.router.clone()).collect();
    let needs_network = |n: &Network| {
        local.iter().any(|l| l.name == n.name)
            || n.router.as_ref().is_some_and(|r| routers.contains(r))
    };
    let needs_service =
        |service: &Service| service.router.as_ref().is_none_or(|router| routers.contains(router));
    let needs = |object: &Object| match object {
        Object::Service(service) => needs_service(service),
        Object::Endpoints(endpoints) => {
            let service = objects.get(&Key::Service(endpoints.key.service.clone()));
            service
                .is_some_and(|s| if let Object::Service(s) = s { needs_service(s) } else { false })
        }
        Object::Node(_) | Object::Guard(_) => true,
        Object::Workload(workload) => workload.node == *node,
        Object::Policy(policy) => needs_policy(objects, node, policy),
        Object::Selection(selection) => policies(objects).any(|policy| {
            policy.selections().contains(&selection.id) && needs_policy(objects, node, policy)
        }),
        Object::Router(router) => routers.contains(&router.name),
        Object::Network(network) => needs_network(network),
        Object::Port(port) => {
            let network = networks(objects).find(|n| n.name == port.network).unwrap();
            match network.vni.get() {
                DEFAULT_VNI => port.node == *node,
                _ => needs_network(network),
            }
        }
    };
    let mut view = View::new(node.clone(), fabric.clone());
    for object in objects.values().filter(|o| needs(o)) {
        view.apply(osier_model::Change::Put(object.clone())).unwrap();
    }
    view
}

/// Whether objects can be side by side, having been others before.
pub(crate) fn valid(objects: &Objects, before: &Objects) -> bool {
    let all: Vec<&Object> = objects.values().collect();
    let pairs = (0..all.len()).flat_map(|i| (0..i).map(move |j| (i, j)));
    let network = |p: &Port| networks(objects).find(|n| n.name == p.network);
    let known = objects.values().all(|object| match object {
        Object::Node(_)
        | Object::Router(_)
        | Object::Endpoints(_)
        | Object::Selection(_)
        | Object::Policy(_)
        | Object::Guard(_)
        | Object::Workload(_) => true,
        Object::Service(s) => {
            let router = s.router.as_ref();
            let new = before.get(&object.key()) != Some(object);
            router.is_none_or(|r| objects.contains_key(&Key::Router(r.clone())))
                && !(new && router.is_none() && all.iter().any(|o| meets(s, o)))
        }
        Object::Network(n) => {
            n.router.as_ref().is_none_or(|r| objects.contains_key(&Key::Router(r.clone())))
        }
        Object::Port(p) => {
            let node = objects.get(&Key::Node(p.node.clone()));
            let inside = network(p).is_some_and(|n| {
                n.subnets.is_empty()
                    || p.addresses.iter().all(|a| n.subnets.iter().any(|s| s.cidr.contains(a)))
            });
            let gateway = network(p).is_some_and(|n| {
                n.subnets.iter().any(|s| s.gateway.is_some_and(|g| p.addresses.contains(&g)))
            });
            // A block may come later than a port in it, which is not the port's fault.
            let new = before.get(&object.key()) != Some(object);
            let astray = new
                && network(p).is_some_and(|n| n.vni.get() == DEFAULT_VNI)
                && all.iter().any(|o| match o {
                    Object::Node(n) if n.name != p.node => {
                        n.blocks.iter().any(|b| p.addresses.iter().any(|a| b.contains(a)))
                    }
                    _ => false,
                });
            node.is_some() && inside && !gateway && !astray
        }
    });
    let overlap =
        |a: &ipnet::IpNet, b: &ipnet::IpNet| a.contains(&b.network()) || b.contains(&a.network());
    known
        && pairs.into_iter().all(|(i, j)| match (all[i], all[j]) {
            (Object::Node(a), Object::Node(b)) => {
                let under = |n: &osier_model::Node| {
                    let all = n.addresses.iter().copied().chain([n.tunnel]);
                    all.collect::<BTreeSet<_>>()
                };
                under(a).is_disjoint(&under(b))
                    && !a.blocks.iter().any(|x| b.blocks.iter().any(|y| overlap(x, y)))
            }
            (Object::Router(a), Object::Router(b)) => a.vrf != b.vrf,
            (Object::Network(a), Object::Network(b)) => {
                let together = a.router.is_some() && a.router == b.router;
                let meet =
                    |x: &osier_model::Subnet| b.subnets.iter().any(|y| overlap(&x.cidr, &y.cidr));
                a.vni != b.vni && !(together && a.subnets.iter().any(meet))
            }
            (Object::Service(a), Object::Service(b)) => {
                (a.router != b.router || listeners(a).is_disjoint(&listeners(b)))
                    && node_ports(a).is_disjoint(&node_ports(b))
            }
            (Object::Port(a), Object::Port(b)) if a.network == b.network => {
                let bridged = network(a).is_some_and(|n| n.reach == Reach::Bridged);
                let same = a.addresses.iter().any(|x| b.addresses.contains(x));
                !(same || bridged && a.mac == b.mac)
            }
            _ => true,
        })
}

fn listeners(service: &Service) -> BTreeSet<(IpAddr, Transport, u16)> {
    let addresses = service.addresses.iter().chain(&service.external).chain(&service.balanced);
    let of = |a: &IpAddr| service.ports.iter().map(|p| (*a, p.transport, p.port)).collect();
    addresses.flat_map(|a| -> Vec<_> { of(a) }).collect()
}

fn node_ports(service: &Service) -> BTreeSet<(Transport, u16)> {
    let ports = service.ports.iter().filter_map(|p| Some((p.transport, p.node_port?)));
    ports.chain(service.health_port.map(|port| (Transport::Tcp, port))).collect()
}

/// Whether a Service's addresses are pods' or a node's.
fn meets(service: &Service, other: &Object) -> bool {
    let Object::Node(node) = other else { return false };
    let mut all = service.addresses.iter().chain(&service.external).chain(&service.balanced);
    all.any(|a| node.blocks.iter().any(|b| b.contains(a)))
        || service.addresses.iter().any(|a| node.tunnel == *a || node.addresses.contains(a))
}
