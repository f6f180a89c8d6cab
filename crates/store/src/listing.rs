//! Pages of documents, as they are or as they were.

use crate::change::{Changes, Entry};
use crate::key::Key;
use crate::position::Position;
use crate::store::{Page, Query};
use std::collections::BTreeMap;

/// What changed since, as it was before: nothing where there was no document.
pub(crate) type Before = BTreeMap<Key, Option<Entry>>;

/// How things were before changes, which come in order.
pub(crate) fn before<'a>(query: &Query, changes: impl Iterator<Item = &'a Changes>) -> Before {
    let mut before = Before::new();
    for event in changes.flat_map(|c| c.events.iter()) {
        if query.takes(event.key.as_str()) && !before.contains_key(&event.key) {
            before.insert(event.key.clone(), event.before.clone());
        }
    }
    before
}

/// A page of what is there now, less what changed since. `current` begins where the query does, in
/// order of keys, and ends with the prefix.
pub(crate) fn page<E>(
    query: &Query,
    position: Position,
    current: impl Iterator<Item = Result<(Key, Entry), E>>,
    before: Before,
) -> Result<Page, E> {
    let mut entries = Vec::new();
    let mut before = before.into_iter().peekable();
    let is_full = |entries: &Vec<_>| entries.len() > query.limit;
    for document in current {
        if is_full(&entries) {
            break;
        }
        let (key, entry) = document?;
        while let Some((gone, was)) = before.next_if(|(k, _)| *k < key) {
            entries.extend(was.map(|was| (gone, was)));
        }
        match before.next_if(|(k, _)| *k == key) {
            Some((key, was)) => entries.extend(was.map(|was| (key, was))),
            None => entries.push((key, entry)),
        }
    }
    if !is_full(&entries) {
        entries.extend(before.filter_map(|(key, was)| Some((key, was?))));
    }
    let more = is_full(&entries);
    entries.truncate(query.limit);
    Ok(Page { position, entries, more })
}
