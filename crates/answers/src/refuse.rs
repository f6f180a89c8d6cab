//! Refusing a connection: a reset for TCP (RFC 9293, 3.5.2), "port unreachable" for all else, as from
//! whom it was meant for.

use crate::icmp::{self, Fault, Link, frame_over};
use crate::ip::{IpPacket, TCP};

/// A TCP header without options.
const HEADER: usize = 20;
const CHECKSUM_AT: usize = 16;

mod flag {
    pub(crate) const FIN: u8 = 1;
    pub(crate) const SYN: u8 = 2;
    pub(crate) const RST: u8 = 4;
    pub(crate) const ACK: u8 = 16;
}

/// A frame that refuses what a packet begins; `None` if that may not be told.
pub(crate) fn refusal(packet: &IpPacket<'_>, link: Link) -> Option<Vec<u8>> {
    match packet.payload? {
        (TCP, segment) => {
            let reset = reset(segment, segment_len(packet, segment)?)?;
            frame_over(link, packet.destination, packet.source, TCP, &reset, CHECKSUM_AT)
        }
        _ => icmp::error(Fault::Refused, packet, packet.destination, link),
    }
}

/// How long the segment was before it was cut: what it carries is acknowledged.
fn segment_len(packet: &IpPacket<'_>, segment: &[u8]) -> Option<usize> {
    Some(packet.total.saturating_sub(packet.bytes.len().checked_sub(segment.len())?))
}

/// The segment that resets what this one begins. `len` is its length on the wire.
fn reset(segment: &[u8], len: usize) -> Option<[u8; HEADER]> {
    let header: &[u8; HEADER] = segment.first_chunk()?;
    let word = |at: usize| header.get(at..at + 4)?.first_chunk().map(|w| u32::from_be_bytes(*w));
    let (sequence, acknowledged, flags) = (word(4)?, word(8)?, header[13]);
    if flags & flag::RST != 0 {
        return None;
    }
    let content = len.checked_sub(usize::from(header[12] >> 4) * 4)?;
    let ends = u32::from(flags & flag::SYN != 0) + u32::from(flags & flag::FIN != 0);
    // What has been acknowledged says where we are; else all that came is acknowledged.
    let (sequence, acknowledgement, flags) = if flags & flag::ACK != 0 {
        (acknowledged, 0, flag::RST)
    } else {
        let next = sequence.wrapping_add(u32::try_from(content).ok()?).wrapping_add(ends);
        (0, next, flag::RST | flag::ACK)
    };
    let mut reset = [0; HEADER];
    reset[0..2].copy_from_slice(&header[2..4]);
    reset[2..4].copy_from_slice(&header[0..2]);
    reset[4..8].copy_from_slice(&sequence.to_be_bytes());
    reset[8..12].copy_from_slice(&acknowledgement.to_be_bytes());
    reset[12] = 5 << 4;
    reset[13] = flags;
    Some(reset)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `10.1.1.5.40000 > 10.96.0.9.80: Flags [S], seq 1000` and what else a case changes.
    fn syn(flags: u8, acknowledged: u32) -> Vec<u8> {
        let mut segment = vec![0x9c, 0x40, 0, 80];
        segment.extend(1000_u32.to_be_bytes());
        segment.extend(acknowledged.to_be_bytes());
        segment.extend([5 << 4, flags, 0xff, 0xff, 0, 0, 0, 0]);
        segment
    }

    #[test]
    fn a_reset_acknowledges_what_it_refuses() {
        let reset = |flags, acknowledged, len| reset(&syn(flags, acknowledged), len);
        let answer = reset(flag::SYN, 0, 20).unwrap();
        assert_eq!(&answer[..4], &[0, 80, 0x9c, 0x40]);
        assert_eq!(&answer[4..12], &[0, 0, 0, 0, 0, 0, 3, 0xe9]);
        assert_eq!(answer[13], flag::RST | flag::ACK);
        // In the middle of a connection that is no more.
        let answer = reset(flag::ACK, 77, 120).unwrap();
        assert_eq!((&answer[4..12], answer[13]), (&[0, 0, 0, 77, 0, 0, 0, 0][..], flag::RST));
        assert_eq!(reset(flag::RST, 0, 20), None);
    }
}
