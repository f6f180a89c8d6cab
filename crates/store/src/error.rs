//! How operations of a store fail, each in its own way.

use crate::change::Entry;
use crate::position::{Epoch, Position, Revision};
use crate::transaction::{Condition, TransactionError};
use std::error::Error as StdError;
use std::sync::Arc;
use thiserror::Error;

/// The store itself cannot answer. What was acknowledged is safe; it answers again when the cause
/// is gone.
#[derive(Debug, Clone, Error)]
pub enum Unavailable {
    /// There is no space left where the store is.
    #[error("no space is left for {place}; nothing was changed")]
    Full {
        /// The file.
        place: String,
    },
    /// Something else about the place. A transaction that fails so may have been made: read before
    /// it is tried again.
    #[error("{place} cannot be used")]
    Failed {
        /// The file, or the address.
        place: String,
        /// Why.
        #[source]
        source: Arc<dyn StdError + Send + Sync>,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

/// A condition that did not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// Which one, counted from 0.
    pub index: usize,
    /// The condition.
    pub condition: Condition,
    /// What is there instead.
    pub current: Option<Entry>,
}

/// Why a transaction was not made.
#[derive(Debug, Clone, Error)]
pub enum CommitError {
    /// A condition did not hold.
    #[error("{0}")]
    Conflict(Box<Conflict>),
    /// It can never be made.
    #[error("the transaction is not valid")]
    Invalid(#[from] TransactionError),
    /// The store cannot answer.
    #[error("the transaction was not acknowledged")]
    Unavailable(#[from] Unavailable),
}

/// Why there is no list.
#[derive(Debug, Clone, Error)]
pub enum ListError {
    /// The revision asked for is no longer kept: list anew, without it.
    #[error("revision {asked} is no longer kept: the oldest is {oldest}")]
    Compacted {
        /// The revision.
        asked: Revision,
        /// The oldest that can be listed.
        oldest: Revision,
    },
    /// The revision asked for is of another epoch, or never was: list anew, without it.
    #[error("{asked} is not known here: the store was restored, and is at {now}")]
    Unknown {
        /// The position.
        asked: Position,
        /// Where the store is.
        now: Position,
    },
    /// The store cannot answer.
    #[error("the list could not be read")]
    Unavailable(#[from] Unavailable),
}

/// Why a watch cannot begin, or ends. After all but the last, list anew and watch from there.
#[derive(Debug, Clone, Error)]
pub enum WatchError {
    /// It should begin where the past is no longer kept.
    #[error("what came after revision {asked} is no longer kept: only after {oldest}")]
    Compacted {
        /// Where it should begin.
        asked: Revision,
        /// The oldest revision that a watch can begin at.
        oldest: Revision,
    },
    /// It was read too slowly.
    #[error(
        "{watcher} fell behind: it is at revision {at}, and only what came after {oldest} is kept"
    )]
    Lagged {
        /// The name that the watch was begun with.
        watcher: String,
        /// How far it had read.
        at: Revision,
        /// The oldest revision that a watch can begin at.
        oldest: Revision,
    },
    /// The store was restored: what was read of it may no longer be so.
    #[error("the store was restored: {was} ended, it is now {now}")]
    Restored {
        /// The epoch that the watch was of.
        was: Epoch,
        /// Where the store is.
        now: Position,
    },
    /// It should begin in the future: the store lost what someone had seen.
    #[error("revision {asked} is ahead of the store, which is at {now}")]
    Ahead {
        /// Where it should begin.
        asked: Revision,
        /// Where the store is.
        now: Position,
    },
    /// The store cannot answer.
    #[error("the watch could not be read")]
    Unavailable(#[from] Unavailable),
}

/// Why the documents were not replaced.
#[derive(Debug, Clone, Error)]
pub enum ReplaceError {
    /// There are documents, and they were not to be replaced.
    #[error("the store is not empty: it has {key} and perhaps more")]
    NotEmpty {
        /// The first of them.
        key: String,
    },
    /// One of them cannot be stored, or stands twice.
    #[error("the documents are not valid")]
    Invalid(#[from] TransactionError),
    /// The store cannot answer.
    #[error("the documents were not replaced")]
    Unavailable(#[from] Unavailable),
}

// === impl Conflict ===

impl std::fmt::Display for Conflict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let key = self.condition.key();
        match (&self.condition, &self.current) {
            (Condition::Absent(_), _) => write!(f, "{key} exists already"),
            (Condition::Unchanged(_, expected), Some(entry)) => {
                write!(f, "{key} was changed: it is at revision {}, not {expected}", entry.modified)
            }
            (_, _) => write!(f, "{key} does not exist"),
        }
    }
}
