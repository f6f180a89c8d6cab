//! One part of a switch's answer.

use super::{FlowUpdate, MORE, MultipartKind, SwitchDesc, TableDesc, TableStats};
use crate::flow::{FlowCounters, FlowDesc, FlowStats};
use crate::group::{Group, GroupFeatures, GroupStats};
use crate::meter::{Meter, MeterFeatures, MeterStats};
use crate::port::{Port, PortStats};
use crate::wire::{DecodeError, EncodeError, Reader, Writer};

/// One part of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MultipartReply {
    /// Whether more parts follow, with the same xid.
    pub more: bool,
    /// What it says.
    pub body: ReplyBody,
}

/// What one part of an answer says. See [`super::MultipartRequest`] for what each answers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "named as the requests, which say what they mean")]
pub enum ReplyBody {
    Desc(Box<SwitchDesc>),
    FlowDesc(Vec<FlowDesc>),
    Aggregate(FlowStats),
    FlowStats(Vec<FlowCounters>),
    TableStats(Vec<TableStats>),
    TableDesc(Vec<TableDesc>),
    PortStats(Vec<PortStats>),
    PortDesc(Vec<Port>),
    GroupStats(Vec<GroupStats>),
    GroupDesc(Vec<Group>),
    GroupFeatures(Box<GroupFeatures>),
    MeterStats(Vec<MeterStats>),
    MeterDesc(Vec<Meter>),
    MeterFeatures(MeterFeatures),
    FlowMonitor(Vec<FlowUpdate>),
    /// One that we do not know.
    Unknown {
        /// Its type.
        kind: u16,
        /// What is behind the type.
        body: Vec<u8>,
    },
}

// === impl MultipartReply ===

impl MultipartReply {
    pub(in crate::message) fn encode(&self, w: &mut Writer) -> Result<(), EncodeError> {
        w.u16(self.body.kind().0);
        w.u16(if self.more { MORE } else { 0 });
        w.zeros(4);
        self.body.encode(w)
    }

    pub(in crate::message) fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        const WHAT: &str = "multipart reply";
        let kind = MultipartKind(r.u16(WHAT)?);
        let more = r.u16(WHAT)? & MORE != 0;
        r.skip(WHAT, 4)?;
        Ok(Self { more, body: ReplyBody::decode(kind, r)? })
    }
}

// === impl ReplyBody ===

impl ReplyBody {
    /// What it is about.
    pub fn kind(&self) -> MultipartKind {
        match self {
            Self::Desc(_) => MultipartKind::DESC,
            Self::FlowDesc(_) => MultipartKind::FLOW_DESC,
            Self::Aggregate(_) => MultipartKind::AGGREGATE_STATS,
            Self::FlowStats(_) => MultipartKind::FLOW_STATS,
            Self::TableStats(_) => MultipartKind::TABLE_STATS,
            Self::TableDesc(_) => MultipartKind::TABLE_DESC,
            Self::PortStats(_) => MultipartKind::PORT_STATS,
            Self::PortDesc(_) => MultipartKind::PORT_DESC,
            Self::GroupStats(_) => MultipartKind::GROUP_STATS,
            Self::GroupDesc(_) => MultipartKind::GROUP_DESC,
            Self::GroupFeatures(_) => MultipartKind::GROUP_FEATURES,
            Self::MeterStats(_) => MultipartKind::METER_STATS,
            Self::MeterDesc(_) => MultipartKind::METER_DESC,
            Self::MeterFeatures(_) => MultipartKind::METER_FEATURES,
            Self::FlowMonitor(_) => MultipartKind::FLOW_MONITOR,
            Self::Unknown { kind, .. } => MultipartKind(*kind),
        }
    }

    fn encode(&self, w: &mut Writer) -> Result<(), EncodeError> {
        match self {
            Self::Desc(m) => m.encode(w)?,
            Self::FlowDesc(all) => all.iter().try_for_each(|m| m.encode(w))?,
            Self::Aggregate(m) => m.encode(w)?,
            Self::FlowStats(all) => all.iter().try_for_each(|m| m.encode(w))?,
            Self::TableStats(all) => all.iter().for_each(|m| m.encode(w)),
            Self::TableDesc(all) => all.iter().try_for_each(|m| m.encode(w))?,
            Self::PortStats(all) => all.iter().try_for_each(|m| m.encode(w))?,
            Self::PortDesc(all) => all.iter().try_for_each(|m| m.encode(w))?,
            Self::GroupStats(all) => all.iter().try_for_each(|m| m.encode(w))?,
            Self::GroupDesc(all) => all.iter().try_for_each(|m| m.encode_desc(w))?,
            Self::GroupFeatures(m) => m.encode(w),
            Self::MeterStats(all) => all.iter().try_for_each(|m| m.encode(w))?,
            Self::MeterDesc(all) => all.iter().try_for_each(|m| m.encode_desc(w))?,
            Self::MeterFeatures(m) => m.encode(w),
            Self::FlowMonitor(all) => all.iter().try_for_each(|m| m.encode(w))?,
            Self::Unknown { body, .. } => w.put(body),
        }
        Ok(())
    }

    fn decode(kind: MultipartKind, r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match kind {
            MultipartKind::DESC => Self::Desc(Box::new(SwitchDesc::decode(r)?)),
            MultipartKind::FLOW_DESC => Self::FlowDesc(entries(r, FlowDesc::decode)?),
            MultipartKind::AGGREGATE_STATS => Self::Aggregate(FlowStats::decode(r)?),
            MultipartKind::FLOW_STATS => Self::FlowStats(entries(r, FlowCounters::decode)?),
            MultipartKind::TABLE_STATS => Self::TableStats(entries(r, TableStats::decode)?),
            MultipartKind::TABLE_DESC => Self::TableDesc(entries(r, TableDesc::decode)?),
            MultipartKind::PORT_STATS => Self::PortStats(entries(r, PortStats::decode)?),
            MultipartKind::PORT_DESC => Self::PortDesc(entries(r, Port::decode)?),
            MultipartKind::GROUP_STATS => Self::GroupStats(entries(r, GroupStats::decode)?),
            MultipartKind::GROUP_DESC => Self::GroupDesc(entries(r, Group::decode_desc)?),
            MultipartKind::GROUP_FEATURES => {
                Self::GroupFeatures(Box::new(GroupFeatures::decode(r)?))
            }
            MultipartKind::METER_STATS => Self::MeterStats(entries(r, MeterStats::decode)?),
            MultipartKind::METER_DESC => Self::MeterDesc(entries(r, Meter::decode_desc)?),
            MultipartKind::METER_FEATURES => Self::MeterFeatures(MeterFeatures::decode(r)?),
            MultipartKind::FLOW_MONITOR => Self::FlowMonitor(entries(r, FlowUpdate::decode)?),
            MultipartKind(kind) => Self::Unknown { kind, body: r.rest().to_vec() },
        })
    }
}

fn entries<'a, T>(
    r: &mut Reader<'a>,
    decode: impl Fn(&mut Reader<'a>) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let mut all = Vec::new();
    while !r.is_empty() {
        all.push(decode(r)?);
    }
    Ok(all)
}
