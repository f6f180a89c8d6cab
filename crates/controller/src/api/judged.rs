//! What policies say of a connection, from the model: no packet is sent, no node is asked.
//!
//! Both sides are judged by what switches see of them: a node sends to pods from its gateway's address, a
//! pod whose labels are not known is in quarantine, and a Service is the pods behind it.

use super::error::ApiError;
use super::{Api, agents, json};
use axum::Json;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use osier_model::{
    DeviceName, EndpointState, Identity, Judgement, Key, Node, NodeName, Object, Party, PolicyName,
    Port, ServiceName, Talk, Transport, Verdict,
};
use serde::Deserialize;
use serde_json::json;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Endpoints of a Service that are looked at.
const ENDPOINTS: usize = 100;

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

/// One side, as it was found.
#[derive(Clone)]
struct Side {
    name: String,
    identity: Identity,
    /// Addresses that what it sends to pods has; none if they are not known.
    sends: Vec<IpAddr>,
    /// Addresses at which it is reached, in the same way.
    receives: Vec<IpAddr>,
    node: Option<NodeName>,
    /// The node itself.
    is_node: bool,
}

/// A receiver, and where it listens.
struct Goal {
    side: Side,
    port: Option<(Transport, u16)>,
}

/// What was found of one pair of addresses.
struct Case {
    from: IpAddr,
    to: IpAddr,
    goal: String,
    identity: Identity,
    passes: bool,
    why: String,
    judged: Judgement,
}

/// Says whether a connection may be, and by which rules.
pub(super) async fn test(api: &Api, request: Request) -> Result<Response, ApiError> {
    let asked: Question = json(api, request).await?;
    let from = side(api, "from", &asked.from).await?;
    let port = asked.port.map(|port| (asked.protocol.unwrap_or_default(), port));
    let (goals, left) = match asked.to.strip_prefix("svc/") {
        Some(service) => behind(api, service, asked.protocol, asked.port).await?,
        None => (vec![Goal { side: side(api, "to", &asked.to).await?, port }], 0),
    };
    let cases: Vec<Case> = goals.iter().flat_map(|goal| cases(api, &from, goal)).collect();
    // What is denied is what is looked for.
    let Some(first) = cases.iter().find(|case| !case.passes).or(cases.first()) else {
        let said = "they have no addresses of one family".to_owned();
        return Err(ApiError::invalid("policy test", "to", said));
    };
    let shown = |name: &str, identity: Identity, address: IpAddr| {
        let address = Some(address).filter(|address| !address.is_unspecified());
        json!({"name": name, "identity": identity, "address": address})
    };
    let answer = json!({
        "passes": cases.iter().all(|case| case.passes),
        "why": words(&cases, left),
        "from": shown(&from.name, from.identity, first.from),
        "to": shown(&first.goal, first.identity, first.to),
        "egress": first.judged.egress,
        "ingress": first.judged.ingress,
    });
    Ok(Json(answer).into_response())
}

/// Judges one receiver, in each family that both have.
fn cases(api: &Api, from: &Side, goal: &Goal) -> Vec<Case> {
    let to = &goal.side;
    let is_own = from.is_node && from.node.is_some() && from.node == to.node;
    let judge = |(source, target): (IpAddr, IpAddr)| {
        let talk = Talk {
            from: Party { identity: from.identity, address: source },
            to: Party { identity: to.identity, address: target },
            port: goal.port,
        };
        let mut judged = api.engine.hub().judge(&talk);
        let kept = |side: &Side| side.identity == Identity::QUARANTINED;
        if kept(from) {
            judged.egress = Verdict::Denied(Vec::new());
        }
        if kept(to) {
            judged.ingress = Verdict::Denied(Vec::new());
        }
        let (passes, why) = if is_own {
            (true, "a node always reaches its own pods".to_owned())
        } else {
            let egress = said("egress", &judged.egress, from);
            (judged.passes(), format!("{egress}; {}", said("ingress", &judged.ingress, to)))
        };
        let (goal, identity) = (to.name.clone(), to.identity);
        Case { from: source, to: target, goal, identity, passes, why, judged }
    };
    pairs(&from.sends, &to.receives).into_iter().map(judge).collect()
}

/// Addresses of one family, of each that both have. Those that are not known are of any.
fn pairs(from: &[IpAddr], to: &[IpAddr]) -> Vec<(IpAddr, IpAddr)> {
    let of = |all: &[IpAddr], ipv6: bool| match (all.is_empty(), ipv6) {
        (true, false) => Some(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        (true, true) => Some(IpAddr::V6(Ipv6Addr::UNSPECIFIED)),
        (false, _) => all.iter().copied().find(|address| address.is_ipv6() == ipv6),
    };
    let both = |ipv6| Some((of(from, ipv6)?, of(to, ipv6)?));
    let mut pairs: Vec<_> = [false, true].into_iter().filter_map(both).collect();
    if from.is_empty() && to.is_empty() {
        pairs.truncate(1);
    }
    pairs
}

/// All of it in one sentence; apart only where it differs.
fn words(cases: &[Case], left: usize) -> String {
    let mut said: Vec<(&str, Vec<String>)> = Vec::new();
    for case in cases {
        let whom = format!("{} ({})", case.goal, case.to);
        match said.iter_mut().find(|(why, _)| *why == case.why) {
            Some((_, whom_else)) => whom_else.push(whom),
            None => said.push((&case.why, vec![whom])),
        }
    }
    let left = match left {
        0 => String::new(),
        left => format!("; {left} more endpoints were not looked at"),
    };
    match said.as_slice() {
        [(why, _)] => format!("{why}{left}"),
        said => {
            let each = said.iter().map(|(why, whom)| format!("to {}: {why}", whom.join(", ")));
            format!("{}{left}", each.collect::<Vec<_>>().join(". "))
        }
    }
}

fn said(direction: &str, verdict: &Verdict, side: &Side) -> String {
    match verdict {
        Verdict::Open => format!("no policy is about its {direction}"),
        Verdict::Allowed(rules) => {
            let rules: Vec<String> = rules.iter().map(ToString::to_string).collect();
            format!("allowed by {}", rules.join(", "))
        }
        Verdict::Denied(_) if side.identity == Identity::QUARANTINED => format!(
            "{direction} is denied: labels of {} are not known, and its namespace has policies",
            side.name
        ),
        Verdict::Denied(policies) => {
            let names: Vec<&str> = policies.iter().map(PolicyName::as_str).collect();
            format!("{direction} is denied: no rule of {} allows it", names.join(", "))
        }
    }
}

/// Who is behind a Service, and how many of them are left out.
async fn behind(
    api: &Api,
    service: &str,
    protocol: Option<Transport>,
    port: Option<u16>,
) -> Result<(Vec<Goal>, usize), ApiError> {
    let invalid = |field, said| ApiError::invalid("policy test", field, said);
    let missing = || invalid("to", format!("there is no Service {service}"));
    let name = ServiceName::new(service).map_err(|_| missing())?;
    let hub = api.engine.hub();
    let shared = hub.get(&Key::Service(name.clone())).ok_or_else(missing)?;
    let Object::Service(found) = shared.object() else { return Err(missing()) };
    let port = port.ok_or_else(|| invalid("port", "say which port of the Service".to_owned()))?;
    let transport = protocol.unwrap_or_default();
    let mut ports = found.ports.iter();
    let own = ports.find(|own| own.port == port && own.transport == transport);
    let own = own
        .ok_or_else(|| invalid("port", format!("Service {name} has no port {port}/{transport}")))?;
    let mut ready = Vec::new();
    for slice in hub.slices_of(&name) {
        let Some(at) = slice.ports.iter().find(|at| at.name == own.name) else { continue };
        let there = slice.endpoints.iter().filter(|e| e.state == EndpointState::Ready);
        ready.extend(there.map(|endpoint| (endpoint.address, at.port)));
    }
    if ready.is_empty() {
        return Err(invalid("to", format!("nobody is ready behind Service {name}")));
    }
    let left = ready.len().saturating_sub(ENDPOINTS);
    let mut goals = Vec::new();
    for (address, port) in ready.into_iter().take(ENDPOINTS) {
        let side = side(api, "to", &address.to_string()).await?;
        goals.push(Goal { side, port: Some((transport, port)) });
    }
    Ok((goals, left))
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
    let own = port.as_ref().map(|port| port.addresses.clone()).unwrap_or_default();
    let addresses = address.map_or(own, |address| vec![address]);
    let workload = device.and_then(|device| hub.get(&Key::Workload(device)));
    if let Some(Object::Workload(workload)) = workload.as_ref().map(|shared| shared.object()) {
        return Ok(Side {
            name: workload.device.to_string(),
            identity: workload.identity,
            sends: addresses.clone(),
            receives: addresses,
            node: Some(workload.node.clone()),
            is_node: false,
        });
    }
    let node = |name: &NodeName| match hub.get(&Key::Node(name.clone()))?.object() {
        Object::Node(node) => machine(node, text, address),
        _ => None,
    };
    if let Some(found) = hub.node_names().iter().find_map(node) {
        return Ok(found);
    }
    if let Some(port) = port {
        let identity = unlabelled(api, &port).await;
        return Ok(Side {
            name: port.key.device.to_string(),
            identity,
            sends: addresses.clone(),
            receives: addresses,
            node: Some(port.node),
            is_node: false,
        });
    }
    let address = address.ok_or_else(|| {
        let said = format!("there is no workload, port or node {text}, and it is no address");
        ApiError::invalid("policy test", field, said)
    })?;
    Ok(Side {
        name: text.to_owned(),
        identity: Identity::HOST,
        sends: vec![address],
        receives: vec![address],
        node: None,
        is_node: false,
    })
}

/// A node, if it is meant.
fn machine(node: &Node, text: &str, address: Option<IpAddr>) -> Option<Side> {
    let own: Vec<IpAddr> = node.addresses.iter().copied().chain([node.tunnel]).collect();
    let gateways: Vec<IpAddr> = node.blocks.iter().map(|block| Node::gateway_of(*block)).collect();
    let has = |address: &IpAddr| own.contains(address) || gateways.contains(address);
    if node.name.as_str() != text && !address.as_ref().is_some_and(has) {
        return None;
    }
    // What it sends to pods has its gateway's address.
    let is_meant = |gateway: &&IpAddr| address.is_none_or(|a| a.is_ipv6() == gateway.is_ipv6());
    let mut sends: Vec<IpAddr> = gateways.iter().filter(is_meant).copied().collect();
    if sends.is_empty() {
        sends = address.map_or_else(|| own.clone(), |address| vec![address]);
    }
    Some(Side {
        name: format!("node {}", node.name),
        identity: Identity::HOST,
        sends,
        receives: address.map_or(own, |address| vec![address]),
        node: Some(node.name.clone()),
        is_node: true,
    })
}

/// What a port is of whose labels nothing is said, as its node judges.
async fn unlabelled(api: &Api, port: &Port) -> Identity {
    if port.identity != Identity::ANY {
        return port.identity;
    }
    let Some(namespace) = port.key.device.namespace() else { return Identity::ANY };
    let isolation = api.engine.fabric().await.isolation;
    let is_apart = isolation.is_some_and(|apart| !apart.shared.contains(&namespace));
    match is_apart || api.engine.hub().get(&Key::Guard(namespace)).is_some() {
        true => Identity::QUARANTINED,
        false => Identity::ANY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(addresses: &[&str]) -> Vec<IpAddr> {
        addresses.iter().map(|address| address.parse().unwrap()).collect()
    }

    #[test]
    fn both_families_are_judged_if_both_sides_have_them() {
        let dual = all(&["10.1.0.5", "fd01::5"]);
        let shown = |from: &[IpAddr], to: &[IpAddr]| {
            let pairs = pairs(from, to).into_iter();
            pairs.map(|(from, to)| format!("{from}>{to}")).collect::<Vec<_>>()
        };
        assert_eq!(shown(&dual, &dual), ["10.1.0.5>10.1.0.5", "fd01::5>fd01::5"]);
        assert_eq!(shown(&dual, &all(&["fd01::9"])), ["fd01::5>fd01::9"]);
        assert!(shown(&all(&["10.1.0.5"]), &all(&["fd01::9"])).is_empty());
        // Of whom no address is known.
        assert_eq!(shown(&[], &all(&["fd01::9"])), [":: > fd01::9".replace(' ', "")]);
        assert_eq!(shown(&[], &[]), ["0.0.0.0>0.0.0.0"]);
    }

    #[test]
    fn a_node_sends_from_its_gateways_and_is_reached_at_its_own() {
        let node: Node = serde_json::from_value(json!({"name": "n1", "tunnel": "192.0.2.1",
            "addresses": ["192.0.2.1"], "blocks": ["10.1.1.0/24", "fd01:1::/64"]}))
        .unwrap();
        let found = |text: &str| machine(&node, text, text.parse().ok());
        let by_name = found("n1").unwrap();
        assert_eq!(by_name.sends, all(&["10.1.1.1", "fd01:1::1"]));
        assert_eq!(by_name.receives, all(&["192.0.2.1", "192.0.2.1"]));
        for address in ["192.0.2.1", "10.1.1.1"] {
            let by_address = found(address).unwrap();
            assert_eq!(by_address.sends, all(&["10.1.1.1"]));
            assert_eq!(by_address.receives, all(&[address]));
        }
        assert!(found("192.0.2.2").is_none() && found("n2").is_none());
    }
}
