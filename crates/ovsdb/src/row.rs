//! A row as the cache holds it: its identity and one value for each monitored column, in the order
//! of a layout that all rows of the table share. 250,000 rows thus hold no column names.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::Uuid;
use crate::schema::{ColumnSchema, TableSchema};
use crate::value::Value;

/// A table's or column's name: mostly a constant of the generated rows.
pub type Name = Cow<'static, str>;

/// Columns with the values to write, or to compare with.
pub type Fields = Vec<(Name, Value)>;

/// The columns that rows of one table have, sorted by name.
#[derive(Debug, PartialEq)]
pub struct Layout {
    table: Arc<str>,
    columns: Vec<(Arc<str>, Arc<ColumnSchema>)>,
}

/// A row.
#[derive(Clone)]
pub struct Row {
    layout: Arc<Layout>,
    uuid: Uuid,
    values: Box<[Value]>,
}

// === impl Layout ===

impl Layout {
    /// The columns of a table that `wanted` accepts.
    pub fn new(table: &TableSchema, wanted: impl Fn(&str) -> bool) -> Arc<Self> {
        let columns = table
            .columns
            .iter()
            .filter(|(name, _)| wanted(name))
            .map(|(name, column)| (Arc::clone(name), Arc::clone(column)))
            .collect();
        Arc::new(Self { table: Arc::clone(&table.name), columns })
    }

    /// The table.
    pub fn table(&self) -> &Arc<str> {
        &self.table
    }

    /// The columns in order.
    pub fn columns(&self) -> &[(Arc<str>, Arc<ColumnSchema>)] {
        &self.columns
    }

    /// Where a column is.
    pub fn index(&self, column: &str) -> Option<usize> {
        self.columns.binary_search_by(|(name, _)| (**name).cmp(column)).ok()
    }

    /// A row with every column at its default.
    pub fn default_row(self: &Arc<Self>, uuid: Uuid) -> Row {
        let values = self.columns.iter().map(|(_, column)| column.ty.default_value()).collect();
        Row { layout: Arc::clone(self), uuid, values }
    }
}

// === impl Row ===

impl Row {
    /// The row's identity.
    pub fn uuid(&self) -> Uuid {
        self.uuid
    }

    /// Its table.
    pub fn table(&self) -> &Arc<str> {
        &self.layout.table
    }

    /// Its layout.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// The value of a column; `None` if it is not monitored, or the server's schema lacks it.
    pub fn get(&self, column: &str) -> Option<&Value> {
        Some(&self.values[self.layout.index(column)?])
    }

    /// The value at a position of the layout.
    pub fn value(&self, index: usize) -> &Value {
        &self.values[index]
    }

    /// Columns and their values in order.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Value)> {
        self.layout.columns.iter().map(|(name, _)| name).zip(&self.values)
    }

    /// Replaces the value at a position of the layout.
    pub(crate) fn set(&mut self, index: usize, value: Value) {
        self.values[index] = value;
    }
}

impl PartialEq for Row {
    fn eq(&self, other: &Self) -> bool {
        // Rows of one cache share their layout: only then is the deep comparison spared.
        self.uuid == other.uuid
            && (Arc::ptr_eq(&self.layout, &other.layout) || self.layout == other.layout)
            && self.values == other.values
    }
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ", self.layout.table, self.uuid)?;
        f.debug_map().entries(self.iter()).finish()
    }
}
