//! Meters: how fast packets may come, and what happens to those that come faster.

use crate::wire::{DecodeError, EncodeError, Problem, Reader, Writer};
use bitflags::bitflags;
use std::time::Duration;

/// The largest number of a meter that is not virtual.
pub const METER_MAX: u32 = 0xffff_0000;
/// The virtual meter for packets to the controller.
pub const METER_CONTROLLER: u32 = 0xffff_fffe;
/// "All meters", in requests that delete or read.
pub const ALL_METERS: u32 = 0xffff_ffff;

bitflags! {
    /// How a meter counts (7.3.4.5).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct MeterFlags: u16 {
        /// Rates are in kbit/s.
        const KBPS = 1;
        /// Rates are in packets/s.
        const PKTPS = 2;
        /// Bands have a burst size.
        const BURST = 4;
        /// It keeps counters.
        const STATS = 8;
    }
}

/// A meter as it is wanted, and as a switch describes it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Meter {
    /// Its number.
    pub id: u32,
    /// How it counts.
    pub flags: MeterFlags,
    /// What happens above which rate.
    pub bands: Vec<MeterBand>,
}

/// What happens to packets above a rate.
///
/// ```text
/// +------+-----+---------+----------+--------------------+
/// | 1    | 16  | rate 32 | burst 32 | pad 32             |  drop
/// | 2    | 16  | rate 32 | burst 32 | level 8, pad 24    |  dscp_remark
/// | …    | len | rate 32 | burst 32 | …                  |  struct ofp_meter_band_header, 7.3.4.5
/// +------+-----+---------+----------+--------------------+
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MeterBand {
    /// Above this rate, in the meter's unit.
    pub rate: u32,
    /// How much may come at once, in kbit or packets.
    pub burst: u32,
    /// What happens.
    pub kind: BandKind,
}

/// What a band does.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum BandKind {
    /// The packet is dropped.
    Drop,
    /// Its DSCP's drop precedence is raised.
    DscpRemark {
        /// By how much.
        level: u8,
    },
    /// A band of somebody else's.
    Other {
        /// Its type.
        kind: u16,
        /// What is behind rate and burst.
        body: Vec<u8>,
    },
}

/// What to do with the meters of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MeterCommand {
    /// Add it; an error if it is there.
    Add,
    /// Replace it; an error if it is not there.
    Modify,
    /// Delete it, or all of [`ALL_METERS`].
    Delete,
}

/// A change of a meter: command 16, flags 16, meter id 32, bands (`struct ofp_meter_mod`,
/// 7.3.4.5).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MeterMod {
    /// What to do.
    pub command: MeterCommand,
    /// The meter.
    pub meter: Meter,
}

/// Counters of a meter.
///
/// ```text
///  0          4     6    12          16        24      32      36        40
/// +----------+-----+----+-----------+---------+-------+-------+---------+
/// | meter id | len | 0  | ref count | packets | bytes | sec   | nanosec |
/// +----------+-----+----+-----------+---------+-------+-------+---------+
/// | packets, bytes of each band …               struct ofp_meter_stats, 7.3.5.13
/// +-------------------------------
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeterStats {
    /// Which meter.
    pub id: u32,
    /// How many flows use it.
    pub ref_count: u32,
    /// Packets that came.
    pub packets: u64,
    /// Bytes that came.
    pub bytes: u64,
    /// How long it exists.
    pub duration: Duration,
    /// What each band caught, in the meter's order.
    pub bands: Vec<BandStats>,
}

/// What a band caught: packets 64, bytes 64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BandStats {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

/// What meters a switch can have: meters 32, band types 32, flags 32, bands 8, colours 8, pad 16
/// (`struct ofp_meter_features`, 7.3.5.15, without the later fields that Open vSwitch omits).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeterFeatures {
    /// How many.
    pub max_meters: u32,
    /// Bit n is set if there are bands of type n.
    pub band_types: u32,
    /// Which [`MeterFlags`] there are.
    pub capabilities: u32,
    /// How many bands a meter may have.
    pub max_bands: u8,
    /// How many colours there are.
    pub max_color: u8,
}

mod band {
    pub(super) const DROP: u16 = 1;
    pub(super) const DSCP_REMARK: u16 = 2;
}

// === impl MeterBand ===

impl MeterBand {
    /// Drops what comes faster.
    pub fn drop(rate: u32, burst: u32) -> Self {
        Self { rate, burst, kind: BandKind::Drop }
    }

    fn encode(&self, w: &mut Writer) -> Result<(), EncodeError> {
        let start = w.len();
        w.u16(match self.kind {
            BandKind::Drop => band::DROP,
            BandKind::DscpRemark { .. } => band::DSCP_REMARK,
            BandKind::Other { kind, .. } => kind,
        });
        w.zeros(2);
        w.u32(self.rate);
        w.u32(self.burst);
        match &self.kind {
            BandKind::Drop => w.zeros(4),
            BandKind::DscpRemark { level } => {
                w.u8(*level);
                w.zeros(3);
            }
            BandKind::Other { body, .. } => w.put(body),
        }
        w.patch_len("meter band", start, start + 2)
    }

    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        const WHAT: &str = "meter band";
        let mut r = r.sized(WHAT, 2, 12)?;
        let kind = r.u16(WHAT)?;
        r.skip(WHAT, 2)?;
        let rate = r.u32(WHAT)?;
        let burst = r.u32(WHAT)?;
        let kind = match kind {
            band::DROP => BandKind::Drop,
            band::DSCP_REMARK => BandKind::DscpRemark { level: r.u8(WHAT)? },
            kind => BandKind::Other { kind, body: r.rest().to_vec() },
        };
        Ok(Self { rate, burst, kind })
    }
}

// === impl Meter ===

impl Meter {
    fn put_bands(&self, w: &mut Writer) -> Result<(), EncodeError> {
        self.bands.iter().try_for_each(|band| band.encode(w))
    }

    /// What a change and a description share: flags 16, meter id 32, bands.
    fn decode_rest(what: &'static str, r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let flags = MeterFlags::from_bits_retain(r.u16(what)?);
        let id = r.u32(what)?;
        let mut bands = Vec::with_capacity(r.left() / 16);
        while !r.is_empty() {
            let mut band = MeterBand::decode(r)?;
            // A switch fills in what nobody asked for; there is no burst size without its flag.
            if !flags.contains(MeterFlags::BURST) {
                band.burst = 0;
            }
            bands.push(band);
        }
        Ok(Self { id, flags, bands })
    }

    /// Writes one entry of a meter description: length 16, flags 16, meter id 32, bands
    /// (`struct ofp_meter_desc`, 7.3.5.14).
    pub fn encode_desc(&self, w: &mut Writer) -> Result<(), EncodeError> {
        let start = w.len();
        w.u16(0);
        w.u16(self.flags.bits());
        w.u32(self.id);
        self.put_bands(w)?;
        w.patch_len("meter_desc", start, start)
    }

    /// Reads one entry of a meter description.
    pub fn decode_desc(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        const WHAT: &str = "meter_desc";
        let mut r = r.sized(WHAT, 0, 8)?;
        r.skip(WHAT, 2)?;
        Self::decode_rest(WHAT, &mut r)
    }
}

// === impl MeterMod ===

impl MeterMod {
    /// Adds a meter.
    pub fn add(meter: Meter) -> Self {
        Self { command: MeterCommand::Add, meter }
    }

    /// Deletes a meter.
    pub fn delete(id: u32) -> Self {
        let meter = Meter { id, ..Meter::default() };
        Self { command: MeterCommand::Delete, meter }
    }

    /// Writes the body of the message.
    pub fn encode(&self, w: &mut Writer) -> Result<(), EncodeError> {
        w.u16(self.command as u16);
        w.u16(self.meter.flags.bits());
        w.u32(self.meter.id);
        self.meter.put_bands(w)
    }

    /// Reads the body of the message.
    pub fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        const WHAT: &str = "meter_mod";
        let start = r.clone();
        let command = match r.u16(WHAT)? {
            0 => MeterCommand::Add,
            1 => MeterCommand::Modify,
            2 => MeterCommand::Delete,
            other => return Err(start.error(WHAT, Problem::Unknown(other.into()))),
        };
        Ok(Self { command, meter: Meter::decode_rest(WHAT, r)? })
    }
}

// === impl MeterStats ===

impl MeterStats {
    pub(crate) fn encode(&self, w: &mut Writer) -> Result<(), EncodeError> {
        let start = w.len();
        w.u32(self.id);
        w.zeros(8);
        w.u32(self.ref_count);
        w.u64(self.packets);
        w.u64(self.bytes);
        w.duration("meter_stats", self.duration)?;
        for band in &self.bands {
            w.u64(band.packets);
            w.u64(band.bytes);
        }
        w.patch_len("meter_stats", start, start + 4)
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        const WHAT: &str = "meter_stats";
        let mut r = r.sized(WHAT, 4, 40)?;
        let id = r.u32(WHAT)?;
        r.skip(WHAT, 8)?;
        let ref_count = r.u32(WHAT)?;
        let packets = r.u64(WHAT)?;
        let bytes = r.u64(WHAT)?;
        let duration = r.duration(WHAT)?;
        let mut bands = Vec::with_capacity(r.left() / 16);
        while !r.is_empty() {
            bands.push(BandStats { packets: r.u64(WHAT)?, bytes: r.u64(WHAT)? });
        }
        Ok(Self { id, ref_count, packets, bytes, duration, bands })
    }
}

// === impl MeterFeatures ===

impl MeterFeatures {
    pub(crate) fn encode(&self, w: &mut Writer) {
        w.u32(self.max_meters);
        w.u32(self.band_types);
        w.u32(self.capabilities);
        w.u8(self.max_bands);
        w.u8(self.max_color);
        w.zeros(2);
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        const WHAT: &str = "meter_features";
        let max_meters = r.u32(WHAT)?;
        let band_types = r.u32(WHAT)?;
        let capabilities = r.u32(WHAT)?;
        let max_bands = r.u8(WHAT)?;
        let max_color = r.u8(WHAT)?;
        r.skip(WHAT, 2)?;
        Ok(Self { max_meters, band_types, capabilities, max_bands, max_color })
    }
}
