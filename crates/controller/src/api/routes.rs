//! The routes: one table, from which the router and the OpenAPI document are made.

use super::error::ApiError;
use super::guard::{Access, Guarded, guard};
use super::resources::{ChangeQuery, ListQuery};
use super::{
    Api, BASE, agents, bulk, flows, judged, nodes, openapi, pods, policies, query, resources,
    traffic, watch,
};
use crate::credentials::Role;
use axum::Json;
use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, any, delete, get, patch, post, put};
use osier_resource::Kind;
use serde_json::json;
use std::sync::Arc;

type On = State<Arc<Api>>;
type Found<T> = Result<Query<T>, QueryRejection>;

/// One route.
pub(super) struct Route {
    pub(super) method: &'static str,
    pub(super) path: String,
    pub(super) access: Access,
    /// What it does, for the document.
    pub(super) summary: String,
    /// What is sent, and what comes back: names of schemas, or nothing that has one.
    pub(super) body: Option<String>,
    pub(super) answer: Option<String>,
    /// What may stand behind the question mark.
    pub(super) query: &'static [&'static str],
    handler: MethodRouter<Arc<Api>>,
}

const READ: Access = Access::Role(Role::Read);
const WRITE: Access = Access::Role(Role::Write);
const MODEL: Access = Access::Model;
const LIST: &[&str] = &["limit", "continue", "labelSelector", "watch", "resourceVersion"];
const CHANGE: &[&str] = &["resourceVersion", "dryRun"];

// === impl Route ===

impl Route {
    fn new(
        (method, path): (&'static str, impl Into<String>),
        access: Access,
        summary: impl Into<String>,
        handler: MethodRouter<Arc<Api>>,
    ) -> Self {
        let (path, summary) = (path.into(), summary.into());
        Self { method, path, access, summary, body: None, answer: None, query: &[], handler }
    }

    fn takes(self, schema: impl Into<String>) -> Self {
        Self { body: Some(schema.into()), ..self }
    }

    fn gives(self, schema: impl Into<String>) -> Self {
        Self { answer: Some(schema.into()), ..self }
    }

    fn query(self, query: &'static [&'static str]) -> Self {
        Self { query, ..self }
    }
}

/// All of them.
pub(super) fn routes() -> Vec<Route> {
    let mut routes = about();
    routes.extend(Kind::ALL.into_iter().flat_map(of_kind));
    routes.extend(of_cluster());
    routes.extend(of_switches());
    routes
}

/// About the controller itself.
fn about() -> Vec<Route> {
    let ready = |State(api): On| async move {
        match api.engine.store().position().await {
            Ok(_) => "ready".into_response(),
            Err(error) => ApiError::from(error).into_response(),
        }
    };
    let version = || async { Json(json!({"version": env!("CARGO_PKG_VERSION")})) };
    let metrics = |State(api): On| async move {
        // Counts the nodes, too.
        api.nodes.reports();
        api.metrics.text()
    };
    vec![
        Route::new(("get", "/healthz"), Access::Open, "Whether it runs", get(|| async { "ok" })),
        Route::new(("get", "/readyz"), Access::Open, "Whether it can be used", get(ready)),
        Route::new(("get", "/version"), READ, "Its version", get(version)),
        Route::new(("get", "/metrics"), READ, "What it counts, for Prometheus", get(metrics)),
        Route::new(
            ("get", "/openapi.json"),
            READ,
            "This document",
            get(|| async { Json(openapi::document()) }),
        ),
    ]
}

/// Of one kind of resource.
fn of_kind(kind: Kind) -> Vec<Route> {
    let all = format!("{BASE}/{}", kind.plural());
    let one = format!("{all}/{{name}}");
    let list = move |State(api): On, found: Found<ListQuery>| async move {
        let asked = query(found)?;
        match asked.watch {
            true => watch::watch(&api, kind, asked).await,
            false => resources::list(&api, kind, asked).await,
        }
    };
    let create = move |State(api): On, found: Found<ChangeQuery>, request: Request| async move {
        resources::create(&api, kind, query(found)?, request).await
    };
    let read = move |State(api): On, Path(name): Path<String>| async move {
        resources::get(&api, kind, &name).await
    };
    let replace = move |State(api): On,
                        Path(name): Path<String>,
                        found: Found<ChangeQuery>,
                        request: Request| async move {
        resources::replace(&api, kind, &name, query(found)?, request).await
    };
    let merge = move |State(api): On,
                      Path(name): Path<String>,
                      found: Found<ChangeQuery>,
                      request: Request| async move {
        resources::patch(&api, kind, &name, query(found)?, request).await
    };
    let remove = move |State(api): On,
                       Path(name): Path<String>,
                       found: Found<ChangeQuery>,
                       headers: HeaderMap| async move {
        resources::delete(&api, kind, &name, query(found)?, &headers).await
    };
    let schema = kind.name();
    vec![
        Route::new(("get", &all), READ, format!("List or watch {}", kind.plural()), get(list))
            .gives(format!("{schema}List"))
            .query(LIST),
        Route::new(("post", &all), MODEL, format!("Make a {schema}"), post(create))
            .takes(schema)
            .gives(schema)
            .query(&["dryRun"]),
        Route::new(("get", &one), READ, format!("Read a {schema}"), get(read)).gives(schema),
        Route::new(("put", &one), MODEL, format!("Replace a {schema}"), put(replace))
            .takes(schema)
            .gives(schema)
            .query(CHANGE),
        Route::new(("patch", &one), MODEL, format!("Merge into a {schema}"), patch(merge))
            .gives(schema)
            .query(CHANGE),
        Route::new(("delete", &one), MODEL, format!("Delete a {schema}"), delete(remove))
            .gives(schema)
            .query(CHANGE),
    ]
}

/// Of all resources together, and of nodes.
fn of_cluster() -> Vec<Route> {
    let at = |path: &str| format!("{BASE}{path}");
    let apply = |State(api): On, r: Request| async move { bulk::apply(&api, r).await };
    let remove = |State(api): On, r: Request| async move { bulk::delete(&api, r).await };
    let status = |State(api): On| async move { nodes::status(&api).await };
    let backup = |State(api): On| async move { nodes::backup(&api).await };
    let pods = |State(api): On| async move { pods::list(&api) };
    let token = |State(api): On, Path(name): Path<String>, r: Request| async move {
        nodes::token(&api, &name, r).await
    };
    let pause = |State(api): On, Path(name): Path<String>| async move {
        nodes::pause(&api, &name, true).await
    };
    let resume = |State(api): On, Path(name): Path<String>| async move {
        nodes::pause(&api, &name, false).await
    };
    let diagnostics = |State(api): On, Path(name): Path<String>| async move {
        agents::diagnostics(&api, &name).await
    };
    let capture = |State(api): On, Path(name): Path<String>, found| async move {
        agents::capture(&api, &name, query(found)?).await
    };
    vec![
        Route::new(
            ("post", at("/apply")),
            MODEL,
            "Make or replace all of these, or none",
            post(apply),
        ),
        Route::new(("post", at("/delete")), MODEL, "Delete all of these, or none", post(remove)),
        Route::new(
            ("get", at("/status")),
            READ,
            "How the controller and the nodes are",
            get(status),
        ),
        Route::new(("get", at("/pods")), READ, "Pods, and how their ports are", get(pods)),
        Route::new(("post", at("/backup")), MODEL, "Copy the store, beside it", post(backup)),
        Route::new(("post", at("/nodes/{name}/token")), MODEL, "Let a node join", post(token)),
        Route::new(("post", at("/nodes/{name}/pause")), WRITE, "Stop reconciling", post(pause)),
        Route::new(("post", at("/nodes/{name}/resume")), WRITE, "Reconcile again", post(resume)),
        Route::new(
            ("get", at("/nodes/{name}/diagnostics")),
            READ,
            "What a node's switch and agent have",
            get(diagnostics),
        ),
        // Packets are other people's.
        Route::new(("get", at("/ports/{name}/capture")), WRITE, "Packets of a port", get(capture))
            .query(&["seconds", "count", "snaplen", "filter"]),
    ]
}

/// Of what switches do: nodes are asked, or the model is.
fn of_switches() -> Vec<Route> {
    let at = |path: &str| format!("{BASE}{path}");
    let check = |State(api): On| async move { agents::check(&api).await };
    let trace = |State(api): On, r: Request| async move { agents::trace(&api, r).await };
    let hits = |State(api): On| async move { policies::hits(&api).await };
    let traffic = |State(api): On| async move { traffic::services(&api).await };
    let flows = |State(api): On, r: Request| async move { flows::list(&api, r).await };
    let test = |State(api): On, r: Request| async move { judged::test(&api, r).await };
    vec![
        Route::new(("get", at("/check")), READ, "Look for what is wrong", get(check)),
        Route::new(
            ("post", at("/trace")),
            READ,
            "Follow a packet through the switches",
            post(trace),
        ),
        Route::new(
            ("post", at("/flows")),
            READ,
            "Connections that switches track, with names, verdicts and rules",
            post(flows),
        ),
        Route::new(
            ("post", at("/policy/test")),
            READ,
            "Whether policies let a connection be, and which rules",
            post(test),
        ),
        Route::new(
            ("get", at("/traffic/services")),
            READ,
            "Connections and bytes of Services, summed over nodes",
            get(traffic),
        ),
        Route::new(
            ("get", at("/policy/hits")),
            READ,
            "How many connections rules of policies let through",
            get(hits),
        ),
    ]
}

/// The router, every route behind its guard.
pub(super) fn router(api: &Arc<Api>) -> Router {
    let guarded = |access, path: &str, handler: MethodRouter<Arc<Api>>| {
        let on = Guarded { api: Arc::clone(api), access, path: path.into() };
        handler.layer(from_fn_with_state(on, guard))
    };
    let mut router = Router::new();
    for route in routes() {
        router = router.route(&route.path, guarded(route.access, &route.path, route.handler));
    }
    let nothing = any(|| async { ApiError::not_found("there is nothing at this path") });
    let nothing = guarded(READ, "none", nothing).with_state(Arc::clone(api));
    router
        .with_state(Arc::clone(api))
        .method_not_allowed_fallback(not_allowed)
        .fallback_service(nothing)
}

async fn not_allowed() -> Response {
    let error = ApiError::method("those of /openapi.json").into_response();
    (StatusCode::METHOD_NOT_ALLOWED, error).into_response()
}
