//! One connection's conversation, without the connection: messages and commands in, bytes out.
//! Start-up is in [`startup`]; here is what happens at any time.

mod startup;

use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::core::{Answer, Claim, Command, Core};
use super::error::{RequestError, SessionError};
use super::lock::LockState;
use super::server_row::ServerDatabase;
use super::subscribe::{Changes, Event};
use crate::Uuid;
use crate::monitor::{MonitorMethod, View};
use crate::op::Condition;
use crate::row::Name;
use crate::rpc::{self, Message, ServerError};

/// The conversation.
pub(super) struct Protocol<'a> {
    pub(super) core: &'a mut Core,
    /// What is to be sent.
    pub(super) out: Vec<u8>,
    pending: FxHashMap<u64, Pending>,
    /// How many must be pending to look for those that nobody waits for.
    prune_at: usize,
    server: ServerDatabase,
    stage: Stage,
    /// What of the wishes the schema that was fetched last can give.
    view: Option<Arc<View>>,
    /// The `_Server` row and schema text that `stage` builds on.
    generation: Option<(Uuid, String)>,
    /// Counts starts over, so that answers to what is no longer wanted are known.
    serial: u64,
    /// By when which request of the start-up must be answered.
    pub(super) deadline: Option<(Instant, &'static str)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// `_Server` has been asked for.
    Greeting,
    /// The server will not do; `_Server` tells when it will.
    Unfit,
    /// The schema has been asked for.
    Schema,
    /// The rows have been asked for.
    Monitor(MonitorMethod),
    /// Rows are followed.
    Following(MonitorMethod),
}

/// What to do with an answer.
enum Pending {
    Ignore,
    ServerMonitor,
    Schema(u64),
    Monitor(u64, MonitorMethod),
    Lock(String),
    Conditions { table: Name, conditions: Vec<Condition>, answer: Answer },
    Request(Answer),
}

/// The `<json-value>` of the monitor of `_Server`, in JSON.
const SERVER_MONITOR: &str = "\"osier-server\"";

/// When this many requests wait for an answer, those whose callers have gone are forgotten.
const PRUNE: usize = 256;

impl<'a> Protocol<'a> {
    /// Starts the conversation.
    pub(super) fn start(core: &'a mut Core) -> Self {
        let server = ServerDatabase::new(&core.config.database);
        let mut protocol = Self {
            core,
            out: Vec::new(),
            pending: FxHashMap::default(),
            prune_at: PRUNE,
            server,
            stage: Stage::Greeting,
            view: None,
            generation: None,
            serial: 0,
            deadline: None,
        };
        protocol.greet();
        protocol
    }

    /// Asks for a sign of life.
    pub(super) fn echo(&mut self) {
        self.request("echo", b"[]", Pending::Ignore);
    }

    /// Takes a message of the server.
    pub(super) fn message(&mut self, json: &[u8]) -> Result<(), SessionError> {
        match Message::parse(json)? {
            Message::Request { id, method, params } => {
                let known = method == "echo";
                let params = params.get().as_bytes();
                let result = if known { Ok(params) } else { Err(&b"\"unknown method\""[..]) };
                rpc::reply(&mut self.out, id, result);
                Ok(())
            }
            Message::Notification { method, params } => self.notification(&method, params),
            Message::Reply { id, result } => {
                // Late answers to what was cancelled, and ids that are not ours, are no harm.
                let id = id.get().parse().ok();
                match id.and_then(|id: u64| self.pending.remove(&id)) {
                    Some(pending) => self.reply(pending, result),
                    None => Ok(()),
                }
            }
        }
    }

    /// Takes a command of a handle.
    pub(super) fn command(&mut self, command: Command) {
        match command {
            Command::Request { id, method, params, answer } => {
                if method == "transact" && !self.core.status.borrow().is_ready() {
                    let _ = answer.send(Err(RequestError::NotConnected));
                    return;
                }
                self.prune();
                rpc::request(&mut self.out, id, method, &params);
                self.pending.insert(id, Pending::Request(answer));
            }
            Command::Cancel(id) => {
                if self.pending.remove(&id).is_some() {
                    self.cancel(id);
                }
            }
            Command::Lock { name, steal, state } => {
                self.request_lock(&name, steal);
                self.core.locks.insert(name, Claim { steal, state });
            }
            Command::Unlock(name) => {
                if self.core.locks.remove(&name).is_some() {
                    self.request("unlock", &json(&[&name]), Pending::Ignore);
                }
            }
            Command::Conditions { table, conditions, answer } => {
                self.change_conditions(table, conditions, answer);
            }
            local @ (Command::Query(_) | Command::Subscribe(_) | Command::CatchUp) => {
                self.core.offline(local);
            }
        }
    }

    fn notification(&mut self, method: &str, params: &RawValue) -> Result<(), SessionError> {
        match method {
            "update" | "update2" => {
                let (monitor, updates): (&RawValue, &RawValue) = read("update", params)?;
                self.update(monitor, Uuid::ZERO, updates)
            }
            "update3" => {
                let (monitor, transaction, updates): (&RawValue, Uuid, &RawValue) =
                    read("update3", params)?;
                self.update(monitor, transaction, updates)
            }
            "monitor_canceled" => {
                let (monitor,): (&RawValue,) = read("monitor_canceled", params)?;
                if monitor.get() == self.monitor_id() { self.canceled() } else { Ok(()) }
            }
            "locked" | "stolen" => {
                let (name,): (String,) = read("locked", params)?;
                let state = if method == "locked" { LockState::Held } else { LockState::Waiting };
                self.set_lock(&name, state);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn update(
        &mut self,
        monitor: &RawValue,
        transaction: Uuid,
        updates: &RawValue,
    ) -> Result<(), SessionError> {
        if monitor.get() == SERVER_MONITOR {
            self.server.apply(updates.get().as_bytes())?;
            return self.assess();
        }
        // A monitor that was given up may still have updates under way.
        if monitor.get() != self.monitor_id() || !matches!(self.stage, Stage::Following(_)) {
            return Ok(());
        }
        self.apply(transaction, updates)
    }

    fn apply(&mut self, transaction: Uuid, updates: &RawValue) -> Result<(), SessionError> {
        let Some(cache) = &mut self.core.cache else { return Ok(()) };
        // Until this is applied whole, there is no place to resume from.
        self.core.transaction = Uuid::ZERO;
        let updates = cache.view().decode_updates(updates.get().as_bytes())?;
        let rows = cache.apply(updates)?;
        self.core.transaction = transaction;
        if !rows.is_empty() {
            self.core.tell(&Event::Changes(Changes { transaction, rows }.into()));
        }
        Ok(())
    }

    fn reply(
        &mut self,
        pending: Pending,
        result: Result<&RawValue, &RawValue>,
    ) -> Result<(), SessionError> {
        let result = result.map_err(ServerError::parse);
        match pending {
            Pending::ServerMonitor => self.server_monitored(result.ok()),
            Pending::Schema(serial) if serial == self.serial => self.schema_fetched(result),
            Pending::Monitor(serial, method) if serial == self.serial => {
                self.monitored(method, result)
            }
            Pending::Ignore | Pending::Schema(_) | Pending::Monitor(..) => Ok(()),
            Pending::Lock(name) => {
                #[derive(Deserialize)]
                struct Locked {
                    locked: bool,
                }
                if let Ok(result) = result {
                    let Locked { locked } = read("lock", result)?;
                    self.set_lock(&name, if locked { LockState::Held } else { LockState::Waiting });
                }
                Ok(())
            }
            Pending::Conditions { table, conditions, answer } => {
                self.conditions_changed(&table, conditions, result.is_ok());
                let _ = answer.send(result.map(ToOwned::to_owned).map_err(Into::into));
                Ok(())
            }
            Pending::Request(answer) => {
                let _ = answer.send(result.map(ToOwned::to_owned).map_err(Into::into));
                Ok(())
            }
        }
    }

    fn change_conditions(&mut self, table: Name, conditions: Vec<Condition>, answer: Answer) {
        if let Err(error) = self.core.want(&table, conditions.clone()) {
            let _ = answer.send(Err(error.into()));
            return;
        }
        match self.stage {
            Stage::Following(MonitorMethod::Monitor) => {
                let error = "unknown method".to_owned();
                let details = "the server knows no conditional monitors".to_owned();
                let _ = answer.send(Err(ServerError { error, details }.into()));
            }
            Stage::Following(_) => {
                let id = self.monitor_id();
                let change = serde_json::json!({ &*table: [{ "where": conditions }] });
                let params = format!("[{id},{id},{change}]");
                let pending = Pending::Conditions { table, conditions, answer };
                self.request("monitor_cond_change", params.as_bytes(), pending);
            }
            stage => {
                if matches!(stage, Stage::Monitor(_)) {
                    self.fetch_schema();
                }
                let _ = answer.send(Ok(RawValue::NULL.to_owned()));
            }
        }
    }

    fn conditions_changed(&mut self, table: &str, conditions: Vec<Condition>, accepted: bool) {
        let Some(cache) = &mut self.core.cache else { return };
        if accepted {
            cache.set_conditions(table, conditions);
        } else if let Some(known) = cache.view().conditions(table) {
            // Asking for it again after a reconnect would be refused again.
            let known = known.to_vec();
            let _ = self.core.want(table, known);
        }
    }

    fn request_lock(&mut self, name: &str, steal: bool) {
        let method = if steal { "steal" } else { "lock" };
        self.request(method, &json(&[name]), Pending::Lock(name.to_owned()));
    }

    fn set_lock(&mut self, name: &str, state: LockState) {
        if let Some(claim) = self.core.locks.get(name) {
            claim.state.send_replace(state);
        }
    }

    fn request(&mut self, method: &'static str, params: &[u8], pending: Pending) {
        let id = self.core.next_id();
        rpc::request(&mut self.out, id, method, params);
        self.pending.insert(id, pending);
    }

    fn cancel(&mut self, id: u64) {
        rpc::notification(&mut self.out, "cancel", format!("[{id}]").as_bytes());
    }

    /// Makes up for cancellations that found the queue of commands full.
    fn prune(&mut self) {
        if self.pending.len() < self.prune_at {
            return;
        }
        let gone = |pending: &Pending| matches!(pending, Pending::Request(a) if a.is_closed());
        let ids: Vec<u64> =
            self.pending.iter().filter(|(_, pending)| gone(pending)).map(|(id, _)| *id).collect();
        for id in ids {
            self.pending.remove(&id);
            self.cancel(id);
        }
        self.prune_at = PRUNE.max(self.pending.len() * 2);
    }
}

impl Drop for Protocol<'_> {
    /// Whoever waits for an answer learns that none will come.
    fn drop(&mut self) {
        for (_, pending) in self.pending.drain() {
            if let Pending::Request(answer) | Pending::Conditions { answer, .. } = pending {
                let _ = answer.send(Err(RequestError::Disconnected));
            }
        }
    }
}

fn read<'de, T: Deserialize<'de>>(
    method: &'static str,
    json: &'de RawValue,
) -> Result<T, SessionError> {
    serde_json::from_str(json.get()).map_err(|source| SessionError::Malformed { method, source })
}

fn json<T: serde::Serialize + ?Sized>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).expect("requests have a JSON form")
}
