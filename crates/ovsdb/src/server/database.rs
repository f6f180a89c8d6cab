//! The rows of a database, its transactions so far, and conversion to another schema.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::Uuid;
use crate::cache::RowChange;
use crate::row::{Layout, Row};
use crate::schema::Schema;

/// Transactions a client can resume from.
const HISTORY: usize = 100;

/// Rows by table and identity.
pub(super) type Tables = BTreeMap<Arc<str>, BTreeMap<Uuid, Arc<Row>>>;

pub(super) struct Database {
    pub(super) schema: Arc<Schema>,
    /// The schema as clients get it.
    pub(super) schema_json: String,
    pub(super) layouts: BTreeMap<Arc<str>, Arc<Layout>>,
    pub(super) tables: Tables,
    pub(super) history: VecDeque<(Uuid, Vec<RowChange>)>,
    /// Its row of `_Server`.
    pub(super) server_row: Uuid,
    pub(super) connected: bool,
    pub(super) leader: bool,
}

impl Database {
    pub(super) fn new(schema: Schema) -> Self {
        let layouts: BTreeMap<_, _> = schema
            .tables
            .values()
            .map(|table| (Arc::clone(&table.name), Layout::new(table, |_| true)))
            .collect();
        let tables = layouts.keys().map(|name| (Arc::clone(name), BTreeMap::new())).collect();
        Self {
            schema_json: schema.to_json().to_string(),
            schema: Arc::new(schema),
            layouts,
            tables,
            history: VecDeque::new(),
            server_row: Uuid::random(),
            connected: true,
            leader: true,
        }
    }

    /// Makes a transaction's rows the database's, and says what changed.
    pub(super) fn commit(&mut self, tables: Tables) -> (Uuid, Vec<RowChange>) {
        let mut changes = Vec::new();
        for (name, new) in &tables {
            let old = &self.tables[name];
            for (uuid, row) in new {
                let before = old.get(uuid);
                if before.is_none_or(|before| !Arc::ptr_eq(before, row) && before != row) {
                    changes.push(RowChange { old: before.cloned(), new: Some(Arc::clone(row)) });
                }
            }
            for (_, row) in old.iter().filter(|(uuid, _)| !new.contains_key(uuid)) {
                changes.push(RowChange { old: Some(Arc::clone(row)), new: None });
            }
        }
        self.tables = tables;
        let transaction = Uuid::random();
        if !changes.is_empty() {
            self.history.push_back((transaction, changes.clone()));
            if self.history.len() > HISTORY {
                self.history.pop_front();
            }
        }
        (transaction, changes)
    }

    /// The last transaction; zero if there is none.
    pub(super) fn last_transaction(&self) -> Uuid {
        self.history.back().map_or(Uuid::ZERO, |(transaction, _)| *transaction)
    }

    /// The changes after a transaction, if it is known.
    pub(super) fn since(&self, transaction: Uuid) -> Option<Vec<RowChange>> {
        let at = self.history.iter().position(|(known, _)| *known == transaction)?;
        Some(self.history.iter().skip(at + 1).flat_map(|(_, rows)| rows.clone()).collect())
    }

    /// The same rows under another schema: what it does not know is dropped.
    pub(super) fn convert(&self, schema: Schema) -> Self {
        let mut converted = Self::new(schema);
        converted.server_row = self.server_row;
        (converted.connected, converted.leader) = (self.connected, self.leader);
        for (name, rows) in &mut converted.tables {
            let layout = &converted.layouts[name];
            for row in self.tables.get(name).into_iter().flat_map(BTreeMap::values) {
                let mut copy = layout.default_row(row.uuid());
                for (column, value) in row.iter() {
                    if let Some(index) = layout.index(column) {
                        copy.set(index, value.clone());
                    }
                }
                rows.insert(row.uuid(), Arc::new(copy));
            }
        }
        converted
    }
}
