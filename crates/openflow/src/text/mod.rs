//! Text: flows and groups as `ovs-ofctl` prints and reads them, with optional table names.
//!
//! Printing is exact: for the same value the same characters as `ovs-ofctl` 3.1. Reading accepts
//! what `ovs-ofctl add-flow` does, and yields the canonical values of this crate, so older
//! spellings (`load`, `mod_dl_src`, `set_tunnel`) come back as `set_field`.
//!
//! One difference is on purpose: `ovs-ofctl` leaves a few fields out of the matches that it
//! prints (NSH, ERSPAN fields of another version, `gtpu_flags` of zero, `ct_tp_src` without
//! `ct_nw_proto`). We show all that a flow matches.

mod action_parse;
mod action_print;
mod ct;
mod flow;
mod group;
mod learn;
mod matching;
mod meter;
mod token;
mod value;

pub use token::ParseError;

use std::collections::BTreeMap;
use std::fmt;

/// Names of tables, for text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableNames {
    by_number: BTreeMap<u8, String>,
}

/// Writes a value as `ovs-ofctl` does.
pub trait WriteText {
    /// Writes it, with tables by name where they have one.
    fn write_text(&self, out: &mut dyn fmt::Write, names: &TableNames) -> fmt::Result;
}

/// A value with the names that its text uses.
#[derive(Debug, Clone, Copy)]
pub struct Named<'a, T: ?Sized> {
    value: &'a T,
    names: &'a TableNames,
}

// === impl TableNames ===

impl TableNames {
    /// No table has a name.
    pub const NONE: &'static Self = &Self { by_number: BTreeMap::new() };

    /// The value as text with these names.
    pub fn show<'a, T: WriteText + ?Sized>(&'a self, value: &'a T) -> Named<'a, T> {
        Named { value, names: self }
    }

    /// A table's name.
    pub fn name(&self, table: u8) -> Option<&str> {
        self.by_number.get(&table).map(String::as_str)
    }

    /// The table of this name, or number.
    pub fn table(&self, text: &str) -> Option<u8> {
        let named = || self.by_number.iter().find(|(_, n)| *n == text).map(|(t, _)| *t);
        text.parse().ok().or_else(named)
    }

    fn write(&self, out: &mut dyn fmt::Write, table: u8) -> fmt::Result {
        match self.name(table) {
            Some(name) => out.write_str(name),
            None => write!(out, "{table}"),
        }
    }
}

impl<S: Into<String>> FromIterator<(u8, S)> for TableNames {
    fn from_iter<I: IntoIterator<Item = (u8, S)>>(names: I) -> Self {
        Self { by_number: names.into_iter().map(|(table, name)| (table, name.into())).collect() }
    }
}

impl<T: WriteText + ?Sized> fmt::Display for Named<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.write_text(f, self.names)
    }
}

/// `Display` is text without table names.
macro_rules! display_as_text {
    ($($t:ty),* $(,)?) => {
        $(impl std::fmt::Display for $t {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                $crate::text::WriteText::write_text(self, f, $crate::text::TableNames::NONE)
            }
        })*
    };
}
pub(crate) use display_as_text;

/// Writes what is between items: nothing before the first, then a comma.
struct Commas(bool);

impl Commas {
    fn new() -> Self {
        Self(false)
    }

    fn next(&mut self, out: &mut dyn fmt::Write) -> fmt::Result {
        if std::mem::replace(&mut self.0, true) { out.write_char(',') } else { Ok(()) }
    }
}
