//! The store: documents under keys, with revisions.
//!
//! One number, the revision, counts what was committed; every key knows the revision that made it
//! and the one that changed it last. A [`Transaction`] is made whole or not at all, and only while
//! its conditions hold; a [`Watch`] tells what was committed after a [`Position`], in order and
//! without gaps, or says that it cannot, and then its reader lists anew.
//!
//! A [`Position`] is a revision of an [`Epoch`]. A store that was restored, from a backup or from
//! an export, begins a new epoch and leaps ahead in revisions: whoever knew it before notices.
//!
//! The store knows bytes, never what they mean. [`Embedded`] keeps them in one file, [`Memory`]
//! in memory, for tests and simulations; both pass the same tests, and a clustered one has to fill
//! no more than [`Store`].

mod change;
mod embedded;
mod error;
mod export;
mod key;
mod listing;
mod log;
mod memory;
mod position;
mod store;
mod transaction;

pub use change::{Changes, Entry, Event};
pub use embedded::{BackupError, Embedded, OpenError, Options};
pub use error::{CommitError, Conflict, ListError, ReplaceError, Unavailable, WatchError};
pub use export::{ExportError, ImportError, Imported, export, import};
pub use key::{Key, KeyError};
pub use memory::Memory;
pub use position::{Epoch, ParsePositionError, Position, Revision};
pub use store::{Page, Query, Reply, Store, Watch, list_all};
pub use transaction::{Condition, Operation, Transaction, TransactionError};

/// How much of the past is kept, for watches to go on from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct History {
    /// Revisions.
    pub revisions: u64,
    /// Bytes of keys and values.
    pub bytes: u64,
}

impl Default for History {
    fn default() -> Self {
        Self { revisions: 100_000, bytes: 64 << 20 }
    }
}
