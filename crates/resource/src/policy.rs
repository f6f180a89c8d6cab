//! Policies, and the labels that they select by, as users write them.
//!
//! A policy's spec is that of Kubernetes' own NetworkPolicy, word for word, so that a manifest for the
//! one serves the other.

use crate::leaf;
use crate::status::Condition;
use ipnet::IpNet;
use osier_model::{
    Block, DeviceName, Identity, Labels, NamedPort, NamespaceName, NodeName, PolicyName,
    PortChoice, PortRange, Selector, StatedNamespace, StatedPeer, StatedPolicy, StatedPort,
    StatedRule, StatedWorkload, Transport,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A namespace. All that matters of it are its labels.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct NamespaceSpec {}

/// What has ports, and labels by which policies select it: a pod.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct WorkloadSpec {
    /// On which node it is, once that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<leaf::Name>")]
    pub node: Option<NodeName>,
    /// Its ports that have names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<leaf::NamedPort>")]
    pub ports: Vec<NamedPort>,
}

/// Who may talk to whom.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct NetworkPolicySpec {
    /// Whom it is about: workloads of its own namespace.
    #[serde(default)]
    #[schemars(with = "leaf::Selector")]
    pub pod_selector: Selector,
    /// What it speaks of; of what comes in, and of what goes out if it has rules for that, if it is
    /// not said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policy_types: Vec<PolicyType>,
    /// What may come to them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ingress: Vec<IngressRule>,
    /// What they may send.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub egress: Vec<EgressRule>,
}

/// Which way a policy judges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PolicyType {
    /// What comes in.
    Ingress,
    /// What goes out.
    Egress,
}

/// What may come in.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct IngressRule {
    /// From whom; from everyone if nobody is named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub from: Vec<PolicyPeer>,
    /// At which ports; at all if none is named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<PolicyPort>,
}

/// What may go out.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct EgressRule {
    /// To whom; to everyone if nobody is named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<PolicyPeer>,
    /// To which ports; to all if none is named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<PolicyPort>,
}

/// Workloads by labels, or addresses.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PolicyPeer {
    /// Workloads like this; in the policy's own namespace unless others are selected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<leaf::Selector>")]
    pub pod_selector: Option<Selector>,
    /// In namespaces like this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<leaf::Selector>")]
    pub namespace_selector: Option<Selector>,
    /// Addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip_block: Option<IpBlock>,
}

/// A prefix, and what of it does not count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct IpBlock {
    /// The prefix.
    #[schemars(with = "leaf::Prefix")]
    pub cidr: IpNet,
    /// Parts of it that are not meant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<leaf::Prefix>")]
    pub except: Vec<IpNet>,
}

/// Ports of a protocol.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PolicyPort {
    /// What carries it.
    #[serde(default)]
    pub protocol: Protocol,
    /// Its number, or the name that the receiver gives it; all if it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<NumberOrName>,
    /// The last number, if `port` is the first of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_port: Option<u16>,
}

/// A transport, as policies spell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
#[schemars(inline)]
pub enum Protocol {
    /// TCP.
    #[default]
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

/// A port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub enum NumberOrName {
    /// By number.
    Number(u16),
    /// By name.
    Name(String),
}

/// Of a namespace.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct NamespaceStatus {
    /// What is so.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// Of a workload.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct WorkloadStatus {
    /// What it is to policies.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<u32>")]
    pub identity: Option<Identity>,
    /// What is so.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// Of a rule of a policy.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct RuleStatus {
    /// Which: `ingress[0]` is the first of those that let something in.
    pub rule: String,
    /// Connections that it let through. Rules that say the same count together.
    pub hits: u64,
}

/// Of a policy.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct NetworkPolicyStatus {
    /// How many workloads it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subjects: Option<u64>,
    /// Connections that its rules let through, as far as nodes have told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hits: Option<u64>,
    /// The same of each rule.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<RuleStatus>,
    /// What is so.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

pub(crate) fn namespace(name: NamespaceName, labels: &Labels) -> StatedNamespace {
    StatedNamespace { name, labels: labels.clone() }
}

// === impl WorkloadSpec ===

impl WorkloadSpec {
    /// As the model has it.
    pub(crate) fn to_model(&self, device: DeviceName, labels: &Labels) -> StatedWorkload {
        let (node, ports) = (self.node.clone(), self.ports.clone());
        StatedWorkload { device, node, labels: labels.clone(), ports }
    }
}

// === impl Protocol ===

impl Protocol {
    /// As the model has it.
    pub fn transport(self) -> Transport {
        match self {
            Self::Tcp => Transport::Tcp,
            Self::Udp => Transport::Udp,
            Self::Sctp => Transport::Sctp,
        }
    }
}

// === impl NetworkPolicySpec ===

impl NetworkPolicySpec {
    /// As the model has it; or which field means nothing, and why.
    pub(crate) fn to_model(&self, name: PolicyName) -> Result<StatedPolicy, (String, String)> {
        let ingress = self.ingress.iter().enumerate();
        let ingress = ingress.map(|(i, rule)| {
            let place = format!("ingress[{i}]");
            stated(&place, ("from", &rule.from), &rule.ports)
        });
        let egress = self.egress.iter().enumerate().map(|(i, rule)| {
            let place = format!("egress[{i}]");
            stated(&place, ("to", &rule.to), &rule.ports)
        });
        let ingress: Vec<StatedRule> = ingress.collect::<Result<_, _>>()?;
        let egress: Vec<StatedRule> = egress.collect::<Result<_, _>>()?;
        Ok(StatedPolicy {
            name,
            subjects: self.pod_selector.clone(),
            ingress: self.speaks_of(PolicyType::Ingress).then_some(ingress),
            egress: self.speaks_of(PolicyType::Egress).then_some(egress),
        })
    }

    fn speaks_of(&self, direction: PolicyType) -> bool {
        match self.policy_types.is_empty() {
            true => direction == PolicyType::Ingress || !self.egress.is_empty(),
            false => self.policy_types.contains(&direction),
        }
    }

    /// About the same workloads, in the same directions, and nothing is let through.
    #[must_use]
    pub fn closed(&self) -> Self {
        let types = [PolicyType::Ingress, PolicyType::Egress];
        Self {
            pod_selector: self.pod_selector.clone(),
            policy_types: types.into_iter().filter(|of| self.speaks_of(*of)).collect(),
            ..Self::default()
        }
    }

    /// Prefixes with bits behind their length.
    pub fn inexact(&self) -> impl Iterator<Item = &IpNet> {
        let from = self.ingress.iter().flat_map(|rule| &rule.from);
        let to = self.egress.iter().flat_map(|rule| &rule.to);
        let blocks = from.chain(to).filter_map(|peer| peer.ip_block.as_ref());
        let all = blocks.flat_map(|block| std::iter::once(&block.cidr).chain(&block.except));
        all.filter(|prefix| prefix.trunc() != **prefix)
    }

    /// Ports that are called by name.
    pub fn port_names(&self) -> impl Iterator<Item = (&str, Protocol)> {
        let ingress = self.ingress.iter().flat_map(|rule| &rule.ports);
        let ports = ingress.chain(self.egress.iter().flat_map(|rule| &rule.ports));
        ports.filter_map(|port| match &port.port {
            Some(NumberOrName::Name(name)) => Some((name.as_str(), port.protocol)),
            _ => None,
        })
    }

    /// With prefixes that have no bits behind their length, as others read them.
    #[must_use]
    pub fn truncated(mut self) -> Self {
        let from = self.ingress.iter_mut().flat_map(|rule| &mut rule.from);
        let to = self.egress.iter_mut().flat_map(|rule| &mut rule.to);
        for block in from.chain(to).filter_map(|peer| peer.ip_block.as_mut()) {
            block.cidr = block.cidr.trunc();
            block.except.iter_mut().for_each(|except| *except = except.trunc());
        }
        self
    }
}

/// A rule; an empty list in it names everything.
fn stated(
    place: &str,
    (field, peers): (&str, &[PolicyPeer]),
    ports: &[PolicyPort],
) -> Result<StatedRule, (String, String)> {
    let peer = |(i, peer): (usize, &PolicyPeer)| {
        peer.to_model().map_err(|said| (format!("{place}.{field}[{i}]"), said.to_owned()))
    };
    let port = |(i, port): (usize, &PolicyPort)| {
        port.to_model().map_err(|said| (format!("{place}.ports[{i}]"), said.to_owned()))
    };
    let all_peers: Vec<StatedPeer> =
        peers.iter().enumerate().map(peer).collect::<Result<_, _>>()?;
    let all_ports: Vec<StatedPort> =
        ports.iter().enumerate().map(port).collect::<Result<_, _>>()?;
    Ok(StatedRule {
        peers: (!all_peers.is_empty()).then_some(all_peers),
        ports: (!all_ports.is_empty()).then_some(all_ports),
    })
}

// === impl PolicyPeer ===

impl PolicyPeer {
    fn to_model(&self) -> Result<StatedPeer, &'static str> {
        match (&self.ip_block, &self.namespace_selector, &self.pod_selector) {
            (Some(block), None, None) => {
                Ok(StatedPeer::Block(Block { cidr: block.cidr, except: block.except.clone() }))
            }
            (Some(_), _, _) => Err("ipBlock stands alone: it cannot be narrowed by selectors"),
            (None, None, None) => Err("podSelector, namespaceSelector or ipBlock is missing"),
            (None, namespaces, labels) => Ok(StatedPeer::Workloads {
                namespaces: namespaces.clone(),
                labels: labels.clone().unwrap_or_default(),
            }),
        }
    }
}

// === impl PolicyPort ===

impl PolicyPort {
    fn to_model(&self) -> Result<StatedPort, &'static str> {
        let transport = self.protocol.transport();
        let port = match (&self.port, self.end_port) {
            (None, None) => PortChoice::Any,
            (Some(NumberOrName::Number(first)), last) => {
                PortChoice::Numbers(PortRange { first: *first, last: last.unwrap_or(*first) })
            }
            (Some(NumberOrName::Name(name)), None) => PortChoice::Named(name.clone()),
            (None, Some(_)) => return Err("endPort means nothing without port"),
            (Some(NumberOrName::Name(_)), Some(_)) => {
                return Err("endPort means nothing with the name of a port");
            }
        };
        Ok(StatedPort { transport, port })
    }
}
