//! Reads `<table-updates>` and `<table-updates2>` straight from the message's bytes, guided by the
//! view: no tree, one pass. When something does not fit, the error says in which table, row and
//! column.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, Visitor};

use super::{RowUpdate, Updates};
use crate::Uuid;
use crate::monitor::View;
use crate::row::Layout;
use crate::value::Value;

/// An update that cannot be understood.
#[derive(Debug, thiserror::Error)]
#[error("update of {at}")]
pub struct DeltaError {
    /// Where.
    pub at: Location,
    /// Why.
    #[source]
    pub source: serde_json::Error,
}

/// A place in a database, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// The table.
    pub table: Option<Arc<str>>,
    /// The row.
    pub row: Option<Uuid>,
    /// The column.
    pub column: Option<Arc<str>>,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.table {
            Some(table) => write!(f, "table {table}")?,
            None => return f.write_str("an unknown table"),
        }
        if let Some(column) = &self.column {
            write!(f, " column {column}")?;
        }
        self.row.map_or(Ok(()), |row| write!(f, " row {row}"))
    }
}

impl View {
    /// Reads updates; tables and columns that are not in the view are skipped.
    pub fn decode_updates(&self, json: &[u8]) -> Result<Updates, DeltaError> {
        let at = RefCell::default();
        let mut deserializer = serde_json::Deserializer::from_slice(json);
        let updates = Tables { view: self, at: &at }
            .deserialize(&mut deserializer)
            .and_then(|updates| deserializer.end().map(|()| updates));
        updates.map_err(|source| DeltaError { at: at.into_inner(), source })
    }
}

struct Tables<'a> {
    view: &'a View,
    at: &'a RefCell<Location>,
}

impl<'de> DeserializeSeed<'de> for Tables<'_> {
    type Value = Updates;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Updates, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Tables<'_> {
    type Value = Updates;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tables")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Updates, A::Error> {
        let mut updates = Updates::default();
        while let Some(name) = map.next_key::<String>()? {
            let Some(position) = self.view.position(&name) else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let layout = &self.view.tables[position].layout;
            *self.at.borrow_mut() =
                Location { table: Some(Arc::clone(layout.table())), row: None, column: None };
            let rows = map.next_value_seed(Rows { layout, at: self.at })?;
            updates.tables.push((position, rows));
            *self.at.borrow_mut() = Location::default();
        }
        Ok(updates)
    }
}

struct Rows<'a> {
    layout: &'a Layout,
    at: &'a RefCell<Location>,
}

impl<'de> DeserializeSeed<'de> for Rows<'_> {
    type Value = Vec<(Uuid, RowUpdate)>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Rows<'_> {
    type Value = Vec<(Uuid, RowUpdate)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of rows")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut rows = Vec::new();
        while let Some(uuid) = map.next_key::<Uuid>()? {
            self.at.borrow_mut().row = Some(uuid);
            let update = map.next_value_seed(OneRow { layout: self.layout, at: self.at })?;
            rows.push((uuid, update));
            self.at.borrow_mut().row = None;
        }
        Ok(rows)
    }
}

struct OneRow<'a> {
    layout: &'a Layout,
    at: &'a RefCell<Location>,
}

impl<'de> DeserializeSeed<'de> for OneRow<'_> {
    type Value = RowUpdate;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<RowUpdate, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for OneRow<'_> {
    type Value = RowUpdate;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with initial, insert, modify, delete, or old and new")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RowUpdate, A::Error> {
        let mut update = None;
        let mut had_old = false;
        while let Some(kind) = map.next_key::<String>()? {
            let columns = || Columns { layout: self.layout, at: self.at };
            match &*kind {
                "initial" | "insert" | "new" => {
                    update = Some(RowUpdate::Put(map.next_value_seed(columns())?));
                }
                "modify" => update = Some(RowUpdate::Modify(map.next_value_seed(columns())?)),
                "delete" => {
                    map.next_value::<IgnoredAny>()?;
                    update = Some(RowUpdate::Delete);
                }
                "old" => {
                    map.next_value::<IgnoredAny>()?;
                    had_old = true;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        // RFC 7047 section 4.1.6: only "old" means that the row is deleted.
        update
            .or(had_old.then_some(RowUpdate::Delete))
            .ok_or_else(|| A::Error::custom("neither inserted, modified nor deleted"))
    }
}

struct Columns<'a> {
    layout: &'a Layout,
    at: &'a RefCell<Location>,
}

impl<'de> DeserializeSeed<'de> for Columns<'_> {
    type Value = Vec<(usize, Value)>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Columns<'_> {
    type Value = Vec<(usize, Value)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of columns")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut columns = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            let Some(index) = self.layout.index(&name) else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let (name, column) = &self.layout.columns()[index];
            self.at.borrow_mut().column = Some(Arc::clone(name));
            let value = map.next_value::<Value>()?;
            columns.push((index, column.ty.conform(value).map_err(A::Error::custom)?));
            self.at.borrow_mut().column = None;
        }
        Ok(columns)
    }
}
