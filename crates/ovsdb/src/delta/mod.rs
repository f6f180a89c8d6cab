//! Changes of rows as the server tells them: `update` with old and new rows (RFC 7047 section
//! 4.1.6), `update2` and `update3` with differences of sets and maps (ovsdb-server(7) 4.1.14).
//! Both become one form here; [`Cache`](crate::cache::Cache) applies it.

mod decode;
mod difference;

pub use decode::{DeltaError, Location};
pub use difference::{apply_difference, difference};

use crate::Uuid;
use crate::value::Value;

/// Changed rows of several tables: one transaction of the server, mostly.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Updates {
    /// Position of the table in the view, and its rows.
    pub(crate) tables: Vec<(usize, Vec<(Uuid, RowUpdate)>)>,
}

/// What happened to a row. Columns are positions in the table's layout.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RowUpdate {
    /// The row is there with these values, and defaults elsewhere.
    Put(Vec<(usize, Value)>),
    /// These columns differ by this much (or, if not composite, are now this).
    Modify(Vec<(usize, Value)>),
    /// The row is gone.
    Delete,
}

impl Updates {
    /// How many rows change.
    pub fn len(&self) -> usize {
        self.tables.iter().map(|(_, rows)| rows.len()).sum()
    }

    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
