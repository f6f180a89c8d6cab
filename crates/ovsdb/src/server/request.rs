//! The methods of the server (RFC 7047 section 4.1, ovsdb-server(7)).

use serde_json::value::RawValue;
use serde_json::{Value as Json, json};
use tokio::time::{Duration, Instant};

use super::monitor::Monitor;
use super::transaction::{self, Verdict};
use super::world::{Blocked, Silence, World, update};
use crate::Uuid;
use crate::monitor::MonitorMethod;
use crate::rpc::{self, Message};

impl World {
    /// Takes a message of a client; `false` if it is none.
    pub(super) fn message(&mut self, client: u64, json: &[u8]) -> bool {
        if self.faults.silence == Silence::All {
            return true;
        }
        match Message::parse(json) {
            Ok(Message::Request { id, method, params }) => {
                let id = id.get().to_owned();
                let params = serde_json::from_str(params.get()).unwrap_or(Json::Null);
                if let Some(result) = self.request(client, &id, &method, &params) {
                    self.reply(client, &id, &result);
                }
                true
            }
            Ok(Message::Notification { method, params }) => {
                if method == "cancel" {
                    self.cancel(client, params.get());
                }
                true
            }
            Ok(Message::Reply { .. }) => true,
            Err(_) => false,
        }
    }

    /// The reply to a request; `None` if there is none yet.
    fn request(
        &mut self,
        client: u64,
        id: &str,
        method: &str,
        params: &Json,
    ) -> Option<Result<Json, Json>> {
        if self.faults.unknown_methods.contains(method) {
            return Some(Err(json!("unknown method")));
        }
        let silence = self.faults.silence;
        Some(match method {
            "echo" => Ok(params.clone()),
            "list_dbs" => Ok(self.databases.keys().cloned().collect()),
            "get_schema" => self.with_database(params, "get_schema", |database| {
                serde_json::from_str(&database.schema_json).unwrap_or(Json::Null)
            }),
            "transact" if silence == Silence::Transactions => return None,
            "transact" => return self.transact(client, id, params),
            "monitor" | "monitor_cond" | "monitor_cond_since"
                if silence == Silence::Monitors && params[0] != json!("_Server") =>
            {
                return None;
            }
            "monitor" => self.monitor(client, MonitorMethod::Monitor, params),
            "monitor_cond" => self.monitor(client, MonitorMethod::Cond, params),
            "monitor_cond_since" => self.monitor(client, MonitorMethod::CondSince, params),
            "monitor_cond_change" => self.change_conditions(client, params),
            "monitor_cancel" => {
                let monitors = self.clients.get_mut(&client).map(|client| &mut client.monitors);
                match monitors.and_then(|monitors| monitors.remove(&params[0].to_string())) {
                    Some(_) => Ok(json!({})),
                    None => Err(json!("unknown monitor")),
                }
            }
            "set_db_change_aware" => {
                if let Some(client) = self.clients.get_mut(&client) {
                    client.aware = params[0] == json!(true);
                }
                Ok(json!({}))
            }
            "lock" | "steal" => self.lock(client, params, method == "steal"),
            "unlock" if self.unlock(client, params[0].as_str().unwrap_or_default()) => {
                Ok(json!({}))
            }
            "unlock" => Err(json!({ "error": "syntax error", "details": "not locked" })),
            _ => Err(json!("unknown method")),
        })
    }

    pub(super) fn reply(&mut self, client: u64, id: &str, result: &Result<Json, Json>) {
        let cut = self.faults.cut_next;
        let Ok(id) = RawValue::from_string(id.to_owned()) else { return };
        let Some(client) = self.clients.get_mut(&client) else { return };
        let mut message = Vec::new();
        match result {
            Ok(result) => rpc::reply(&mut message, &id, Ok(result.to_string().as_bytes())),
            Err(error) => rpc::reply(&mut message, &id, Err(error.to_string().as_bytes())),
        }
        client.send(message, cut);
    }

    fn with_database<T>(
        &self,
        params: &Json,
        method: &str,
        work: impl FnOnce(&super::database::Database) -> T,
    ) -> Result<T, Json> {
        let name = params[0].as_str().unwrap_or_default();
        self.databases.get(name).map(work).ok_or_else(|| {
            let details = format!("{method} request specifies unknown database {name}");
            json!({ "error": "unknown database", "details": details })
        })
    }

    fn transact(&mut self, client: u64, id: &str, params: &Json) -> Option<Result<Json, Json>> {
        if let Err(error) = self.with_database(params, "transact", |_| ()) {
            return Some(Err(error));
        }
        let mut params = params.as_array().cloned().unwrap_or_default();
        let operations = params.split_off(1);
        let database = params[0].as_str().unwrap_or_default().to_owned();
        let blocked = Blocked { id: id.to_owned(), database, operations, deadline: None };
        match self.attempt(client, &blocked, false) {
            Ok(results) => {
                // The updates of a transaction come before its reply, and so do those of others
                // that only waited for it.
                self.retry_blocked();
                Some(Ok(Json::Array(results)))
            }
            Err(timeout) => {
                let deadline =
                    timeout.map(|timeout| Instant::now() + Duration::from_millis(timeout));
                if let Some(client) = self.clients.get_mut(&client) {
                    client.blocked.push(Blocked { deadline, ..blocked });
                    client.wake.notify_one();
                }
                None
            }
        }
    }

    /// Runs a transaction; `Err` with the time it may wait if it must.
    fn attempt(
        &mut self,
        client: u64,
        blocked: &Blocked,
        overdue: bool,
    ) -> Result<Vec<Json>, Option<u64>> {
        let Some(database) = self.databases.get(&blocked.database) else {
            return Ok(vec![json!({ "error": "canceled", "details": "the database is gone" })]);
        };
        let locks = &self.locks;
        let holds = |name: &str| {
            locks.get(name).and_then(|queue| queue.first()).is_some_and(|owner| *owner == client)
        };
        match transaction::run(database, &blocked.operations, &holds, overdue) {
            Verdict::Commit(results, tables) => {
                self.commit(&blocked.database, tables);
                Ok(results)
            }
            Verdict::Fail(results) => Ok(results),
            Verdict::Wait(timeout) => Err(timeout),
        }
    }

    /// Tries again what waits, now that something changed or time has passed.
    pub(super) fn retry_blocked(&mut self) {
        let waiting: Vec<(u64, Blocked)> = self
            .clients
            .iter()
            .flat_map(|(id, client)| client.blocked.iter().map(|blocked| (*id, blocked.clone())))
            .collect();
        for (id, blocked) in waiting {
            let overdue = blocked.deadline.is_some_and(|deadline| deadline <= Instant::now());
            if let Ok(results) = self.attempt(id, &blocked, overdue) {
                self.reply(id, &blocked.id, &Ok(Json::Array(results)));
                if let Some(client) = self.clients.get_mut(&id) {
                    client.blocked.retain(|other| other.id != blocked.id);
                }
            }
        }
    }

    fn cancel(&mut self, client: u64, params: &str) {
        let Ok(params) = serde_json::from_str::<Vec<Json>>(params) else { return };
        let id = params.first().map(ToString::to_string).unwrap_or_default();
        let Some(state) = self.clients.get_mut(&client) else { return };
        let before = state.blocked.len();
        state.blocked.retain(|blocked| blocked.id != id);
        if state.blocked.len() < before {
            self.reply(client, &id, &Err(json!("canceled")));
        }
    }

    fn monitor(&mut self, client: u64, method: MonitorMethod, params: &Json) -> Result<Json, Json> {
        let id = params[1].to_string();
        let last: Option<Uuid> = params[3].as_str().and_then(|text| text.parse().ok());
        let (monitor, result) = self
            .with_database(params, "monitor", |database| {
                let monitor = Monitor::parse(database, method, &params[2])?;
                let missed = last.and_then(|last| database.since(last));
                let updates = match &missed {
                    Some(changes) => merged(&monitor, changes),
                    None => monitor.initial(database),
                };
                let result = match method {
                    MonitorMethod::CondSince => {
                        json!([missed.is_some(), database.last_transaction().to_string(), updates])
                    }
                    MonitorMethod::Monitor | MonitorMethod::Cond => updates,
                };
                Ok((monitor, result))
            })?
            .map_err(|failure: transaction::Failure| failure.json())?;
        let monitors = self.clients.get_mut(&client).map(|client| &mut client.monitors);
        if monitors.is_some_and(|monitors| monitors.insert(id, monitor).is_some()) {
            return Err(json!({ "error": "syntax error", "details": "duplicate monitor ID" }));
        }
        Ok(result)
    }

    fn change_conditions(&mut self, client: u64, params: &Json) -> Result<Json, Json> {
        let cut = self.faults.cut_next;
        let unknown = || json!({ "error": "unknown monitor" });
        let state = self.clients.get_mut(&client).ok_or_else(unknown)?;
        let mut monitor = state.monitors.remove(&params[0].to_string()).ok_or_else(unknown)?;
        let database = self.databases.get(&monitor.database).ok_or_else(unknown)?;
        let updates = monitor.change_conditions(database, &params[2]);
        let last = database.last_transaction();
        let method = monitor.method;
        state.monitors.insert(params[1].to_string(), monitor);
        let updates = updates.map_err(|failure| failure.json())?;
        if updates.as_object().is_some_and(|updates| !updates.is_empty()) {
            let (method, params) = update(&params[1].to_string(), method, last, &updates);
            state.notify(method, &params, cut);
        }
        Ok(json!({}))
    }

    fn lock(&mut self, client: u64, params: &Json, steal: bool) -> Result<Json, Json> {
        let Some(name) = params[0].as_str() else {
            return Err(json!({ "error": "syntax error", "details": "lock name expected" }));
        };
        let queue = self.locks.entry(name.to_owned()).or_default();
        if queue.contains(&client) {
            let details = "must issue \"unlock\" before new \"lock\"";
            return Err(json!({ "error": "syntax error", "details": details }));
        }
        let owner = queue.first().copied();
        queue.insert(if steal { 0 } else { queue.len() }, client);
        let locked = queue.first() == Some(&client);
        if let Some(victim) = owner.filter(|_| steal).and_then(|id| self.clients.get_mut(&id)) {
            victim.notify("stolen", &json!([name]).to_string(), false);
        }
        Ok(json!({ "locked": locked }))
    }
}

/// Several transactions as one: the first old row and the last new row of each.
fn merged(monitor: &Monitor, changes: &[crate::cache::RowChange]) -> Json {
    let mut rows = std::collections::BTreeMap::new();
    for change in changes {
        let key = (change.table().clone(), change.uuid());
        let entry = rows.entry(key).or_insert_with(|| change.clone());
        entry.new.clone_from(&change.new);
    }
    let net: Vec<_> =
        rows.into_values().filter(|change| change.old.is_some() || change.new.is_some()).collect();
    monitor.updates(&net, false)
}
