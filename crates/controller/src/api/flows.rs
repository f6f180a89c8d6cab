//! Connections that nodes track, asked of all of them at once.

use super::error::ApiError;
use super::{Api, agents, json, nodes};
use crate::flows::{Flow, Names, Pod, Verdict, Wanted, join};
use axum::Json;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use osier_fleet::ask::{Ask, ConnectionsRequest, TrackedConnections};
use osier_model::{Key, NamespaceName, ServiceName};
use osier_resource::API_VERSION;
use serde::Deserialize;
use serde_json::json;
use std::net::IpAddr;
use std::sync::Arc;

/// How many are told: unsaid, and at most.
const LIMIT: (usize, usize) = (10_000, 100_000);

/// Which connections are wanted.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct Question {
    node: Option<String>,
    pod: Option<String>,
    namespace: Option<String>,
    service: Option<String>,
    verdict: Option<Verdict>,
    protocol: Option<Protocol>,
    port: Option<u16>,
    limit: Option<usize>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Protocol {
    Tcp,
    Udp,
    Sctp,
    Icmp,
}

// === impl Protocol ===

impl Protocol {
    /// ICMP is another in each family.
    fn numbers(self) -> Vec<u8> {
        match self {
            Self::Tcp => vec![6],
            Self::Udp => vec![17],
            Self::Sctp => vec![132],
            Self::Icmp => vec![1, 58],
        }
    }
}

/// Tells them.
pub(super) async fn list(api: &Arc<Api>, request: Request) -> Result<Response, ApiError> {
    let asked: Question = json(api, request).await?;
    let limit = match asked.limit.unwrap_or(LIMIT.0) {
        limit if (1..=LIMIT.1).contains(&limit) => limit,
        limit => {
            let said = format!("{limit} is not in 1 to {}", LIMIT.1);
            return Err(ApiError::invalid("flows", "limit", said));
        }
    };
    let nodes = match &asked.node {
        Some(name) => vec![nodes::known(api, name)?],
        None => api.engine.hub().node_names(),
    };
    let (ports, _) = api.nodes.told();
    let wanted = wanted(api, &asked).await?;
    let of = wanted.parties(ports.values());
    let protocols = asked.protocol.map_or(Vec::new(), Protocol::numbers);
    let ask = Ask::Connections(ConnectionsRequest { protocols, port: asked.port, of });
    let (told, unanswered) = agents::ask_all::<TrackedConnections>(api, nodes, &ask).await;
    let mut left_out: usize = told.iter().map(|(_, told)| told.left_out).sum();
    let told = told.into_iter().map(|(node, told)| (node, told.connections));
    let mut flows: Vec<Flow> = join(told, &Names::of(ports.into_values()));
    flows.retain(|flow| flow.is_wanted(&wanted));
    left_out += flows.len().saturating_sub(limit);
    flows.truncate(limit);
    let answer = json!({
        "apiVersion": API_VERSION,
        "kind": "FlowList",
        "items": flows,
        "leftOut": left_out,
        "unanswered": unanswered,
    });
    Ok(Json(answer).into_response())
}

/// What the names stand for.
async fn wanted(api: &Api, asked: &Question) -> Result<Wanted, ApiError> {
    let invalid = |field, said: String| ApiError::invalid("flows", field, said);
    let pod = match asked.pod.as_deref() {
        None => None,
        Some(text) => Some(match (text.parse::<IpAddr>(), agents::find(api, text).await?) {
            (Ok(address), _) => Pod::At(address),
            (Err(_), Some(port)) => Pod::Named(port.key, port.addresses),
            (Err(_), None) => {
                return Err(invalid("pod", format!("no pod or port is called {text:?}")));
            }
        }),
    };
    let namespace = asked.namespace.as_deref().map(NamespaceName::new).transpose();
    let namespace = namespace.map_err(|error| invalid("namespace", error.to_string()))?;
    let service = match asked.service.as_deref() {
        None => None,
        Some(text) => {
            let missing = || invalid("service", format!("there is no Service {text}"));
            let name = ServiceName::new(&text.replacen('/', ":", 1)).map_err(|_| missing())?;
            api.engine.hub().get(&Key::Service(name.clone())).ok_or_else(missing)?;
            Some(name)
        }
    };
    Ok(Wanted { pod, namespace, service, verdict: asked.verdict, port: asked.port })
}
