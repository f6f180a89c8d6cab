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

/// What a follower tells.
#[derive(Debug)]
pub(crate) enum News {
    /// Something happened to a resource.
    Event(Event),
    /// The controller is away; the follower goes on trying.
    Away(ClientError),
    /// It is back, and nothing was missed.
    Back,
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
    /// Whether the user was told that the controller is away.
    is_away: bool,
}

/// A step of a follower.
enum Step {
    Opened,
    Event(Event),
    Ended,
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
        let (lines, found, is_away) = (None, Vec::new(), false);
        Self { client, kind, selector, version, lines, known, found, is_away }
    }

    /// What is new. Waits for a controller that is away; only what it refuses is an error.
    pub(crate) async fn next(&mut self) -> Result<News, ClientError> {
        loop {
            if let Some(event) = self.found.pop() {
                self.learn(&event);
                return Ok(News::Event(event));
            }
            let error = match self.step().await {
                Ok(step) => {
                    if let Some(event) = self.take(step).await? {
                        return Ok(News::Event(event));
                    }
                    if std::mem::take(&mut self.is_away) {
                        return Ok(News::Back);
                    }
                    continue;
                }
                Err(error) => error,
            };
            self.lines = None;
            if error.refusal().is_some_and(|refusal| refusal.status == GONE) {
                self.find().await?;
            } else if !error.is_absence() {
                return Err(error);
            } else if !std::mem::replace(&mut self.is_away, true) {
                return Ok(News::Away(error));
            } else {
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    /// What a step brought: an event to be told, if it was one.
    async fn take(&mut self, step: Step) -> Result<Option<Event>, ClientError> {
        match step {
            Step::Opened => {}
            Step::Ended => self.lines = None,
            Step::Event(Event { kind: EventKind::Bookmark, object }) => {
                self.version = version(&object);
            }
            Step::Event(Event { kind: EventKind::Error, .. }) => {
                self.lines = None;
                self.find().await?;
            }
            Step::Event(event) => {
                self.version = version(&event.object);
                self.learn(&event);
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    /// Opens the stream, or reads a line of it.
    async fn step(&mut self) -> Result<Step, ClientError> {
        if let Some(lines) = &mut self.lines {
            return Ok(lines.next().await?.map_or(Step::Ended, Step::Event));
        }
        let path = format!(
            "/{}?watch=true&resourceVersion={}{}",
            self.kind.plural(),
            escaped(&self.version),
            selecting(self.selector)
        );
        let body = self.client.stream(&path).await?;
        self.lines = Some(Lines::new(self.client.server(), body));
        Ok(Step::Opened)
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
