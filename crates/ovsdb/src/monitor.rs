//! What to watch of a database, and how that meets the schema the server really has. Columns and
//! tables the server lacks are reported and left out; those it has beyond ours are never asked for.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::op::Condition;
use crate::row::{Layout, Name};
use crate::rows::TypedRow;
use crate::schema::Schema;

/// The tables and columns a session follows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Monitor {
    /// By table.
    pub tables: BTreeMap<Name, MonitorTable>,
}

/// What to follow of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MonitorTable {
    /// These columns; `None` for all the server has.
    pub columns: Option<Vec<Name>>,
    /// Rows for which one of these holds; all rows if empty.
    pub conditions: Vec<Condition>,
    /// Columns (each list together) by which the cache can be asked.
    pub indexes: Vec<Vec<Name>>,
}

/// A table or column that was asked for and that the server's schema lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The table.
    pub table: Name,
    /// The column; `None` if the whole table is missing.
    pub column: Option<Name>,
}

/// A monitor resolved against a schema: what the server is asked for, and how rows look.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    pub(crate) tables: Vec<ViewTable>,
    by_name: FxHashMap<Arc<str>, usize>,
    /// What was asked for in vain.
    pub missing: Vec<Missing>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ViewTable {
    pub(crate) layout: Arc<Layout>,
    pub(crate) conditions: Vec<Condition>,
    /// Positions of the columns of each index.
    pub(crate) indexes: Vec<Vec<usize>>,
}

/// Which request a monitor is written for: only the conditional ones know `where`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MonitorMethod {
    /// RFC 7047: no conditions, whole rows.
    Monitor,
    /// Open vSwitch 2.6: conditions, differences.
    Cond,
    /// Open vSwitch 2.12: conditions, differences, resume.
    CondSince,
}

impl Monitor {
    /// Follows nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Also follows all columns our generated row knows of this table.
    #[must_use]
    pub fn table<T: TypedRow>(mut self) -> Self {
        let columns = T::COLUMNS.iter().map(|&column| column.into()).collect();
        self.tables.entry(T::TABLE.into()).or_default().columns = Some(columns);
        self
    }

    /// Also follows these columns of a table.
    #[must_use]
    pub fn columns(mut self, table: impl Into<Name>, columns: &[&'static str]) -> Self {
        let columns = columns.iter().map(|&column| column.into()).collect();
        self.tables.entry(table.into()).or_default().columns = Some(columns);
        self
    }

    /// Also follows all columns of a table that the server has.
    #[must_use]
    pub fn all_columns(mut self, table: impl Into<Name>) -> Self {
        self.tables.entry(table.into()).or_default().columns = None;
        self
    }

    /// Only rows of the table for which one of the conditions holds.
    #[must_use]
    pub fn only(mut self, table: impl Into<Name>, conditions: Vec<Condition>) -> Self {
        self.tables.entry(table.into()).or_default().conditions = conditions;
        self
    }

    /// Lets the cache be asked by these columns.
    #[must_use]
    pub fn index(mut self, table: impl Into<Name>, columns: &[&'static str]) -> Self {
        let columns = columns.iter().map(|&column| column.into()).collect();
        self.tables.entry(table.into()).or_default().indexes.push(columns);
        self
    }

    /// What of it a server with this schema can give.
    pub fn resolve(&self, schema: &Schema) -> View {
        let mut view = View { tables: Vec::new(), by_name: FxHashMap::default(), missing: vec![] };
        for (name, wanted) in &self.tables {
            let Some(table) = schema.table(name) else {
                view.missing.push(Missing { table: name.clone(), column: None });
                continue;
            };
            for column in wanted.columns.iter().flatten() {
                if table.column(column).is_none() {
                    let column = Some(column.clone());
                    view.missing.push(Missing { table: name.clone(), column });
                }
            }
            let layout = Layout::new(table, |column| match &wanted.columns {
                Some(columns) => columns.iter().any(|wanted| wanted == column),
                None => true,
            });
            // Indexes of the schema come for free; ours may name columns the server lacks.
            let ours = wanted.indexes.iter().map(|columns| {
                columns.iter().map(|column| layout.index(column)).collect::<Option<Vec<_>>>()
            });
            let theirs = table.indexes.iter().map(|columns| {
                columns.iter().map(|column| layout.index(column)).collect::<Option<Vec<_>>>()
            });
            let mut indexes: Vec<_> = ours.chain(theirs).flatten().collect();
            indexes.sort();
            indexes.dedup();
            view.by_name.insert(Arc::clone(layout.table()), view.tables.len());
            view.tables.push(ViewTable { layout, conditions: wanted.conditions.clone(), indexes });
        }
        view
    }
}

// === impl View ===

impl View {
    pub(crate) fn position(&self, table: &str) -> Option<usize> {
        self.by_name.get(table).copied()
    }

    #[cfg(feature = "session")]
    pub(crate) fn conditions(&self, table: &str) -> Option<&[Condition]> {
        Some(&self.tables[self.position(table)?].conditions)
    }

    /// The `<monitor-requests>` that ask for it.
    pub fn requests(&self, method: MonitorMethod) -> impl Serialize + '_ {
        Requests { view: self, method }
    }
}

struct Requests<'a> {
    view: &'a View,
    method: MonitorMethod,
}

impl Serialize for Requests<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let request = |table| (Request { table, method: self.method },);
        serializer.collect_map(
            self.view.tables.iter().map(|table| (&**table.layout.table(), request(table))),
        )
    }
}

struct Request<'a> {
    table: &'a ViewTable,
    method: MonitorMethod,
}

impl Serialize for Request<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let columns: Vec<&str> =
            self.table.layout.columns().iter().map(|(name, _)| &**name).collect();
        map.serialize_entry("columns", &columns)?;
        if self.method != MonitorMethod::Monitor && !self.table.conditions.is_empty() {
            map.serialize_entry("where", &self.table.conditions)?;
        }
        map.end()
    }
}
