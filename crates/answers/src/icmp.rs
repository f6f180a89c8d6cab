//! Errors about packets (RFC 792, RFC 1191, RFC 4443), and the frames around them.

use crate::ip::{ETHERNET, ICMP, ICMPV6, IPV4, IPV4_HEADER, IPV6, IPV6_HEADER, IpPacket};
use osier_model::Mac;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An error is no larger than what everybody must take: RFC 1812, 4.3.2.3, and RFC 4443, 2.4 (c).
const LARGEST_V4: usize = 576;
const LARGEST_V6: usize = 1280;
/// Precedence of network control (RFC 1812, 4.3.2.5).
const CONTROL: u8 = 0xc0;
/// The hops that an answer may go.
const HOPS: u8 = 64;

/// What is wrong with a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is too large: this would fit.
    TooBig(u16),
    /// It has no hop left.
    Expired,
    /// Nobody listens where it goes.
    Refused,
}

/// From whom and to whom, on the link.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Link {
    pub(crate) source: Mac,
    pub(crate) destination: Mac,
}

/// A frame that tells the sender of a packet what is wrong with it; `None` if that may not be told.
/// `from` is of the packet's family.
pub(crate) fn error(
    fault: Fault,
    packet: &IpPacket<'_>,
    from: IpAddr,
    link: Link,
) -> Option<Vec<u8>> {
    if !packet.may_cause_error() {
        return None;
    }
    match (from, packet.source) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let (kind, code, word) = match fault {
                Fault::TooBig(mtu) => (3, 4, u32::from(mtu)),
                Fault::Expired => (11, 0, 0),
                Fault::Refused => (3, 3, 0),
            };
            let quoted = quote(packet.bytes, LARGEST_V4 - IPV4_HEADER - 8);
            Some(frame_v4(link, from, to, &message(kind, code, word, quoted)))
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let (kind, code, word) = match fault {
                Fault::TooBig(mtu) => (2, 0, u32::from(mtu)),
                Fault::Expired => (3, 0, 0),
                Fault::Refused => (1, 4, 0),
            };
            let quoted = quote(packet.bytes, LARGEST_V6 - IPV6_HEADER - 8);
            Some(frame_v6(link, from, to, HOPS, &message(kind, code, word, quoted)))
        }
        _ => None,
    }
}

fn quote(bytes: &[u8], most: usize) -> &[u8] {
    &bytes[..bytes.len().min(most)]
}

/// Type, code, a checksum yet to come, a word, and the rest.
pub(crate) fn message(kind: u8, code: u8, word: u32, rest: &[u8]) -> Vec<u8> {
    [&[kind, code, 0, 0][..], &word.to_be_bytes(), rest].concat()
}

fn ethernet(link: Link, kind: u16, capacity: usize) -> Vec<u8> {
    let mut frame = Vec::with_capacity(ETHERNET + capacity);
    frame.extend(link.destination.0);
    frame.extend(link.source.0);
    frame.extend(kind.to_be_bytes());
    frame
}

/// Lengths are those of answers, far below what 16 bits hold.
fn length(bytes: usize) -> [u8; 2] {
    u16::try_from(bytes).unwrap_or(u16::MAX).to_be_bytes()
}

fn frame_v4(link: Link, from: Ipv4Addr, to: Ipv4Addr, icmp: &[u8]) -> Vec<u8> {
    let mut frame = ethernet(link, IPV4, IPV4_HEADER + icmp.len());
    frame.extend(header_v4(from, to, (CONTROL, ICMP), icmp.len()));
    put_checked(&mut frame, icmp, 2, checksum(&[icmp]));
    frame
}

/// A header with its checksum: what the content is for, and of which protocol.
fn header_v4(
    from: Ipv4Addr,
    to: Ipv4Addr,
    (service, protocol): (u8, u8),
    content: usize,
) -> [u8; IPV4_HEADER] {
    let mut header = [0; IPV4_HEADER];
    header[0] = 0x45;
    header[1] = service;
    header[2..4].copy_from_slice(&length(IPV4_HEADER + content));
    header[8] = HOPS;
    header[9] = protocol;
    header[12..16].copy_from_slice(&from.octets());
    header[16..].copy_from_slice(&to.octets());
    let sum = checksum(&[&header]);
    header[10..12].copy_from_slice(&sum);
    header
}

/// A frame with a segment or datagram, whose checksum stands so far behind its start; both addresses
/// are of one family.
pub(crate) fn frame_over(
    link: Link,
    from: IpAddr,
    to: IpAddr,
    protocol: u8,
    segment: &[u8],
    checksum_at: usize,
) -> Option<Vec<u8>> {
    // Of two ways to say nothing, UDP has another meaning for one (RFC 768).
    let checksum = |parts: &[&[u8]]| match checksum(parts) {
        [0, 0] => [0xff; 2],
        sum => sum,
    };
    let pseudo = [&[0, protocol][..], &length(segment.len())].concat();
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let mut frame = ethernet(link, IPV4, IPV4_HEADER + segment.len());
            frame.extend(header_v4(from, to, (0, protocol), segment.len()));
            let sum = checksum(&[&from.octets(), &to.octets(), &pseudo, segment]);
            put_checked(&mut frame, segment, checksum_at, sum);
            Some(frame)
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let mut frame = ethernet(link, IPV6, IPV6_HEADER + segment.len());
            frame.extend(header_v6(from, to, (HOPS, protocol), segment.len()));
            let sum = checksum(&[&from.octets(), &to.octets(), &pseudo, segment]);
            put_checked(&mut frame, segment, checksum_at, sum);
            Some(frame)
        }
        _ => None,
    }
}

/// A frame with an ICMPv6 message, whose checksum is filled in.
pub(crate) fn frame_v6(link: Link, from: Ipv6Addr, to: Ipv6Addr, hops: u8, icmp: &[u8]) -> Vec<u8> {
    let header = header_v6(from, to, (hops, ICMPV6), icmp.len());
    // The pseudo-header (RFC 8200, 8.1): addresses, length, protocol.
    let sum = checksum(&[&header[8..], &[0, 0], &length(icmp.len()), &[0, 0, 0, ICMPV6], icmp]);
    let mut frame = ethernet(link, IPV6, IPV6_HEADER + icmp.len());
    frame.extend(header);
    put_checked(&mut frame, icmp, 2, sum);
    frame
}

/// A header: how far it may go, and of which protocol the content is.
fn header_v6(
    from: Ipv6Addr,
    to: Ipv6Addr,
    (hops, protocol): (u8, u8),
    content: usize,
) -> [u8; IPV6_HEADER] {
    let mut header = [0; IPV6_HEADER];
    header[0] = 0x60;
    header[4..6].copy_from_slice(&length(content));
    header[6] = protocol;
    header[7] = hops;
    header[8..24].copy_from_slice(&from.octets());
    header[24..].copy_from_slice(&to.octets());
    header
}

/// Appends a message with its checksum, which stands so far behind its start.
fn put_checked(frame: &mut Vec<u8>, message: &[u8], offset: usize, sum: [u8; 2]) {
    let at = frame.len() + offset;
    frame.extend(message);
    if let Some(field) = frame.get_mut(at..at + 2) {
        field.copy_from_slice(&sum);
    }
}

/// The internet checksum (RFC 1071) of parts; all but the last are of even length.
pub(crate) fn checksum(parts: &[&[u8]]) -> [u8; 2] {
    let mut sum = 0_u64;
    for word in parts.iter().flat_map(|part| part.chunks(2)) {
        sum += u64::from(u16::from_be_bytes([word[0], word.get(1).copied().unwrap_or(0)]));
    }
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    let [.., high, low] = (!sum).to_be_bytes();
    [high, low]
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: Link = Link { source: Mac::GATEWAY, destination: Mac([2, 0, 0, 0, 0, 1]) };

    /// `10.1.1.5 > 10.1.2.5: ICMP echo request`, as `ping -M do -s 4` sends it.
    fn echo_v4() -> Vec<u8> {
        let mut frame = ethernet(LINK, IPV4, 0);
        frame.extend([0x45, 0, 0, 32, 0x12, 0x34, 0x40, 0, 64, 1, 0, 0]);
        frame.extend([10, 1, 1, 5, 10, 1, 2, 5]);
        frame.extend([8, 0, 0, 0, 0, 1, 0, 1, 1, 2, 3, 4]);
        frame
    }

    #[test]
    fn too_big_quotes_the_packet_and_names_the_mtu() {
        let (frame, from) = (echo_v4(), IpAddr::from([10, 1, 1, 1]));
        let packet = IpPacket::parse(&frame).unwrap();
        let answer = error(Fault::TooBig(1442), &packet, from, LINK).unwrap();
        let told = IpPacket::parse(&answer).unwrap();
        assert_eq!((told.source, told.destination), (from, packet.source));
        let (protocol, icmp) = told.payload.unwrap();
        assert_eq!((protocol, &icmp[..2], &icmp[4..8]), (1, &[3, 4][..], &[0, 0, 5, 162][..]));
        assert_eq!(&icmp[8..], packet.bytes);
        // A checksum over what holds its own checksum is nothing.
        assert_eq!(checksum(&[icmp]), [0, 0]);
        assert_eq!(checksum(&[&answer[ETHERNET..ETHERNET + IPV4_HEADER]]), [0, 0]);
        // No error about an error.
        assert_eq!(error(Fault::Expired, &told, from, LINK), None);
    }

    #[test]
    fn errors_are_no_larger_than_everybody_takes() {
        let (from, to): (Ipv6Addr, Ipv6Addr) =
            ("fd01::5".parse().unwrap(), "fd02::5".parse().unwrap());
        let frame = frame_v6(LINK, from, to, 1, &message(128, 0, 7, &[0xab; 1800]));
        let packet = IpPacket::parse(&frame).unwrap();
        let router = "fd01::1".parse().unwrap();
        for (fault, kind, word) in [(Fault::TooBig(1400), 2, 1400_u32), (Fault::Expired, 3, 0)] {
            let answer = error(fault, &packet, router, LINK).unwrap();
            assert_eq!(answer.len(), ETHERNET + LARGEST_V6);
            let (_, icmp) = IpPacket::parse(&answer).unwrap().payload.unwrap();
            assert_eq!((icmp[0], &icmp[4..8]), (kind, &word.to_be_bytes()[..]));
        }
    }

    #[test]
    fn what_may_not_be_answered_is_not() {
        let refused = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut frame = echo_v4();
            change(&mut frame);
            let from = IpAddr::from([10, 1, 1, 1]);
            let packet = IpPacket::parse(&frame);
            packet.and_then(|p| error(Fault::Expired, &p, from, LINK)).is_none()
        };
        assert!(!refused(&|_| {}));
        // A later fragment, a group, an error, no sender, a tag, a wrong length.
        assert!(refused(&|f| f[21] = 9));
        assert!(refused(&|f| f[30] = 224));
        assert!(refused(&|f| f[34] = 3));
        assert!(refused(&|f| f[26..30].fill(0)));
        assert!(refused(&|f| f[12..14].copy_from_slice(&[0x81, 0])));
        assert!(refused(&|f| f[17] = 19));
        assert!(refused(&|f| f.truncate(33)));
    }
}
