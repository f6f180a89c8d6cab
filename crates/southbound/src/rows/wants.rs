//! The columns and keys of one row that are ours, as values, and how a row differs from them.
//! Knows no table: [`item`](super::item) says which columns there are.

use super::ownership::{Ownership, text};
use super::plan::Strings;
use osier_ovsdb::rows::Datum;
use osier_ovsdb::{Atom, Fields, Mutation, Row, Value};
use std::collections::BTreeSet;

/// What a row of ours must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Wants {
    columns: Vec<(&'static str, Value)>,
    /// Sorted by key.
    maps: Vec<(&'static str, Vec<(Atom, Atom)>)>,
}

/// What is to be done to a row.
#[derive(Debug, Default, PartialEq)]
pub(super) struct RowDiff {
    pub(super) update: Fields,
    pub(super) mutations: Vec<Mutation>,
}

/// A key that we could not find again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BadKey {
    pub(super) column: &'static str,
    pub(super) key: String,
    pub(super) why: &'static str,
}

/// Collects what a row must hold.
#[derive(Debug)]
pub(super) struct Builder<'a> {
    ownership: &'a Ownership,
    wants: Wants,
    record: BTreeSet<String>,
    external_ids: Vec<(Atom, Atom)>,
}

// === impl Builder ===

impl<'a> Builder<'a> {
    pub(super) fn new(ownership: &'a Ownership) -> Self {
        let names = &ownership.names;
        let external_ids = vec![(names.owner.clone(), names.id.clone())];
        Self { ownership, wants: Wants::default(), record: BTreeSet::new(), external_ids }
    }

    /// A column, unless it is empty: then it is not ours.
    pub(super) fn column<T: Datum>(mut self, column: &'static str, value: &T) -> Self {
        if *value != T::default() {
            self.record.insert(column.to_owned());
            self.wants.columns.push((column, value.to_value()));
        }
        self
    }

    pub(super) fn map(mut self, column: &'static str, map: &Strings) -> Result<Self, BadKey> {
        let mut pairs = Vec::with_capacity(map.len());
        for (key, value) in map {
            check_key(column, key)?;
            self.record.insert(format!("{column}:{key}"));
            pairs.push((key.as_str().into(), value.as_str().into()));
        }
        self.wants.maps.push((column, pairs));
        Ok(self)
    }

    pub(super) fn external_ids(mut self, map: &Strings) -> Result<Self, BadKey> {
        const COLUMN: &str = "external_ids";
        for (key, value) in map {
            check_key(COLUMN, key)?;
            if self.ownership.is_reserved(key) {
                let why = "the reconciler itself uses it";
                return Err(BadKey { column: COLUMN, key: key.clone(), why });
            }
            // Keys with our prefix are known without being listed.
            if !key.starts_with(self.ownership.prefix()) {
                self.record.insert(format!("{COLUMN}:{key}"));
            }
            self.external_ids.push((key.as_str().into(), value.as_str().into()));
        }
        Ok(self)
    }

    /// Says for which port the row is.
    pub(super) fn tag(mut self, port: &str) -> Self {
        self.external_ids.push((self.ownership.names.port.clone(), port.into()));
        self
    }

    pub(super) fn finish(mut self) -> Wants {
        if !self.record.is_empty() {
            let record: Vec<_> = self.record.into_iter().collect();
            let names = &self.ownership.names;
            self.external_ids.push((names.record.clone(), record.join(" ").into()));
        }
        self.external_ids.sort_unstable();
        self.wants.maps.push(("external_ids", self.external_ids));
        self.wants
    }
}

/// Keys are listed with spaces in between.
pub(super) fn check_key(column: &'static str, key: &str) -> Result<(), BadKey> {
    let why = match key {
        "" => "it is empty",
        key if key.contains(|c: char| c.is_whitespace() || c.is_control()) => "it has a space",
        _ => return Ok(()),
    };
    Err(BadKey { column, key: key.to_owned(), why })
}

// === impl Wants ===

impl Wants {
    /// What to insert a row with.
    pub(super) fn fields(&self) -> Fields {
        let columns = self.columns.iter().map(|(column, value)| ((*column).into(), value.clone()));
        let maps = self.maps.iter().filter(|(_, pairs)| !pairs.is_empty());
        let maps = maps.map(|(column, pairs)| ((*column).into(), Value::map(pairs.clone())));
        columns.chain(maps).collect()
    }

    /// What makes the row hold it, and takes back what of ours it holds beyond.
    pub(super) fn diff(&self, row: &Row, ownership: &Ownership) -> RowDiff {
        let mut diff = RowDiff::default();
        for (column, value) in &self.columns {
            if row.get(column) != Some(value) {
                diff.update.push(((*column).into(), value.clone()));
            }
        }
        let stale = self.stale(row, ownership);
        for column in stale.iter().filter(|name| !name.contains(':')) {
            diff.reset(row, column);
        }
        for (column, pairs) in &self.maps {
            let held = row.get(column);
            let mut gone: Vec<Atom> = stale_keys(&stale, column).map(Atom::from).collect();
            if *column == "external_ids" {
                let keys = held.into_iter().flat_map(Value::pairs).map(|(key, _)| key);
                let ours = keys.filter(|key| ownership.is_prefixed(key));
                gone.extend(ours.filter(|key| wanted(pairs, key).is_none()).cloned());
            }
            let differs =
                |(key, value): &&(Atom, Atom)| held.and_then(|held| held.get(key)) != Some(value);
            let new: Vec<_> = pairs.iter().filter(differs).cloned().collect();
            gone.extend(new.iter().map(|(key, _)| key.clone()));
            diff.change_map(column, held, gone, new);
        }
        diff
    }

    /// What the row says is ours, and is not wanted any more.
    fn stale<'a>(&self, row: &'a Row, ownership: &Ownership) -> Vec<&'a str> {
        let held = ownership.recorded(row);
        let ids = self.maps.iter().find(|(column, _)| *column == "external_ids");
        let wanted = ids.and_then(|(_, pairs)| wanted(pairs, &ownership.names.record));
        let wanted = wanted.and_then(text).unwrap_or_default();
        if held == wanted {
            return Vec::new();
        }
        let wanted: BTreeSet<_> = wanted.split(' ').collect();
        held.split(' ').filter(|name| !name.is_empty() && !wanted.contains(name)).collect()
    }
}

/// The value of a key in sorted pairs.
fn wanted<'a>(pairs: &'a [(Atom, Atom)], key: &Atom) -> Option<&'a Atom> {
    let at = pairs.binary_search_by(|(held, _)| held.cmp(key)).ok()?;
    Some(&pairs[at].1)
}

/// The keys of a column in a list of names.
fn stale_keys<'a>(names: &'a [&'a str], column: &'a str) -> impl Iterator<Item = &'a str> {
    names.iter().filter_map(move |name| name.strip_prefix(column)?.strip_prefix(':'))
}

// === impl RowDiff ===

impl RowDiff {
    /// Sets a column to its default.
    fn reset(&mut self, row: &Row, column: &str) {
        let Some(index) = row.layout().index(column) else { return };
        let default = row.layout().columns()[index].1.ty.default_value();
        if *row.value(index) != default {
            self.update.push((column.to_owned().into(), default));
        }
    }

    /// Replaces pairs of a map. A key goes before it comes back: an insertion leaves what is there.
    pub(super) fn change_map(
        &mut self,
        column: &'static str,
        held: Option<&Value>,
        mut gone: Vec<Atom>,
        new: Vec<(Atom, Atom)>,
    ) {
        gone.retain(|key| held.is_some_and(|held| held.get(key).is_some()));
        if !gone.is_empty() {
            self.mutations.push(Mutation::delete(column, Value::set(gone)));
        }
        if !new.is_empty() {
            self.mutations.push(Mutation::insert(column, Value::map(new)));
        }
    }
}
