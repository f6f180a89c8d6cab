//! What only a node's agent can answer: traces, captures, diagnostics, checks.

use super::error::ApiError;
use super::{Api, json, nodes, services};
use crate::trace::{Journey, Next, Stitching};
use axum::Json;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use futures_util::stream;
use osier_fleet::ask::{
    Ask, CaptureRequest, Check, CheckResult, Diagnostics, Packet, PauseState, Protocol, TraceFrom,
    TraceRequest, Traced, Transit,
};
use osier_fleet::server::{AskError, AskLimits};
use osier_model::{Key, NodeName, Object, Port};
use osier_resource::Resource;
use osier_store::Query;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// What an answer may cost, unless it is a capture.
const USUAL: AskLimits = AskLimits { patience: Duration::from_secs(15), bytes: 64 << 20 };
/// Nodes that are asked at once.
const AT_ONCE: usize = 32;
/// Of captures: unsaid, and at most.
const SECONDS: (u32, u32) = (10, 3600);
const COUNT: (u32, u32) = (10_000, 10_000_000);
const SNAP_LENGTH: (u32, u32) = (262_144, 262_144);

/// How much is captured.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct CaptureQuery {
    seconds: Option<u32>,
    count: Option<u32>,
    snaplen: Option<u32>,
    filter: String,
}

/// A packet that is followed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct TraceBody {
    from: String,
    to: String,
    /// If it is not said, a Service's own, or a ping.
    #[serde(default)]
    protocol: Option<Protocol>,
    #[serde(default)]
    port: Option<u16>,
    #[serde(default)]
    source_port: Option<u16>,
}

impl From<AskError> for ApiError {
    fn from(error: AskError) -> Self {
        let said = error.to_string();
        match error {
            AskError::TooMany(_) => Self::too_many(said, 1),
            _ => Self::unavailable(said),
        }
    }
}

/// Follows a packet from port to port.
pub(super) async fn trace(api: &Api, request: Request) -> Result<Response, ApiError> {
    let asked: TraceBody = json(api, request).await?;
    let from = find(api, &asked.from).await?.ok_or_else(|| unknown("from", &asked.from))?;
    let service = services::goal(api, &asked.to, asked.protocol, asked.port)?;
    let target = if service.is_some() { None } else { find(api, &asked.to).await? };
    let plain: Option<IpAddr> = asked.to.parse().ok();
    let goals: Vec<IpAddr> = match (plain, &target) {
        _ if service.is_some() => service.iter().flat_map(|goal| goal.addresses.clone()).collect(),
        (Some(address), _) => vec![address],
        (None, Some(port)) => port.addresses.clone(),
        (None, None) => return Err(unknown("to", &asked.to)),
    };
    let pair = goals.iter().find_map(|goal| {
        let source = from.addresses.iter().find(|source| source.is_ipv4() == goal.is_ipv4())?;
        Some((*source, *goal))
    });
    let Some((source, goal)) = pair else {
        let said = format!("port {} has no address of the same family as {}", from.key, asked.to);
        return Err(ApiError::invalid("trace", "to", said));
    };
    let packet = Packet {
        mac_source: Some(from.mac),
        mac_target: None,
        source,
        target: goal,
        protocol: service.as_ref().map_or(asked.protocol.unwrap_or(Protocol::Icmp), |s| s.protocol),
        source_port: asked.source_port,
        target_port: service.as_ref().map(|goal| goal.port).or(asked.port),
        ttl: 64,
    };
    let start = Next { node: from.node.clone(), from: TraceFrom::Port(from.key.clone()), packet };
    let target = target.map(|port| (port.node, port.key));
    let mut journey = follow(api, start, Stitching::new(target)).await;
    if let Some(service) = service {
        journey.reason = format!("{}; {}", service.why(goal, &journey), journey.reason);
    }
    Ok(Json(journey).into_response())
}

/// Asks one node after the other.
async fn follow(api: &Api, mut next: Next, mut stitching: Stitching) -> Journey {
    loop {
        let Next { node, from, packet } = next;
        let ask = Ask::Trace(TraceRequest { from, packet });
        let traced = match api.agents.ask(&node, &ask, USUAL) {
            Ok(answer) => answer.json::<Traced>().await,
            Err(error) => Err(error),
        };
        let heard = match traced {
            Ok(traced) => stitching.heard(&node, traced, |transit| node_at(api, transit)),
            Err(error) => return stitching.unheard(error.to_string()),
        };
        match heard {
            Ok(further) => next = further,
            Err((verdict, reason)) => return stitching.ended(verdict, reason),
        }
    }
}

/// The node at whose address a tunnel ends.
fn node_at(api: &Api, transit: &Transit) -> Option<NodeName> {
    let is_there = |name: &NodeName| {
        let shared = api.engine.hub().get(&Key::Node(name.clone()));
        shared.is_some_and(
            |shared| matches!(shared.object(), Object::Node(node) if node.tunnel == transit.target),
        )
    };
    api.engine.hub().node_names().into_iter().find(is_there)
}

fn unknown(field: &str, text: &str) -> ApiError {
    let said = format!("no port is called {text:?}, and none has such an address");
    ApiError::invalid("trace", field, said)
}

/// A port by its name (`namespace:pod`, or `namespace/pod`) or address: of the model, or one that a
/// node made by itself.
pub(super) async fn find(api: &Api, text: &str) -> Result<Option<Port>, ApiError> {
    if let Ok(address) = text.parse::<IpAddr>() {
        if let Some(port) = api.nodes.port(|port| port.addresses.contains(&address)) {
            return Ok(Some(port));
        }
        return stored(api, address).await;
    }
    let Ok(key) = osier_resource::port_key(&text.replacen('/', ":", 1)) else { return Ok(None) };
    let known = api.engine.hub().get(&Key::Port(key.clone()));
    let known = known.and_then(|shared| match shared.object() {
        Object::Port(port) => Some(port.clone()),
        _ => None,
    });
    // One of the model without addresses is told of by its node.
    let complete = known.clone().filter(|port| !port.addresses.is_empty());
    Ok(complete.or_else(|| api.nodes.port(|port| port.key == key)).or(known))
}

/// A port of the model by its address. For people who look for something: all are read.
async fn stored(api: &Api, address: IpAddr) -> Result<Option<Port>, ApiError> {
    let mut query = Query::under(osier_resource::Kind::Port.prefix());
    loop {
        let page = api.engine.store().list(query.clone()).await?;
        for (_, entry) in &page.entries {
            let Ok(resource) = Resource::from_stored(&entry.value, entry.modified.0) else {
                continue;
            };
            if let Ok(osier_resource::Modelled::Object(Object::Port(port))) = resource.to_model()
                && port.addresses.contains(&address)
            {
                return Ok(Some(port));
            }
        }
        if !page.more {
            return Ok(None);
        }
        query = query.behind(&page);
    }
}

/// A node that did not answer.
#[derive(Debug, Serialize)]
pub(super) struct Unanswered {
    node: NodeName,
    problem: String,
}

/// Asks nodes the same, many at once: what each answered, and who did not.
pub(super) async fn ask_all<T: DeserializeOwned>(
    api: &Arc<Api>,
    mut nodes: Vec<NodeName>,
    ask: &Ask,
) -> (Vec<(NodeName, T)>, Vec<Unanswered>) {
    nodes.sort();
    let asked = nodes.into_iter().map(|node| {
        let (api, ask) = (Arc::clone(api), ask.clone());
        async move {
            let answer = match api.agents.ask(&node, &ask, USUAL) {
                Ok(answer) => answer.json::<T>().await,
                Err(error) => Err(error),
            };
            (node, answer)
        }
    });
    let mut heard = stream::iter(asked).buffered(AT_ONCE);
    let (mut answers, mut unanswered) = (Vec::new(), Vec::new());
    while let Some((node, answer)) = heard.next().await {
        match answer {
            Ok(answer) => answers.push((node, answer)),
            Err(error) => unanswered.push(Unanswered { node, problem: error.to_string() }),
        }
    }
    (answers, unanswered)
}

/// Packets of a port, as they come.
pub(super) async fn capture(
    api: &Api,
    name: &str,
    query: CaptureQuery,
) -> Result<Response, ApiError> {
    if !query.filter.is_empty() {
        let said = "agents know no filters: leave it out, and filter what comes";
        return Err(ApiError::invalid("capture", "filter", said));
    }
    let missing = || ApiError::not_found(format!("there is no Port {name}"));
    let port = find(api, name).await?.ok_or_else(missing)?;
    let chosen = |field, given: Option<u32>, (usual, most): (u32, u32)| match given.unwrap_or(usual)
    {
        found if (1..=most).contains(&found) => Ok(found),
        found => {
            let said = format!("{found} is not in 1 to {most}");
            Err(ApiError::invalid("capture", field, said))
        }
    };
    let seconds = chosen("seconds", query.seconds, SECONDS)?;
    let ask = Ask::Capture(CaptureRequest {
        port: port.key,
        seconds,
        count: chosen("count", query.count, COUNT)?,
        snap_length: chosen("snaplen", query.snaplen, SNAP_LENGTH)?,
    });
    let patience = Duration::from_secs(u64::from(seconds) + 15);
    let mut answer = api.agents.ask(&port.node, &ask, AskLimits { patience, bytes: usize::MAX })?;
    // The head of the file comes at once: before it, an error is still an answer.
    let first = answer.next().await.transpose()?;
    let body = stream::iter(first.map(Ok)).chain(answer);
    let mut response = Body::from_stream(body).into_response();
    let kind = HeaderValue::from_static("application/vnd.tcpdump.pcap");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    Ok(response)
}

/// What people look at when something is wrong with a node.
pub(super) async fn diagnostics(api: &Api, name: &str) -> Result<Response, ApiError> {
    let node = nodes::known(api, name)?;
    let answer = api.agents.ask(&node, &Ask::Diagnostics, USUAL)?;
    Ok(Json(answer.json::<Diagnostics>().await?).into_response())
}

/// Tells a node's agent to stop changing its switch, or to go on: nothing if it has done so, else
/// why not.
pub(super) async fn tell_pause(api: &Api, node: &NodeName, is_paused: bool) -> Option<String> {
    let ask = if is_paused { Ask::Pause } else { Ask::Resume };
    let state = match api.agents.ask(node, &ask, USUAL) {
        Ok(answer) => answer.json::<PauseState>().await,
        Err(error) => Err(error),
    };
    match state {
        Ok(PauseState { paused }) if paused == is_paused => None,
        Ok(_) => Some(format!("node {node} does not do it")),
        Err(error) => Some(error.to_string()),
    }
}

/// Looks for what is wrong, here and on all nodes.
pub(super) async fn check(api: &Arc<Api>) -> Result<Response, ApiError> {
    let reports = api.nodes.reports();
    let mut checks = vec![own(api)];
    let mut versions: Vec<&String> = reports.iter().filter_map(|r| r.version.as_ref()).collect();
    versions.sort();
    versions.dedup();
    let (result, detail) = match versions[..] {
        [] | [_] => {
            (CheckResult::Ok, "all agents that are connected are of one version".to_owned())
        }
        _ => (CheckResult::Warning, format!("agents are of several versions: {versions:?}")),
    };
    checks.push(line(None, "versions", result, &detail, "upgrade the older ones"));
    for report in &reports {
        let result = match (report.converged, report.connected, report.paused) {
            (true, ..) => CheckResult::Ok,
            (false, true, _) | (false, false, true) => CheckResult::Warning,
            (false, false, false) => CheckResult::Failed,
        };
        let detail = match report.differs[..] {
            [] => "the switch is as it should be".to_owned(),
            _ => report.differs.join("; "),
        };
        let advice = "see osier status, and the agent's log on the node";
        checks.push(line(Some(&report.name), "converged", result, &detail, advice));
    }
    let connected = reports.iter().filter(|report| report.connected);
    let names: Vec<NodeName> = connected.map(|report| report.name.clone()).collect();
    let asked = stream::iter(names.into_iter().map(|node| {
        let api = Arc::clone(api);
        async move { of_node(&api, node).await }
    }));
    let mut answers: Vec<Vec<Value>> = asked.buffer_unordered(AT_ONCE).collect().await;
    answers.sort_by_key(|checks| checks.first().map(|check| check["node"].to_string()));
    checks.extend(answers.into_iter().flatten());
    Ok(Json(json!({"checks": checks})).into_response())
}

/// What a node's agent finds.
async fn of_node(api: &Api, node: NodeName) -> Vec<Value> {
    let checks = match api.agents.ask(&node, &Ask::Check, USUAL) {
        Ok(answer) => answer.json::<Vec<Check>>().await,
        Err(error) => Err(error),
    };
    match checks {
        Ok(checks) => checks
            .into_iter()
            .map(|check| line(Some(&node), &check.name, check.result, &check.detail, &check.advice))
            .collect(),
        Err(error) => {
            let advice = "ask again; see the agent's log on the node";
            vec![line(Some(&node), "agent", CheckResult::Skipped, &error.to_string(), advice)]
        }
    }
}

/// The controller's own certificate.
fn own(api: &Api) -> Value {
    let left = api.certificates.validity().and_then(|v| v.left(std::time::SystemTime::now()));
    let hours = left.map_or(0, |left| left.as_secs() / 3600);
    let half = u64::from(api.config.fleet.certificate_hours) / 6;
    let result = if hours < half { CheckResult::Warning } else { CheckResult::Ok };
    let detail = format!("the controller's certificate holds for {hours} more hours");
    line(None, "certificate", result, &detail, "look for the reason in the controller's log")
}

fn line(
    node: Option<&NodeName>,
    name: &str,
    result: CheckResult,
    detail: &str,
    advice: &str,
) -> Value {
    let advice = if result == CheckResult::Ok { "" } else { advice };
    json!({"name": name, "node": node, "result": result, "detail": detail, "advice": advice})
}
