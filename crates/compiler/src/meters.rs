//! The numbers of meters, declared once, and how a limit becomes one.
//!
//! | from | for |
//! |---|---|
//! | `0x4000_0000` | floods, one for each network, by VNI |
//! | `0x4100_0000` | questions to the agent, one for each kind |
//! | `0x4200_0000` | clients that ask for their addresses, one for each port, by tag |
//! | `0x8000_0000` | ports, four for each tag: what goes to it, what comes from it, connections that it begins, and those that others begin with it |

use crate::question::Question;
use osier_model::{Limit, Vni};
use osier_openflow::meter::{METER_MAX, Meter, MeterBand, MeterFlags};
use std::ops::RangeInclusive;

/// All numbers of ours.
pub const METERS: RangeInclusive<u32> = 0x4000_0000..=METER_MAX;

/// Where those of floods start.
const FLOODS: u32 = 0x4000_0000;
/// Where those of questions to the agent start.
pub(crate) const QUESTIONS: u32 = 0x4100_0000;
/// Where those of clients start.
const CLIENTS: u32 = 0x4200_0000;
/// Packets of one client in a second: many times what one needs, and no hindrance to others.
const CLIENT_RATE: u32 = 10;
/// Broadcast and multicast packets that ports of one network may send in a second, on one node:
/// far above what ARP, neighbour discovery and mDNS need, far below what hurts a tunnel.
const FLOOD_RATE: u32 = 1000;
/// Questions of one kind in a second.
const QUESTION_RATE: u32 = 200;

/// How many ports of other nodes may begin connections with one port as fast as they may.
const SENDERS: u32 = 4;

/// Where those of ports start.
const PORTS: u32 = 0x8000_0000;
/// The largest tag whose meters have numbers.
pub(crate) const MAX_TAG: u32 = (METER_MAX - 3 - PORTS) / 4;

/// The meter of what goes to the port with this tag.
pub(crate) fn to_port(tag: u32) -> u32 {
    PORTS + 4 * tag
}

/// The meter of what comes from the port with this tag.
pub(crate) fn from_port(tag: u32) -> u32 {
    PORTS + 4 * tag + 1
}

/// The meter of connections that the port with this tag begins.
pub(crate) fn begun_by(tag: u32, rate: u32) -> Meter {
    packets(PORTS + 4 * tag + 2, rate)
}

/// The meter of connections that others begin with it, from other nodes: those of several ports that
/// keep to their rate.
pub(crate) fn begun_with(tag: u32, rate: u32) -> Meter {
    packets(PORTS + 4 * tag + 3, rate.saturating_mul(SENDERS))
}

/// The meter of a network's floods.
pub(crate) fn flood(network: Vni) -> Meter {
    packets(FLOODS + network.get(), FLOOD_RATE)
}

/// The meter of a kind of questions.
pub(crate) fn question(question: Question) -> Meter {
    packets(question.meter(), QUESTION_RATE)
}

/// The meter of what the port with this tag asks for its addresses.
pub(crate) fn client(tag: u32) -> Meter {
    packets(CLIENTS + tag, CLIENT_RATE)
}

/// Packets in a second, and as many at once.
fn packets(id: u32, rate: u32) -> Meter {
    let flags = MeterFlags::PKTPS | MeterFlags::BURST;
    Meter { id, flags, bands: vec![MeterBand::drop(rate, rate)] }
}

/// A meter that drops what is above a limit.
pub(crate) fn limit(id: u32, limit: Limit) -> Meter {
    let kilobits = |bits: u64| u32::try_from(bits.div_ceil(1000)).unwrap_or(u32::MAX).max(1);
    let band = MeterBand::drop(kilobits(limit.rate), kilobits(limit.burst()));
    Meter { id, flags: MeterFlags::KBPS | MeterFlags::BURST, bands: vec![band] }
}
