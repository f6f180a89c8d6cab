//! What outlives a connection: the cache, the place in the stream of transactions, subscribers,
//! locks and the status. Also serves commands while there is no connection.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::value::RawValue;
use tokio::sync::{oneshot, watch};

use super::config::Config;
use super::error::{RequestError, SessionError};
use super::lock::LockState;
use super::status::{State, Status};
use super::subscribe::{Event, Subscriber, Subscribers};
use crate::Uuid;
use crate::cache::Cache;
use crate::op::Condition;
use crate::row::Name;
use crate::rpc::ServerError;

/// The answer to a request, for the one who asked.
pub(super) type Answer = oneshot::Sender<Result<Box<RawValue>, RequestError>>;

/// A question to the cache.
pub(super) type Question = Box<dyn FnOnce(Option<&Cache>) + Send>;

/// What handles ask of the task.
pub(super) enum Command {
    Request { id: u64, method: &'static str, params: Vec<u8>, answer: Answer },
    Cancel(u64),
    Query(Question),
    Subscribe(Subscriber),
    CatchUp,
    Lock { name: String, steal: bool, state: watch::Sender<LockState> },
    Unlock(String),
    Conditions { table: Name, conditions: Vec<Condition>, answer: Answer },
}

/// A lock someone wants.
pub(super) struct Claim {
    pub(super) steal: bool,
    pub(super) state: watch::Sender<LockState>,
}

/// See the module.
pub(super) struct Core {
    pub(super) config: Config,
    pub(super) ids: Arc<AtomicU64>,
    pub(super) status: watch::Sender<Status>,
    pub(super) subscribers: Subscribers,
    pub(super) locks: BTreeMap<String, Claim>,
    pub(super) cache: Option<Cache>,
    /// The last transaction that is in the cache; zero if the server does not tell.
    pub(super) transaction: Uuid,
    /// The cluster the cache is from, and the furthest place of its log that we have seen.
    pub(super) cluster: Option<Uuid>,
    pub(super) seen: i64,
    /// Whether there are other servers to try when one is unfit.
    pub(super) alternatives: bool,
}

impl Core {
    pub(super) fn new(config: Config, ids: Arc<AtomicU64>, status: watch::Sender<Status>) -> Self {
        Self {
            config,
            ids,
            status,
            subscribers: Subscribers::default(),
            locks: BTreeMap::new(),
            cache: None,
            transaction: Uuid::ZERO,
            cluster: None,
            seen: 0,
            alternatives: false,
        }
    }

    pub(super) fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn set_state(&self, state: State) {
        self.status.send_if_modified(|status| std::mem::replace(&mut status.state, state) != state);
    }

    /// The connection, or the attempt, is over.
    pub(super) fn disconnected(&mut self, error: SessionError) {
        let was_connected = !matches!(self.status.borrow().state, State::Connecting | State::Ended);
        for claim in self.locks.values() {
            claim.state.send_replace(LockState::Waiting);
        }
        self.status.send_modify(|status| {
            status.state = State::Connecting;
            status.connected = false;
            status.leader = false;
            status.last_error = Some(Arc::new(error));
        });
        if was_connected && self.cache.is_some() {
            self.subscribers.tell(&Event::Disconnected);
        }
    }

    /// Serves a command without a connection.
    pub(super) fn offline(&mut self, command: Command) {
        match command {
            Command::Request { answer, .. } => {
                let _ = answer.send(Err(RequestError::NotConnected));
            }
            Command::Conditions { table, conditions, answer } => {
                // It will be asked for with the next connection: done, as far as it can be.
                let wanted = self.want(&table, conditions);
                let _ = answer.send(wanted.map(|()| RawValue::NULL.to_owned()).map_err(Into::into));
            }
            Command::Lock { name, steal, state } => {
                self.locks.insert(name, Claim { steal, state });
            }
            Command::Unlock(name) => {
                self.locks.remove(&name);
            }
            Command::Cancel(_) => {}
            Command::Query(question) => question(self.cache.as_ref()),
            Command::Subscribe(subscriber) => self.subscribe(subscriber),
            Command::CatchUp => self.catch_up(),
        }
    }

    /// Remembers which rows of a table are wanted.
    pub(super) fn want(
        &mut self,
        table: &str,
        conditions: Vec<Condition>,
    ) -> Result<(), ServerError> {
        match self.config.monitor.tables.get_mut(table) {
            Some(wanted) => {
                wanted.conditions = conditions;
                Ok(())
            }
            None => Err(ServerError {
                error: "unknown table".to_owned(),
                details: format!("table {table} is not followed"),
            }),
        }
    }

    pub(super) fn subscribe(&mut self, subscriber: Subscriber) {
        let connected = self.status.borrow().is_ready();
        self.subscribers.add(subscriber, self.cache.as_ref(), connected);
    }

    /// Tells subscribers, and picks up those who had fallen behind.
    pub(super) fn tell(&mut self, event: &Event) {
        self.subscribers.tell(event);
        if self.subscribers.anyone_drained() {
            self.catch_up();
        }
    }

    pub(super) fn catch_up(&mut self) {
        let connected = self.status.borrow().is_ready();
        self.subscribers.catch_up(self.cache.as_ref(), connected);
    }
}
