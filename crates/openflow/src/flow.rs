//! Flows: what is asked of a switch ([`FlowMod`]) and what it tells of one ([`FlowDesc`]).

use crate::instruction::Instructions;
use crate::matching::Match;
use crate::port_no::PortNo;
use crate::wire::{DecodeError, EncodeError, Problem, Reader, Writer};
use bitflags::bitflags;
use std::time::Duration;

/// The priority of a flow that names none.
pub const DEFAULT_PRIORITY: u16 = 0x8000;
/// "All tables", in requests that delete or read.
pub const ALL_TABLES: u8 = 0xff;
/// "Any group", in requests that delete or read.
pub const ANY_GROUP: u32 = 0xffff_ffff;
/// "No packet is buffered."
pub(crate) const NO_BUFFER: u32 = 0xffff_ffff;

bitflags! {
    /// Flags of a flow (7.3.4.2).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct FlowFlags: u16 {
        /// Tell the controller when it goes.
        const SEND_FLOW_REM = 1;
        /// Refuse it if another of its priority overlaps.
        const CHECK_OVERLAP = 2;
        /// Set its counters to zero.
        const RESET_COUNTS = 4;
        /// Do not count packets.
        const NO_PACKET_COUNTS = 8;
        /// Do not count bytes.
        const NO_BYTE_COUNTS = 16;
    }
}

/// A flow as it is wanted: everything about it but its counters.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Flow {
    /// Its table.
    pub table: u8,
    /// Higher goes first.
    pub priority: u16,
    /// Which packets.
    pub matching: Match,
    /// A number of its owner's.
    pub cookie: u64,
    /// Seconds without a packet after which it goes; 0 for never.
    pub idle_timeout: u16,
    /// Seconds after which it goes; 0 for never.
    pub hard_timeout: u16,
    /// Less important ones go first when the table is full.
    pub importance: u16,
    /// How it behaves.
    pub flags: FlowFlags,
    /// What it does.
    pub instructions: Instructions,
}

impl Default for Flow {
    fn default() -> Self {
        Self {
            table: 0,
            priority: DEFAULT_PRIORITY,
            matching: Match::any(),
            cookie: 0,
            idle_timeout: 0,
            hard_timeout: 0,
            importance: 0,
            flags: FlowFlags::empty(),
            instructions: Instructions::default(),
        }
    }
}

/// What to do with the flows of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FlowCommand {
    /// Add it; one of the same table, priority and match is replaced.
    Add,
    /// Change what all flows do that the match covers.
    Modify,
    /// Change what the one of this table, priority and match does.
    ModifyStrict,
    /// Delete all that the match covers.
    Delete,
    /// Delete the one of this table, priority and match.
    DeleteStrict,
}

/// A change of flows.
///
/// ```text
///  8        16       24     25       26    28    30    32      36        40         44     46
/// +--------+--------+------+--------+-----+-----+-----+-------+---------+----------+------+------+
/// | cookie | mask   | table| command| idle| hard| prio| buffer| out_port| out_group| flags| impo.|
/// +--------+--------+------+--------+-----+-----+-----+-------+---------+----------+------+------+
/// | match, padded | instructions                                struct ofp_flow_mod, 7.3.4.2
/// +---------------+---------------
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FlowMod {
    /// What to do.
    pub command: FlowCommand,
    /// The flow, or the pattern of flows. A table of [`ALL_TABLES`] is for deletion only.
    pub flow: Flow,
    /// For modifying and deleting: only flows whose cookie equals the flow's under this mask.
    pub cookie_mask: u64,
    /// For deleting: only flows that output here.
    pub out_port: PortNo,
    /// For deleting: only flows that use this group.
    pub out_group: u32,
}

/// A flow of a switch, with its counters.
///
/// ```text
///  0     2    4      5    6     8     10    12    14        16
/// +-----+----+------+----+-----+-----+-----+-----+---------+--------+
/// | len | 0  | table| 0  | prio| idle| hard| flag| import. | cookie |  struct ofp_flow_desc, 7.3.5.2
/// +-----+----+------+----+-----+-----+-----+-----+---------+--------+
/// | match, padded | 0 16, len 16, OXS …, padded | instructions
/// +---------------+-----------------------------+---------------
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowDesc {
    /// The flow.
    pub flow: Flow,
    /// Its counters.
    pub stats: FlowStats,
}

/// What a flow counted, without what it does.
///
/// ```text
///  0     2    4      5       6     8
/// +-----+----+------+-------+-----+---------------+-----------------------------+
/// | len | 0  | table| reason| prio| match, padded | 0 16, len 16, OXS …, padded |
/// +-----+----+------+-------+-----+---------------+-----------------------------+
///                                                  struct ofp_flow_stats, 7.3.5.3
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowCounters {
    /// Its table.
    pub table: u8,
    /// Why it is told: 0 because it was asked for, 1 because a trigger was reached.
    pub reason: u8,
    /// Its priority.
    pub priority: u16,
    /// Which packets.
    pub matching: Match,
    /// Its counters.
    pub stats: FlowStats,
}

/// Counters of a flow, or of several; `None` where the switch does not tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlowStats {
    /// How long it exists.
    pub duration: Option<Duration>,
    /// How long no packet hit it.
    pub idle: Option<Duration>,
    /// How many flows these are.
    pub flows: Option<u32>,
    /// Packets.
    pub packets: Option<u64>,
    /// Bytes.
    pub bytes: Option<u64>,
}

// === impl FlowCommand ===

impl FlowCommand {
    pub(crate) fn from_u8(code: u8) -> Option<Self> {
        Some(match code {
            0 => Self::Add,
            1 => Self::Modify,
            2 => Self::ModifyStrict,
            3 => Self::Delete,
            4 => Self::DeleteStrict,
            _ => return None,
        })
    }

    /// Whether flows that match are to go.
    pub fn is_delete(self) -> bool {
        matches!(self, Self::Delete | Self::DeleteStrict)
    }
}

// === impl FlowMod ===

impl FlowMod {
    /// A change of this flow alone.
    pub fn new(command: FlowCommand, flow: Flow) -> Self {
        Self { command, flow, cookie_mask: 0, out_port: PortNo::ANY, out_group: ANY_GROUP }
    }

    /// Adds a flow.
    pub fn add(flow: Flow) -> Self {
        Self::new(FlowCommand::Add, flow)
    }

    /// Deletes the flow of this table, priority and match.
    pub fn delete_strict(table: u8, priority: u16, matching: Match) -> Self {
        let flow = Flow { table, priority, matching, ..Flow::default() };
        Self::new(FlowCommand::DeleteStrict, flow)
    }

    /// Writes the body of the message.
    pub fn encode(&self, w: &mut Writer) -> Result<(), EncodeError> {
        let f = &self.flow;
        w.u64(f.cookie);
        w.u64(self.cookie_mask);
        w.u8(f.table);
        w.u8(self.command as u8);
        w.u16(f.idle_timeout);
        w.u16(f.hard_timeout);
        w.u16(f.priority);
        w.u32(NO_BUFFER);
        w.u32(self.out_port.0);
        w.u32(self.out_group);
        w.u16(f.flags.bits());
        w.u16(f.importance);
        f.matching.encode(w)?;
        f.instructions.encode(w)
    }

    /// Reads the body of the message.
    pub fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        const WHAT: &str = "flow_mod";
        let cookie = r.u64(WHAT)?;
        let cookie_mask = r.u64(WHAT)?;
        let table = r.u8(WHAT)?;
        let start = r.clone();
        let command = r.u8(WHAT)?;
        let unknown = || start.error("flow_mod command", Problem::Unknown(command.into()));
        let command = FlowCommand::from_u8(command).ok_or_else(unknown)?;
        let idle_timeout = r.u16(WHAT)?;
        let hard_timeout = r.u16(WHAT)?;
        let priority = r.u16(WHAT)?;
        r.skip(WHAT, 4)?;
        let out_port = PortNo(r.u32(WHAT)?);
        let out_group = r.u32(WHAT)?;
        let flags = FlowFlags::from_bits_retain(r.u16(WHAT)?);
        let importance = r.u16(WHAT)?;
        let matching = Match::decode(r)?;
        let instructions = Instructions::decode(r.sub(WHAT, r.left())?)?;
        let flow = Flow {
            table,
            priority,
            matching,
            cookie,
            idle_timeout,
            hard_timeout,
            importance,
            flags,
            instructions,
        };
        Ok(Self { command, flow, cookie_mask, out_port, out_group })
    }
}

// === impl FlowDesc ===

impl FlowDesc {
    /// Writes one entry of a flow multipart reply.
    pub fn encode(&self, w: &mut Writer) -> Result<(), EncodeError> {
        let start = w.len();
        let f = &self.flow;
        w.u16(0);
        w.zeros(2);
        w.u8(f.table);
        w.zeros(1);
        w.u16(f.priority);
        w.u16(f.idle_timeout);
        w.u16(f.hard_timeout);
        w.u16(f.flags.bits());
        w.u16(f.importance);
        w.u64(f.cookie);
        f.matching.encode(w)?;
        self.stats.encode(w)?;
        f.instructions.encode(w)?;
        w.patch_len("flow_desc", start, start)
    }

    /// Reads one entry of a flow multipart reply.
    pub fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        const WHAT: &str = "flow_desc";
        let start = r.clone();
        let len = usize::from(r.peek_u16(0).unwrap_or(0));
        if len < 24 {
            let expected = "at least 24";
            return Err(start.error(WHAT, Problem::Length { found: len, expected }));
        }
        let mut r = r.sub(WHAT, len)?;
        r.skip(WHAT, 4)?;
        let table = r.u8(WHAT)?;
        r.skip(WHAT, 1)?;
        let priority = r.u16(WHAT)?;
        let idle_timeout = r.u16(WHAT)?;
        let hard_timeout = r.u16(WHAT)?;
        let flags = FlowFlags::from_bits_retain(r.u16(WHAT)?);
        let importance = r.u16(WHAT)?;
        let cookie = r.u64(WHAT)?;
        let matching = Match::decode(&mut r)?;
        let stats = FlowStats::decode(&mut r)?;
        let instructions = Instructions::decode(r)?;
        let flow = Flow {
            table,
            priority,
            matching,
            cookie,
            idle_timeout,
            hard_timeout,
            importance,
            flags,
            instructions,
        };
        Ok(Self { flow, stats })
    }
}

// === impl FlowCounters ===

impl FlowCounters {
    /// Writes one entry of a flow statistics multipart reply.
    pub fn encode(&self, w: &mut Writer) -> Result<(), EncodeError> {
        let start = w.len();
        w.zeros(4);
        w.u8(self.table);
        w.u8(self.reason);
        w.u16(self.priority);
        self.matching.encode(w)?;
        self.stats.encode(w)?;
        w.patch_len("flow_stats", start, start)
    }

    /// Reads one entry of a flow statistics multipart reply.
    pub fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        const WHAT: &str = "flow_stats";
        let mut r = r.sized(WHAT, 0, 8)?;
        r.skip(WHAT, 4)?;
        let table = r.u8(WHAT)?;
        let reason = r.u8(WHAT)?;
        let priority = r.u16(WHAT)?;
        let matching = Match::decode(&mut r)?;
        let stats = FlowStats::decode(&mut r)?;
        Ok(Self { table, reason, priority, matching, stats })
    }
}

// === impl FlowStats ===

/// Class of OpenFlow's own statistics (7.2.4.2), and its fields.
mod oxs {
    pub(super) const BASIC: u16 = 0x8002;
    pub(super) const DURATION: u8 = 0;
    pub(super) const IDLE: u8 = 1;
    pub(super) const FLOW_COUNT: u8 = 3;
    pub(super) const PACKET_COUNT: u8 = 4;
    pub(super) const BYTE_COUNT: u8 = 5;
}

impl FlowStats {
    /// Writes `struct ofp_stats`, padding included.
    pub fn encode(&self, w: &mut Writer) -> Result<(), EncodeError> {
        let start = w.len();
        w.zeros(4);
        let mut field = |number: u8, bytes: &[u8]| {
            w.u16(oxs::BASIC);
            w.u8(number << 1);
            w.u8(u8::try_from(bytes.len()).unwrap_or(0));
            w.put(bytes);
        };
        for (number, time) in [(oxs::DURATION, self.duration), (oxs::IDLE, self.idle)] {
            if let Some(t) = time {
                let secs = u32::try_from(t.as_secs()).unwrap_or(u32::MAX);
                let bytes = u64::from(secs) << 32 | u64::from(t.subsec_nanos());
                field(number, &bytes.to_be_bytes());
            }
        }
        for (number, count) in [(oxs::PACKET_COUNT, self.packets), (oxs::BYTE_COUNT, self.bytes)] {
            if let Some(count) = count {
                field(number, &count.to_be_bytes());
            }
        }
        if let Some(flows) = self.flows {
            field(oxs::FLOW_COUNT, &flows.to_be_bytes());
        }
        w.patch_len("stats", start, start + 2)?;
        w.align8(start);
        Ok(())
    }

    /// Reads `struct ofp_stats`, padding included. Fields that we do not know are left out.
    pub fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        const WHAT: &str = "stats";
        let (_, mut body) = r.tlv(WHAT)?;
        let mut stats = Self::default();
        while !body.is_empty() {
            let class = body.u16(WHAT)?;
            let number = body.u8(WHAT)? >> 1;
            let len = usize::from(body.u8(WHAT)?);
            let mut value = body.sub(WHAT, len)?;
            match (class, number) {
                (oxs::BASIC, oxs::DURATION) => stats.duration = Some(value.duration(WHAT)?),
                (oxs::BASIC, oxs::IDLE) => stats.idle = Some(value.duration(WHAT)?),
                (oxs::BASIC, oxs::FLOW_COUNT) => stats.flows = Some(value.u32(WHAT)?),
                (oxs::BASIC, oxs::PACKET_COUNT) => stats.packets = Some(value.u64(WHAT)?),
                (oxs::BASIC, oxs::BYTE_COUNT) => stats.bytes = Some(value.u64(WHAT)?),
                _ => {}
            }
        }
        Ok(stats)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Message, MultipartReply, MultipartRequest, ReplyBody};

    #[test]
    fn flow_statistics_come_back() {
        let matching = "tcp,tp_dst=80,actions=drop".parse::<Flow>().unwrap().matching;
        let packets = Some(7);
        let stats = FlowStats { packets, ..FlowStats::default() };
        let entry = FlowCounters { table: 3, reason: 1, priority: 9, matching, stats };
        let body = ReplyBody::FlowStats(vec![entry.clone(), entry]);
        for message in [
            Message::MultipartReply(MultipartReply { more: true, body }),
            Message::MultipartRequest(MultipartRequest::FlowStats(
                crate::message::FlowRequest::default(),
            )),
        ] {
            let mut w = Writer::new();
            message.encode(4, &mut w).unwrap();
            assert_eq!(Message::decode(w.as_slice()).unwrap(), (4, message));
            assert!(Message::decode(&w.as_slice()[..w.len() - 8]).is_err());
        }
    }
}
