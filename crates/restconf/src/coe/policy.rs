//! Network policies. Those of COE name no namespace, and its pods have no labels: what of a policy can be
//! meant for such pods is enforced by the model's own policies, and the rest is refused where it stands.
//!
//! A policy called `namespace:name` (or `namespace/name`) is that namespace's; any other is every
//! namespace's that has pods. Selectors take all, or a pod by its name and a namespace by its name,
//! under the labels [`POD_NAME`] and [`NAMESPACE_NAME`]. As nodes judge workloads, every pod is one as
//! long as there is a policy, and no longer.

use super::{Coe, Fact, Kind, Target, Unit, document, invalid, text};
use crate::error::{ErrorTag, Problem};
use ipnet::IpNet;
use osier_model::PolicyName;
use osier_resource::{NetworkPolicySpec, Resource, WorkloadSpec};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// The label of a pod with its name.
pub const POD_NAME: &str = "osier.dev/pod-name";
/// The label that Kubernetes gives every namespace.
pub const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// A policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CoePolicy {
    /// The namespace that it names; nothing: all.
    namespace: Option<String>,
    name: String,
    spec: NetworkPolicySpec,
}

/// Which way rules go: their list, what stands around a rule, its ports and its peers.
const WAYS: [(&str, &str, &str, &str); 2] = [
    ("ingress", "network-policy-ingress-rule", "ingress-ports", "from"),
    ("egress", "network-policy-egress-rule", "egress-ports", "to"),
];

// === impl CoePolicy ===

impl CoePolicy {
    pub(super) fn read(path: &str, value: &Value) -> Result<Self, Problem> {
        let said = text(value, "name").or_else(|| text(value, "uuid")).unwrap_or_default();
        let (namespace, name) = match said.split_once([':', '/']) {
            Some((namespace, name)) => (Some(namespace.to_owned()), name.to_owned()),
            None => (None, said),
        };
        let whole = format!("{}:{name}", namespace.as_deref().unwrap_or("all"));
        PolicyName::new(&whole).map_err(|e| invalid(path, "name", e.to_string()))?;
        let nothing = Value::Null;
        let at = format!("{path}/network-policy-spec");
        let spec = spec(&at, value.get("network-policy-spec").unwrap_or(&nothing))?;
        let odd = |e: serde_json::Error| invalid(path, "network-policy-spec", e.to_string());
        let spec = serde_json::from_value(spec).map_err(odd)?;
        Ok(Self { namespace, name, spec })
    }

    pub(super) fn facts(&self) -> Vec<Fact> {
        vec![Fact::Policies, Fact::Policy(self.name.clone())]
    }

    /// What it is called in a namespace, if it is one of that.
    fn called_in(&self, namespace: &str) -> Option<String> {
        let is_there = self.namespace.as_deref().is_none_or(|own| own == namespace);
        is_there.then(|| format!("{namespace}:{}", self.name))
    }
}

/// A policy's spec, as Kubernetes spells it.
fn spec(at: &str, said: &Value) -> Result<Value, Problem> {
    let mut spec = Map::new();
    let subjects = selector(at, said, "pod-selector", POD_NAME)?.unwrap_or_else(|| json!({}));
    spec.insert("podSelector".to_owned(), subjects);
    let types = entries(said, "policy-types").filter_map(Value::as_str).map(|word| match word {
        "egress" => "Egress",
        _ => "Ingress",
    });
    let types: Vec<&str> = types.collect();
    if !types.is_empty() {
        spec.insert("policyTypes".to_owned(), json!(types));
    }
    for (way, around, ports, peers) in WAYS {
        let mut rules = Vec::new();
        for (n, entry) in entries(said, way).enumerate() {
            let at = format!("{at}/{way}={n}");
            let nothing = Value::Null;
            let rule = entry.get(around).unwrap_or(&nothing);
            let named = |member: &str, of: &str| -> Vec<Value> {
                let found = entries(rule, member).map(|entry| entry.get(of).cloned());
                found.map(Option::unwrap_or_default).collect()
            };
            let ports: Result<Vec<Value>, Problem> = named(ports, "network-policy-port")
                .iter()
                .enumerate()
                .map(|(n, said)| port(&format!("{at}/{ports}={n}"), said))
                .collect();
            let found: Result<Vec<Value>, Problem> = named(peers, "network-policy-peer")
                .iter()
                .enumerate()
                .map(|(n, said)| peer(&format!("{at}/{peers}={n}"), said))
                .collect();
            let mut rule = Map::new();
            rule.insert("ports".to_owned(), ports?.into());
            rule.insert(peers.to_owned(), found?.into());
            rules.push(Value::Object(rule));
        }
        spec.insert(way.to_owned(), rules.into());
    }
    Ok(Value::Object(spec))
}

fn entries<'a>(value: &'a Value, member: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    value.get(member).and_then(Value::as_array).into_iter().flatten()
}

fn port(at: &str, said: &Value) -> Result<Value, Problem> {
    let mut port =
        json!({ "protocol": text(said, "protocol").unwrap_or_else(|| "TCP".to_owned()) });
    if let Some(number) = text(said, "port") {
        port["port"] = match number.parse::<u16>() {
            Ok(number) if number > 0 => number.into(),
            _ => {
                let said = format!("{number} is no number of a port, and pods here name none");
                return Err(invalid(at, "network-policy-port/port", said));
            }
        };
    }
    Ok(port)
}

fn peer(of: &str, said: &Value) -> Result<Value, Problem> {
    let at = format!("{of}/network-policy-peer");
    let mut peer = Map::new();
    for (member, known, spelt) in [
        ("peer-pod-selector", POD_NAME, "podSelector"),
        ("peer-namespace-selector", NAMESPACE_NAME, "namespaceSelector"),
    ] {
        if let Some(found) = selector(&at, said, member, known)? {
            peer.insert(spelt.to_owned(), found);
        }
    }
    if let Some(block) = said.get("ip-block") {
        if !peer.is_empty() {
            return Err(invalid(
                &at,
                "ip-block",
                "selectors beside it: it is the one or the other",
            ));
        }
        peer.insert("ipBlock".to_owned(), ip_block(&at, block)?);
    }
    if peer.is_empty() {
        let said = "it names nobody: a selector or an ip-block has to be there";
        return Err(invalid(of, "network-policy-peer", said));
    }
    Ok(Value::Object(peer))
}

fn ip_block(at: &str, said: &Value) -> Result<Value, Problem> {
    let at = format!("{at}/ip-block");
    let prefix = |member: &str, text: &str| match text.parse::<IpNet>() {
        Ok(prefix) if prefix == prefix.trunc() => Ok(prefix),
        _ => Err(invalid(&at, member, format!("{text} is no prefix"))),
    };
    let cidr = text(said, "cidr").ok_or_else(|| invalid(&at, "cidr", "it has to be there"))?;
    let cidr = prefix("cidr", &cidr)?;
    let mut except = Vec::new();
    for text in entries(said, "except").filter_map(Value::as_str) {
        let part = prefix("except", text)?;
        if !cidr.contains(&part) {
            return Err(invalid(&at, "except", format!("{part} is no part of {cidr}")));
        }
        except.push(part);
    }
    Ok(json!({ "cidr": cidr, "except": except }))
}

/// A selector, if it is there: of all, or by the one label that there is.
fn selector(at: &str, said: &Value, member: &str, known: &str) -> Result<Option<Value>, Problem> {
    let Some(said) = said.get(member) else { return Ok(None) };
    let mut labels = Map::new();
    for label in entries(said, "match-labels") {
        let (key, value) = (text(label, "key"), text(label, "value"));
        let (key, value) = (key.unwrap_or_default(), value.unwrap_or_default());
        if key != known {
            let said = format!(
                "nobody here has a label {key}: there is {known}, and a selector without labels, which takes all"
            );
            return Err(invalid(at, &format!("{member}/match-labels={key}"), said));
        }
        labels.insert(key, value.into());
    }
    Ok(Some(match labels.is_empty() {
        true => json!({}),
        false => json!({ "matchLabels": labels }),
    }))
}

impl Coe {
    fn policies<'a>(&'a self, fact: &Fact) -> impl Iterator<Item = &'a CoePolicy> + use<'a> {
        self.with(fact).filter_map(|unit| match unit {
            Unit::Policy(policy) => Some(policy),
            _ => None,
        })
    }

    /// Two of one name in one namespace would be one.
    pub(super) fn check_policy(&self, path: &str, policy: &CoePolicy) -> Result<(), Problem> {
        let alike = self.policies(&Fact::Policy(policy.name.clone())).filter(|other| {
            let apart = policy.namespace.as_ref().zip(other.namespace.as_ref());
            apart.is_none_or(|(one, other)| one == other)
        });
        match alike.count() {
            0 | 1 => Ok(()),
            _ => {
                let said = format!("there is another policy {} already", policy.name);
                Err(Problem::new(ErrorTag::InUse, format!("/{path}/name"), said))
            }
        }
    }

    /// A policy in its namespaces; with the first, and the last, all pods.
    pub(super) fn policy_targets(&self, policy: &CoePolicy, targets: &mut BTreeSet<Target>) {
        for namespace in self.namespaces() {
            targets.extend(policy.called_in(namespace).map(|name| (Kind::NetworkPolicy, name)));
        }
        let is_only = self.index.get(&Fact::Policies).is_some_and(|units| units.len() == 1);
        if is_only {
            let ports = self.index.range(Fact::Port(String::new())..);
            targets.extend(ports.map_while(|(fact, _)| match fact {
                Fact::Port(name) => Some((Kind::Workload, name.clone())),
                _ => None,
            }));
        }
    }

    /// What policies have to do with a pod of a namespace.
    pub(super) fn judged_targets(
        &self,
        namespace: &str,
        port: Option<String>,
        targets: &mut BTreeSet<Target>,
    ) {
        for policy in self.policies(&Fact::Policies) {
            targets.extend(policy.called_in(namespace).map(|name| (Kind::NetworkPolicy, name)));
        }
        let port = port.filter(|_| self.has(&Fact::Policies));
        targets.extend(port.map(|name| (Kind::Workload, name)));
    }

    pub(super) fn policy(&self, name: &str) -> Option<Resource> {
        let (namespace, own) = name.split_once(':')?;
        let is_there = self.has(&Fact::Namespace(namespace.to_owned()));
        let mut policies = self.policies(&Fact::Policy(own.to_owned())).filter(|_| is_there);
        let policy = policies.find(|policy| policy.called_in(namespace).is_some())?;
        Some(Resource::NetworkPolicy(document(name, policy.spec.clone())))
    }

    pub(super) fn workload(&self, name: &str) -> Option<Resource> {
        self.has(&Fact::Policies).then_some(())?;
        let Some(Resource::Port(port)) = self.port(name) else { return None };
        let spec = WorkloadSpec { node: Some(port.spec.node), ports: Vec::new() };
        let mut workload = document(name, spec);
        let (_, pod) = name.split_once(':')?;
        workload.metadata.labels.insert(POD_NAME.to_owned(), pod.to_owned());
        Some(Resource::Workload(workload))
    }

    fn namespaces(&self) -> impl Iterator<Item = &str> {
        let from = Fact::Namespace(String::new());
        self.index.range(from..).map_while(|(fact, _)| match fact {
            Fact::Namespace(name) => Some(name.as_str()),
            _ => None,
        })
    }
}
