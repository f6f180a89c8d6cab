//! How a reconciler is, and what it did.

use osier_ovsdb::session::TransactError;
use std::sync::Arc;

/// How a reconciler is.
#[derive(Debug, Clone, Default)]
pub struct Status {
    /// Whether the database is followed now.
    pub connected: bool,
    /// Whether an operator paused it.
    pub paused: bool,
    /// Whether the database was compared and is as wanted, but for troubles.
    pub in_sync: bool,
    /// How many places are not as wanted.
    pub troubles: usize,
    /// Why the last transaction failed.
    pub last_error: Option<Arc<TransactError>>,
}

/// What a reconciler did since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Times that the whole database was compared.
    pub resyncs: u64,
    /// Transactions that the database took.
    pub transactions: u64,
    /// Transactions that failed.
    pub failures: u64,
    /// Rows inserted.
    pub inserted: u64,
    /// Rows updated.
    pub updated: u64,
    /// Rows deleted; those that go by themselves, because nothing refers to them, are not counted.
    pub deleted: u64,
    /// Places that somebody else changed, and that were put right.
    pub drift_repaired: u64,
    /// Repairs that were put off because somebody keeps changing the same place.
    pub fights: u64,
    /// Places that the database refused.
    pub refused: u64,
}

/// The switch's own row, as far as restoring flows is about it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Root {
    /// Whether it is there, and followed.
    pub(super) known: bool,
    /// `other_config:flow-restore-wait`.
    pub(super) flow_restore_wait: Option<String>,
    /// Whether our mark beside it is there.
    pub(super) restore_mark: bool,
    pub(super) next_cfg: i64,
    pub(super) cur_cfg: i64,
}
