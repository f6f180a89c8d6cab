//! What a switch counts by group, and what groups it can have.

use super::GroupType;
use crate::wire::{DecodeError, EncodeError, Reader, Writer};
use bitflags::bitflags;
use std::time::Duration;

/// Counters of a group.
///
/// ```text
///  0     2    4          8           12   16        24      32       36        40
/// +-----+----+----------+-----------+----+---------+-------+--------+---------+
/// | len | 0  | group id | ref count | 0  | packets | bytes | sec    | nanosec |
/// +-----+----+----------+-----------+----+---------+-------+--------+---------+
/// | packets, bytes of each bucket …                 struct ofp_group_stats, 7.3.5.10
/// +---------------------------------
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupStats {
    /// Which group.
    pub id: u32,
    /// How many flows and groups use it.
    pub ref_count: u32,
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// How long it exists.
    pub duration: Duration,
    /// By bucket, in the group's order.
    pub buckets: Vec<BucketStats>,
}

/// Counters of a bucket: packets 64, bytes 64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BucketStats {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

bitflags! {
    /// What groups can do.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct GroupCapabilities: u32 {
        /// Select groups weigh.
        const SELECT_WEIGHT = 1;
        /// Select groups leave out what is not live.
        const SELECT_LIVENESS = 2;
        /// Groups may use groups.
        const CHAINING = 4;
        /// Loops of groups are refused.
        const CHAINING_CHECKS = 8;
    }
}

/// What groups a switch can have: types 32, capabilities 32, then 32 × 4 for how many and
/// 32 × 4 for which actions (`struct ofp_group_features`, 7.3.5.12).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupFeatures {
    /// Bit n is set if there are groups of type n.
    pub types: u32,
    /// What they can do.
    pub capabilities: GroupCapabilities,
    /// How many of each type.
    pub max_groups: [u32; 4],
    /// Bit n is set if buckets of that type may have actions of type n.
    pub actions: [u32; 4],
}

// === impl GroupStats ===

impl GroupStats {
    pub(crate) fn encode(&self, w: &mut Writer) -> Result<(), EncodeError> {
        let start = w.len();
        w.zeros(4);
        w.u32(self.id);
        w.u32(self.ref_count);
        w.zeros(4);
        w.u64(self.packets);
        w.u64(self.bytes);
        w.duration("group_stats", self.duration)?;
        for bucket in &self.buckets {
            w.u64(bucket.packets);
            w.u64(bucket.bytes);
        }
        w.patch_len("group_stats", start, start)
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        const WHAT: &str = "group_stats";
        let mut r = r.sized(WHAT, 0, 40)?;
        r.skip(WHAT, 4)?;
        let id = r.u32(WHAT)?;
        let ref_count = r.u32(WHAT)?;
        r.skip(WHAT, 4)?;
        let packets = r.u64(WHAT)?;
        let bytes = r.u64(WHAT)?;
        let duration = r.duration(WHAT)?;
        let mut buckets = Vec::with_capacity(r.left() / 16);
        while !r.is_empty() {
            buckets.push(BucketStats { packets: r.u64(WHAT)?, bytes: r.u64(WHAT)? });
        }
        Ok(Self { id, ref_count, packets, bytes, duration, buckets })
    }
}

// === impl GroupFeatures ===

impl GroupFeatures {
    /// Whether there are groups of this type.
    pub fn supports(&self, kind: GroupType) -> bool {
        self.types & 1 << kind as u32 != 0
    }

    pub(crate) fn encode(&self, w: &mut Writer) {
        w.u32(self.types);
        w.u32(self.capabilities.bits());
        self.max_groups.iter().chain(&self.actions).for_each(|v| w.u32(*v));
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        const WHAT: &str = "group_features";
        let types = r.u32(WHAT)?;
        let capabilities = GroupCapabilities::from_bits_retain(r.u32(WHAT)?);
        let mut four = || -> Result<[u32; 4], DecodeError> {
            Ok([r.u32(WHAT)?, r.u32(WHAT)?, r.u32(WHAT)?, r.u32(WHAT)?])
        };
        Ok(Self { types, capabilities, max_groups: four()?, actions: four()? })
    }
}
