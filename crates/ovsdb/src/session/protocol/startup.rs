//! From a fresh connection to followed rows, and back whenever the server, its schema or the
//! database changes under us: `_Server`, then the schema, then the best monitor there is.

use std::sync::Arc;

use serde_json::value::RawValue;
use tokio::time::Instant;

use super::{Pending, Protocol, SERVER_MONITOR, Stage, json, read};
use crate::Uuid;
use crate::cache::Cache;
use crate::monitor::{MonitorMethod, View};
use crate::rpc::ServerError;
use crate::schema::Schema;
use crate::session::error::{SessionError, Unfit};
use crate::session::status::State;
use crate::session::subscribe::{Event, Resync, snapshot};

impl Protocol<'_> {
    /// The first requests of a connection.
    pub(super) fn greet(&mut self) {
        self.core.set_state(State::Starting);
        // Without this the server closes the connection when the database is converted.
        self.request("set_db_change_aware", b"[true]", Pending::Ignore);
        let requests = json(&self.server.view().requests(MonitorMethod::Cond));
        let requests = String::from_utf8_lossy(&requests).into_owned();
        let params = format!("[\"_Server\",{SERVER_MONITOR},{requests}]");
        self.startup_request("monitor_cond", params.as_bytes(), Pending::ServerMonitor);
        let locks: Vec<_> =
            self.core.locks.iter().map(|(name, claim)| (name.clone(), claim.steal)).collect();
        for (name, steal) in locks {
            self.request_lock(&name, steal);
        }
    }

    pub(super) fn server_monitored(
        &mut self,
        updates: Option<&RawValue>,
    ) -> Result<(), SessionError> {
        if let Some(updates) = updates {
            self.server.apply(updates.get().as_bytes())?;
            return self.assess();
        }
        // Before Open vSwitch 2.9 there was no `_Server`: such a server is all there is.
        self.core.status.send_modify(|status| {
            status.leader = true;
            status.connected = true;
        });
        self.fetch_schema();
        Ok(())
    }

    /// Acts on what `_Server` says now.
    pub(super) fn assess(&mut self) -> Result<(), SessionError> {
        let Some(row) = self.server.row() else { return self.unfit(Unfit::NoDatabase) };
        self.core.status.send_if_modified(|status| {
            let before = (status.leader, status.connected);
            (status.leader, status.connected) = (row.leader, row.connected);
            before != (row.leader, row.connected)
        });
        let core = &mut *self.core;
        if let Err(unfit) = row.fitness(core.config.leader_only, core.cluster, core.seen) {
            return self.unfit(unfit);
        }
        if row.cluster != core.cluster {
            // Another cluster: its transactions are not those we know.
            core.cluster = row.cluster;
            core.transaction = Uuid::ZERO;
            core.seen = 0;
        }
        let generation = Some((row.uuid, row.schema.unwrap_or_default()));
        let known = self.generation == generation;
        match self.stage {
            Stage::Following(_) if known => {
                core.seen = row.index.unwrap_or(0).max(core.seen);
                core.set_state(State::Ready);
            }
            Stage::Schema | Stage::Monitor(_) if known => {}
            _ => {
                if self.generation.is_some() && !known {
                    // Converted or replaced under us: nothing can be resumed.
                    core.transaction = Uuid::ZERO;
                }
                self.generation = generation;
                self.fetch_schema();
            }
        }
        Ok(())
    }

    fn unfit(&mut self, unfit: Unfit) -> Result<(), SessionError> {
        if self.core.alternatives {
            return Err(SessionError::Unfit(unfit));
        }
        self.deadline = None;
        self.core.set_state(State::Waiting(unfit));
        if unfit == Unfit::NoDatabase || !matches!(self.stage, Stage::Following(_)) {
            self.stage = Stage::Unfit;
            self.generation = None;
            self.serial += 1;
        }
        Ok(())
    }

    /// The server gave up our monitor: the database was converted or removed.
    pub(super) fn canceled(&mut self) -> Result<(), SessionError> {
        self.core.transaction = Uuid::ZERO;
        self.stage = Stage::Unfit;
        self.generation = None;
        self.core.set_state(State::Starting);
        self.assess()
    }

    /// Starts over from the schema.
    pub(super) fn fetch_schema(&mut self) {
        if matches!(self.stage, Stage::Monitor(_) | Stage::Following(_)) {
            let old = format!("[{}]", self.monitor_id());
            self.request("monitor_cancel", old.as_bytes(), Pending::Ignore);
        }
        self.serial += 1;
        self.stage = Stage::Schema;
        self.core.set_state(State::Starting);
        let params = json(&[&self.core.config.database]);
        self.startup_request("get_schema", &params, Pending::Schema(self.serial));
    }

    pub(super) fn schema_fetched(
        &mut self,
        result: Result<&RawValue, ServerError>,
    ) -> Result<(), SessionError> {
        let json = match result {
            Ok(json) => json,
            Err(error) if error.error == "unknown database" && self.generation.is_some() => {
                return self.unfit(Unfit::NoDatabase);
            }
            Err(source) => return Err(SessionError::Refused { method: "get_schema", source }),
        };
        let schema: Schema = json.get().parse()?;
        let view = self.core.config.monitor.resolve(&schema);
        let missing = view.missing.as_slice().into();
        let schema = Arc::new(schema);
        self.core.status.send_modify(|status| {
            status.schema = Some(Arc::clone(&schema));
            status.missing = missing;
        });
        if self.core.cache.as_ref().is_none_or(|cache| **cache.view() != view) {
            self.core.transaction = Uuid::ZERO;
        }
        let view = self.view.insert(Arc::new(view));
        let view = Arc::clone(view);
        self.request_monitor(MonitorMethod::CondSince, &view);
        Ok(())
    }

    fn request_monitor(&mut self, method: MonitorMethod, view: &View) {
        let requests = json(&view.requests(method));
        let requests = String::from_utf8_lossy(&requests);
        let database = serde_json::Value::from(self.core.config.database.as_str());
        let id = self.monitor_id();
        let params = match method {
            MonitorMethod::CondSince => {
                format!("[{database},{id},{requests},\"{}\"]", self.core.transaction)
            }
            MonitorMethod::Cond | MonitorMethod::Monitor => format!("[{database},{id},{requests}]"),
        };
        self.stage = Stage::Monitor(method);
        let pending = Pending::Monitor(self.serial, method);
        self.startup_request(method.name(), params.as_bytes(), pending);
    }

    pub(super) fn monitored(
        &mut self,
        method: MonitorMethod,
        result: Result<&RawValue, ServerError>,
    ) -> Result<(), SessionError> {
        let Some(view) = self.view.clone() else { return Ok(()) };
        let result = match result {
            Ok(result) => result,
            Err(source) => match (method.fallback(), &*source.error) {
                (Some(fallback), "unknown method") => {
                    self.request_monitor(fallback, &view);
                    return Ok(());
                }
                _ => return Err(SessionError::Refused { method: method.name(), source }),
            },
        };
        let (found, transaction, updates) = match method {
            MonitorMethod::CondSince => read("monitor_cond_since", result)?,
            MonitorMethod::Cond | MonitorMethod::Monitor => (false, Uuid::ZERO, result),
        };
        let resumed = found && !self.core.transaction.is_zero();
        if !resumed {
            self.core.transaction = Uuid::ZERO;
            let mut cache = Cache::new(view);
            let updates = cache.view().decode_updates(updates.get().as_bytes())?;
            cache.apply(updates)?;
            self.core.cache = Some(cache);
            self.core.transaction = transaction;
        }
        self.stage = Stage::Following(method);
        self.deadline = None;
        let index = self.server.row().and_then(|row| row.index);
        self.core.seen = index.unwrap_or(0).max(self.core.seen);
        self.core.set_state(State::Ready);
        if resumed {
            self.core.tell(&Event::Resumed);
            self.apply(transaction, updates)?;
        } else if let Some(cache) = &self.core.cache {
            let event = snapshot(Resync::Refetched, cache);
            self.core.tell(&event);
        }
        Ok(())
    }

    /// The `<json-value>` of our monitor, in JSON.
    pub(super) fn monitor_id(&self) -> String {
        format!("\"osier-{}\"", self.serial)
    }

    fn startup_request(&mut self, method: &'static str, params: &[u8], pending: Pending) {
        self.deadline = Some((Instant::now() + self.core.config.patience, method));
        self.request(method, params, pending);
    }
}

impl MonitorMethod {
    fn name(self) -> &'static str {
        match self {
            Self::Monitor => "monitor",
            Self::Cond => "monitor_cond",
            Self::CondSince => "monitor_cond_since",
        }
    }

    fn fallback(self) -> Option<Self> {
        match self {
            Self::CondSince => Some(Self::Cond),
            Self::Cond => Some(Self::Monitor),
            Self::Monitor => None,
        }
    }
}
