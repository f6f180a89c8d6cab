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

/// Bytes of values after which a page ends, however many it may have.
const PAGE_BYTES: usize = 16 << 20;

/// A page that is being filled.
struct Filling {
    limit: usize,
    bytes: usize,
    page: Page,
}

/// A page of what is there now, less what changed since. `current` begins where the query does, in
/// order of keys, and ends with the prefix.
pub(crate) fn page<E>(
    query: &Query,
    position: Position,
    current: impl Iterator<Item = Result<(Key, Entry), E>>,
    before: Before,
) -> Result<Page, E> {
    let page = Page { position, entries: Vec::new(), more: false };
    let mut filling = Filling { limit: query.limit.max(1), bytes: 0, page };
    let mut before = before.into_iter().peekable();
    for document in current {
        let (key, entry) = document?;
        while let Some((gone, was)) = before.next_if(|(k, _)| *k < key) {
            filling.add(gone, was);
        }
        match before.next_if(|(k, _)| *k == key) {
            Some((key, was)) => filling.add(key, was),
            None => filling.add(key, Some(entry)),
        }
        if filling.page.more {
            return Ok(filling.page);
        }
    }
    for (key, was) in before {
        filling.add(key, was);
    }
    Ok(filling.page)
}

// === impl Filling ===

impl Filling {
    /// Adds a document if there was one; one that does not fit is for the next page.
    fn add(&mut self, key: Key, entry: Option<Entry>) {
        let Some(entry) = entry else { return };
        let is_full = self.page.entries.len() >= self.limit || self.bytes >= PAGE_BYTES;
        self.page.more |= is_full;
        if !self.page.more {
            self.bytes += entry.value.len();
            self.page.entries.push((key, entry));
        }
    }
}
