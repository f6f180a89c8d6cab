//! What a switch counts by port.

use super::ETHERNET;
use crate::port_no::PortNo;
use crate::wire::{DecodeError, EncodeError, Reader, Writer};
use std::time::Duration;

/// Counters of a port; `None` where the switch does not count.
///
/// ```text
///  0     2    4      8     12        16
/// +-----+----+------+-----+---------+------------------------+--------------+
/// | len | 0  | port | sec | nanosec | eight counters, 64 each| properties … |
/// +-----+----+------+-----+---------+------------------------+--------------+
///                                               struct ofp_port_stats, 7.3.5.6
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as in the specification")]
pub struct PortStats {
    /// Which port.
    pub port: PortNo,
    /// How long it exists.
    pub duration: Duration,
    pub rx_packets: Option<u64>,
    pub tx_packets: Option<u64>,
    pub rx_bytes: Option<u64>,
    pub tx_bytes: Option<u64>,
    pub rx_dropped: Option<u64>,
    pub tx_dropped: Option<u64>,
    pub rx_errors: Option<u64>,
    pub tx_errors: Option<u64>,
    /// What only Ethernet counts.
    pub ethernet: Option<EthernetStats>,
}

/// What only Ethernet counts: `struct ofp_port_stats_prop_ethernet`, type 0, length 40: pad 32,
/// then the four below, 64 each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "named as in the specification")]
pub struct EthernetStats {
    pub rx_frame_err: Option<u64>,
    pub rx_over_err: Option<u64>,
    pub rx_crc_err: Option<u64>,
    pub collisions: Option<u64>,
}

/// What stands for a counter that the switch does not keep.
const NOT_COUNTED: u64 = u64::MAX;

fn put(w: &mut Writer, counter: Option<u64>) {
    w.u64(counter.unwrap_or(NOT_COUNTED));
}

fn read(what: &'static str, r: &mut Reader<'_>) -> Result<Option<u64>, DecodeError> {
    Ok(Some(r.u64(what)?).filter(|counter| *counter != NOT_COUNTED))
}

// === impl PortStats ===

impl PortStats {
    pub(crate) fn encode(&self, w: &mut Writer) -> Result<(), EncodeError> {
        let start = w.len();
        w.zeros(4);
        w.u32(self.port.0);
        w.duration("port_stats", self.duration)?;
        put(w, self.rx_packets);
        put(w, self.tx_packets);
        put(w, self.rx_bytes);
        put(w, self.tx_bytes);
        put(w, self.rx_dropped);
        put(w, self.tx_dropped);
        put(w, self.rx_errors);
        put(w, self.tx_errors);
        if let Some(ethernet) = self.ethernet {
            ethernet.encode(w);
        }
        w.patch_len("port_stats", start, start)
    }

    /// Properties that we do not know are left out: Open vSwitch adds Intel's counters of sizes.
    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        const WHAT: &str = "port_stats";
        let mut r = r.sized(WHAT, 0, 80)?;
        r.skip(WHAT, 4)?;
        let mut stats = Self {
            port: PortNo(r.u32(WHAT)?),
            duration: r.duration(WHAT)?,
            rx_packets: read(WHAT, &mut r)?,
            tx_packets: read(WHAT, &mut r)?,
            rx_bytes: read(WHAT, &mut r)?,
            tx_bytes: read(WHAT, &mut r)?,
            rx_dropped: read(WHAT, &mut r)?,
            tx_dropped: read(WHAT, &mut r)?,
            rx_errors: read(WHAT, &mut r)?,
            tx_errors: read(WHAT, &mut r)?,
            ethernet: None,
        };
        while !r.is_empty() {
            let (kind, body) = r.tlv(WHAT)?;
            if kind == ETHERNET {
                stats.ethernet = Some(EthernetStats::decode(body)?);
            }
        }
        Ok(stats)
    }
}

// === impl EthernetStats ===

impl EthernetStats {
    fn encode(self, w: &mut Writer) {
        w.u16(ETHERNET);
        w.u16(40);
        w.zeros(4);
        put(w, self.rx_frame_err);
        put(w, self.rx_over_err);
        put(w, self.rx_crc_err);
        put(w, self.collisions);
    }

    fn decode(mut r: Reader<'_>) -> Result<Self, DecodeError> {
        const WHAT: &str = "Ethernet counters";
        r.skip(WHAT, 4)?;
        Ok(Self {
            rx_frame_err: read(WHAT, &mut r)?,
            rx_over_err: read(WHAT, &mut r)?,
            rx_crc_err: read(WHAT, &mut r)?,
            collisions: read(WHAT, &mut r)?,
        })
    }
}
