//! RESTCONF over HTTP: draft-02 under `/restconf`, RFC 8040 under `/rests`.

use super::{EditError, Request as EditRequest, Restconf, TagCondition};
use crate::api::{Access, Api, ApiError, Code, Guarded, body, guard, note};
use crate::credentials::{Credential, Role};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{from_fn_with_state, map_response};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, any, delete, get};
use osier_restconf::{Content, ErrorTag, Flavour, Method, Path, Problem, Schema, show, show_all};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::sync::Arc;

/// What a handler has.
#[derive(Clone)]
struct On {
    api: Arc<Api>,
    restconf: Arc<Restconf>,
}

/// All paths of RESTCONF, each behind the guard.
pub(crate) fn router(api: &Arc<Api>, restconf: &Arc<Restconf>) -> Router {
    let on = On { api: Arc::clone(api), restconf: Arc::clone(restconf) };
    let guarded = |access, path: &str, handler: MethodRouter<On>| {
        let on = Guarded { api: Arc::clone(api), access, path: path.into() };
        handler.layer(from_fn_with_state(on, guard))
    };
    let (reads, writes) = (Access::Role(Role::Read), Access::Model);
    let at = |base: &str| {
        let change = delete(write).put(write).post(write).patch(write);
        guarded(reads, base, get(read)).merge(guarded(writes, base, change))
    };
    let module = guarded(reads, "/rests/modules", get(yang));
    let nothing = any(|| async { ApiError::not_found("RESTCONF is at /restconf and /rests") });
    Router::new()
        .route("/restconf/modules", guarded(reads, "/restconf", get(modules)))
        .route("/restconf/{*path}", at("/restconf"))
        .route("/rests/modules/{module}", module)
        .route("/rests/data", at("/rests"))
        .route("/rests/{*path}", at("/rests"))
        .route("/.well-known/host-meta", guarded(Access::Open, "host-meta", get(host_meta)))
        .fallback_service(guarded(reads, "none", nothing).with_state(on.clone()))
        .method_not_allowed_fallback(|| async { ApiError::method("GET, PUT, POST, PATCH, DELETE") })
        .with_state(on)
        .layer(map_response(in_our_form))
}

/// Where RESTCONF is (RFC 8040, section 3.1).
async fn host_meta() -> impl IntoResponse {
    let xrd = "<XRD xmlns='http://docs.oasis-open.org/ns/xri/xrd-1.0'>\
               <Link rel='restconf' href='/rests'/></XRD>";
    ([(header::CONTENT_TYPE, "application/xrd+xml")], xrd)
}

/// The modules, as draft-02 lists them.
async fn modules() -> impl IntoResponse {
    let module = |module: &osier_restconf::Module| {
        let osier_restconf::Module { name, revision, namespace, .. } = module;
        json!({"name": name, "revision": revision, "namespace": namespace})
    };
    let modules: Vec<Value> = Schema::get().modules().iter().map(module).collect();
    axum::Json(json!({"modules": {"module": modules}}))
}

/// A module's text.
async fn yang(axum::extract::Path(name): axum::extract::Path<String>) -> Response {
    let name = name.trim_end_matches(".yang");
    match Schema::get().module(name) {
        Some(module) => ([(header::CONTENT_TYPE, "application/yang")], module.text).into_response(),
        None => ApiError::not_found(format!("there is no module {name}")).into_response(),
    }
}

async fn read(State(on): State<On>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    match found(&on, parts.uri.path(), &parts.headers).await {
        Ok(response) => response,
        Err(refused) => refused,
    }
}

async fn found(on: &On, path: &str, head: &HeaderMap) -> Result<Response, Response> {
    let path = Path::parse(path).map_err(|error| refuse(&error.into()))?;
    let accept = head.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    if accept.is_some_and(|accept| !accept.contains("json") && !accept.contains('*')) {
        let said = "only JSON is spoken here: Accept: application/yang-data+json";
        let problem = Problem::new(ErrorTag::OperationNotSupported, "", said);
        return Err(refuse_as(StatusCode::NOT_ACCEPTABLE, &problem));
    }
    let (data, shown) = match path.target() {
        None => {
            let all = on.restconf.all().await;
            let shown = show_all(path.flavour, all);
            (shown.clone(), shown)
        }
        Some(target) => {
            let found = on.restconf.get(&path).await;
            let found = found.map_err(|error| ApiError::from(error).into_response())?;
            let missing = || {
                refuse(&Problem::new(ErrorTag::DataMissing, path.to_text(), "this is not there"))
            };
            let data = found.ok_or_else(missing)?;
            (data.clone(), show(path.flavour, target, data))
        }
    };
    let tag = tag(&data);
    let mut response = match none_match(head) {
        Some(tags) if tags.iter().any(|one| one == "*" || *one == tag) => {
            StatusCode::NOT_MODIFIED.into_response()
        }
        _ => ([(header::CONTENT_TYPE, media(path.flavour))], shown.to_string()).into_response(),
    };
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{tag}\"")) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    Ok(response)
}

async fn write(State(on): State<On>, request: Request) -> Response {
    match changed(&on, request).await {
        Ok(response) => response,
        Err(refused) => refused,
    }
}

async fn changed(on: &On, request: Request) -> Result<Response, Response> {
    let (target, head) = (request.uri().path().to_owned(), request.headers().clone());
    let (method, client) = (method(&request), client(&request));
    // First of all: who is not done with sending hears no answer.
    let bytes = body(&on.api, request).await.map_err(IntoResponse::into_response)?;
    let path = Path::parse(&target).map_err(|error| refuse(&error.into()))?;
    if path.content == Content::Operational {
        let said = "what is so cannot be written: write /restconf/config";
        let problem = Problem::new(ErrorTag::OperationNotSupported, path.to_text(), said);
        return Err(refuse(&problem));
    }
    let content = head.get(header::CONTENT_TYPE).and_then(|content| content.to_str().ok());
    if !bytes.is_empty() && content.is_some_and(|content| !content.contains("json")) {
        let said = "only JSON is read here: Content-Type: application/yang-data+json";
        let problem = Problem::new(ErrorTag::OperationNotSupported, "", said);
        return Err(refuse_as(StatusCode::UNSUPPORTED_MEDIA_TYPE, &problem));
    }
    let condition = condition(&head);
    let malformed = |error: serde_json::Error| {
        refuse(&Problem::new(ErrorTag::MalformedMessage, path.to_text(), error.to_string()))
    };
    let body = match bytes.is_empty() {
        true => None,
        false => Some(serde_json::from_slice::<Value>(&bytes).map_err(malformed)?),
    };
    let (flavour, text) = (path.flavour, path.to_text());
    let location = location(method, &path, body.as_ref());
    let restconf = Arc::clone(&on.restconf);
    let edit = EditRequest { method, path, body, client, condition };
    // A client that goes away must not leave an edit half-made.
    let done = tokio::spawn(async move { restconf.edit(edit).await }).await;
    match done {
        Ok(Ok(done)) => {
            let mut response = answer(flavour, method, done.is_new, location);
            if let Some(written) = &done.written {
                response.extensions_mut().insert(note(written, false));
            }
            Ok(response)
        }
        Ok(Err(EditError::Problem(problem))) => Err(refuse(&problem)),
        Ok(Err(EditError::Write(error))) => {
            let error = ApiError::from(error);
            let status = match error.status() {
                StatusCode::UNPROCESSABLE_ENTITY => StatusCode::BAD_REQUEST,
                status => status,
            };
            let tag = ErrorTag::of_status(status.as_u16());
            Err(refuse_as(status, &Problem::new(tag, text, error.message())))
        }
        Err(_) => Err(ApiError::unavailable("the edit ended early").into_response()),
    }
}

fn method(request: &Request) -> Method {
    match request.method().as_str() {
        "PUT" => Method::Put,
        "POST" => Method::Post,
        "PATCH" => Method::Patch,
        _ => Method::Delete,
    }
}

/// Draft-02's clients know 200 and nothing else; RFC 8040 tells what is new.
fn answer(flavour: Flavour, method: Method, is_new: bool, location: Option<String>) -> Response {
    let status = match (flavour, method) {
        (Flavour::Draft02, Method::Post) => StatusCode::NO_CONTENT,
        (Flavour::Draft02, _) => StatusCode::OK,
        (Flavour::Rfc8040, Method::Put | Method::Post) if is_new => StatusCode::CREATED,
        (Flavour::Rfc8040, _) => StatusCode::NO_CONTENT,
    };
    let mut response = (status, Body::empty()).into_response();
    let location = location.filter(|_| status == StatusCode::CREATED);
    if let Some(location) = location.and_then(|at| HeaderValue::from_str(&at).ok()) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

/// Where what a POST made is (RFC 8040, section 4.4.1).
fn location(method: Method, path: &Path, body: Option<&Value>) -> Option<String> {
    let (name, value) = body?.as_object()?.iter().next()?;
    let bare = name.split_once(':').map_or(name.as_str(), |(_, bare)| bare);
    let above = path.target().filter(|_| method == Method::Post)?;
    let node = above.node.member(bare)?;
    let entry = value.as_array().and_then(|entries| entries.first()).unwrap_or(value);
    let key = |key: &String| {
        let found = entry.get(key).or_else(|| entry.get(format!("{}:{key}", node.module)))?;
        Some(found.as_str().map_or_else(|| found.to_string(), str::to_lowercase))
    };
    let keys: Option<Vec<String>> = node.keys().iter().map(key).collect();
    let keys = keys.filter(|keys| !keys.is_empty())?.join(",");
    let mut at = String::from("/rests/data");
    for (i, step) in path.steps.iter().enumerate() {
        let module = if i == 0 { format!("{}:", step.node.module) } else { String::new() };
        // Writing to a string cannot fail.
        let _ = write!(at, "/{module}{}", step.node.name);
        if !step.keys.is_empty() {
            let _ = write!(at, "={}", step.keys.join(","));
        }
    }
    Some(format!("{at}/{bare}={keys}"))
}

/// Who writes: whose credential it is, and with what program, for others may share the credential.
fn client(request: &Request) -> String {
    let name = request.extensions().get::<Arc<Credential>>().map(|caller| caller.name.as_str());
    let agent = request.headers().get(header::USER_AGENT).and_then(|agent| agent.to_str().ok());
    let agent = agent.unwrap_or_default().split(['/', ' ']).next().unwrap_or_default();
    format!("{}@{agent:.64}", name.unwrap_or_default())
}

fn tags(value: &HeaderValue) -> Option<Vec<String>> {
    let text = value.to_str().ok()?;
    let tag = |tag: &str| tag.trim().trim_start_matches("W/").trim_matches('"').to_owned();
    Some(text.split(',').map(tag).collect())
}

fn none_match(head: &HeaderMap) -> Option<Vec<String>> {
    head.get(header::IF_NONE_MATCH).and_then(tags)
}

fn condition(head: &HeaderMap) -> Option<TagCondition> {
    let matches = head.get(header::IF_MATCH).and_then(tags).map(TagCondition::IfMatch);
    matches.or_else(|| none_match(head).map(TagCondition::IfNoneMatch))
}

/// A tag of data: the same for the same data, however it is asked for.
pub(super) fn tag(data: &Value) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, data.to_string().as_bytes());
    digest.as_ref()[..12].iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn media(flavour: Flavour) -> &'static str {
    match flavour {
        Flavour::Draft02 => "application/json",
        Flavour::Rfc8040 => "application/yang-data+json",
    }
}

fn refuse(problem: &Problem) -> Response {
    let status = StatusCode::from_u16(problem.tag.status());
    refuse_as(status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), problem)
}

fn refuse_as(status: StatusCode, problem: &Problem) -> Response {
    let media = media(Flavour::Rfc8040);
    let body = problem.to_value().to_string();
    let mut response = (status, [(header::CONTENT_TYPE, media)], body).into_response();
    response.extensions_mut().insert(Code(problem.tag.word()));
    response
}

/// Errors of the API's own parts, as RESTCONF tells them.
async fn in_our_form(response: Response) -> Response {
    let Some(error) = response.extensions().get::<ApiError>() else { return response };
    let tag = ErrorTag::of_status(error.status().as_u16());
    let problem = Problem::new(tag, "", error.message());
    let mut ours = refuse_as(error.status(), &problem);
    if let Some(after) = response.headers().get(header::RETRY_AFTER) {
        ours.headers_mut().insert(header::RETRY_AFTER, after.clone());
    }
    if error.status() == StatusCode::UNAUTHORIZED {
        let basic = HeaderValue::from_static("Basic realm=\"restconf\"");
        ours.headers_mut().insert(header::WWW_AUTHENTICATE, basic);
    }
    ours
}
