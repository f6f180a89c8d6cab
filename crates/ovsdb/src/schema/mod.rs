//! Database schemas (RFC 7047 section 3.2): tables, columns, types and their constraints, as the
//! server states them. The server's schema decides what is monitored and how deltas are read, so
//! that an older or newer database than ours still works.

mod check;
mod parse;
mod write;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use check::{Mismatch, Violation};
pub use parse::SchemaError;

use crate::Uuid;
use crate::value::{Atom, Real, Value};

/// A database.
#[derive(Clone, Debug, PartialEq)]
pub struct Schema {
    /// The database's name.
    pub name: String,
    /// Its version, as `x.y.z`; empty if it has none.
    pub version: String,
    /// Its tables by name.
    pub tables: BTreeMap<Arc<str>, Arc<TableSchema>>,
}

/// A table.
#[derive(Clone, Debug, PartialEq)]
pub struct TableSchema {
    /// Its name.
    pub name: Arc<str>,
    /// Its columns by name, without `_uuid` and `_version`.
    pub columns: BTreeMap<Arc<str>, Arc<ColumnSchema>>,
    /// How many rows it may hold.
    pub max_rows: Option<u64>,
    /// Whether its rows live without being referred to.
    pub is_root: bool,
    /// Sets of columns whose values together are unique.
    pub indexes: Vec<Vec<Arc<str>>>,
}

/// A column.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnSchema {
    /// Its type.
    pub ty: ColumnType,
    /// Whether it may be lost when the server restarts.
    pub ephemeral: bool,
    /// Whether it may change after the row is inserted.
    pub mutable: bool,
}

/// `<type>`: an atom, an optional atom, a set or a map.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnType {
    /// The element, or the key of a map.
    pub key: BaseType,
    /// The value of a map.
    pub value: Option<BaseType>,
    /// The fewest elements: 0 or 1.
    pub min: u32,
    /// The most elements; `u32::MAX` is "unlimited".
    pub max: u32,
}

/// `<base-type>`: an atomic type with its constraint.
#[derive(Clone, Debug, PartialEq)]
pub struct BaseType {
    /// The type.
    pub atomic: AtomicType,
    /// What values it allows.
    pub constraint: Constraint,
}

/// `<atomic-type>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum AtomicType {
    Integer,
    Real,
    Boolean,
    String,
    Uuid,
}

/// The values a base type allows.
#[derive(Clone, Debug, PartialEq)]
pub enum Constraint {
    /// All of the type.
    Any,
    /// These.
    Enum(Vec<Atom>),
    /// Integers between, both included.
    Integers(i64, i64),
    /// Reals between, both included.
    Reals(Real, Real),
    /// Strings with a length between, both included, in characters.
    Length(u32, u32),
    /// UUIDs of rows of a table.
    Row(Reference),
}

/// A column's UUIDs name rows of this table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The table.
    pub table: Arc<str>,
    /// A strong reference keeps the row and must not dangle; a weak one vanishes with the row.
    pub strong: bool,
}

// === impl Schema ===

impl Schema {
    /// A table by name.
    pub fn table(&self, name: &str) -> Option<&Arc<TableSchema>> {
        self.tables.get(name)
    }
}

// === impl TableSchema ===

impl TableSchema {
    /// A column by name.
    pub fn column(&self, name: &str) -> Option<&Arc<ColumnSchema>> {
        self.columns.get(name)
    }

    /// The type of a column, `_uuid` and `_version` among them.
    pub fn column_type(&self, name: &str) -> Option<&ColumnType> {
        match name {
            "_uuid" | "_version" => Some(&ColumnType::UUID),
            _ => self.columns.get(name).map(|column| &column.ty),
        }
    }
}

// === impl ColumnType ===

impl ColumnType {
    /// The type of `_uuid`.
    pub const UUID: Self = Self {
        key: BaseType { atomic: AtomicType::Uuid, constraint: Constraint::Any },
        value: None,
        min: 1,
        max: 1,
    };

    /// Whether it is a map.
    pub fn is_map(&self) -> bool {
        self.value.is_some()
    }

    /// Whether it holds exactly one atom.
    pub fn is_scalar(&self) -> bool {
        self.value.is_none() && self.min == 1 && self.max == 1
    }

    /// Whether it holds at most one atom.
    pub fn is_optional(&self) -> bool {
        self.value.is_none() && self.min == 0 && self.max == 1
    }

    /// Whether `update2` sends differences of it (ovsdb-server(7) 4.1.14), not new values.
    pub fn is_composite(&self) -> bool {
        self.max > 1
    }

    /// What the column holds when an insert does not say (RFC 7047 section 5.2.1).
    pub fn default_value(&self) -> Value {
        match (&self.value, self.min) {
            (None, 0) => Value::empty_set(),
            (Some(_), 0) => Value::empty_map(),
            (None, _) => Value::Atom(self.key.default_atom()),
            (Some(value), _) => Value::map([(self.key.default_atom(), value.default_atom())]),
        }
    }

    /// The key and value types with the references they make.
    pub fn base_types(&self) -> impl Iterator<Item = &BaseType> {
        std::iter::once(&self.key).chain(&self.value)
    }
}

// === impl BaseType ===

impl BaseType {
    /// Zero, false, empty.
    pub fn default_atom(&self) -> Atom {
        match self.atomic {
            AtomicType::Integer => Atom::Integer(0),
            AtomicType::Real => Atom::Real(Real::default()),
            AtomicType::Boolean => Atom::Boolean(false),
            AtomicType::String => Atom::String(Arc::default()),
            AtomicType::Uuid => Atom::Uuid(Uuid::ZERO),
        }
    }

    /// The table its UUIDs refer to.
    pub fn reference(&self) -> Option<&Reference> {
        match &self.constraint {
            Constraint::Row(reference) => Some(reference),
            _ => None,
        }
    }
}
