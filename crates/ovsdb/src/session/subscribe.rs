//! Who follows changes. A subscriber gets a snapshot, then each transaction's changes in order; if
//! it falls behind its bounded queue, changes are dropped and it gets a new snapshot when it has
//! caught up. So a slow subscriber costs no memory and loses no state, only history.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::mpsc;

use super::core::Command;
use crate::Uuid;
use crate::cache::{Cache, RowChange, Snapshot};

/// What happens to the followed rows.
#[derive(Clone, Debug)]
pub enum Event {
    /// All rows; forget what came before.
    Snapshot {
        /// Why it is sent.
        reason: Resync,
        /// The rows.
        snapshot: Arc<Snapshot>,
    },
    /// What one update of the server changed, mostly one transaction.
    Changes(Arc<Changes>),
    /// The connection is gone; rows are as last seen until the next event.
    Disconnected,
    /// Connected again, and nothing was missed: changes that happened meanwhile follow.
    Resumed,
}

/// Why a snapshot is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resync {
    /// The subscription is new.
    Subscribed,
    /// The server could not tell what changed since we last saw it, or its schema changed.
    Refetched,
    /// The subscriber was too slow.
    Lagged,
}

/// Changed rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Changes {
    /// The server's transaction; zero if it does not tell.
    pub transaction: Uuid,
    /// Rows before and after.
    pub rows: Vec<RowChange>,
}

/// A stream of [`Event`]s.
#[derive(Debug)]
pub struct Subscription {
    events: mpsc::Receiver<Event>,
    lagged: Arc<AtomicBool>,
    commands: mpsc::Sender<Command>,
}

/// The task's end of a [`Subscription`].
#[derive(Debug)]
pub(super) struct Subscriber {
    events: mpsc::Sender<Event>,
    lagged: Arc<AtomicBool>,
}

/// All subscribers.
#[derive(Debug, Default)]
pub(super) struct Subscribers(Vec<Subscriber>);

/// Both ends of a subscription.
pub(super) fn channel(queue: usize, commands: mpsc::Sender<Command>) -> (Subscriber, Subscription) {
    let (sender, events) = mpsc::channel(queue.max(2));
    let lagged = Arc::new(AtomicBool::new(false));
    let subscriber = Subscriber { events: sender, lagged: Arc::clone(&lagged) };
    (subscriber, Subscription { events, lagged, commands })
}

// === impl Subscription ===

impl Subscription {
    /// The next event; `None` when the session has ended.
    pub async fn next(&mut self) -> Option<Event> {
        if let Ok(event) = self.events.try_recv() {
            return Some(event);
        }
        if self.lagged.load(Ordering::SeqCst) {
            self.commands.send(Command::CatchUp).await.ok()?;
        }
        self.events.recv().await
    }
}

// === impl Subscribers ===

impl Subscribers {
    pub(super) fn add(&mut self, subscriber: Subscriber, cache: Option<&Cache>, connected: bool) {
        if let Some(cache) = cache {
            subscriber.send(snapshot(Resync::Subscribed, cache));
            if !connected {
                subscriber.send(Event::Disconnected);
            }
        }
        self.0.push(subscriber);
    }

    /// Tells all. Those without room fall behind.
    pub(super) fn tell(&mut self, event: &Event) {
        self.0.retain(|subscriber| !subscriber.events.is_closed());
        for subscriber in &self.0 {
            subscriber.send(event.clone());
        }
    }

    /// Gives those who fell behind, and have read all they had, a new snapshot.
    pub(super) fn catch_up(&mut self, cache: Option<&Cache>, connected: bool) {
        let Some(cache) = cache else { return };
        let mut shared = None;
        for subscriber in self.0.iter().filter(|subscriber| subscriber.has_drained()) {
            let event = shared.get_or_insert_with(|| snapshot(Resync::Lagged, cache)).clone();
            subscriber.lagged.store(false, Ordering::SeqCst);
            subscriber.send(event);
            if !connected {
                subscriber.send(Event::Disconnected);
            }
        }
    }

    /// Whether someone fell behind and waits for a snapshot with an empty queue.
    pub(super) fn anyone_drained(&self) -> bool {
        self.0.iter().any(Subscriber::has_drained)
    }
}

impl Subscriber {
    fn send(&self, event: Event) {
        if !self.lagged.load(Ordering::SeqCst) && self.events.try_send(event).is_err() {
            self.lagged.store(true, Ordering::SeqCst);
        }
    }

    fn has_drained(&self) -> bool {
        self.lagged.load(Ordering::SeqCst) && self.events.capacity() == self.events.max_capacity()
    }
}

pub(super) fn snapshot(reason: Resync, cache: &Cache) -> Event {
    Event::Snapshot { reason, snapshot: Arc::new(cache.snapshot()) }
}
