//! What the server says about our database in its `_Server` database (ovsdb-server(5)): whether it
//! leads, whether it is in touch with its cluster, which schema it has.

use std::sync::{Arc, LazyLock};

use super::error::{SessionError, Unfit};
use crate::Uuid;
use crate::cache::Cache;
use crate::monitor::{Monitor, View};
use crate::op::Condition;
use crate::row::Row;
use crate::rows::Datum;
use crate::schema::Schema;

/// The columns we read, as every server since Open vSwitch 2.9 has them.
const SCHEMA: &str = r#"{"name": "_Server", "version": "1.0.0", "tables": {"Database": {"columns": {
    "cid": {"type": {"key": "uuid", "min": 0, "max": 1}},
    "connected": {"type": "boolean"},
    "index": {"type": {"key": "integer", "min": 0, "max": 1}},
    "leader": {"type": "boolean"},
    "name": {"type": "string"},
    "schema": {"type": {"key": "string", "min": 0, "max": 1}}}}}}"#;

static PARSED: LazyLock<Schema> =
    LazyLock::new(|| SCHEMA.parse().expect("the constant is a schema"));

/// Our database's row of `_Server`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ServerRow {
    /// Changes when the database is removed and added.
    pub(super) uuid: Uuid,
    pub(super) connected: bool,
    pub(super) leader: bool,
    pub(super) schema: Option<String>,
    pub(super) cluster: Option<Uuid>,
    pub(super) index: Option<i64>,
}

/// The followed part of `_Server`.
pub(super) struct ServerDatabase {
    cache: Cache,
}

impl ServerDatabase {
    pub(super) fn new(database: &str) -> Self {
        let name = Condition::equal("name", database.to_owned());
        let monitor = Monitor::new().all_columns("Database").only("Database", vec![name]);
        Self { cache: Cache::new(Arc::new(monitor.resolve(&PARSED))) }
    }

    pub(super) fn view(&self) -> &View {
        self.cache.view()
    }

    pub(super) fn apply(&mut self, updates: &[u8]) -> Result<(), SessionError> {
        let updates = self.cache.view().decode_updates(updates)?;
        self.cache.apply(updates)?;
        Ok(())
    }

    pub(super) fn row(&self) -> Option<ServerRow> {
        let row = self.cache.table("Database")?.rows().next()?;
        Some(ServerRow {
            uuid: row.uuid(),
            connected: column(row, "connected"),
            leader: column(row, "leader"),
            schema: column(row, "schema"),
            cluster: column(row, "cid"),
            index: column(row, "index"),
        })
    }
}

/// The cache holds only values that conform to the constant schema.
fn column<T: Datum>(row: &Row, name: &str) -> T {
    row.get(name).and_then(|value| T::from_value(value).ok()).unwrap_or_default()
}

impl ServerRow {
    /// Whether this server will do. `seen` is how far we have seen the log of `cluster`.
    pub(super) fn fitness(
        &self,
        leader_only: bool,
        cluster: Option<Uuid>,
        seen: i64,
    ) -> Result<(), Unfit> {
        if !self.connected || self.schema.is_none() {
            return Err(Unfit::Disconnected);
        }
        if leader_only && !self.leader {
            return Err(Unfit::NotLeader);
        }
        match self.index {
            Some(index) if self.cluster == cluster && index < seen => {
                Err(Unfit::Stale { index, seen })
            }
            _ => Ok(()),
        }
    }
}
