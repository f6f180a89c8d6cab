//! What in the database is ours. All of it is parameters: this crate has no opinion.
//!
//! A row is ours if its `external_ids` say so. In a row of ours, and in the one row of
//! `Open_vSwitch`, only the columns and keys that we once wrote are ours: their names are kept in
//! the row itself, so that a later process knows what to take back.

use osier_ovsdb::{Atom, Row, Value};

/// Whose rows are ours. Two reconcilers of one database must differ in one of the two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ownership {
    prefix: String,
    id: String,
    pub(super) names: Names,
}

/// The keys of `external_ids` that this crate itself uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Names {
    /// Marks a row as ours.
    pub(super) owner: Atom,
    /// What marks it.
    pub(super) id: Atom,
    /// Lists the columns and keys of the row that are ours.
    pub(super) record: Atom,
    /// The port for which a QoS or queue is.
    pub(super) port: Atom,
}

impl Ownership {
    /// Rows with `<prefix>owner=<id>` in their `external_ids` are ours, and so are all keys with
    /// the prefix in rows of ours.
    pub fn new(prefix: impl Into<String>, id: impl Into<String>) -> Self {
        let (prefix, id) = (prefix.into(), id.into());
        let names = Names {
            owner: format!("{prefix}owner").into(),
            id: id.as_str().into(),
            record: format!("{prefix}keys").into(),
            port: format!("{prefix}port").into(),
        };
        Self { prefix, id, names }
    }

    /// The prefix of our own keys.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// What tells our rows from those of others with the same prefix.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Whether the row has our mark.
    pub fn marks(&self, row: &Row) -> bool {
        let ids = row.get("external_ids");
        ids.and_then(|ids| ids.get(&self.names.owner)) == Some(&self.names.id)
    }

    /// Whether a key is one of our own.
    pub(super) fn is_prefixed(&self, key: &Atom) -> bool {
        text(key).is_some_and(|key| key.starts_with(&self.prefix))
    }

    /// Whether this crate itself needs the key.
    pub(super) fn is_reserved(&self, key: &str) -> bool {
        let key = Atom::from(key);
        key == self.names.owner || key == self.names.record || key == self.names.port
    }

    /// The columns and keys that the row says are ours: `column`, or `column:key`.
    pub(super) fn recorded<'a>(&self, row: &'a Row) -> &'a str {
        external_id(row, &self.names.record).unwrap_or_default()
    }
}

/// The value of a key in `external_ids`.
pub(super) fn external_id<'a>(row: &'a Row, key: &Atom) -> Option<&'a str> {
    text(row.get("external_ids")?.get(key)?)
}

/// A string.
pub(super) fn text(atom: &Atom) -> Option<&str> {
    if let Atom::String(text) = atom { Some(text) } else { None }
}

/// The string that a column holds.
pub(super) fn string<'a>(row: &'a Row, column: &str) -> Option<&'a str> {
    if let Value::Atom(atom) = row.get(column)? { text(atom) } else { None }
}
