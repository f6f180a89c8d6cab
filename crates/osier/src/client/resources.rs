//! Resources of a kind: all of them, one of them, and what happens to them.

use super::answers::{Event, EventKind, Page};
use super::{BASE, Client, ClientError, Lines, escaped};
use osier_resource::Kind;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// How many are asked for at once.
const PAGE: usize = 500;
/// How long to wait before asking a controller again that is away.
const PAUSE: Duration = Duration::from_secs(1);
/// What the history no longer reaches back to.
const GONE: u16 = 410;

/// Resources as of one moment.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub(crate) items: Vec<Value>,
    /// The moment.
    pub(crate) version: String,
}

/// Follows the resources of a kind, through breaks and restarts, so that every change is told once.
pub(crate) struct Follower<'a> {
    client: &'a Client,
    kind: Kind,
    selector: Option<&'a str>,
    version: String,
    lines: Option<Lines>,
    /// The versions of what the user has been told of, by name.
    known: BTreeMap<String, String>,
    /// What was found in a new list, and is to be told.
    found: Vec<Event>,
}

// === impl Client ===

impl Client {
    /// All resources of a kind that have these labels.
    pub(crate) async fn list(
        &self,
        kind: Kind,
        selector: Option<&str>,
    ) -> Result<Listing, ClientError> {
        let mut listing = Listing::default();
        let mut more: Option<String> = None;
        loop {
            let mut path = format!("{BASE}/{}?limit={PAGE}{}", kind.plural(), selecting(selector));
            if let Some(more) = &more {
                path.push_str("&continue=");
                path.push_str(&escaped(more));
            }
            let page: Page = self.read(&path).await?;
            listing.items.extend(page.items);
            listing.version = page.metadata.resource_version;
            more = page.metadata.more.filter(|more| !more.is_empty());
            if more.is_none() {
                return Ok(listing);
            }
        }
    }

    /// One resource.
    pub(crate) async fn object(&self, kind: Kind, name: &str) -> Result<Value, ClientError> {
        self.get(&format!("/{}/{}", kind.plural(), escaped(name))).await
    }
}

fn selecting(selector: Option<&str>) -> String {
    selector.map(|labels| format!("&labelSelector={}", escaped(labels))).unwrap_or_default()
}

// === impl Follower ===

impl<'a> Follower<'a> {
    /// From a listing on, of which the user has been told.
    pub(crate) fn new(
        client: &'a Client,
        kind: Kind,
        selector: Option<&'a str>,
        listing: &Listing,
    ) -> Self {
        let known = listing.items.iter().map(|item| (name(item), version(item))).collect();
        let version = listing.version.clone();
        Self { client, kind, selector, version, lines: None, known, found: Vec::new() }
    }

    /// The next change. Waits for a controller that is away; only what it refuses is an error.
    pub(crate) async fn next(&mut self) -> Result<Event, ClientError> {
        loop {
            if let Some(event) = self.found.pop() {
                self.learn(&event);
                return Ok(event);
            }
            match self.step().await {
                Ok(Some(event)) if event.kind == EventKind::Bookmark => {
                    self.version = version(&event.object);
                }
                Ok(Some(event)) if event.kind == EventKind::Error => {
                    self.lines = None;
                    self.find().await?;
                }
                Ok(Some(event)) => {
                    self.version = version(&event.object);
                    self.learn(&event);
                    return Ok(event);
                }
                Ok(None) => self.lines = None,
                Err(error) if error.refusal().is_some_and(|r| r.status == GONE) => {
                    self.find().await?;
                }
                Err(error) if error.refusal().is_some_and(|r| r.status != 503) => {
                    return Err(error);
                }
                Err(error @ (ClientError::Certificate { .. } | ClientError::Answer { .. })) => {
                    return Err(error);
                }
                Err(_) => {
                    self.lines = None;
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// One line of the stream, which is opened if it is not; none at its end.
    async fn step(&mut self) -> Result<Option<Event>, ClientError> {
        if self.lines.is_none() {
            let path = format!(
                "/{}?watch=true&resourceVersion={}{}",
                self.kind.plural(),
                escaped(&self.version),
                selecting(self.selector)
            );
            let body = self.client.stream(&path).await?;
            self.lines = Some(Lines::new(self.client.server().to_string(), body));
        }
        match &mut self.lines {
            Some(lines) => lines.next().await,
            None => Ok(None),
        }
    }

    /// Compares a new list with what was told, since the history between is gone.
    async fn find(&mut self) -> Result<(), ClientError> {
        let listing = self.client.list(self.kind, self.selector).await?;
        self.version = listing.version;
        let mut gone = self.known.clone();
        for object in listing.items {
            let kind = match gone.remove(&name(&object)) {
                None => EventKind::Added,
                Some(known) if known != version(&object) => EventKind::Modified,
                Some(_) => continue,
            };
            self.found.push(Event { kind, object });
        }
        for name in gone.into_keys() {
            let object = serde_json::json!({"kind": self.kind.name(), "metadata": {"name": name}});
            self.found.push(Event { kind: EventKind::Deleted, object });
        }
        Ok(())
    }

    fn learn(&mut self, event: &Event) {
        match event.kind {
            EventKind::Deleted => drop(self.known.remove(&name(&event.object))),
            _ => drop(self.known.insert(name(&event.object), version(&event.object))),
        }
    }
}

fn name(object: &Value) -> String {
    text(object, "/metadata/name")
}

fn version(object: &Value) -> String {
    text(object, "/metadata/resourceVersion")
}

fn text(object: &Value, at: &str) -> String {
    object.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned()
}
