//! What users say of policies: in labels and selectors.
//!
//! Nodes never see these. Who resolves them gives labels numbers and selectors results, and makes
//! [`Policy`](crate::Policy) objects of them, which are in terms of identities.

use crate::error::{Invalid, Problem};
use crate::name::{DeviceName, NamespaceName, NodeName, PolicyName};
use crate::node::Node;
use crate::policy::{Block, Direction, PortRange, check_rules};
use crate::selector::{Labels, Selector};
use crate::service::Transport;
use crate::view::Isolation;
use serde::{Deserialize, Serialize};

/// Something that is said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Statement {
    /// Labels of a namespace.
    Namespace(StatedNamespace),
    /// Labels of what has ports.
    Workload(StatedWorkload),
    /// A policy, by selectors.
    Policy(StatedPolicy),
}

/// Which statement.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StatementKey {
    /// A namespace's.
    Namespace(NamespaceName),
    /// A workload's.
    Workload(DeviceName),
    /// A policy's.
    Policy(PolicyName),
}

/// One step from what was said to what is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Saying {
    /// It is now so.
    Put(Statement),
    /// It is said no longer.
    Delete(StatementKey),
    /// Namespaces are apart from now on, or no longer.
    Apart(Option<Isolation>),
    /// A node is now so: who names its address means what comes from it.
    Node(Box<Node>),
    /// A node is no longer there.
    NodeGone(NodeName),
}

/// A namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatedNamespace {
    /// Its name.
    pub name: NamespaceName,
    /// Its labels.
    pub labels: Labels,
}

/// A pod, or what else has ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatedWorkload {
    /// Its name: `namespace:pod`.
    pub device: DeviceName,
    /// Where it is, once that is known.
    pub node: Option<NodeName>,
    /// Its labels.
    pub labels: Labels,
    /// Its ports that have names.
    pub ports: Vec<NamedPort>,
}

/// A port that has a name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedPort {
    /// Its name.
    pub name: String,
    /// What carries it.
    #[serde(default)]
    pub transport: Transport,
    /// Its number.
    pub port: u16,
}

/// A policy, by selectors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatedPolicy {
    /// Its name: `namespace:policy`.
    pub name: PolicyName,
    /// Whom it is about, in its own namespace.
    pub subjects: Selector,
    /// What may come to them; nothing is said of that if it is missing.
    pub ingress: Option<Vec<StatedRule>>,
    /// What they may send, in the same way.
    pub egress: Option<Vec<StatedRule>>,
}

/// What is let through.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StatedRule {
    /// Who; everyone if it is not said.
    pub peers: Option<Vec<StatedPeer>>,
    /// At which ports; whatever it is if it is not said.
    pub ports: Option<Vec<StatedPort>>,
}

/// One of those that a rule names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StatedPeer {
    /// Workloads by their labels.
    Workloads {
        /// In namespaces like these; in the policy's own if it is not said.
        namespaces: Option<Selector>,
        /// Those that are like this.
        labels: Selector,
    },
    /// Addresses.
    Block(Block),
    /// What comes by nodes: they themselves, and what is outside.
    Nodes,
}

/// Ports of a transport.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatedPort {
    /// What carries it.
    pub transport: Transport,
    /// Which.
    pub port: PortChoice,
}

/// Which ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PortChoice {
    /// All.
    Any,
    /// By number.
    Numbers(PortRange),
    /// By the name that the receiver gives it.
    Named(String),
}

// === impl Statement ===

impl Statement {
    /// Which one it is.
    pub fn key(&self) -> StatementKey {
        match self {
            Self::Namespace(namespace) => StatementKey::Namespace(namespace.name.clone()),
            Self::Workload(workload) => StatementKey::Workload(workload.device.clone()),
            Self::Policy(policy) => StatementKey::Policy(policy.name.clone()),
        }
    }

    /// Checks it.
    pub fn validate(&self) -> Result<(), Invalid> {
        match self {
            Self::Policy(policy) => policy.validate(),
            Self::Workload(workload) => workload.validate(),
            Self::Namespace(_) => Ok(()),
        }
    }
}

// === impl StatedWorkload ===

impl StatedWorkload {
    fn validate(&self) -> Result<(), Invalid> {
        let object = format!("workload {}", self.device);
        if self.device.namespace().is_none() {
            return Err(Invalid::new(object, "name", Problem::Missing("the namespace")));
        }
        for (i, port) in self.ports.iter().enumerate() {
            if port.port == 0 {
                let problem = Problem::Range { found: 0, min: 1, max: u16::MAX.into() };
                return Err(Invalid::new(object, format!("ports[{i}].port"), problem));
            }
        }
        Ok(())
    }
}

// === impl StatedPolicy ===

impl StatedPolicy {
    /// More rules than any real policy has.
    const MAX_RULES: usize = 10_000;
    /// How names of policies begin that Osier makes itself.
    pub const OURS: char = '@';

    /// The rules of a direction; nothing if the policy does not speak of it.
    pub fn rules(&self, direction: Direction) -> Option<&[StatedRule]> {
        match direction {
            Direction::Ingress => self.ingress.as_deref(),
            Direction::Egress => self.egress.as_deref(),
        }
    }

    /// Its namespace.
    pub fn namespace(&self) -> Option<NamespaceName> {
        self.name.namespace()
    }

    /// Selectors of labels of workloads that it has.
    pub fn selectors(&self) -> impl Iterator<Item = &Selector> {
        let peers = self.all_rules().flat_map(|rule| rule.peers.iter().flatten());
        let peers = peers.filter_map(|peer| match peer {
            StatedPeer::Workloads { labels, .. } => Some(labels),
            StatedPeer::Block(_) | StatedPeer::Nodes => None,
        });
        std::iter::once(&self.subjects).chain(peers)
    }

    /// Names of ports that it has, and what carries them.
    pub fn port_names(&self) -> impl Iterator<Item = (&str, Transport)> {
        let ports = self.all_rules().flat_map(|rule| rule.ports.iter().flatten());
        ports.filter_map(|port| match &port.port {
            PortChoice::Named(name) => Some((name.as_str(), port.transport)),
            PortChoice::Any | PortChoice::Numbers(_) => None,
        })
    }

    fn all_rules(&self) -> impl Iterator<Item = &StatedRule> {
        self.ingress.iter().chain(&self.egress).flatten()
    }

    fn validate(&self) -> Result<(), Invalid> {
        let object = format!("policy {}", self.name);
        if self.namespace().is_none() {
            return Err(Invalid::new(object, "name", Problem::Missing("the namespace")));
        }
        if self.name.as_str().split_once(':').is_some_and(|(_, own)| own.starts_with(Self::OURS)) {
            return Err(Invalid::new(object, "name", Problem::Reserved));
        }
        for direction in [Direction::Ingress, Direction::Egress] {
            let rules = self.rules(direction).unwrap_or_default();
            check_rules(&object, direction, rules, Self::MAX_RULES, StatedRule::check)?;
        }
        Ok(())
    }
}

// === impl StatedRule ===

impl StatedRule {
    fn check(&self) -> Result<(), (String, Problem)> {
        for (i, peer) in self.peers.iter().flatten().enumerate() {
            if let StatedPeer::Block(block) = peer {
                let fail = |(field, problem)| (format!("peers[{i}].{field}"), problem);
                block.check().map_err(fail)?;
            }
        }
        for (i, port) in self.ports.iter().flatten().enumerate() {
            if let PortChoice::Numbers(range) = &port.port {
                range.check().map_err(|problem| (format!("ports[{i}]"), problem))?;
            }
        }
        Ok(())
    }
}
