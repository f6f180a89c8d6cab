//! From a world to what nodes are told: what changed is said to the roster, as users would, and what that
//! makes of it is kept.

use crate::world::{Labels, NODES, Peer, Pod, Policy, Port, Requirement, Rule, Selector, World};
use osier_model::{
    Block, Change, DeviceName, Identity, Key, Mac, NamedPort, Node, Object, PortChoice, PortRange,
    Saying, StatedNamespace, StatedPeer, StatedPolicy, StatedPort, StatedRule, StatedWorkload,
    Statement, StatementKey, Transport,
};
use osier_span::Roster;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// What was said, and what nodes know of it.
#[derive(Debug, Default)]
pub struct Numbers {
    roster: Roster,
    said: BTreeMap<StatementKey, Statement>,
    law: BTreeMap<Key, Object>,
}

/// What all nodes are told, and each of its own ports.
pub struct Told {
    pub law: Vec<Object>,
    pub ports: [Vec<Object>; NODES],
}

impl Numbers {
    /// With nodes that stay.
    pub fn new(fixed: &[Object]) -> Self {
        let mut numbers = Self::default();
        let node = |node: &Node| Saying::Node(Box::new(node.clone()));
        let nodes = fixed.iter().filter_map(|object| match object {
            Object::Node(found) => Some(node(found)),
            _ => None,
        });
        numbers.hear(nodes.collect());
        numbers
    }

    pub fn identity(&self, world: &World, pod: usize) -> Identity {
        self.roster.identity_of(&device(&world.pods[pod], pod)).unwrap()
    }

    pub fn resolve(&mut self, world: &World) -> Told {
        let now: BTreeMap<StatementKey, Statement> =
            statements(world).into_iter().map(|said| (said.key(), said)).collect();
        let gone = self.said.keys().filter(|key| !now.contains_key(*key));
        let gone = gone.cloned().map(Saying::Delete);
        let new = now.iter().filter(|(key, said)| self.said.get(*key) != Some(*said));
        let sayings = gone.chain(new.map(|(_, said)| Saying::Put(said.clone()))).collect();
        self.said = now;
        self.hear(sayings);
        let mut ports = [const { Vec::new() }; NODES];
        for (n, pod) in world.pods.iter().enumerate().filter(|(_, pod)| pod.is_here) {
            ports[pod.node].push(Object::Port(osier_model::Port {
                key: key(n),
                network: "pods".parse().unwrap(),
                node: node_name(pod.node),
                mac: Mac::of(pod.addresses[0]),
                addresses: pod.addresses.to_vec(),
                identity: self.identity(world, n),
                limits: osier_model::Limits::default(),
            }));
        }
        Told { law: self.law.values().cloned().collect(), ports }
    }

    fn hear(&mut self, sayings: Vec<Saying>) {
        for change in self.roster.hear(sayings).changes {
            match change {
                Change::Put(object @ (Object::Policy(_) | Object::Selection(_))) => {
                    drop(self.law.insert(object.key(), object));
                }
                Change::Put(_) => {}
                Change::Delete(key) => drop(self.law.remove(&key)),
            }
        }
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

fn device(pod: &Pod, n: usize) -> DeviceName {
    format!("ns{}:p{n}", pod.namespace).parse().unwrap()
}

fn statements(world: &World) -> Vec<Statement> {
    let mut said = Vec::new();
    for (n, labels) in world.namespaces.iter().enumerate() {
        let name = format!("ns{n}").parse().unwrap();
        said.push(Statement::Namespace(StatedNamespace { name, labels: stated_labels(labels) }));
    }
    for (n, pod) in world.pods.iter().enumerate().filter(|(_, pod)| pod.is_here) {
        let web = |port| NamedPort { name: "web".to_owned(), transport: Transport::Tcp, port };
        said.push(Statement::Workload(StatedWorkload {
            device: device(pod, n),
            node: Some(node_name(pod.node)),
            labels: stated_labels(&pod.labels),
            ports: pod.web.into_iter().map(web).collect(),
        }));
    }
    for (n, Policy { namespace, pods, ingress, egress }) in &world.policies {
        let rules = |rules: &Option<Vec<Rule>>| {
            rules.as_ref().map(|rules| rules.iter().map(stated_rule).collect())
        };
        said.push(Statement::Policy(StatedPolicy {
            name: format!("ns{namespace}:{n}").parse().unwrap(),
            subjects: stated_selector(pods),
            ingress: rules(ingress),
            egress: rules(egress),
        }));
    }
    said
}

fn stated_labels(labels: &Labels) -> osier_model::Labels {
    labels.iter().map(|(key, value)| ((*key).to_owned(), value.to_string())).collect()
}

fn stated_selector(selector: &Selector) -> osier_model::Selector {
    let mut text = String::from("{ matchExpressions: [");
    for requirement in selector {
        let (key, operator, values) = match requirement {
            Requirement::Is(key, value) => (key, "In", vec![*value]),
            Requirement::In(key, values) => (key, "In", values.clone()),
            Requirement::NotIn(key, values) => (key, "NotIn", values.clone()),
            Requirement::Exists(key) => (key, "Exists", Vec::new()),
            Requirement::Lacks(key) => (key, "DoesNotExist", Vec::new()),
        };
        let values: Vec<String> = values.iter().map(|value| format!("'{value}'")).collect();
        let values = values.join(", ");
        write!(text, "{{ key: {key}, operator: {operator}, values: [{values}] }}, ").unwrap();
    }
    serde_saphyr::from_str(&(text + "] }")).unwrap()
}

fn stated_rule(rule: &Rule) -> StatedRule {
    let peer = |peer: &Peer| match peer {
        Peer::Block { cidr, except } => {
            StatedPeer::Block(Block { cidr: *cidr, except: except.clone() })
        }
        Peer::Pods { namespaces, pods } => StatedPeer::Workloads {
            namespaces: namespaces.as_ref().map(stated_selector),
            labels: stated_selector(pods),
        },
    };
    let port = |port: &Port| match port {
        Port::All(transport) => StatedPort { transport: *transport, port: PortChoice::Any },
        Port::Range(transport, first, last) => {
            let range = PortRange { first: *first, last: *last };
            StatedPort { transport: *transport, port: PortChoice::Numbers(range) }
        }
        Port::Web => {
            let port = PortChoice::Named("web".to_owned());
            StatedPort { transport: Transport::Tcp, port }
        }
    };
    StatedRule {
        peers: rule.peers.as_ref().map(|peers| peers.iter().map(peer).collect()),
        ports: rule.ports.as_ref().map(|ports| ports.iter().map(port).collect()),
    }
}
