//! The published description of the API: OpenAPI 3.1, made from the routes and the resources' types.

use super::routes::{Route, routes};
use serde_json::{Map, Value, json};
use std::sync::OnceLock;

/// The document.
pub(super) fn document() -> Value {
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    DOCUMENT.get_or_init(make).clone()
}

fn make() -> Value {
    let mut paths = Map::new();
    for route in routes() {
        let path = paths.entry(route.path.clone()).or_insert_with(|| json!({}));
        path[route.method] = operation(&route);
    }
    let version = env!("CARGO_PKG_VERSION");
    let mut document = osier_resource::openapi("Osier", version, &Value::Object(paths));
    let components = &mut document["components"];
    components["securitySchemes"] = json!({
        "credential": {"type": "http", "scheme": "bearer"},
    });
    components["schemas"]["Error"] = error();
    document
}

fn operation(route: &Route) -> Value {
    let mut parameters: Vec<Value> = Vec::new();
    if route.path.contains("{name}") {
        parameters.push(json!({
            "name": "name", "in": "path", "required": true, "schema": {"type": "string"},
        }));
    }
    for name in route.query {
        let kind = match *name {
            "limit" | "seconds" | "count" | "snaplen" => "integer",
            "watch" | "dryRun" => "boolean",
            _ => "string",
        };
        parameters.push(json!({"name": name, "in": "query", "schema": {"type": kind}}));
    }
    let json_of = |schema: Value| json!({"application/json": {"schema": schema}});
    let named = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
    let answer = route.answer.as_deref().map_or_else(|| json!({}), named);
    let success = if route.method == "post" && route.body.is_some() { "201" } else { "200" };
    let mut operation = json!({
        "summary": route.summary,
        "parameters": parameters,
        "responses": {
            success: {"description": "Done", "content": json_of(answer)},
            "default": {"description": "Why not", "content": json_of(named("Error"))},
        },
    });
    if let Some(body) = &route.body {
        operation["requestBody"] = json!({"required": true, "content": json_of(named(body))});
    } else if matches!(route.method, "patch") {
        let content = json!({"application/merge-patch+json": {"schema": {"type": "object"}}});
        operation["requestBody"] = json!({"required": true, "content": content});
    }
    if let Some(role) = route.access.needs() {
        operation["security"] = json!([{"credential": []}]);
        operation["description"] = format!("Needs a credential that may {role}.").into();
    }
    operation
}

fn error() -> Value {
    let text = || json!({"type": "string"});
    let detail = json!({
        "type": "object",
        "properties": {"object": text(), "field": text(), "problem": text()},
    });
    json!({
        "type": "object",
        "required": ["error"],
        "properties": {"error": {
            "type": "object",
            "required": ["code", "message"],
            "properties": {
                "code": text(),
                "message": text(),
                "details": {"type": "array", "items": detail},
            },
        }},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_is_in_the_document() {
        let document = document();
        for route in routes() {
            let operation = &document["paths"][&route.path][route.method];
            assert!(operation.is_object(), "{} {}", route.method, route.path);
            for schema in route.body.iter().chain(&route.answer) {
                let known = &document["components"]["schemas"][schema];
                assert!(known.is_object(), "{schema}");
            }
        }
    }
}
