//! Reads an `.ovsschema` file, or the reply to `get_schema`. Members we do not know are ignored:
//! a newer server may have them.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value as Json;

use super::{
    AtomicType, BaseType, ColumnSchema, ColumnType, Constraint, Reference, Schema, TableSchema,
};
use crate::value::{Atom, Real, Value};

/// The text is not a schema.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// Not the JSON of a `<database-schema>`.
    #[error("not a database schema")]
    Json(#[source] serde_json::Error),
    /// A column cannot be read.
    #[error("schema of column {column} of table {table}")]
    Column {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// A column refers to a table, or an index to a column, that the schema lacks.
    #[error("table {table} names the unknown {what} {name}")]
    Unknown {
        /// The table.
        table: String,
        /// "table" or "column".
        what: &'static str,
        /// The name.
        name: String,
    },
}

#[derive(Deserialize)]
struct RawSchema {
    name: String,
    #[serde(default)]
    version: String,
    tables: BTreeMap<String, RawTable>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawTable {
    columns: BTreeMap<String, Json>,
    max_rows: Option<u64>,
    #[serde(default)]
    is_root: bool,
    #[serde(default)]
    indexes: Vec<Vec<String>>,
}

#[derive(Deserialize)]
struct RawColumn {
    r#type: RawType,
    #[serde(default)]
    ephemeral: bool,
    mutable: Option<bool>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RawType {
    Atomic(AtomicType),
    Composite { key: RawBase, value: Option<RawBase>, min: Option<u32>, max: Option<RawMax> },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RawMax {
    Number(u32),
    Word(Unlimited),
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Unlimited {
    Unlimited,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RawBase {
    Atomic(AtomicType),
    Constrained(Box<RawConstrained>),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawConstrained {
    r#type: AtomicType,
    r#enum: Option<Value>,
    min_integer: Option<i64>,
    max_integer: Option<i64>,
    min_real: Option<f64>,
    max_real: Option<f64>,
    min_length: Option<u32>,
    max_length: Option<u32>,
    ref_table: Option<String>,
    ref_type: Option<String>,
}

impl<'de> Deserialize<'de> for AtomicType {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Ok(match &*name {
            "integer" => Self::Integer,
            "real" => Self::Real,
            "boolean" => Self::Boolean,
            "string" => Self::String,
            "uuid" => Self::Uuid,
            _ => return Err(serde::de::Error::custom(format!("unknown atomic type {name:?}"))),
        })
    }
}

impl FromStr for Schema {
    type Err = SchemaError;

    fn from_str(json: &str) -> Result<Self, SchemaError> {
        let raw: RawSchema = serde_json::from_str(json).map_err(SchemaError::Json)?;
        // RFC 7047 section 3.2: a schema from before `isRoot` existed has only roots.
        let all_roots = raw.tables.values().all(|table| !table.is_root);
        let mut tables = BTreeMap::new();
        for (name, table) in raw.tables {
            let mut table = read_table(&name, table)?;
            table.is_root |= all_roots;
            tables.insert(Arc::clone(&table.name), Arc::new(table));
        }
        let schema = Self { name: raw.name, version: raw.version, tables };
        schema.check_references()?;
        Ok(schema)
    }
}

impl Schema {
    fn check_references(&self) -> Result<(), SchemaError> {
        for table in self.tables.values() {
            let unknown = |what, name: &str| SchemaError::Unknown {
                table: table.name.to_string(),
                what,
                name: name.to_owned(),
            };
            let types = table.columns.values().flat_map(|column| column.ty.base_types());
            for reference in types.filter_map(BaseType::reference) {
                if !self.tables.contains_key(&reference.table) {
                    return Err(unknown("table", &reference.table));
                }
            }
            for column in table.indexes.iter().flatten() {
                if table.column(column).is_none() {
                    return Err(unknown("column", column));
                }
            }
        }
        Ok(())
    }
}

fn read_table(name: &str, raw: RawTable) -> Result<TableSchema, SchemaError> {
    let mut columns = BTreeMap::new();
    for (column, json) in raw.columns {
        let raw: RawColumn = serde_json::from_value(json).map_err(|source| {
            SchemaError::Column { table: name.to_owned(), column: column.clone(), source }
        })?;
        columns.insert(Arc::from(column), Arc::new(raw.into()));
    }
    let name_column = |name: String| Arc::from(name);
    Ok(TableSchema {
        name: name.into(),
        columns,
        max_rows: raw.max_rows,
        is_root: raw.is_root,
        indexes: raw
            .indexes
            .into_iter()
            .map(|columns| columns.into_iter().map(name_column).collect())
            .collect(),
    })
}

impl From<RawColumn> for ColumnSchema {
    fn from(raw: RawColumn) -> Self {
        let ty = match raw.r#type {
            RawType::Atomic(atomic) => ColumnType {
                key: BaseType { atomic, constraint: Constraint::Any },
                value: None,
                min: 1,
                max: 1,
            },
            RawType::Composite { key, value, min, max } => ColumnType {
                key: key.into(),
                value: value.map(Into::into),
                min: min.unwrap_or(1),
                max: match max {
                    None => 1,
                    Some(RawMax::Number(max)) => max,
                    Some(RawMax::Word(Unlimited::Unlimited)) => u32::MAX,
                },
            },
        };
        Self { ty, ephemeral: raw.ephemeral, mutable: raw.mutable.unwrap_or(true) }
    }
}

impl From<RawBase> for BaseType {
    fn from(raw: RawBase) -> Self {
        match raw {
            RawBase::Atomic(atomic) => Self { atomic, constraint: Constraint::Any },
            RawBase::Constrained(raw) => {
                Self { atomic: raw.r#type, constraint: raw.into_constraint() }
            }
        }
    }
}

impl RawConstrained {
    fn into_constraint(self) -> Constraint {
        if let Some(values) = self.r#enum {
            return Constraint::Enum(
                values.atoms().iter().map(|atom| as_real(self.r#type, atom)).collect(),
            );
        }
        match self.r#type {
            AtomicType::Integer if self.min_integer.or(self.max_integer).is_some() => {
                Constraint::Integers(
                    self.min_integer.unwrap_or(i64::MIN),
                    self.max_integer.unwrap_or(i64::MAX),
                )
            }
            AtomicType::Real if self.min_real.or(self.max_real).is_some() => {
                let bound = |limit: Option<f64>, or| limit.and_then(Real::new).or(Real::new(or));
                Constraint::Reals(
                    bound(self.min_real, f64::MIN).unwrap_or_default(),
                    bound(self.max_real, f64::MAX).unwrap_or_default(),
                )
            }
            AtomicType::String if self.min_length.or(self.max_length).is_some() => {
                Constraint::Length(
                    self.min_length.unwrap_or(0),
                    self.max_length.unwrap_or(u32::MAX),
                )
            }
            AtomicType::Uuid => match self.ref_table {
                Some(table) => Constraint::Row(Reference {
                    table: table.into(),
                    strong: self.ref_type.as_deref() != Some("weak"),
                }),
                None => Constraint::Any,
            },
            _ => Constraint::Any,
        }
    }
}

fn as_real(atomic: AtomicType, atom: &Atom) -> Atom {
    match (atomic, atom) {
        #[expect(clippy::cast_precision_loss, reason = "the notation writes 1.0 as 1")]
        (AtomicType::Real, Atom::Integer(number)) => {
            Atom::Real(Real::new(*number as f64).unwrap_or_default())
        }
        _ => atom.clone(),
    }
}
