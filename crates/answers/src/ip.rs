//! IP inside of an Ethernet frame, as far as answers need it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub(crate) const ETHERNET: usize = 14;
pub(crate) const IPV4: u16 = 0x0800;
pub(crate) const IPV6: u16 = 0x86dd;
pub(crate) const IPV4_HEADER: usize = 20;
pub(crate) const IPV6_HEADER: usize = 40;
pub(crate) const ICMP: u8 = 1;
pub(crate) const ICMPV6: u8 = 58;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;

/// Extension headers that are stepped over, at most this many.
const EXTENSIONS: usize = 8;

/// An IP packet, borrowed from a frame that may be cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IpPacket<'a> {
    /// Who sent it.
    pub source: IpAddr,
    /// For whom it is.
    pub destination: IpAddr,
    /// TTL or hop limit.
    pub hops: u8,
    /// From the header on, without the padding of Ethernet.
    pub bytes: &'a [u8],
    /// How many bytes it had before it was cut.
    pub total: usize,
    /// Protocol and content; `None` if that cannot be known, as of a later fragment.
    pub payload: Option<(u8, &'a [u8])>,
}

// === impl IpPacket ===

impl<'a> IpPacket<'a> {
    /// The packet of an untagged frame.
    pub fn parse(frame: &'a [u8]) -> Option<Self> {
        let (header, bytes) = frame.split_at_checked(ETHERNET)?;
        match u16::from_be_bytes([header[12], header[13]]) {
            IPV4 => parse_v4(bytes),
            IPV6 => parse_v6(bytes),
            _ => None,
        }
    }

    /// Whether an error about it may be told (RFC 1122, 3.2.2; RFC 4443, 2.4 (e)): never about
    /// errors, later fragments, or what has not one sender and one receiver.
    pub(crate) fn may_cause_error(&self) -> bool {
        let one = |address: IpAddr| match address {
            IpAddr::V4(v4) => {
                !(v4.is_unspecified() || v4.is_multicast() || v4.is_broadcast() || v4.is_loopback())
            }
            IpAddr::V6(v6) => !(v6.is_unspecified() || v6.is_multicast() || v6.is_loopback()),
        };
        let error = match self.payload {
            None | Some((ICMP | ICMPV6, [])) => true,
            // Echo, timestamps and such are no errors.
            Some((ICMP, [kind, ..])) => matches!(kind, 3..=5 | 11 | 12),
            Some((ICMPV6, [kind, ..])) => *kind < 128,
            Some(_) => false,
        };
        one(self.source) && one(self.destination) && !error
    }
}

/// RFC 791, 3.1.
fn parse_v4(bytes: &[u8]) -> Option<IpPacket<'_>> {
    let header: &[u8; IPV4_HEADER] = bytes.first_chunk()?;
    let header_len = usize::from(header[0] & 0xf) * 4;
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    if header[0] >> 4 != 4 || header_len < IPV4_HEADER || total < header_len {
        return None;
    }
    let bytes = &bytes[..total.min(bytes.len())];
    let content = bytes.get(header_len..)?;
    let offset = u16::from_be_bytes([header[6], header[7]]) & 0x1fff;
    let address = |at: usize| -> Option<Ipv4Addr> {
        header.get(at..at + 4)?.first_chunk::<4>().map(|octets| Ipv4Addr::from(*octets))
    };
    Some(IpPacket {
        source: address(12)?.into(),
        destination: address(16)?.into(),
        hops: header[8],
        bytes,
        total,
        payload: (offset == 0).then_some((header[9], content)),
    })
}

/// RFC 8200, 3.
fn parse_v6(bytes: &[u8]) -> Option<IpPacket<'_>> {
    let header: &[u8; IPV6_HEADER] = bytes.first_chunk()?;
    if header[0] >> 4 != 6 {
        return None;
    }
    let total = IPV6_HEADER + usize::from(u16::from_be_bytes([header[4], header[5]]));
    let bytes = &bytes[..total.min(bytes.len())];
    let address = |at: usize| -> Option<Ipv6Addr> {
        header.get(at..at + 16)?.first_chunk::<16>().map(|octets| Ipv6Addr::from(*octets))
    };
    Some(IpPacket {
        source: address(8)?.into(),
        destination: address(24)?.into(),
        hops: header[7],
        bytes,
        total,
        payload: upper_layer(header[6], &bytes[IPV6_HEADER..]),
    })
}

/// What is behind the extension headers (RFC 8200, 4).
fn upper_layer(mut next: u8, mut rest: &[u8]) -> Option<(u8, &[u8])> {
    for _ in 0..EXTENSIONS {
        let len = match next {
            // Hop by hop, routing, destination options: in units of eight bytes, less the first.
            0 | 43 | 60 => (usize::from(*rest.get(1)?) + 1) * 8,
            44 => {
                let offset = u16::from_be_bytes([*rest.get(2)?, *rest.get(3)?]) >> 3;
                if offset != 0 {
                    return None;
                }
                8
            }
            _ => return Some((next, rest)),
        };
        next = *rest.first()?;
        rest = rest.get(len..)?;
    }
    None
}
