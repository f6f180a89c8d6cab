//! Neighbour advertisements of a router (RFC 4861, 4.4 and 7.2.4).

use crate::icmp::{Link, frame_v6, message};
use crate::ip::{ICMPV6, IpPacket};
use osier_model::Mac;
use std::net::{IpAddr, Ipv6Addr};

const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
/// What nobody else on the way has touched (RFC 4861, 7.1.1).
pub(crate) const UNTOUCHED: u8 = 255;
pub(crate) const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
pub(crate) const ALL_NODES_MAC: Mac = Mac([0x33, 0x33, 0, 0, 0, 1]);

mod flag {
    pub(crate) const ROUTER: u32 = 1 << 31;
    pub(crate) const SOLICITED: u32 = 1 << 30;
    pub(crate) const OVERRIDE: u32 = 1 << 29;
}

/// Whom a solicitation looks for.
pub(crate) fn target(packet: &IpPacket<'_>) -> Option<Ipv6Addr> {
    let (ICMPV6, [SOLICITATION, 0, _, _, _, _, _, _, rest @ ..]) = packet.payload? else {
        return None;
    };
    let target = Ipv6Addr::from(*rest.first_chunk::<16>()?);
    (packet.hops == UNTOUCHED && !target.is_multicast()).then_some(target)
}

/// The router at `link.source` says that it has `router`, to who asked.
pub(crate) fn advertisement(
    packet: &IpPacket<'_>,
    router: Ipv6Addr,
    link: Link,
) -> Option<Vec<u8>> {
    let IpAddr::V6(asker) = packet.source else { return None };
    let always = flag::ROUTER | flag::OVERRIDE;
    // Who has no address yet asks whether it may have this one: it may not, and all hear of it.
    let (to, flags, link) = match asker.is_unspecified() {
        true => (ALL_NODES, always, Link { destination: ALL_NODES_MAC, ..link }),
        false => (asker, always | flag::SOLICITED, link),
    };
    // The target, and the option with its Ethernet address: type 2, one unit of eight bytes.
    let rest = [&router.octets()[..], &[2, 1], &link.source.0].concat();
    Some(frame_v6(link, router, to, UNTOUCHED, &message(ADVERTISEMENT, 0, flags, &rest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: Link = Link { source: Mac::GATEWAY, destination: Mac([2, 0, 0, 0, 0, 1]) };

    fn solicitation(from: &str, hops: u8) -> Vec<u8> {
        let router: Ipv6Addr = "fd01::1".parse().unwrap();
        let to = "ff02::1:ff00:1".parse().unwrap();
        let rest = [&router.octets()[..], &[1, 1], &LINK.destination.0].concat();
        frame_v6(LINK, from.parse().unwrap(), to, hops, &message(SOLICITATION, 0, 0, &rest))
    }

    #[test]
    fn a_router_says_where_it_is() {
        let frame = solicitation("fd01::5", 255);
        let packet = IpPacket::parse(&frame).unwrap();
        let router = target(&packet).unwrap();
        let answer = advertisement(&packet, router, LINK).unwrap();
        assert_eq!(answer[..6], LINK.destination.0);
        let told = IpPacket::parse(&answer).unwrap();
        assert_eq!((told.source, told.destination), (router.into(), packet.source));
        let (_, icmp) = told.payload.unwrap();
        assert_eq!(icmp[..2], [136, 0]);
        assert_eq!(icmp[4..8], [0xe0, 0, 0, 0]);
        assert_eq!(icmp[8..24], router.octets());
        assert_eq!(icmp[24..], [2, 1, 0x0e, b'o', b's', b'i', b'e', b'r']);
    }

    #[test]
    fn who_would_take_its_address_hears_that_it_is_taken() {
        let frame = solicitation("::", 255);
        let packet = IpPacket::parse(&frame).unwrap();
        let answer = advertisement(&packet, target(&packet).unwrap(), LINK).unwrap();
        let told = IpPacket::parse(&answer).unwrap();
        assert_eq!((told.destination, &answer[..6]), (ALL_NODES.into(), &ALL_NODES_MAC.0[..]));
        assert_eq!(told.payload.unwrap().1[4..8], [0xa0, 0, 0, 0]);
    }

    #[test]
    fn what_was_routed_is_no_neighbours() {
        let frame = solicitation("fd01::5", 254);
        assert_eq!(target(&IpPacket::parse(&frame).unwrap()), None);
        let cut = &frame[..frame.len() - 12];
        assert_eq!(target(&IpPacket::parse(cut).unwrap()), None);
    }
}
