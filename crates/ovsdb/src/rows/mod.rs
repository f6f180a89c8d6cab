//! Typed rows. The structs are generated from the `.ovsschema` files in `schemas/` by
//! `cargo xtask rows`; this module holds what they are made of. A column the server lacks reads as
//! its default (the session reports it by name); a column we do not know is not in the struct; a
//! value an enumeration does not know is kept as `Other`.

mod datum;
#[cfg(any(feature = "vswitch", feature = "ovn"))]
mod table;

#[cfg(feature = "ovn")]
pub mod ovn_nb;
#[cfg(feature = "vswitch")]
pub mod vswitch;

pub use datum::{Datum, Ref};
#[cfg(any(feature = "vswitch", feature = "ovn"))]
pub(crate) use table::column;

use std::sync::Arc;

use crate::Uuid;
use crate::row::{Fields, Row};
use crate::schema::Mismatch;
use crate::value::Value;

/// A row of a known table.
pub trait TypedRow: Sized + Default {
    /// The table's name.
    const TABLE: &'static str;
    /// The columns we know, sorted.
    const COLUMNS: &'static [&'static str];

    /// From the cache's row.
    fn from_row(row: &Row) -> Result<Self, DecodeError>;

    /// The columns that differ from their default: what an insert says.
    fn fields(&self) -> Fields;

    /// The value of a column, by name.
    fn field(&self, column: &str) -> Option<Value>;

    /// The row's identity; zero if it is not from a database.
    fn uuid(&self) -> Uuid;
}

/// A column holds something else than our generated row expects.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("table {table} column {column} row {row} is not as expected")]
pub struct DecodeError {
    /// The table.
    pub table: Arc<str>,
    /// The column.
    pub column: &'static str,
    /// The row.
    pub row: Uuid,
    /// How it differs.
    #[source]
    pub source: Mismatch,
}
