//! What policies say of a connection, from the model: no packet is sent, no node is asked. And what they
//! did, which nodes tell.

use super::error::ApiError;
use super::{Api, agents, json};
use axum::Json;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use osier_fleet::ask::{Ask, RuleHits};
use osier_model::{
    DeviceName, Identity, Key, NodeName, Object, Party, PolicyName, RuleRef, Talk, Transport,
    Verdict,
};
use osier_resource::RuleStatus;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// A connection that is asked about.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Question {
    from: String,
    to: String,
    #[serde(default)]
    protocol: Option<Transport>,
    #[serde(default)]
    port: Option<u16>,
}

/// What a policy did.
#[derive(Debug, Default, Serialize)]
struct Done {
    /// Connections that its rules let through.
    hits: u64,
    rules: Vec<RuleStatus>,
}

/// One side, as it was found.
struct Side {
    name: String,
    party: Party,
    node: Option<NodeName>,
    /// The node itself.
    is_node: bool,
}

/// Says whether a connection may be, and by which rules.
pub(super) async fn test(api: &Api, request: Request) -> Result<Response, ApiError> {
    let asked: Question = json(api, request).await?;
    let from = side(api, "from", &asked.from).await?;
    let to = side(api, "to", &asked.to).await?;
    let port = asked.port.map(|port| (asked.protocol.unwrap_or_default(), port));
    let judged = api.engine.hub().judge(&Talk { from: from.party, to: to.party, port });
    let is_own = from.is_node && from.node.is_some() && from.node == to.node;
    let passes = is_own || judged.passes();
    let why = match is_own {
        true => "a node always reaches its own pods".to_owned(),
        false => {
            format!("{}; {}", said("egress", &judged.egress), said("ingress", &judged.ingress))
        }
    };
    let answer = json!({
        "passes": passes,
        "why": why,
        "from": shown(&from),
        "to": shown(&to),
        "egress": judged.egress,
        "ingress": judged.ingress,
    });
    Ok(Json(answer).into_response())
}

/// How often rules let something through, by policy, over all nodes.
pub(super) async fn hits(api: &Arc<Api>) -> Result<Response, ApiError> {
    let nodes = api.engine.hub().node_names();
    let (told, unanswered) = agents::ask_all::<Vec<RuleHits>>(api, nodes, &Ask::Hits).await;
    let mut rules: BTreeMap<RuleRef, u64> = BTreeMap::new();
    for RuleHits { rule, connections } in told.into_iter().flat_map(|(_, told)| told) {
        *rules.entry(rule).or_default() += connections;
    }
    let mut policies: BTreeMap<PolicyName, Done> = BTreeMap::new();
    for (RuleRef { policy, direction, index }, hits) in rules {
        let done = policies.entry(policy).or_default();
        done.hits += hits;
        done.rules.push(RuleStatus { rule: format!("{direction}[{index}]"), hits });
    }
    Ok(Json(json!({"policies": policies, "unanswered": unanswered})).into_response())
}

fn shown(side: &Side) -> Value {
    let address = Some(side.party.address).filter(|address| !address.is_unspecified());
    json!({"name": side.name, "identity": side.party.identity, "address": address})
}

fn said(direction: &str, verdict: &Verdict) -> String {
    match verdict {
        Verdict::Open => format!("no policy is about its {direction}"),
        Verdict::Allowed(rules) => {
            let rules: Vec<String> = rules.iter().map(ToString::to_string).collect();
            format!("allowed by {}", rules.join(", "))
        }
        Verdict::Denied(policies) => {
            let names: Vec<&str> = policies.iter().map(PolicyName::as_str).collect();
            format!("{direction} is denied: no rule of {} allows it", names.join(", "))
        }
    }
}

/// What a name or an address stands for: a workload, a node, or what is outside.
async fn side(api: &Api, field: &str, text: &str) -> Result<Side, ApiError> {
    let hub = api.engine.hub();
    let address: Option<IpAddr> = text.parse().ok();
    let port = agents::find(api, text).await?;
    let device = match &port {
        Some(port) => Some(port.key.device.clone()),
        None => DeviceName::new(text).ok(),
    };
    let workload = device.and_then(|device| hub.get(&Key::Workload(device)));
    if let Some(Object::Workload(workload)) = workload.as_ref().map(|shared| shared.object()) {
        let own = port.as_ref().and_then(|port| port.addresses.first().copied());
        let address = address.or(own).unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let party = Party { identity: workload.identity, address };
        let (name, node) = (workload.device.to_string(), Some(workload.node.clone()));
        return Ok(Side { name, party, node, is_node: false });
    }
    let is_it = |name: &NodeName| match hub.get(&Key::Node(name.clone()))?.object() {
        Object::Node(node) => {
            let all = node.addresses.iter().chain([&node.tunnel]);
            let is_it =
                name.as_str() == text || address.is_some_and(|a| all.clone().any(|x| *x == a));
            is_it.then(|| (node.name.clone(), address.unwrap_or(node.tunnel)))
        }
        _ => None,
    };
    if let Some((node, address)) = hub.node_names().iter().find_map(is_it) {
        let party = Party { identity: Identity::HOST, address };
        return Ok(Side { name: format!("node {node}"), party, node: Some(node), is_node: true });
    }
    let node = port.as_ref().map(|port| port.node.clone());
    let address = address.or_else(|| port.and_then(|port| port.addresses.first().copied()));
    let address = address.ok_or_else(|| {
        let said = format!("there is no workload, port or node {text}, and it is no address");
        ApiError::invalid("policy test", field, said)
    })?;
    let party = Party { identity: Identity::HOST, address };
    Ok(Side { name: text.to_owned(), party, node, is_node: false })
}
