//! Resources, one at a time and in lists.

use super::error::ApiError;
use super::selector::Selector;
use super::{Api, json};
use crate::audit::Note;
use crate::engine::{Effect, Operation, Outcome, Write, Written};
use axum::Json;
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ipnet::IpNet;
use osier_model::{
    DeviceName, Key as ModelKey, NodeName, Object, PolicyName, PoolName, ServiceName,
};
use osier_resource::{API_VERSION, Kind, Resource};
use osier_store::{Entry, Key, Position, Query};
use serde::Deserialize;
use serde_json::{Value, json};
use std::net::IpAddr;

/// How many a list has, unless it is told, and at most.
const PAGE: (usize, usize) = (1000, 10_000);

/// What may stand behind the question mark of a list.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ListQuery {
    pub(super) limit: Option<usize>,
    pub(super) r#continue: Option<String>,
    pub(super) label_selector: String,
    pub(super) watch: bool,
    pub(super) resource_version: Option<String>,
}

/// What may stand behind the question mark of a change.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ChangeQuery {
    pub(super) dry_run: bool,
    pub(super) resource_version: Option<String>,
}

pub(super) async fn list(api: &Api, kind: Kind, query: ListQuery) -> Result<Response, ApiError> {
    let selector = Selector::parse(&query.label_selector).map_err(ApiError::malformed)?;
    let limit = query.limit.filter(|limit| *limit > 0).unwrap_or(PAGE.0).min(PAGE.1);
    let mut page_query = Query::under(kind.prefix()).limit(limit);
    if let Some(token) = &query.r#continue {
        let (at, after) = token.split_once('/').ok_or_else(wrong_continue)?;
        page_query.at = Some(at.parse().map_err(|_| wrong_continue())?);
        page_query.after = Some(Key::new(&kind.key(after)).map_err(|_| wrong_continue())?);
    }
    let (mut items, mut last) = (Vec::new(), None);
    let (position, more) = loop {
        let page = api.engine.store().list(page_query.clone()).await?;
        let mut is_cut = false;
        for (key, entry) in &page.entries {
            if items.len() >= limit {
                is_cut = true;
                break;
            }
            let value = shown(key, entry)?;
            if selector.is_empty() || selector.takes(&labels(&value)) {
                items.push(value);
            }
            last = Some(key.clone());
        }
        if is_cut || !page.more || items.len() >= limit {
            break (page.position, is_cut || page.more);
        }
        page_query = page_query.behind(&page);
    };
    let items = overlaid(api, kind, items).await?;
    let name = |key: &Key| Kind::of_key(key.as_str()).map(|(_, name)| name.to_owned());
    let token = last.as_ref().and_then(name).map(|name| format!("{position}/{name}"));
    let mut metadata = json!({"resourceVersion": position.to_string()});
    if let Some(token) = token.filter(|_| more) {
        metadata["continue"] = token.into();
    }
    let kind = format!("{}List", kind.name());
    let list = json!({
        "apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "items": items,
    });
    Ok(Json(list).into_response())
}

fn wrong_continue() -> ApiError {
    ApiError::malformed("continue is not what a list gave: list anew, without it")
}

pub(super) async fn get(api: &Api, kind: Kind, name: &str) -> Result<Response, ApiError> {
    let missing = || ApiError::not_found(format!("there is no {kind} {name}"));
    let key = Key::new(&kind.key(name)).map_err(|_| missing())?;
    let entry = api.engine.store().get(&key).await?.ok_or_else(missing)?;
    let value = shown(&key, &entry)?;
    let value = overlaid(api, kind, vec![value]).await?.pop().unwrap_or_default();
    Ok(Json(value).into_response())
}

pub(super) async fn create(
    api: &Api,
    kind: Kind,
    query: ChangeQuery,
    request: Request,
) -> Result<Response, ApiError> {
    let resource = read(kind, None, &json(api, request).await?)?;
    change(api, Operation::Create(Box::new(resource)), query.dry_run).await
}

pub(super) async fn replace(
    api: &Api,
    kind: Kind,
    name: &str,
    query: ChangeQuery,
    request: Request,
) -> Result<Response, ApiError> {
    let version = version(&query, request.headers())?;
    let mut resource = read(kind, Some(name), &json(api, request).await?)?;
    if version.is_some() {
        resource.metadata_mut().resource_version = version;
    }
    change(api, Operation::Replace(Box::new(resource)), query.dry_run).await
}

pub(super) async fn patch(
    api: &Api,
    kind: Kind,
    name: &str,
    query: ChangeQuery,
    request: Request,
) -> Result<Response, ApiError> {
    let content = request.headers().get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok());
    if content.is_some_and(|content| content.starts_with("application/json-patch+json")) {
        let said = "only merge patches are known: application/merge-patch+json (RFC 7386)";
        return Err(ApiError::malformed(said));
    }
    let version = version(&query, request.headers())?;
    let mut patch: Value = json(api, request).await?;
    if let (Some(version), Some(patch)) = (version, patch.as_object_mut()) {
        let metadata = patch.entry("metadata").or_insert_with(|| json!({}));
        metadata["resourceVersion"] = version.into();
    }
    let operation = Operation::Patch { kind, name: name.to_owned(), patch };
    change(api, operation, query.dry_run).await
}

pub(super) async fn delete(
    api: &Api,
    kind: Kind,
    name: &str,
    query: ChangeQuery,
    headers: &HeaderMap,
) -> Result<Response, ApiError> {
    let version = version(&query, headers)?;
    let operation = Operation::Delete { kind, name: name.to_owned(), version };
    change(api, operation, query.dry_run).await
}

async fn change(api: &Api, operation: Operation, dry_run: bool) -> Result<Response, ApiError> {
    let written = write(api, Write::one(operation).dry(dry_run)).await?;
    let note = note(&written, dry_run);
    let outcome = written.outcomes.into_iter().next();
    let outcome = outcome.ok_or_else(|| ApiError::unavailable("nothing was done"))?;
    let status = match outcome.effect {
        Effect::Created => StatusCode::CREATED,
        _ => StatusCode::OK,
    };
    let value = outcome.resource.map(|resource| resource.to_value()).unwrap_or_default();
    let mut response = (status, Json(value)).into_response();
    response.extensions_mut().insert(note);
    Ok(response)
}

/// Makes a write, and remembers what it means beside the model.
pub(super) async fn write(api: &Api, write: Write) -> Result<Written, ApiError> {
    let dry_run = write.dry_run;
    let written = api.engine.write(write).await?;
    for Outcome { effect, resource, .. } in written.outcomes.iter().filter(|_| !dry_run) {
        if let (Effect::Deleted, Some(Resource::Node(node))) = (effect, resource)
            && let Ok(name) = NodeName::new(&node.metadata.name)
        {
            api.nodes.forget(&name);
        }
    }
    Ok(written)
}

/// What the audit log says of a write.
pub(crate) fn note(written: &Written, dry_run: bool) -> Note {
    let outcome = |outcome: &Outcome| {
        let called = outcome.resource.as_ref().map(Resource::called).unwrap_or_default();
        let dry = if dry_run { " (dry run)" } else { "" };
        format!("{called} {}{dry}", outcome.effect.word())
    };
    let revision = Some(written.position.revision.0).filter(|_| !dry_run);
    Note::new(written.outcomes.iter().map(outcome), revision)
}

/// A resource of a request, which must be of the kind and name of its path.
pub(super) fn read(kind: Kind, name: Option<&str>, value: &Value) -> Result<Resource, ApiError> {
    let called = |value: &Value| match value.pointer("/metadata/name").and_then(Value::as_str) {
        Some(name) => format!("{kind} {name}"),
        None => kind.to_string(),
    };
    let resource = Resource::from_value(value)
        .map_err(|fault| ApiError::invalid(&called(value), &fault.field, fault.said))?;
    if resource.kind() != kind {
        let said = format!("a {} was sent where a {kind} belongs", resource.kind());
        return Err(ApiError::invalid(&resource.called(), "kind", said));
    }
    match name {
        Some(name) if name != resource.name() => {
            let said = format!("the path names {name:?}");
            Err(ApiError::invalid(&resource.called(), "metadata.name", said))
        }
        _ => Ok(resource),
    }
}

/// The version that a change is of: of the query, or of `If-Match`.
fn version(query: &ChangeQuery, headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let tag = headers.get(header::IF_MATCH).map(|value| value.to_str());
    let tag = match tag {
        Some(Ok(tag)) => Some(tag.trim().trim_matches('"').to_owned()).filter(|tag| tag != "*"),
        Some(Err(_)) => return Err(ApiError::malformed("If-Match has no version")),
        None => None,
    };
    Ok(query.resource_version.clone().or(tag))
}

/// A stored document, as users see it.
pub(super) fn shown(key: &Key, entry: &Entry) -> Result<Value, ApiError> {
    let damaged = |e| ApiError::unavailable(format!("{key} cannot be read: {e}"));
    let mut value: Value = serde_json::from_slice(&entry.value).map_err(damaged)?;
    value["metadata"]["resourceVersion"] = entry.modified.to_string().into();
    Ok(value)
}

pub(super) fn labels(value: &Value) -> std::collections::BTreeMap<String, String> {
    let labels = value.pointer("/metadata/labels").cloned().unwrap_or_default();
    serde_json::from_value(labels).unwrap_or_default()
}

/// With what is known only in memory: how nodes are, how much of pools is used, who is behind
/// Services.
async fn overlaid(api: &Api, kind: Kind, mut items: Vec<Value>) -> Result<Vec<Value>, ApiError> {
    let is_overlaid = |kind| {
        use Kind::{NetworkPolicy, Node, Pool, Service, Workload};
        matches!(kind, Node | Pool | Service | NetworkPolicy | Workload)
    };
    if !is_overlaid(kind) {
        return Ok(items);
    }
    let name = |item: &Value| {
        item.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let names: Vec<String> = items.iter().map(name).collect();
    let used = match kind {
        Kind::Pool => {
            let pools = names.iter().filter_map(|name| PoolName::new(name).ok()).collect();
            api.engine.pools_used(pools).await
        }
        _ => Vec::new(),
    };
    for (i, item) in items.iter_mut().enumerate() {
        let Ok(mut resource) = Resource::from_value(item) else { continue };
        match &mut resource {
            Resource::Node(node) => {
                if let Ok(name) = NodeName::new(&names[i]) {
                    api.nodes.fill(&name, &mut node.status);
                }
            }
            Resource::Pool(pool) => {
                pool.status.used = used.get(i).copied().flatten().map(|used| used as u64);
                pool.status.capacity = Some(capacity(&pool.spec));
            }
            Resource::Service(service) => {
                if let Ok(name) = ServiceName::new(&names[i]) {
                    let (ready, all) = api.engine.hub().endpoints_of(&name);
                    service.status.ready = Some(ready as u64);
                    service.status.endpoints = Some(all as u64);
                }
            }
            Resource::Workload(workload) => {
                let device = DeviceName::new(&names[i]).ok().map(ModelKey::Workload);
                let known = device.and_then(|key| api.engine.hub().get(&key));
                if let Some(Object::Workload(known)) = known.as_ref().map(|s| s.object()) {
                    workload.status.identity = Some(known.identity);
                }
            }
            Resource::NetworkPolicy(policy) => {
                let name = PolicyName::new(&names[i]).ok();
                let subjects = name.and_then(|name| api.engine.hub().subjects_of(&name));
                policy.status.subjects = subjects.map(|count| count as u64);
            }
            _ => {}
        }
        *item = resource.to_value();
    }
    Ok(items)
}

/// How many addresses a pool can give.
fn capacity(spec: &osier_resource::PoolSpec) -> String {
    let size = |prefix: &IpNet| {
        let bits = u32::from(prefix.max_prefix_len() - prefix.prefix_len());
        1_u128.checked_shl(bits).unwrap_or(u128::MAX)
    };
    let mut excluded = spec.exclude.clone();
    excluded.sort_unstable_by_key(|prefix| (prefix.network(), prefix.prefix_len()));
    excluded.dedup_by(|later, earlier| earlier.contains(&*later));
    let ends: &[IpAddr] = match spec.cidr {
        _ if size(&spec.cidr) < 4 => &[],
        IpNet::V4(_) => &[spec.cidr.network(), spec.cidr.broadcast()],
        IpNet::V6(_) => &[spec.cidr.network()],
    };
    let is_given = |end: &&IpAddr| !excluded.iter().any(|prefix| prefix.contains(*end));
    let ends = ends.iter().filter(is_given).count() as u128;
    let excluded: u128 = excluded.iter().map(size).sum();
    size(&spec.cidr).saturating_sub(ends).saturating_sub(excluded).to_string()
}

/// A position as clients give it back: all of it, or its revision alone.
pub(super) async fn position(api: &Api, text: &str) -> Result<Position, ApiError> {
    if let Ok(position) = text.parse::<Position>() {
        return Ok(position);
    }
    let wrong = || ApiError::malformed(format!("{text:?} is no resourceVersion of a list"));
    let revision = text.parse().map_err(|_| wrong())?;
    Ok(api.engine.store().position().await?.at(osier_store::Revision(revision)))
}
