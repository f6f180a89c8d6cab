//! Frames as a hostile pod writes them: every field is free, and checksums are right, so that nobody
//! drops them for another reason than the lie in them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub(crate) type Mac = [u8; 6];

pub(crate) const BROADCAST: Mac = [0xff; 6];
pub(crate) const ARP: u16 = 0x0806;
pub(crate) const UDP: u8 = 17;
pub(crate) const TCP: u8 = 6;
pub(crate) const ICMPV6: u8 = 58;
const ICMP: u8 = 1;
/// IPv6 extension headers: RFC 8200, 4.1.
pub(crate) const HOP_BY_HOP: u8 = 0;
pub(crate) const ROUTING: u8 = 43;
pub(crate) const FRAGMENT: u8 = 44;
pub(crate) const DESTINATION: u8 = 60;

/// An Ethernet frame around an IP packet.
pub(crate) fn framed(dst: Mac, src: Mac, packet: &[u8]) -> Vec<u8> {
    let kind = if packet[0] >> 4 == 4 { 0x0800 } else { 0x86dd };
    ethernet(dst, src, kind, packet)
}

pub(crate) fn ethernet(dst: Mac, src: Mac, kind: u16, payload: &[u8]) -> Vec<u8> {
    [&dst[..], &src, &kind.to_be_bytes(), payload].concat()
}

/// The frame with tags, the outer first: their Ethernet type and number.
pub(crate) fn tagged(frame: &[u8], tags: &[(u16, u16)]) -> Vec<u8> {
    let tags = tags.iter().flat_map(|(kind, vid)| [kind.to_be_bytes(), vid.to_be_bytes()].concat());
    [&frame[..12], &tags.collect::<Vec<u8>>(), &frame[12..]].concat()
}

/// An ARP message (RFC 826) with something behind it.
pub(crate) fn arp(
    op: u16,
    sender: (Mac, Ipv4Addr),
    target: (Mac, Ipv4Addr),
    rest: &[u8],
) -> Vec<u8> {
    let parts: [&[u8]; 7] = [
        &[0, 1, 8, 0, 6, 4],
        &op.to_be_bytes(),
        &sender.0,
        &sender.1.octets(),
        &target.0,
        &target.1.octets(),
        rest,
    ];
    parts.concat()
}

/// Both ends of a packet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ends {
    pub(crate) src: IpAddr,
    pub(crate) dst: IpAddr,
}

/// Which part of a packet, in bytes, and of which.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) id: u16,
    pub(crate) offset: u16,
    pub(crate) more: bool,
}

// === impl Ends ===

impl Ends {
    pub(crate) fn new(src: impl Into<IpAddr>, dst: impl Into<IpAddr>) -> Self {
        Self { src: src.into(), dst: dst.into() }
    }

    /// A packet. Nobody has taken a hop from it: neighbour discovery wants that.
    pub(crate) fn packet(self, protocol: u8, payload: &[u8]) -> Vec<u8> {
        self.with_options(&[], 0, protocol, payload)
    }

    /// One with options of IPv4, and its word of flags and offset.
    pub(crate) fn with_options(
        self,
        options: &[u8],
        fragment: u16,
        protocol: u8,
        payload: &[u8],
    ) -> Vec<u8> {
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let header = 20 + options.len();
                let mut packet = vec![0x40 | u8::try_from(header / 4).unwrap(), 0];
                packet.extend(u16::try_from(header + payload.len()).unwrap().to_be_bytes());
                packet.extend([0x6f, 0x73]);
                packet.extend(fragment.to_be_bytes());
                packet.extend([255, protocol, 0, 0]);
                packet.extend([src.octets(), dst.octets()].concat());
                packet.extend(options);
                let sum = checksum(&packet);
                packet[10..12].copy_from_slice(&sum.to_be_bytes());
                packet.extend(payload);
                packet
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let mut packet = vec![0x60, 0, 0, 0];
                packet.extend(u16::try_from(payload.len()).unwrap().to_be_bytes());
                packet.extend([protocol, 255]);
                packet.extend([src.octets(), dst.octets()].concat());
                packet.extend(payload);
                packet
            }
            _ => unreachable!("both are of one family"),
        }
    }

    /// A piece of a packet that was divided.
    pub(crate) fn piece(self, piece: Piece, protocol: u8, payload: &[u8]) -> Vec<u8> {
        let Piece { id, offset, more } = piece;
        if self.src.is_ipv4() {
            let word = (offset / 8) | (u16::from(more) << 13);
            let mut packet = self.with_options(&[], word, protocol, payload);
            packet[4..6].copy_from_slice(&id.to_be_bytes());
            packet[10..12].fill(0);
            let sum = checksum(&packet[..20]);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
            return packet;
        }
        let word = ((offset & !7) | u16::from(more)).to_be_bytes();
        let header = [&[protocol, 0][..], &word, &[0, 0], &id.to_be_bytes()].concat();
        self.packet(FRAGMENT, &[&header, payload].concat())
    }

    /// A datagram, as an IP packet.
    pub(crate) fn udp(self, ports: (u16, u16), data: &[u8]) -> Vec<u8> {
        self.packet(UDP, &self.datagram(ports, data))
    }

    /// A datagram alone (RFC 768).
    pub(crate) fn datagram(self, (src, dst): (u16, u16), data: &[u8]) -> Vec<u8> {
        let length = u16::try_from(8 + data.len()).unwrap();
        let header = [src, dst, length, 0].map(u16::to_be_bytes).concat();
        self.summed(UDP, &[&header, data].concat(), 6)
    }

    /// A TCP segment that asks for a connection (RFC 9293), with data behind it.
    pub(crate) fn syn(self, (src, dst): (u16, u16), data: &[u8]) -> Vec<u8> {
        let ports = [src, dst].map(u16::to_be_bytes).concat();
        let rest = [0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0xff, 0xff, 0, 0, 0, 0];
        self.summed(TCP, &[&ports, &rest[..], data].concat(), 16)
    }

    /// A message of ICMP of the family, as an IP packet; `rest` is what follows the checksum.
    pub(crate) fn icmp(self, kind: u8, code: u8, rest: &[u8]) -> Vec<u8> {
        let message = [&[kind, code, 0, 0][..], rest].concat();
        match self.src {
            IpAddr::V4(_) => {
                let mut message = message;
                let sum = checksum(&message);
                message[2..4].copy_from_slice(&sum.to_be_bytes());
                self.packet(ICMP, &message)
            }
            IpAddr::V6(_) => self.packet(ICMPV6, &self.icmpv6(kind, code, rest)),
        }
    }

    /// A message of ICMPv6 alone.
    pub(crate) fn icmpv6(self, kind: u8, code: u8, rest: &[u8]) -> Vec<u8> {
        self.summed(ICMPV6, &[&[kind, code, 0, 0][..], rest].concat(), 2)
    }

    /// The checksum with the addresses (RFC 8200, 8.1), put in its place.
    fn summed(self, protocol: u8, segment: &[u8], at: usize) -> Vec<u8> {
        let length = u16::try_from(segment.len()).unwrap().to_be_bytes();
        let (src, dst) = (octets(self.src), octets(self.dst));
        let covered = [&src[..], &dst, &length, &[0, protocol], segment].concat();
        let sum = match checksum(&covered) {
            0 => 0xffff,
            sum => sum,
        };
        let mut segment = segment.to_vec();
        segment[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        segment
    }
}

/// An option of neighbour discovery with an Ethernet address: 1 is the source's, 2 the target's.
pub(crate) fn link_layer(kind: u8, mac: Mac) -> Vec<u8> {
    [&[kind, 1][..], &mac].concat()
}

/// What a solicitation or advertisement says behind its checksum (RFC 4861, 4.3 and 4.4).
pub(crate) fn neighbour(flags: u8, target: Ipv6Addr, options: &[u8]) -> Vec<u8> {
    [&[flags, 0, 0, 0][..], &target.octets(), options].concat()
}

/// An extension header of eight bytes that says nothing.
pub(crate) fn padding_header(next: u8) -> [u8; 8] {
    [next, 0, 1, 4, 0, 0, 0, 0]
}

/// A routing header of type 0 (RFC 2460, 4.4) by one more hop.
pub(crate) fn routing_header(next: u8, hop: Ipv6Addr) -> Vec<u8> {
    [&[next, 2, 0, 1, 0, 0, 0, 0][..], &hop.octets()].concat()
}

/// Where a multicast packet of IPv6 goes on Ethernet (RFC 2464, 7).
pub(crate) fn multicast(to: Ipv6Addr) -> Mac {
    let [.., a, b, c, d] = to.octets();
    [0x33, 0x33, a, b, c, d]
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

/// The sum of RFC 1071.
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes
        .chunks(2)
        .map(|two| u32::from(two[0]) << 8 | u32::from(two.get(1).copied().unwrap_or_default()));
    let sum = words.sum::<u32>();
    let folded = (sum & 0xffff) + (sum >> 16);
    !u16::try_from((folded & 0xffff) + (folded >> 16)).unwrap()
}
