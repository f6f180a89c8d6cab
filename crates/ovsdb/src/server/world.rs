//! All that the server's clients share: databases, monitors, locks, and the faults in force. Clients'
//! tasks lock it for the time of one message.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value as Json, json};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::database::{Database, Tables};
use super::monitor::Monitor;
use crate::Uuid;
use crate::cache::RowChange;
use crate::monitor::MonitorMethod;
use crate::rpc;
use crate::schema::Schema;
use crate::value::Value;

/// How the server misbehaves.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// What is not answered.
    pub silence: Silence,
    /// Methods it claims not to know: an older server.
    pub unknown_methods: BTreeSet<String>,
    /// The next message is cut in two; the connection closes after the first half.
    pub cut_next: bool,
    /// Updates have numbers in place of values.
    pub wrong_types: bool,
}

/// What is not answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Silence {
    /// All is answered.
    #[default]
    None,
    /// Transactions are not.
    Transactions,
    /// Monitors are not.
    Monitors,
    /// Nothing is, not even an echo.
    All,
}

#[derive(Default)]
pub(super) struct World {
    pub(super) faults: Faults,
    pub(super) databases: BTreeMap<String, Database>,
    pub(super) clients: BTreeMap<u64, Client>,
    /// Who waits for a lock; the first has it.
    pub(super) locks: BTreeMap<String, Vec<u64>>,
    joined: u64,
}

#[derive(Default)]
pub(super) struct Client {
    pub(super) outbox: Vec<u8>,
    pub(super) wake: Arc<Notify>,
    pub(super) closing: bool,
    pub(super) aware: bool,
    /// By the JSON of their `<json-value>`.
    pub(super) monitors: BTreeMap<String, Monitor>,
    pub(super) blocked: Vec<Blocked>,
}

/// A transaction that waits.
#[derive(Clone)]
pub(super) struct Blocked {
    pub(super) id: String,
    pub(super) database: String,
    pub(super) operations: Vec<Json>,
    pub(super) deadline: Option<Instant>,
}

const SERVER_SCHEMA: &str = r#"{"name": "_Server", "version": "1.2.0", "tables": {"Database": {"columns": {
    "name": {"type": "string"},
    "model": {"type": {"key": {"type": "string", "enum": ["set", ["clustered", "relay", "standalone"]]}}},
    "connected": {"type": "boolean"},
    "leader": {"type": "boolean"},
    "schema": {"type": {"key": "string", "min": 0, "max": 1}},
    "cid": {"type": {"key": "uuid", "min": 0, "max": 1}},
    "sid": {"type": {"key": "uuid", "min": 0, "max": 1}},
    "index": {"type": {"key": "integer", "min": 0, "max": 1}}}}}}"#;

impl World {
    pub(super) fn add_database(&mut self, schema: Schema) {
        if !self.databases.contains_key("_Server") {
            let server = SERVER_SCHEMA.parse().expect("the constant is a schema");
            self.databases.insert("_Server".to_owned(), Database::new(server));
        }
        self.databases.insert(schema.name.clone(), Database::new(schema));
        self.publish();
    }

    pub(super) fn remove_database(&mut self, name: &str) {
        self.databases.remove(name);
        self.evict(name);
        self.publish();
    }

    pub(super) fn convert(&mut self, schema: Schema) {
        let name = schema.name.clone();
        let Some(old) = self.databases.get(&name) else { return };
        let converted = old.convert(schema);
        self.databases.insert(name.clone(), converted);
        self.evict(&name);
        self.publish();
    }

    pub(super) fn set_cluster_state(&mut self, name: &str, connected: bool, leader: bool) {
        if let Some(database) = self.databases.get_mut(name) {
            (database.connected, database.leader) = (connected, leader);
        }
        self.publish();
    }

    pub(super) fn forget_history(&mut self) {
        self.databases.values_mut().for_each(|database| database.history.clear());
    }

    /// Gives up the monitors of a database; clients that do not know of such things are cut off.
    fn evict(&mut self, name: &str) {
        for client in self.clients.values_mut() {
            if !client.aware {
                client.close();
                continue;
            }
            let gone: Vec<String> = client
                .monitors
                .iter()
                .filter(|(_, monitor)| monitor.database == name)
                .map(|(id, _)| id.clone())
                .collect();
            for id in gone {
                client.monitors.remove(&id);
                client.notify("monitor_canceled", &format!("[{id}]"), false);
            }
        }
    }

    /// Makes `_Server` say what is so.
    fn publish(&mut self) {
        let Some(server) = self.databases.get("_Server") else { return };
        let layout = Arc::clone(&server.layouts["Database"]);
        let rows = self.databases.iter().map(|(name, database)| {
            let mut row = layout.default_row(database.server_row);
            let mut set = |column: &str, value: Value| {
                row.set(layout.index(column).expect("the constant schema has it"), value);
            };
            set("name", name.as_str().into());
            set("model", "standalone".into());
            set("connected", database.connected.into());
            set("leader", database.leader.into());
            set("schema", database.schema_json.as_str().into());
            (database.server_row, Arc::new(row))
        });
        let table = Arc::clone(layout.table());
        let tables: Tables = [(table, rows.collect())].into();
        self.commit("_Server", tables);
    }

    /// Commits a transaction and tells whoever watches.
    pub(super) fn commit(&mut self, name: &str, tables: Tables) {
        let Some(database) = self.databases.get_mut(name) else { return };
        let (transaction, changes) = database.commit(tables);
        let faults = self.faults.clone();
        for client in self.clients.values_mut() {
            client.tell(name, transaction, &changes, &faults);
        }
    }

    pub(super) fn join(&mut self) -> (u64, Arc<Notify>) {
        self.joined += 1;
        let client = Client::default();
        let wake = Arc::clone(&client.wake);
        self.clients.insert(self.joined, client);
        (self.joined, wake)
    }

    pub(super) fn leave(&mut self, id: u64) {
        self.clients.remove(&id);
        let names: Vec<String> = self.locks.keys().cloned().collect();
        for name in names {
            self.unlock(id, &name);
        }
    }

    /// Takes a client out of the queue for a lock; the next in line gets it.
    pub(super) fn unlock(&mut self, client: u64, name: &str) -> bool {
        let Some(queue) = self.locks.get_mut(name) else { return false };
        let Some(at) = queue.iter().position(|waiting| *waiting == client) else { return false };
        queue.remove(at);
        let next = queue.first().copied().filter(|_| at == 0);
        if let Some(next) = next.and_then(|next| self.clients.get_mut(&next)) {
            next.notify("locked", &json!([name]).to_string(), false);
        }
        true
    }

    pub(super) fn inject(&mut self, bytes: &[u8]) {
        for client in self.clients.values_mut() {
            client.outbox.extend_from_slice(bytes);
            client.wake.notify_one();
        }
    }

    pub(super) fn disconnect_all(&mut self) {
        self.clients.values_mut().for_each(Client::close);
    }

    pub(super) fn wake_all(&self) {
        self.clients.values().for_each(|client| client.wake.notify_one());
    }
}

impl Client {
    pub(super) fn close(&mut self) {
        self.closing = true;
        self.wake.notify_one();
    }

    /// Puts a message into the outbox, or half of it.
    pub(super) fn send(&mut self, mut message: Vec<u8>, cut: bool) {
        if self.closing {
            return;
        }
        if cut {
            message.truncate(message.len() / 2);
            self.closing = true;
        }
        self.outbox.append(&mut message);
        self.wake.notify_one();
    }

    pub(super) fn notify(&mut self, method: &str, params: &str, cut: bool) {
        let mut message = Vec::new();
        rpc::notification(&mut message, method, params.as_bytes());
        self.send(message, cut);
    }

    fn tell(&mut self, database: &str, transaction: Uuid, changes: &[RowChange], faults: &Faults) {
        let mut messages = Vec::new();
        for (id, monitor) in self.monitors.iter().filter(|(_, m)| m.database == database) {
            let mut updates = monitor.updates(changes, false);
            if updates.as_object().is_none_or(serde_json::Map::is_empty) {
                continue;
            }
            if faults.wrong_types && database != "_Server" {
                spoil(&mut updates);
            }
            messages.push(update(id, monitor.method, transaction, &updates));
        }
        for (method, params) in messages {
            self.notify(method, &params, faults.cut_next);
        }
    }
}

/// Method and parameters of the notification that tells updates.
pub(super) fn update(
    id: &str,
    method: MonitorMethod,
    transaction: Uuid,
    updates: &Json,
) -> (&'static str, String) {
    match method {
        MonitorMethod::Monitor => ("update", format!("[{id},{updates}]")),
        MonitorMethod::Cond => ("update2", format!("[{id},{updates}]")),
        MonitorMethod::CondSince => ("update3", format!("[{id},\"{transaction}\",{updates}]")),
    }
}

/// Puts a real number into every column.
fn spoil(updates: &mut Json) {
    let tables = updates.as_object_mut().into_iter().flat_map(|tables| tables.values_mut());
    let rows = tables.filter_map(Json::as_object_mut).flat_map(|rows| rows.values_mut());
    let kinds = rows.filter_map(Json::as_object_mut).flat_map(|kinds| kinds.values_mut());
    for columns in kinds.filter_map(Json::as_object_mut) {
        for value in columns.values_mut() {
            *value = json!(12.5);
        }
    }
}
