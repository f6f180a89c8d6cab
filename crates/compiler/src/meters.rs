//! The numbers of meters, declared once, and how a limit becomes one.
//!
//! | from | for |
//! |---|---|
//! | `0x8000_0000` | ports, two for each tag: what goes to it, and what comes from it |

use osier_model::Limit;
use osier_openflow::meter::{METER_MAX, Meter, MeterBand, MeterFlags};
use std::ops::RangeInclusive;

/// All numbers of ours.
pub const METERS: RangeInclusive<u32> = 0x4000_0000..=METER_MAX;

/// Where those of ports start.
const PORTS: u32 = 0x8000_0000;
/// The largest tag whose meters have numbers.
pub(crate) const MAX_TAG: u32 = (METER_MAX - 1 - PORTS) / 2;

/// The meter of what goes to the port with this tag.
pub(crate) fn to_port(tag: u32) -> u32 {
    PORTS + 2 * tag
}

/// The meter of what comes from the port with this tag.
pub(crate) fn from_port(tag: u32) -> u32 {
    PORTS + 2 * tag + 1
}

/// A meter that drops what is above a limit.
pub(crate) fn limit(id: u32, limit: Limit) -> Meter {
    let kilobits = |bits: u64| u32::try_from(bits.div_ceil(1000)).unwrap_or(u32::MAX).max(1);
    let band = MeterBand::drop(kilobits(limit.rate), kilobits(limit.burst()));
    Meter { id, flags: MeterFlags::KBPS | MeterFlags::BURST, bands: vec![band] }
}
