//! From a world to what nodes are told: identities for sets of labels, selections for selectors.

use crate::reference::holds;
use crate::world::{Labels, NODES, Peer, Policy, Port, Rule, World};
use osier_model::{
    Block, Identity, Mac, Object, PolicyRule, PortRange, RulePort, Selection, SelectionId,
    Transport,
};
use std::collections::{BTreeMap, BTreeSet};

type What = (usize, Labels, Option<u16>);

/// Numbers that were given, which stay.
#[derive(Debug, Default)]
pub struct Numbers {
    identities: BTreeMap<What, Identity>,
    selections: BTreeMap<String, SelectionId>,
}

/// What all nodes are told, and each of its own ports.
pub struct Told {
    pub law: Vec<Object>,
    pub ports: [Vec<Object>; NODES],
}

struct Resolution<'a> {
    numbers: &'a mut Numbers,
    world: &'a World,
    selections: BTreeMap<SelectionId, Selection>,
}

impl Numbers {
    pub fn identity(&mut self, world: &World, pod: usize) -> Identity {
        let pod = &world.pods[pod];
        let next = Identity::FIRST.0 + u32::try_from(self.identities.len()).unwrap();
        let what = (pod.namespace, pod.labels.clone(), pod.web);
        *self.identities.entry(what).or_insert(Identity(next))
    }

    pub fn resolve(&mut self, world: &World) -> Told {
        let mut ports = [const { Vec::new() }; NODES];
        for (n, pod) in world.pods.iter().enumerate() {
            let identity = self.identity(world, n);
            ports[pod.node].push(Object::Port(osier_model::Port {
                key: key(n),
                network: "pods".parse().unwrap(),
                node: node_name(pod.node),
                mac: Mac::of(pod.addresses[0]),
                addresses: pod.addresses.to_vec(),
                identity,
                limits: osier_model::Limits::default(),
            }));
        }
        let mut resolution = Resolution { numbers: self, world, selections: BTreeMap::new() };
        let policies: Vec<Object> =
            world.policies.iter().map(|(n, policy)| resolution.policy(*n, policy)).collect();
        let selections = resolution.selections.into_values().map(Object::Selection);
        Told { law: selections.chain(policies).collect(), ports }
    }
}

pub fn node_name(node: usize) -> osier_model::NodeName {
    format!("n{}", node + 1).parse().unwrap()
}

pub fn key(pod: usize) -> osier_model::PortKey {
    osier_model::PortKey {
        device: format!("ns:p{pod}").parse().unwrap(),
        interface: "eth0".parse().unwrap(),
    }
}

impl Resolution<'_> {
    fn select(&mut self, called: String, selects: impl Fn(&What) -> bool) -> SelectionId {
        let next = SelectionId(self.numbers.selections.len() as u64);
        let id = *self.numbers.selections.entry(called).or_insert(next);
        let known = self.numbers.identities.iter();
        let members = known.filter(|(what, _)| selects(what)).map(|(_, id)| *id).collect();
        self.selections.insert(id, Selection { id, members, addresses: BTreeSet::new() });
        id
    }

    fn policy(&mut self, number: usize, policy: &Policy) -> Object {
        let Policy { namespace, pods, ingress, egress } = policy;
        let subjects = self.select(format!("{namespace} {pods:?}"), |(of, labels, _)| {
            of == namespace && holds(pods, labels)
        });
        let mut rules = |rules: &Option<Vec<Rule>>| {
            let rules = rules.as_ref()?;
            Some(rules.iter().map(|rule| self.rule(*namespace, rule)).collect())
        };
        let (ingress, egress) = (rules(ingress), rules(egress));
        let name = format!("ns:{number}").parse().unwrap();
        Object::Policy(osier_model::Policy { name, subjects, ingress, egress })
    }

    fn rule(&mut self, own: usize, rule: &Rule) -> PolicyRule {
        let peers = rule.peers.as_ref();
        let peers = peers.map(|peers| peers.iter().map(|p| self.peer(own, p)).collect());
        let ports = rule.ports.as_ref();
        let ports = ports.map(|ports| ports.iter().flat_map(|p| self.port(p)).collect());
        PolicyRule { peers, ports }
    }

    fn peer(&mut self, own: usize, peer: &Peer) -> osier_model::Peer {
        match peer {
            Peer::Block { cidr, except } => {
                osier_model::Peer::Block(Block { cidr: *cidr, except: except.clone() })
            }
            Peer::Pods { namespaces, pods } => {
                let world = self.world;
                let called = match namespaces {
                    None => format!("{own} {pods:?}"),
                    Some(namespaces) => format!("{namespaces:?} {pods:?}"),
                };
                osier_model::Peer::Selection(self.select(called, |(of, labels, _)| {
                    let namespace = match namespaces {
                        None => *of == own,
                        Some(selector) => holds(selector, &world.namespaces[*of]),
                    };
                    namespace && holds(pods, labels)
                }))
            }
        }
    }

    fn port(&mut self, port: &Port) -> Vec<RulePort> {
        match port {
            Port::All(transport) => vec![RulePort { transport: *transport, range: None, of: None }],
            Port::Range(transport, first, last) => {
                let range = Some(PortRange { first: *first, last: *last });
                vec![RulePort { transport: *transport, range, of: None }]
            }
            Port::Web => [80, 8080]
                .into_iter()
                .map(|number| {
                    let of = self.select(format!("web {number}"), |(.., web)| *web == Some(number));
                    let range = Some(PortRange::one(number));
                    RulePort { transport: Transport::Tcp, range, of: Some(of) }
                })
                .collect(),
        }
    }
}
