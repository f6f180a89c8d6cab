//! What is stored, and what happened to it.

use crate::key::Key;
use crate::position::{Position, Revision};
use bytes::Bytes;
use std::sync::Arc;

/// A document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its bytes.
    pub value: Bytes,
    /// The revision that made it.
    pub created: Revision,
    /// The revision that changed it last.
    pub modified: Revision,
}

/// What happened to one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Which.
    pub key: Key,
    /// What was there before.
    pub before: Option<Entry>,
    /// What is there now; nothing if it was deleted.
    pub now: Option<Entry>,
}

/// What one transaction did, as far as a watch asked for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changes {
    /// Where the store stands after it: where a later watch goes on from.
    pub position: Position,
    /// In the order of the transaction. None at all: nothing of what is watched changed up to
    /// here, and the position is worth remembering.
    pub events: Arc<[Event]>,
}

// === impl Event ===

impl Event {
    pub(crate) fn size(&self) -> usize {
        let of = |e: &Option<Entry>| e.as_ref().map_or(0, |e| e.value.len() + 16);
        self.key.as_str().len() + of(&self.before) + of(&self.now)
    }
}

// === impl Changes ===

impl Changes {
    pub(crate) fn size(&self) -> usize {
        self.events.iter().map(Event::size).sum()
    }

    /// Less what is under other prefixes.
    pub(crate) fn under(&self, prefix: &str) -> Self {
        let is_under = |event: &&Event| event.key.as_str().starts_with(prefix);
        if self.events.iter().all(|e| is_under(&e)) {
            return self.clone();
        }
        let events = self.events.iter().filter(is_under).cloned().collect();
        Self { position: self.position, events }
    }
}
