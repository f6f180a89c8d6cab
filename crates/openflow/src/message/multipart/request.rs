//! What can be asked of a switch that may take several replies.

use super::{FlowMonitor, MultipartKind};
use crate::flow::{ALL_TABLES, ANY_GROUP};
use crate::group::ALL_GROUPS;
use crate::matching::Match;
use crate::meter::ALL_METERS;
use crate::port_no::PortNo;
use crate::wire::{DecodeError, EncodeError, Problem, Reader, Writer};

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MultipartRequest {
    /// Who made the switch?
    Desc,
    /// Which flows are there, with their counters?
    FlowDesc(FlowRequest),
    /// How many flows are there, and what did they count together?
    Aggregate(FlowRequest),
    /// What did these flows count? Less than [`Self::FlowDesc`] tells; Open vSwitch 3.1 does not
    /// answer it.
    FlowStats(FlowRequest),
    /// What did the tables count?
    TableStats,
    /// How do the tables behave?
    TableDesc,
    /// What did this port count, or all of [`PortNo::ANY`]?
    PortStats(PortNo),
    /// What is this port, or all of [`PortNo::ANY`]?
    PortDesc(PortNo),
    /// What did this group count, or all of [`ALL_GROUPS`]?
    GroupStats(u32),
    /// What is this group, or all of [`ALL_GROUPS`]?
    GroupDesc(u32),
    /// What groups can there be?
    GroupFeatures,
    /// What did this meter count, or all of [`ALL_METERS`]?
    MeterStats(u32),
    /// What is this meter, or all of [`ALL_METERS`]?
    MeterDesc(u32),
    /// What meters can there be?
    MeterFeatures,
    /// Tell of flows as they change.
    FlowMonitor(Vec<FlowMonitor>),
    /// One that we do not know.
    Unknown {
        /// Its type.
        kind: u16,
        /// What is behind the type.
        body: Vec<u8>,
    },
}

/// Which flows: those that have all of this.
///
/// ```text
///  0       1    4          8           12   16       24     32
/// +-------+----+----------+-----------+----+--------+------+---------------+
/// | table | 0  | out port | out group | 0  | cookie | mask | match, padded |
/// +-------+----+----------+-----------+----+--------+------+---------------+
///                                            struct ofp_flow_desc_request, 7.3.5.2
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowRequest {
    /// The table, or [`ALL_TABLES`].
    pub table: u8,
    /// Only flows that output here, unless [`PortNo::ANY`].
    pub out_port: PortNo,
    /// Only flows that use this group, unless [`ANY_GROUP`].
    pub out_group: u32,
    /// Only flows of this cookie, where the mask has ones.
    pub cookie: u64,
    /// Which bits of the cookie count.
    pub cookie_mask: u64,
    /// Only flows that this match covers.
    pub matching: Match,
}

impl Default for FlowRequest {
    /// All flows.
    fn default() -> Self {
        Self {
            table: ALL_TABLES,
            out_port: PortNo::ANY,
            out_group: ANY_GROUP,
            cookie: 0,
            cookie_mask: 0,
            matching: Match::any(),
        }
    }
}

// === impl FlowRequest ===

impl FlowRequest {
    fn encode(&self, w: &mut Writer) -> Result<(), EncodeError> {
        w.u8(self.table);
        w.zeros(3);
        w.u32(self.out_port.0);
        w.u32(self.out_group);
        w.zeros(4);
        w.u64(self.cookie);
        w.u64(self.cookie_mask);
        self.matching.encode(w)
    }

    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        const WHAT: &str = "flow request";
        let table = r.u8(WHAT)?;
        r.skip(WHAT, 3)?;
        let out_port = PortNo(r.u32(WHAT)?);
        let out_group = r.u32(WHAT)?;
        r.skip(WHAT, 4)?;
        let cookie = r.u64(WHAT)?;
        let cookie_mask = r.u64(WHAT)?;
        let matching = Match::decode(r)?;
        Ok(Self { table, out_port, out_group, cookie, cookie_mask, matching })
    }
}

// === impl MultipartRequest ===

impl MultipartRequest {
    /// All ports.
    pub const ALL_PORTS: Self = Self::PortDesc(PortNo::ANY);
    /// All groups.
    pub const ALL_GROUPS: Self = Self::GroupDesc(ALL_GROUPS);
    /// All meters.
    pub const ALL_METERS: Self = Self::MeterDesc(ALL_METERS);

    /// All flows.
    pub fn all_flows() -> Self {
        Self::FlowDesc(FlowRequest::default())
    }

    /// What it is about. The replies have the same.
    pub fn kind(&self) -> MultipartKind {
        match self {
            Self::Desc => MultipartKind::DESC,
            Self::FlowDesc(_) => MultipartKind::FLOW_DESC,
            Self::Aggregate(_) => MultipartKind::AGGREGATE_STATS,
            Self::FlowStats(_) => MultipartKind::FLOW_STATS,
            Self::TableStats => MultipartKind::TABLE_STATS,
            Self::TableDesc => MultipartKind::TABLE_DESC,
            Self::PortStats(_) => MultipartKind::PORT_STATS,
            Self::PortDesc(_) => MultipartKind::PORT_DESC,
            Self::GroupStats(_) => MultipartKind::GROUP_STATS,
            Self::GroupDesc(_) => MultipartKind::GROUP_DESC,
            Self::GroupFeatures => MultipartKind::GROUP_FEATURES,
            Self::MeterStats(_) => MultipartKind::METER_STATS,
            Self::MeterDesc(_) => MultipartKind::METER_DESC,
            Self::MeterFeatures => MultipartKind::METER_FEATURES,
            Self::FlowMonitor(_) => MultipartKind::FLOW_MONITOR,
            Self::Unknown { kind, .. } => MultipartKind(*kind),
        }
    }

    pub(in crate::message) fn encode(&self, w: &mut Writer) -> Result<(), EncodeError> {
        w.u16(self.kind().0);
        w.zeros(6);
        match self {
            Self::Desc
            | Self::TableStats
            | Self::TableDesc
            | Self::GroupFeatures
            | Self::MeterFeatures => Ok(()),
            Self::FlowDesc(m) | Self::Aggregate(m) | Self::FlowStats(m) => m.encode(w),
            Self::PortStats(PortNo(id))
            | Self::PortDesc(PortNo(id))
            | Self::GroupStats(id)
            | Self::GroupDesc(id)
            | Self::MeterStats(id)
            | Self::MeterDesc(id) => {
                w.u32(*id);
                w.zeros(4);
                Ok(())
            }
            Self::FlowMonitor(monitors) => monitors.iter().try_for_each(|m| m.encode(w)),
            Self::Unknown { body, .. } => {
                w.put(body);
                Ok(())
            }
        }
    }

    pub(in crate::message) fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        const WHAT: &str = "multipart request";
        let kind = r.u16(WHAT)?;
        let start = r.clone();
        let flags = r.u16(WHAT)?;
        if flags != 0 {
            let problem = Problem::Value { found: flags.into(), expected: "a request of one part" };
            return Err(start.error(WHAT, problem));
        }
        r.skip(WHAT, 4)?;
        Ok(match MultipartKind(kind) {
            MultipartKind::DESC => Self::Desc,
            MultipartKind::FLOW_DESC => Self::FlowDesc(FlowRequest::decode(r)?),
            MultipartKind::AGGREGATE_STATS => Self::Aggregate(FlowRequest::decode(r)?),
            MultipartKind::FLOW_STATS => Self::FlowStats(FlowRequest::decode(r)?),
            MultipartKind::TABLE_STATS => Self::TableStats,
            MultipartKind::TABLE_DESC => Self::TableDesc,
            MultipartKind::PORT_STATS => Self::PortStats(PortNo(r.u32(WHAT)?)),
            MultipartKind::PORT_DESC => Self::PortDesc(PortNo(r.u32(WHAT)?)),
            MultipartKind::GROUP_STATS => Self::GroupStats(r.u32(WHAT)?),
            MultipartKind::GROUP_DESC => Self::GroupDesc(r.u32(WHAT)?),
            MultipartKind::GROUP_FEATURES => Self::GroupFeatures,
            MultipartKind::METER_STATS => Self::MeterStats(r.u32(WHAT)?),
            MultipartKind::METER_DESC => Self::MeterDesc(r.u32(WHAT)?),
            MultipartKind::METER_FEATURES => Self::MeterFeatures,
            MultipartKind::FLOW_MONITOR => {
                let mut monitors = Vec::new();
                while !r.is_empty() {
                    monitors.push(FlowMonitor::decode(r)?);
                }
                Self::FlowMonitor(monitors)
            }
            _ => Self::Unknown { kind, body: r.rest().to_vec() },
        })
    }
}
