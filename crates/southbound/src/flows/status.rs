//! How a reconciler is, and what it did.

use super::apply::SyncError;
use std::sync::Arc;

/// How a reconciler is.
#[derive(Debug, Clone, Default)]
pub struct Status {
    /// Counts the connections; 0 before the first.
    pub connection: u64,
    /// Whether there is one now.
    pub connected: bool,
    /// Whether an operator paused it.
    pub paused: bool,
    /// Whether the switch was read and is as wanted, but for troubles.
    pub in_sync: bool,
    /// How many flows are in conflict and how many owners were refused something.
    pub troubles: usize,
    /// What ended the last connection.
    pub last_error: Option<Arc<SyncError>>,
}

/// What a reconciler did since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Times that all of the switch was read.
    pub resyncs: u64,
    /// Bundles that were committed.
    pub bundles: u64,
    /// Flows that were not there.
    pub flows_added: u64,
    /// Flows that were there and different.
    pub flows_changed: u64,
    /// Flows of ours that nobody wants.
    pub flows_deleted: u64,
    /// Groups, meters and TLV maps that were added or changed.
    pub others_set: u64,
    /// Groups, meters and TLV maps that were deleted.
    pub others_deleted: u64,
    /// Items that somebody else changed or deleted, and that were put right.
    pub drift_repaired: u64,
    /// Wanted flows in whose place somebody else's was found.
    pub conflicts: u64,
    /// Items that the switch refused.
    pub refused: u64,
    /// Times that the switch could not tell of changes as fast as they came.
    pub monitor_pauses: u64,
}
