//! The cluster's state, and what is done to nodes.

use super::error::ApiError;
use super::{Api, agents, json};
use crate::audit::Note;
use crate::joins;
use crate::nodes::rfc3339;
use axum::Json;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use osier_fleet::pki::Validity;
use osier_model::{Key, NodeName, Object};
use serde::Deserialize;
use serde_json::json;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

/// How long a token is good, unless it is told, and at most.
const TOKEN_SECONDS: (u64, u64) = (3600, 7 * 24 * 3600);

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct TokenRequest {
    /// From where the node joins; the address of its tunnels if it is not told and the node is known.
    #[serde(default)]
    address: Option<IpAddr>,
    #[serde(default)]
    ttl_seconds: Option<u64>,
}

/// How the controller and all nodes are.
pub(super) async fn status(api: &Api) -> Result<Response, ApiError> {
    let position = api.engine.store().position().await?;
    let expiry = api.certificates.validity().and_then(seconds).and_then(rfc3339);
    let authority = Validity::of(api.certificates.authority.certificate());
    let file = std::fs::metadata(api.config.store()).map(|found| found.len()).ok();
    let body = json!({
        "controller": {
            "version": env!("CARGO_PKG_VERSION"),
            "term": api.term,
            "leader": true,
            "startedAt": api.started,
            "store": {
                "kind": store_kind(api),
                "epoch": position.epoch.to_string(),
                "revision": position.revision.0,
                "bytes": file,
            },
            "certificateExpiry": expiry,
            "authorityExpiry": authority.and_then(seconds).and_then(rfc3339),
        },
        "nodes": api.nodes.reports(),
    });
    Ok(Json(body).into_response())
}

fn store_kind(api: &Api) -> &'static str {
    match (&api.northbound, &api.embedded) {
        (Some(_), _) => "kubernetes",
        (None, Some(_)) => "embedded",
        (None, None) => "etcd",
    }
}

fn seconds(validity: Validity) -> Option<u64> {
    let until = validity.until.duration_since(SystemTime::UNIX_EPOCH);
    until.ok().map(|until| until.as_secs())
}

/// A token with which a node joins: shown once.
pub(super) async fn token(api: &Api, name: &str, request: Request) -> Result<Response, ApiError> {
    let called = format!("Node {name}");
    let node = NodeName::new(name)
        .map_err(|e| ApiError::invalid(&called, "metadata.name", e.to_string()))?;
    let TokenRequest { address, ttl_seconds } = json(api, request).await?;
    let known = api.engine.hub().get(&Key::Node(node.clone()));
    let tunnel = known.and_then(|shared| match shared.object() {
        Object::Node(node) => Some(node.tunnel),
        _ => None,
    });
    let missing = || ApiError::invalid(&called, "address", "is missing: from where does it join?");
    let address = address.or(tunnel).ok_or_else(missing)?;
    if address.is_unspecified() || address.is_multicast() {
        let said = format!("{address} is not an address that a node can join from");
        return Err(ApiError::invalid(&called, "address", said));
    }
    let seconds = ttl_seconds.unwrap_or(TOKEN_SECONDS.0);
    if !(1..=TOKEN_SECONDS.1).contains(&seconds) {
        let said = format!("{seconds} is not in 1 to {}", TOKEN_SECONDS.1);
        return Err(ApiError::invalid(&called, "ttlSeconds", said));
    }
    let authority = &api.certificates.authority;
    let lifetime = Duration::from_secs(seconds);
    let (token, revision) = joins::issue(&api.engine, authority, &node, address, lifetime).await?;
    let body = json!({
        "token": token,
        "node": node,
        "address": address,
        "ttlSeconds": seconds,
        "authority": authority.fingerprint().to_string(),
    });
    let mut response = (StatusCode::CREATED, Json(body)).into_response();
    let said = format!("token of {called} created for {address}");
    response.extensions_mut().insert(Note::new([said].into_iter(), Some(revision)));
    Ok(response)
}

/// Stops reconciling on a node, or lets it go on.
pub(super) async fn pause(api: &Api, name: &str, is_paused: bool) -> Result<Response, ApiError> {
    let node = known(api, name)?;
    if let Some(northbound) = &api.northbound {
        northbound.pause(&node, is_paused).await.map_err(ApiError::unavailable)?;
    }
    let revision = joins::pause(&api.engine, &node, is_paused).await?;
    api.nodes.set_paused(&node, is_paused);
    let problem = agents::tell_pause(api, &node, is_paused).await;
    let body = json!({
        "node": node, "paused": is_paused, "done": problem.is_none(), "problem": problem,
    });
    let mut response = Json(body).into_response();
    let what = if is_paused { "paused" } else { "resumed" };
    let note = Note::new([format!("Node {node} {what}")].into_iter(), Some(revision));
    response.extensions_mut().insert(note);
    Ok(response)
}

/// A node that there is.
pub(super) fn known(api: &Api, name: &str) -> Result<NodeName, ApiError> {
    let missing = || ApiError::not_found(format!("there is no Node {name}"));
    let node = NodeName::new(name).map_err(|_| missing())?;
    match api.engine.hub().get(&Key::Node(node.clone())) {
        Some(_) => Ok(node),
        None => Err(missing()),
    }
}

/// Copies the store, as it is at one moment, beside it.
pub(super) async fn backup(api: &Api) -> Result<Response, ApiError> {
    let store = api.embedded.as_ref();
    let store = store.ok_or_else(|| ApiError::not_implemented("this store makes no copies"))?;
    let failed = |error: &dyn std::error::Error| {
        let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
        ApiError::unavailable(format!("there is no backup: {error}{cause}"))
    };
    let folder = api.config.backups();
    std::fs::create_dir_all(&folder).map_err(|e| failed(&e))?;
    let path = folder.join(format!("{}.redb", crate::engine::now().replace(':', "")));
    let position = store.backup(&path).await.map_err(|e| failed(&e))?;
    let body = json!({"path": path, "resourceVersion": position.to_string()});
    let mut response = (StatusCode::CREATED, Json(body)).into_response();
    let said = format!("backup {} created", path.display());
    let note = Note::new([said].into_iter(), Some(position.revision.0));
    response.extensions_mut().insert(note);
    Ok(response)
}
