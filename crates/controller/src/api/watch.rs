//! Watches: a line of JSON for each event. A watch keeps its place in the store's history and no
//! queue: who reads slowly holds up nobody, and who is too slow is told so.

use super::Api;
use super::error::ApiError;
use super::resources::{ListQuery, labels, position, shown};
use super::selector::Selector;
use crate::metrics::Metrics;
use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, StreamExt};
use osier_resource::{API_VERSION, Kind};
use osier_store::{Changes, Entry, Event, Key, Position, Query, Watch};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, watch as signal};

/// How often a silent watch says where it is: so that a dead one is noticed.
const BOOKMARK: Duration = Duration::from_secs(30);

/// A watch on its way to a client.
struct Telling {
    kind: Kind,
    selector: Selector,
    watch: Box<dyn Watch>,
    at: Position,
    stopping: signal::Receiver<bool>,
    is_over: bool,
    _place: Place,
}

/// One of the watches that are allowed.
struct Place(#[expect(dead_code, reason = "it is held")] OwnedSemaphorePermit, Metrics);

impl Drop for Place {
    fn drop(&mut self) {
        self.1.watch_ended();
    }
}

pub(super) async fn watch(
    api: &Arc<Api>,
    kind: Kind,
    query: ListQuery,
) -> Result<Response, ApiError> {
    let selector = Selector::parse(&query.label_selector).map_err(ApiError::malformed)?;
    let place = Arc::clone(&api.watches).try_acquire_owned();
    let place = place.map_err(|_| ApiError::too_many("too many watches are open", 5))?;
    api.metrics.watch_began();
    let place = Place(place, api.metrics.clone());
    let (first, at) = match query.resource_version.as_deref() {
        Some(version) if version != "0" => (Vec::new(), position(api, version).await?),
        _ => all(api, kind, &selector).await?,
    };
    let watch = api.engine.store().watch("a watch of the API", &kind.prefix(), at).await?;
    let stopping = api.stopping.clone();
    let telling = Telling { kind, selector, watch, at, stopping, is_over: false, _place: place };
    let lines = stream::iter(first).chain(stream::unfold(telling, Telling::next));
    let body = Body::from_stream(lines.map(Ok::<_, Infallible>));
    let content = [(header::CONTENT_TYPE, "application/x-ndjson")];
    Ok((content, body).into_response())
}

/// What is there now, each as if it were new, and where to go on from.
async fn all(
    api: &Api,
    kind: Kind,
    selector: &Selector,
) -> Result<(Vec<Bytes>, Position), ApiError> {
    let (mut lines, mut query) = (Vec::new(), Query::under(kind.prefix()));
    loop {
        let page = api.engine.store().list(query.clone()).await?;
        for (key, entry) in &page.entries {
            let value = shown(key, entry)?;
            if selector.takes(&labels(&value)) {
                lines.push(line("ADDED", &value));
            }
        }
        if !page.more {
            return Ok((lines, page.position));
        }
        query = query.behind(&page);
    }
}

fn line(kind: &str, object: &Value) -> Bytes {
    let mut text = json!({"type": kind, "object": object}).to_string();
    text.push('\n');
    text.into()
}

// === impl Telling ===

impl Telling {
    async fn next(mut self) -> Option<(Bytes, Self)> {
        if self.is_over {
            return None;
        }
        let event = tokio::select! {
            event = tokio::time::timeout(BOOKMARK, self.watch.next()) => event,
            _ = self.stopping.wait_for(|stopping| *stopping) => return None,
        };
        let line = match event {
            Ok(Ok(changes)) => {
                self.at = changes.position;
                self.lines(&changes)
            }
            Ok(Err(error)) => {
                self.is_over = true;
                line("ERROR", &ApiError::from(error).to_value())
            }
            Err(_) => self.bookmark(),
        };
        Some((line, self))
    }

    fn lines(&self, changes: &Changes) -> Bytes {
        let mut lines = Vec::new();
        for event in changes.events.iter() {
            if let Some((kind, object)) = self.event(event, changes.position) {
                lines.extend_from_slice(&line(kind, &object));
            }
        }
        match lines.is_empty() {
            true => self.bookmark(),
            false => lines.into(),
        }
    }

    /// What an event is to who sees only what the selector takes.
    fn event(&self, event: &Event, at: Position) -> Option<(&'static str, Value)> {
        let value = |key: &Key, entry: &Option<Entry>| shown(key, entry.as_ref()?).ok();
        let takes = |value: &Value| self.selector.takes(&labels(value));
        let before = value(&event.key, &event.before).filter(takes);
        let now = value(&event.key, &event.now).filter(takes);
        match (before, now) {
            (None, Some(now)) => Some(("ADDED", now)),
            (Some(_), Some(now)) => Some(("MODIFIED", now)),
            (Some(mut before), None) => {
                before["metadata"]["resourceVersion"] = at.revision.to_string().into();
                Some(("DELETED", before))
            }
            (None, None) => None,
        }
    }

    fn bookmark(&self) -> Bytes {
        let metadata = json!({"resourceVersion": self.at.to_string()});
        let object = json!({
            "apiVersion": API_VERSION, "kind": self.kind.name(), "metadata": metadata,
        });
        line("BOOKMARK", &object)
    }
}
