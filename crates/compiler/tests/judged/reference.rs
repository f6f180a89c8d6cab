//! What policies mean, as the Kubernetes documentation says it: straight from labels, without
//! identities, selections or anything else of ours.

use crate::world::{Labels, NODES, Peer, Pod, Policy, Port, Requirement, Rule, World};
use ipnet::IpNet;
use osier_model::Transport;
use std::net::IpAddr;

/// Who talks.
#[derive(Debug, Clone, Copy)]
pub enum Who {
    /// By its place in the world.
    Pod(usize),
    Node(usize),
    Outside(IpAddr),
}

#[derive(Debug, Clone, Copy)]
pub struct Probe {
    pub from: Who,
    pub to: Who,
    pub ipv6: bool,
    /// Nothing is a ping.
    pub port: Option<(Transport, u16)>,
}

pub fn holds(selector: &[Requirement], labels: &Labels) -> bool {
    selector.iter().all(|requirement| match requirement {
        Requirement::Is(key, value) => labels.get(key) == Some(value),
        Requirement::In(key, values) => labels.get(key).is_some_and(|v| values.contains(v)),
        Requirement::NotIn(key, values) => labels.get(key).is_none_or(|v| !values.contains(v)),
        Requirement::Exists(key) => labels.contains_key(key),
        Requirement::Lacks(key) => !labels.contains_key(key),
    })
}

impl Who {
    /// The address that its packets have.
    pub fn sends(self, world: &World, ipv6: bool) -> IpAddr {
        match self {
            Self::Node(node) => {
                let n = number(node);
                match ipv6 {
                    false => [10, 1, n, 1].into(),
                    true => [0xfd01, 0, 0, n.into(), 0, 0, 0, 1].into(),
                }
            }
            who => who.receives(world, ipv6),
        }
    }

    /// The address that it is reached at.
    pub fn receives(self, world: &World, ipv6: bool) -> IpAddr {
        match self {
            Self::Pod(pod) => world.pods[pod].addresses[usize::from(ipv6)],
            Self::Node(node) => own(node, ipv6),
            Self::Outside(address) => address,
        }
    }

    fn pod(self, world: &World) -> Option<&Pod> {
        match self {
            Self::Pod(pod) => Some(&world.pods[pod]),
            _ => None,
        }
    }
}

fn number(node: usize) -> u8 {
    assert!(node < NODES);
    u8::try_from(node + 1).unwrap()
}

/// A machine's own address.
fn own(node: usize, ipv6: bool) -> IpAddr {
    match ipv6 {
        false => [198, 51, 100, number(node)].into(),
        true => [0x2001, 0xdb8, 0x51, 0, 0, 0, 0, number(node).into()].into(),
    }
}

/// The address by which a machine is known to others in a family: the second has only one.
fn known(node: usize, ipv6: bool) -> IpAddr {
    own(node, ipv6 && node == 0)
}

/// Whether a block means who sends: a node by its own address, whatever its packets have.
fn comes_from(world: &World, (cidr, except): (&IpNet, &[IpNet]), who: Who, ipv6: bool) -> bool {
    let apart = |address: &IpAddr| except.iter().any(|e| e.contains(address));
    let has = |address: IpAddr| cidr.contains(&address) && !apart(&address);
    let known = match who {
        Who::Node(node) => Some(known(node, ipv6)),
        _ => None,
    };
    match known {
        Some(known) if has(known) => true,
        Some(known) if apart(&known) => false,
        _ => has(who.sends(world, ipv6)),
    }
}

/// Whether a probe is to arrive.
pub fn passes(world: &World, probe: &Probe) -> bool {
    let (from, to) = (probe.from.pod(world), probe.to.pod(world));
    if let (Who::Node(node), Some(pod)) = (probe.from, to)
        && pod.node == node
    {
        return true;
    }
    let may_send =
        from.is_none_or(|pod| granted(world, probe, pod, (probe.to, false), |p| p.egress.as_ref()));
    let may_receive =
        to.is_none_or(|pod| granted(world, probe, pod, (probe.from, true), |p| p.ingress.as_ref()));
    may_send && may_receive
}

fn granted<'a>(
    world: &'a World,
    probe: &Probe,
    subject: &Pod,
    peer: (Who, bool),
    rules: impl Fn(&'a Policy) -> Option<&'a Vec<Rule>>,
) -> bool {
    let about = world.policies.values().filter(|policy| {
        policy.namespace == subject.namespace && holds(&policy.pods, &subject.labels)
    });
    let mut isolated = false;
    for policy in about {
        let Some(rules) = rules(policy) else { continue };
        isolated = true;
        if rules.iter().any(|rule| grants(world, probe, policy, rule, peer)) {
            return true;
        }
    }
    !isolated
}

/// Whether a rule grants it; of the peer, whether it sends.
fn grants(
    world: &World,
    probe: &Probe,
    policy: &Policy,
    rule: &Rule,
    (peer, sends): (Who, bool),
) -> bool {
    let named = |named: &Peer| match named {
        Peer::Block { cidr, except } if sends => {
            comes_from(world, (cidr, except), peer, probe.ipv6)
        }
        Peer::Block { cidr, except } => {
            let address = peer.receives(world, probe.ipv6);
            cidr.contains(&address) && !except.iter().any(|e| e.contains(&address))
        }
        Peer::Pods { namespaces, pods } => peer.pod(world).is_some_and(|pod| {
            let namespace = match namespaces {
                None => pod.namespace == policy.namespace,
                Some(selector) => holds(selector, &world.namespaces[pod.namespace]),
            };
            namespace && holds(pods, &pod.labels)
        }),
    };
    let at = |port: &Port| match (port, probe.port) {
        (_, None) => false,
        (Port::All(transport), Some((by, _))) => *transport == by,
        (Port::Range(transport, first, last), Some((by, number))) => {
            *transport == by && (*first..=*last).contains(&number)
        }
        (Port::Web, Some((by, number))) => {
            let has = probe.to.pod(world).and_then(|pod| pod.web);
            by == Transport::Tcp && has == Some(number)
        }
    };
    rule.peers.as_ref().is_none_or(|peers| peers.iter().any(named))
        && rule.ports.as_ref().is_none_or(|ports| ports.iter().any(at))
}
