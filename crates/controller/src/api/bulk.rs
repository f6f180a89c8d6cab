//! Many resources in one transaction.

use super::error::ApiError;
use super::resources::{note, write};
use super::{Api, json};
use crate::engine::{Operation, Write};
use axum::Json;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use osier_resource::{Kind, Resource};
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct ApplyRequest {
    items: Vec<Value>,
    #[serde(default)]
    dry_run: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct DeleteRequest {
    items: Vec<Named>,
    #[serde(default)]
    dry_run: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Named {
    kind: String,
    name: String,
    #[serde(default)]
    resource_version: Option<String>,
}

/// Makes or replaces resources, all of them or none.
pub(super) async fn apply(api: &Api, request: Request) -> Result<Response, ApiError> {
    let ApplyRequest { items, dry_run } = json(api, request).await?;
    let operation = |(i, value): (usize, &Value)| {
        let resource = Resource::from_value(value).map_err(|fault| {
            let text = |at: &str| value.pointer(at).and_then(Value::as_str).map(str::to_owned);
            let called = match (text("/kind"), text("/metadata/name")) {
                (Some(kind), Some(name)) => format!("{kind} {name}"),
                _ => format!("items[{i}]"),
            };
            ApiError::invalid(&called, &fault.field, fault.said)
        })?;
        Ok(Operation::Apply(Box::new(resource)))
    };
    let operations: Result<Vec<Operation>, ApiError> =
        items.iter().enumerate().map(operation).collect();
    answer(api, Write { operations: operations?, dry_run }).await
}

/// Deletes resources, all of them or none.
pub(super) async fn delete(api: &Api, request: Request) -> Result<Response, ApiError> {
    let DeleteRequest { items, dry_run } = json(api, request).await?;
    let operation = |item: Named| {
        let kind: Kind = item.kind.parse().map_err(|e: osier_resource::UnknownKind| {
            ApiError::invalid(&format!("{} {}", item.kind, item.name), "kind", e.to_string())
        })?;
        Ok(Operation::Delete { kind, name: item.name, version: item.resource_version })
    };
    let operations: Result<Vec<Operation>, ApiError> = items.into_iter().map(operation).collect();
    answer(api, Write { operations: operations?, dry_run }).await
}

async fn answer(api: &Api, changes: Write) -> Result<Response, ApiError> {
    let dry_run = changes.dry_run;
    let written = write(api, changes).await?;
    let note = note(&written, dry_run);
    let items: Vec<Value> = written
        .outcomes
        .iter()
        .filter_map(|outcome| {
            let resource = outcome.resource.as_ref()?;
            Some(serde_json::json!({
                "kind": resource.kind().name(),
                "name": resource.name(),
                "result": outcome.effect.word(),
            }))
        })
        .collect();
    let body = serde_json::json!({
        "items": items, "resourceVersion": written.position.to_string(),
    });
    let mut response = Json(body).into_response();
    response.extensions_mut().insert(note);
    Ok(response)
}
