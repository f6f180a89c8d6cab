//! Flows that are gone.

use crate::flow::FlowStats;
use crate::matching::Match;
use crate::wire::{DecodeError, EncodeError, Problem, Reader, Writer};

/// Why a flow is gone (7.4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FlowRemovedReason {
    /// No packet for its idle timeout.
    IdleTimeout,
    /// Its hard timeout passed.
    HardTimeout,
    /// A flow-mod deleted it.
    Delete,
    /// A group that it uses was deleted.
    GroupDelete,
    /// A meter that it uses was deleted.
    MeterDelete,
    /// It made room for another.
    Eviction,
}

/// A flow is gone.
///
/// ```text
///  8       9        10         12     14     16       24
/// +-------+--------+----------+------+------+--------+---------------+-------+
/// | table | reason | priority | idle | hard | cookie | match, padded | stats |
/// +-------+--------+----------+------+------+--------+---------------+-------+
///                                                     struct ofp_flow_removed, 7.4.2
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowRemoved {
    /// Its table.
    pub table: u8,
    /// Why it went.
    pub reason: FlowRemovedReason,
    /// Its priority.
    pub priority: u16,
    /// Its idle timeout in seconds.
    pub idle_timeout: u16,
    /// Its hard timeout in seconds.
    pub hard_timeout: u16,
    /// Its cookie.
    pub cookie: u64,
    /// What it matched.
    pub matching: Match,
    /// Its last counters.
    pub stats: FlowStats,
}

// === impl FlowRemovedReason ===

impl FlowRemovedReason {
    /// The reason of this number.
    pub fn from_u8(code: u8) -> Option<Self> {
        Some(match code {
            0 => Self::IdleTimeout,
            1 => Self::HardTimeout,
            2 => Self::Delete,
            3 => Self::GroupDelete,
            4 => Self::MeterDelete,
            5 => Self::Eviction,
            _ => return None,
        })
    }

    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        const WHAT: &str = "flow-removed reason";
        let start = r.clone();
        let code = r.u8(WHAT)?;
        Self::from_u8(code).ok_or_else(|| start.error(WHAT, Problem::Unknown(code.into())))
    }
}

// === impl FlowRemoved ===

impl FlowRemoved {
    pub(super) fn encode(&self, w: &mut Writer) -> Result<(), EncodeError> {
        w.u8(self.table);
        w.u8(self.reason as u8);
        w.u16(self.priority);
        w.u16(self.idle_timeout);
        w.u16(self.hard_timeout);
        w.u64(self.cookie);
        self.matching.encode(w)?;
        self.stats.encode(w)
    }

    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        const WHAT: &str = "flow-removed";
        let table = r.u8(WHAT)?;
        let reason = FlowRemovedReason::read(r)?;
        let priority = r.u16(WHAT)?;
        let idle_timeout = r.u16(WHAT)?;
        let hard_timeout = r.u16(WHAT)?;
        let cookie = r.u64(WHAT)?;
        let matching = Match::decode(r)?;
        let stats = FlowStats::decode(r)?;
        Ok(Self { table, reason, priority, idle_timeout, hard_timeout, cookie, matching, stats })
    }
}
