//! Flow monitors: a switch that tells of flows as they change.

use crate::flow::{ALL_TABLES, ANY_GROUP};
use crate::instruction::Instructions;
use crate::matching::Match;
use crate::message::FlowRemovedReason;
use crate::port_no::PortNo;
use crate::wire::{DecodeError, EncodeError, Problem, Reader, Writer};
use bitflags::bitflags;

bitflags! {
    /// Of what a monitor tells, and how (7.3.5.17).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct FlowMonitorFlags: u16 {
        /// Flows that are there already.
        const INITIAL = 1;
        /// Flows that come.
        const ADD = 1 << 1;
        /// Flows that go.
        const REMOVED = 1 << 2;
        /// Flows that change.
        const MODIFY = 1 << 3;
        /// With what they do.
        const INSTRUCTIONS = 1 << 4;
        /// Own changes come in full too.
        const NO_ABBREV = 1 << 5;
        /// Only own changes come.
        const ONLY_OWN = 1 << 6;
    }
}

/// What to do with a monitor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FlowMonitorCommand {
    /// Start it.
    Add,
    /// Change it.
    Modify,
    /// End it.
    Delete,
}

/// A monitor of the flows that have all of this.
///
/// ```text
///  0            4          8           12      14      15        16
/// +------------+----------+-----------+-------+-------+---------+---------------+
/// | monitor id | out port | out group | flags | table | command | match, padded |
/// +------------+----------+-----------+-------+-------+---------+---------------+
///                                         struct ofp_flow_monitor_request, 7.3.5.17
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowMonitor {
    /// Its number, by which it is ended.
    pub id: u32,
    /// What to do.
    pub command: FlowMonitorCommand,
    /// Of what it tells, and how.
    pub flags: FlowMonitorFlags,
    /// The table, or [`ALL_TABLES`].
    pub table: u8,
    /// Only flows that output here, unless [`PortNo::ANY`].
    pub out_port: PortNo,
    /// Only flows that use this group, unless [`ANY_GROUP`].
    pub out_group: u32,
    /// Only flows that this match covers.
    pub matching: Match,
}

impl Default for FlowMonitor {
    /// All flows, with what they do, also those that are there already.
    fn default() -> Self {
        let own = FlowMonitorFlags::NO_ABBREV | FlowMonitorFlags::ONLY_OWN;
        Self {
            id: 0,
            command: FlowMonitorCommand::Add,
            flags: FlowMonitorFlags::all() - own,
            table: ALL_TABLES,
            out_port: PortNo::ANY,
            out_group: ANY_GROUP,
            matching: Match::any(),
        }
    }
}

/// What a monitor tells.
///
/// ```text
/// +-----+-------+-------------------------------------------------------------------+
/// | len | 0..=3 | table 8, reason 8, idle 16, hard 16, priority 16, pad 32,          |
/// |     |       | cookie 64, match padded, instructions                              |
/// | 8   | 4     | xid 32                                                             |
/// | 8   | 5, 6  | pad 32                               struct ofp_flow_update_header |
/// +-----+-------+-------------------------------------------------------------------+
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FlowUpdate {
    /// The flow was there already.
    Initial(MonitoredFlow),
    /// It came.
    Added(MonitoredFlow),
    /// It went.
    Removed {
        /// The flow.
        flow: MonitoredFlow,
        /// Why.
        reason: FlowRemovedReason,
    },
    /// It changed.
    Modified(MonitoredFlow),
    /// This session's request of this xid changed flows.
    Abbreviated {
        /// The request.
        xid: u32,
    },
    /// The switch has no room for more updates: only removals come now.
    Paused,
    /// All updates that were held back are told.
    Resumed,
}

/// A flow, as a monitor tells of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MonitoredFlow {
    /// Its table.
    pub table: u8,
    /// Its priority.
    pub priority: u16,
    /// Its idle timeout in seconds.
    pub idle_timeout: u16,
    /// Its hard timeout in seconds.
    pub hard_timeout: u16,
    /// Its cookie.
    pub cookie: u64,
    /// What it matches.
    pub matching: Match,
    /// What it does, if the monitor asked for it.
    pub instructions: Instructions,
}

mod event {
    pub(super) const INITIAL: u16 = 0;
    pub(super) const ADDED: u16 = 1;
    pub(super) const REMOVED: u16 = 2;
    pub(super) const MODIFIED: u16 = 3;
    pub(super) const ABBREV: u16 = 4;
    pub(super) const PAUSED: u16 = 5;
    pub(super) const RESUMED: u16 = 6;
}

// === impl FlowMonitor ===

impl FlowMonitor {
    /// Ends a monitor.
    pub fn delete(id: u32) -> Self {
        Self { id, command: FlowMonitorCommand::Delete, ..Self::default() }
    }

    pub(super) fn encode(&self, w: &mut Writer) -> Result<(), EncodeError> {
        w.u32(self.id);
        w.u32(self.out_port.0);
        w.u32(self.out_group);
        w.u16(self.flags.bits());
        w.u8(self.table);
        w.u8(self.command as u8);
        self.matching.encode(w)
    }

    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        const WHAT: &str = "flow monitor";
        let id = r.u32(WHAT)?;
        let out_port = PortNo(r.u32(WHAT)?);
        let out_group = r.u32(WHAT)?;
        let flags = FlowMonitorFlags::from_bits_retain(r.u16(WHAT)?);
        let table = r.u8(WHAT)?;
        let start = r.clone();
        let command = match r.u8(WHAT)? {
            0 => FlowMonitorCommand::Add,
            1 => FlowMonitorCommand::Modify,
            2 => FlowMonitorCommand::Delete,
            other => return Err(start.error(WHAT, Problem::Unknown(other.into()))),
        };
        let matching = Match::decode(r)?;
        Ok(Self { id, command, flags, table, out_port, out_group, matching })
    }
}

// === impl FlowUpdate ===

impl FlowUpdate {
    pub(super) fn encode(&self, w: &mut Writer) -> Result<(), EncodeError> {
        let start = w.len();
        w.zeros(2);
        let mut event = |code: u16| w.u16(code);
        match self {
            Self::Initial(flow) => {
                event(event::INITIAL);
                flow.encode(0, w)?;
            }
            Self::Added(flow) => {
                event(event::ADDED);
                flow.encode(0, w)?;
            }
            Self::Removed { flow, reason } => {
                event(event::REMOVED);
                flow.encode(*reason as u8, w)?;
            }
            Self::Modified(flow) => {
                event(event::MODIFIED);
                flow.encode(0, w)?;
            }
            Self::Abbreviated { xid } => {
                event(event::ABBREV);
                w.u32(*xid);
            }
            Self::Paused => {
                event(event::PAUSED);
                w.zeros(4);
            }
            Self::Resumed => {
                event(event::RESUMED);
                w.zeros(4);
            }
        }
        w.patch_len("flow update", start, start)
    }

    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        const WHAT: &str = "flow update";
        let start = r.clone();
        let mut r = r.sized(WHAT, 0, 8)?;
        r.skip(WHAT, 2)?;
        Ok(match r.u16(WHAT)? {
            event::INITIAL => Self::Initial(MonitoredFlow::decode(r)?.0),
            event::ADDED => Self::Added(MonitoredFlow::decode(r)?.0),
            event::REMOVED => {
                let at = r.clone();
                let (flow, code) = MonitoredFlow::decode(r)?;
                let unknown = || at.error(WHAT, Problem::Unknown(code.into()));
                let reason = FlowRemovedReason::from_u8(code).ok_or_else(unknown)?;
                Self::Removed { flow, reason }
            }
            event::MODIFIED => Self::Modified(MonitoredFlow::decode(r)?.0),
            event::ABBREV => Self::Abbreviated { xid: r.u32(WHAT)? },
            event::PAUSED => Self::Paused,
            event::RESUMED => Self::Resumed,
            other => return Err(start.error(WHAT, Problem::Unknown(other.into()))),
        })
    }
}

// === impl MonitoredFlow ===

impl MonitoredFlow {
    fn encode(&self, reason: u8, w: &mut Writer) -> Result<(), EncodeError> {
        w.u8(self.table);
        w.u8(reason);
        w.u16(self.idle_timeout);
        w.u16(self.hard_timeout);
        w.u16(self.priority);
        w.zeros(4);
        w.u64(self.cookie);
        self.matching.encode(w)?;
        self.instructions.encode(w)
    }

    /// The flow, and the reason that only removals have.
    fn decode(mut r: Reader<'_>) -> Result<(Self, u8), DecodeError> {
        const WHAT: &str = "flow update";
        let table = r.u8(WHAT)?;
        let reason = r.u8(WHAT)?;
        let idle_timeout = r.u16(WHAT)?;
        let hard_timeout = r.u16(WHAT)?;
        let priority = r.u16(WHAT)?;
        r.skip(WHAT, 4)?;
        let cookie = r.u64(WHAT)?;
        let matching = Match::decode(&mut r)?;
        let instructions = Instructions::decode(r)?;
        let flow =
            Self { table, priority, idle_timeout, hard_timeout, cookie, matching, instructions };
        Ok((flow, reason))
    }
}
