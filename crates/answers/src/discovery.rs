//! Router advertisements (RFC 4861, 4.2), with name servers (RFC 8106) and routes (RFC 4191).
//!
//! Addresses are the model's, so nobody makes its own from a prefix: clients are sent to DHCPv6.

use crate::icmp::{Link, frame_v6, message};
use crate::ip::{ICMPV6, IpPacket};
use crate::lease::Terms;
use crate::neighbour::{ALL_NODES, ALL_NODES_MAC, UNTOUCHED};
use crate::options::domain_name;
use ipnet::IpNet;
use osier_model::{Dhcp, Mac};
use std::net::{IpAddr, Ipv6Addr};

const SOLICITATION: u8 = 133;
const ADVERTISEMENT: u8 = 134;
/// The hops that clients shall give their packets.
const HOPS: u8 = 64;
/// Addresses and the rest by DHCPv6.
const MANAGED: u8 = 0xc0;
/// Seconds that a router counts as there: many times the time after which it says so again.
pub(crate) const LIFETIME: u16 = 9000;

mod option {
    pub(super) const SOURCE: u8 = 1;
    pub(super) const PREFIX: u8 = 3;
    pub(super) const MTU: u8 = 5;
    pub(super) const ROUTE: u8 = 24;
    pub(super) const DNS: u8 = 25;
    pub(super) const SEARCH: u8 = 31;
}

/// Whether a packet is a router solicitation.
pub(crate) fn is_solicitation(packet: &IpPacket<'_>) -> bool {
    packet.hops == UNTOUCHED
        && matches!(packet.payload, Some((ICMPV6, [SOLICITATION, 0, _, _, _, _, _, _, ..])))
}

/// The router tells of itself: to who asked, or to all.
pub(crate) fn advertisement(terms: &Terms<'_>, asker: Option<IpAddr>) -> Option<Vec<u8>> {
    let told = terms.v6?;
    let lifetime = told.gateway.map_or(0, |_| LIFETIME);
    let [high, low] = lifetime.to_be_bytes();
    let head = u32::from_be_bytes([HOPS, MANAGED, high, low]);
    // When to look whether neighbours are there is the client's own affair.
    let mut rest = vec![0; 8];
    put(&mut rest, option::SOURCE, &Mac::GATEWAY.0);
    if let Some(mtu) = terms.mtu.filter(|mtu| *mtu >= Dhcp::LEAST_MTU_V6) {
        put(&mut rest, option::MTU, &[&[0; 2][..], &u32::from(mtu).to_be_bytes()].concat());
    }
    let seconds = u32::from(LIFETIME).to_be_bytes();
    if let Some(IpNet::V6(subnet)) = told.subnet.filter(|_| told.has_neighbours) {
        // On this link, and not to make addresses of.
        let head = [subnet.prefix_len(), 0x80];
        let parts: [&[u8]; 5] = [&head, &seconds, &seconds, &[0; 4], &subnet.network().octets()];
        put(&mut rest, option::PREFIX, &parts.concat());
    }
    for route in terms.dhcp.routes.iter().filter(|route| Some(route.via) == told.gateway) {
        if let IpNet::V6(to) = route.to {
            let octets = to.network().octets();
            put(&mut rest, option::ROUTE, &[&[to.prefix_len(), 0][..], &seconds, &octets].concat());
        }
    }
    let dns: Vec<u8> = dns(terms.dhcp).flat_map(|server| server.octets()).collect();
    if !dns.is_empty() {
        put(&mut rest, option::DNS, &[&[0; 2][..], &seconds, &dns].concat());
    }
    if let Some(domain) = &terms.dhcp.domain {
        put(&mut rest, option::SEARCH, &[&[0; 2][..], &seconds, &domain_name(domain)].concat());
    }
    let (to, mac) = match asker {
        Some(IpAddr::V6(asker)) if !asker.is_unspecified() => (asker, terms.mac),
        _ => (ALL_NODES, ALL_NODES_MAC),
    };
    let link = Link { source: Mac::GATEWAY, destination: mac };
    let message = message(ADVERTISEMENT, 0, head, &rest);
    Some(frame_v6(link, Mac::GATEWAY.link_local(), to, UNTOUCHED, &message))
}

/// Name servers of IPv6.
pub(crate) fn dns(dhcp: &Dhcp) -> impl Iterator<Item = Ipv6Addr> {
    dhcp.dns.iter().filter_map(|server| match server {
        IpAddr::V6(v6) => Some(*v6),
        IpAddr::V4(_) => None,
    })
}

/// An option: its length is in units of eight bytes, with its head, and padded.
fn put(bytes: &mut Vec<u8>, code: u8, value: &[u8]) {
    let units = (value.len() + 2).div_ceil(8);
    let Ok(len) = u8::try_from(units) else { return };
    bytes.extend([code, len]);
    bytes.extend(value);
    bytes.resize(bytes.len() + units * 8 - value.len() - 2, 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::icmp::checksum;
    use osier_compiler::Link as Told;

    fn terms(dhcp: &Dhcp) -> Terms<'_> {
        let v6 = Told {
            address: "fd05::7".parse().unwrap(),
            subnet: "fd05::/64".parse().ok(),
            gateway: "fd05::1".parse().ok(),
            has_neighbours: true,
        };
        Terms { mac: Mac([2, 0, 0, 0, 0, 7]), v4: None, v6: Some(v6), dhcp, mtu: Some(1442) }
    }

    #[test]
    fn a_router_tells_of_itself_and_of_the_link() {
        let dhcp: Dhcp = serde_json::from_str(
            r#"{"dns":["fd05::2"],"domain":"red","routes":[{"to":"fd09::/48","via":"fd05::1"}]}"#,
        )
        .unwrap();
        let frame = advertisement(&terms(&dhcp), None).unwrap();
        let packet = IpPacket::parse(&frame).unwrap();
        assert_eq!(packet.destination, IpAddr::from(ALL_NODES));
        assert_eq!(packet.source.to_string(), "fe80::c6f:73ff:fe69:6572");
        let (_, icmp) = packet.payload.unwrap();
        assert_eq!(icmp[..2], [134, 0]);
        assert_eq!(icmp[4..8], [64, 0xc0, 0x23, 0x28]);
        let (mut rest, mut found) = (&icmp[16..], Vec::new());
        while let [code, units, ..] = *rest {
            found.push((code, units));
            rest = &rest[usize::from(units) * 8..];
        }
        assert_eq!(found, [(1, 1), (5, 1), (3, 4), (24, 3), (25, 3), (31, 2)]);
        let pseudo = [&frame[22..54], &[0, 0], &[0, u8::try_from(icmp.len()).unwrap()], &[0, 58]];
        assert_eq!(checksum(&[&pseudo.concat(), icmp]), [0, 0]);
    }

    #[test]
    fn who_has_no_router_and_no_neighbours_is_told_neither() {
        let dhcp = Dhcp::default();
        let mut terms = terms(&dhcp);
        let link = terms.v6.as_mut().unwrap();
        (link.gateway, link.has_neighbours, terms.mtu) = (None, false, Some(1000));
        let frame = advertisement(&terms, "fe80::7".parse().ok()).unwrap();
        let packet = IpPacket::parse(&frame).unwrap();
        assert_eq!(packet.destination.to_string(), "fe80::7");
        let (_, icmp) = packet.payload.unwrap();
        assert_eq!((&icmp[6..8], &icmp[16..18]), (&[0, 0][..], &[1, 1][..]));
        assert_eq!(icmp.len(), 24);
    }
}
