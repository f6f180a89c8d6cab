//! The rows a session follows, as of the last update. Rows are shared (`Arc`) and immutable: an
//! update makes new ones for what changed and touches nothing else, so one change among 250,000
//! rows costs that change. One task owns the cache; readers get rows, changes or snapshots.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::Uuid;
use crate::delta::{Location, RowUpdate, Updates, apply_difference};
use crate::monitor::View;
#[cfg(feature = "session")]
use crate::op::Condition;
use crate::row::{Layout, Row};
use crate::rows::{DecodeError, TypedRow};
use crate::value::Value;

/// All followed rows.
#[derive(Debug)]
pub struct Cache {
    view: Arc<View>,
    tables: Vec<TableCache>,
}

/// The rows of one table.
#[derive(Debug)]
pub struct TableCache {
    layout: Arc<Layout>,
    rows: FxHashMap<Uuid, Arc<Row>>,
    indexes: Vec<Index>,
}

#[derive(Debug)]
struct Index {
    columns: Vec<usize>,
    rows: FxHashMap<Vec<Value>, FxHashSet<Uuid>>,
}

/// A row before and after.
#[derive(Clone, Debug, PartialEq)]
pub struct RowChange {
    /// `None` if the row is new.
    pub old: Option<Arc<Row>>,
    /// `None` if the row is gone.
    pub new: Option<Arc<Row>>,
}

/// All rows at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    tables: FxHashMap<Arc<str>, Vec<Arc<Row>>>,
}

/// The server changed or removed a row it never told us of.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("update of {at}, which was never inserted")]
pub struct Inconsistent {
    /// The row.
    pub at: Location,
}

// === impl Cache ===

impl Cache {
    /// No rows yet.
    pub fn new(view: Arc<View>) -> Self {
        let tables = view.tables.iter().map(|table| TableCache {
            layout: Arc::clone(&table.layout),
            rows: FxHashMap::default(),
            indexes: table
                .indexes
                .iter()
                .map(|columns| Index { columns: columns.clone(), rows: FxHashMap::default() })
                .collect(),
        });
        Self { tables: tables.collect(), view }
    }

    /// What it follows.
    pub fn view(&self) -> &Arc<View> {
        &self.view
    }

    /// Takes note that the server now sends the rows of a table for which one of these holds.
    #[cfg(feature = "session")]
    pub(crate) fn set_conditions(&mut self, table: &str, conditions: Vec<Condition>) {
        if let Some(position) = self.view.position(table) {
            Arc::make_mut(&mut self.view).tables[position].conditions = conditions;
        }
    }

    /// A table, if it is followed.
    pub fn table(&self, name: &str) -> Option<&TableCache> {
        Some(&self.tables[self.view.position(name)?])
    }

    /// All rows. Costs a reference count each.
    pub fn snapshot(&self) -> Snapshot {
        let tables = self.tables.iter().map(|table| {
            (Arc::clone(table.layout.table()), table.rows.values().map(Arc::clone).collect())
        });
        Snapshot { tables: tables.collect() }
    }

    /// Applies what the server told, and says what changed. After an error the cache holds part of
    /// the update and must be filled anew.
    pub fn apply(&mut self, updates: Updates) -> Result<Vec<RowChange>, Inconsistent> {
        let mut changes = Vec::with_capacity(updates.len());
        for (position, rows) in updates.tables {
            let table = &mut self.tables[position];
            for (uuid, update) in rows {
                let change = table.apply(uuid, update)?;
                if change.old != change.new {
                    changes.push(change);
                }
            }
        }
        Ok(changes)
    }
}

// === impl TableCache ===

impl TableCache {
    /// Its columns.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// How many rows it has.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// A row.
    pub fn get(&self, uuid: Uuid) -> Option<&Arc<Row>> {
        self.rows.get(&uuid)
    }

    /// All rows, in no order.
    pub fn rows(&self) -> impl Iterator<Item = &Arc<Row>> {
        self.rows.values()
    }

    /// Rows whose columns have these values. Uses an index on exactly these columns if there is
    /// one, else looks at every row. Nothing if a column is not followed.
    pub fn find<'a>(&'a self, by: &[(&str, &'a Value)]) -> Vec<&'a Arc<Row>> {
        let mut wanted = Vec::with_capacity(by.len());
        for (column, value) in by {
            match self.layout.index(column) {
                Some(index) => wanted.push((index, *value)),
                None => return Vec::new(),
            }
        }
        let covers = |index: &&Index| {
            index.columns.len() == wanted.len()
                && index.columns.iter().all(|column| wanted.iter().any(|(i, _)| i == column))
        };
        let Some(index) = self.indexes.iter().find(covers) else {
            let matches = |row: &&Arc<Row>| wanted.iter().all(|(i, value)| row.value(*i) == *value);
            return self.rows.values().filter(matches).collect();
        };
        let value_of = |column: &usize| wanted.iter().find(|(i, _)| i == column);
        let key: Vec<Value> =
            index.columns.iter().filter_map(value_of).map(|(_, value)| (*value).clone()).collect();
        let found = index.rows.get(&key).into_iter().flatten();
        found.filter_map(|uuid| self.rows.get(uuid)).collect()
    }

    fn apply(&mut self, uuid: Uuid, update: RowUpdate) -> Result<RowChange, Inconsistent> {
        let old = self.rows.get(&uuid).map(Arc::clone);
        let new = match (update, &old) {
            (RowUpdate::Put(values), _) => {
                let mut row = self.layout.default_row(uuid);
                for (index, value) in values {
                    row.set(index, value);
                }
                Some(Arc::new(row))
            }
            (RowUpdate::Modify(differences), Some(old)) => {
                let mut row = Row::clone(old);
                for (index, diff) in differences {
                    let ty = &self.layout.columns()[index].1.ty;
                    row.set(index, apply_difference(ty, old.value(index), &diff));
                }
                Some(Arc::new(row))
            }
            (RowUpdate::Delete, Some(_)) => None,
            (RowUpdate::Modify(_) | RowUpdate::Delete, None) => {
                let table = Some(Arc::clone(self.layout.table()));
                let at = Location { table, row: Some(uuid), column: None };
                return Err(Inconsistent { at });
            }
        };
        match &new {
            Some(row) => self.rows.insert(uuid, Arc::clone(row)),
            None => self.rows.remove(&uuid),
        };
        for index in &mut self.indexes {
            index.replace(old.as_deref(), new.as_deref());
        }
        Ok(RowChange { old, new })
    }
}

// === impl Index ===

impl Index {
    fn key(&self, row: &Row) -> Vec<Value> {
        self.columns.iter().map(|&column| row.value(column).clone()).collect()
    }

    fn replace(&mut self, old: Option<&Row>, new: Option<&Row>) {
        if let (Some(old), Some(new)) = (old, new)
            && self.columns.iter().all(|&column| old.value(column) == new.value(column))
        {
            return;
        }
        if let Some(old) = old {
            let key = self.key(old);
            if let Some(rows) = self.rows.get_mut(&key) {
                rows.remove(&old.uuid());
                if rows.is_empty() {
                    self.rows.remove(&key);
                }
            }
        }
        if let Some(new) = new {
            self.rows.entry(self.key(new)).or_default().insert(new.uuid());
        }
    }
}

// === impl RowChange ===

impl RowChange {
    /// The row as it is now, or was before it went.
    pub fn row(&self) -> &Arc<Row> {
        self.new.as_ref().or(self.old.as_ref()).expect("a change has an old or a new row")
    }

    /// Its table.
    pub fn table(&self) -> &Arc<str> {
        self.row().table()
    }

    /// Its identity.
    pub fn uuid(&self) -> Uuid {
        self.row().uuid()
    }
}

// === impl Snapshot ===

impl Snapshot {
    /// The rows of a table, in no order.
    pub fn rows(&self, table: &str) -> &[Arc<Row>] {
        self.tables.get(table).map_or(&[], Vec::as_slice)
    }

    /// The rows of a table, typed.
    pub fn typed<T: TypedRow>(&self) -> impl Iterator<Item = Result<T, DecodeError>> {
        self.rows(T::TABLE).iter().map(|row| T::from_row(row))
    }

    /// How many rows there are in all tables.
    pub fn len(&self) -> usize {
        self.tables.values().map(Vec::len).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
