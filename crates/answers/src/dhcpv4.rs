//! DHCP (RFC 2131), the server's side.
//!
//! The address that a client is offered is its port's; what it asks for only decides between yes and
//! no. So nothing is remembered between packets, and a client that lost its lease gets the same again.

use crate::icmp::Link;
use crate::ip::IpPacket;
use crate::lease::{LeaseEvent, Terms};
use crate::options::{Options4, Writer4};
use crate::udp;
use ipnet::IpNet;
use osier_model::{Mac, StaticRoute};
use std::net::{IpAddr, Ipv4Addr};

const SERVER: u16 = 67;
const CLIENT: u16 = 68;
/// The fixed part of a message, and what its options begin with (RFC 2131, 3).
const FIXED: usize = 236;
const COOKIE: [u8; 4] = [99, 130, 83, 99];
const REQUEST: u8 = 1;
const REPLY: u8 = 2;
/// Ethernet, and the length of its addresses.
const HARDWARE: [u8; 2] = [1, 6];
const BROADCAST_FLAG: u16 = 0x8000;
const BROADCAST_MAC: Mac = Mac([0xff; 6]);
/// How large a packet may be: what every client takes, and what we make at most.
const SIZES: std::ops::RangeInclusive<u16> = 576..=1280;
/// Headers of IP and UDP, the fixed part, and the cookie.
const AROUND: usize = 20 + 8 + FIXED + 4;
/// The longest identifier of a client that is told back.
const LONGEST_ID: usize = 64;

/// RFC 2132, but for those with a number of their own.
mod option {
    pub(super) const MASK: u8 = 1;
    pub(super) const ROUTER: u8 = 3;
    pub(super) const DNS: u8 = 6;
    pub(super) const DOMAIN: u8 = 15;
    pub(super) const MTU: u8 = 26;
    pub(super) const REQUESTED: u8 = 50;
    pub(super) const LEASE: u8 = 51;
    pub(super) const KIND: u8 = 53;
    pub(super) const SERVER: u8 = 54;
    pub(super) const SIZE: u8 = 57;
    pub(super) const RENEWAL: u8 = 58;
    pub(super) const REBINDING: u8 = 59;
    pub(super) const CLIENT: u8 = 61;
    /// RFC 4039.
    pub(super) const RAPID: u8 = 80;
    /// RFC 3442.
    pub(super) const ROUTES: u8 = 121;
}

mod kind {
    pub(super) const DISCOVER: u8 = 1;
    pub(super) const OFFER: u8 = 2;
    pub(super) const REQUEST: u8 = 3;
    pub(super) const DECLINE: u8 = 4;
    pub(super) const ACK: u8 = 5;
    pub(super) const NAK: u8 = 6;
    pub(super) const RELEASE: u8 = 7;
    pub(super) const INFORM: u8 = 8;
}

/// What a client says, as far as it matters.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Message<'a> {
    fixed: &'a [u8; FIXED],
    kind: u8,
    /// The address that it has already.
    has: Ipv4Addr,
    requested: Option<Ipv4Addr>,
    server: Option<Ipv4Addr>,
    id: &'a [u8],
    is_rapid: bool,
    size: u16,
}

// === impl Message ===

impl<'a> Message<'a> {
    /// Of a client whose Ethernet address is this.
    fn parse(bytes: &'a [u8], mac: Mac) -> Option<Self> {
        let (fixed, rest) = bytes.split_first_chunk::<FIXED>()?;
        let is_ours = fixed[0] == REQUEST
            && fixed[1..3] == HARDWARE
            && fixed[28..34] == mac.0
            // A relay, which nobody here is.
            && fixed[24..28] == [0; 4];
        let (cookie, options) = rest.split_first_chunk::<4>()?;
        if !is_ours || *cookie != COOKIE {
            return None;
        }
        let mut message = Self {
            fixed,
            kind: 0,
            has: address(&fixed[12..16])?,
            requested: None,
            server: None,
            id: &[],
            is_rapid: false,
            size: *SIZES.start(),
        };
        for option in Options4(options) {
            let (code, value) = option.ok()?;
            match (code, value) {
                (option::KIND, [kind]) => message.kind = *kind,
                (option::REQUESTED, value) => message.requested = Some(address(value)?),
                (option::SERVER, value) => message.server = Some(address(value)?),
                (option::CLIENT, id) if id.len() <= LONGEST_ID => message.id = id,
                (option::RAPID, []) => message.is_rapid = true,
                (option::SIZE, [high, low]) => {
                    let size = u16::from_be_bytes([*high, *low]);
                    message.size = size.clamp(*SIZES.start(), *SIZES.end());
                }
                _ => {}
            }
        }
        Some(message)
    }

    fn wants_broadcast(&self) -> bool {
        u16::from_be_bytes([self.fixed[10], self.fixed[11]]) & BROADCAST_FLAG != 0
    }
}

fn address(bytes: &[u8]) -> Option<Ipv4Addr> {
    <[u8; 4]>::try_from(bytes).ok().map(Ipv4Addr::from)
}

/// What becomes of a client's packet: a frame, if it is answered, and what it was about.
pub(crate) fn answer(
    packet: &IpPacket<'_>,
    terms: &Terms<'_>,
) -> Option<(Option<Vec<u8>>, LeaseEvent)> {
    let message = Message::parse(udp::content(packet)?, terms.mac)?;
    let link = terms.v4?;
    let IpAddr::V4(own) = link.address else { return None };
    let server = link.server();
    let is_for_us = message.server.is_none_or(|said| said == server);
    let say = |kind, event| Some((compose(kind, &message, own, terms), event));
    match message.kind {
        kind::DISCOVER if message.is_rapid => say(kind::ACK, LeaseEvent::Given),
        kind::DISCOVER => say(kind::OFFER, LeaseEvent::Offered),
        // It has chosen another server (RFC 2131, 3.1).
        kind::REQUEST if !is_for_us => None,
        kind::REQUEST => {
            let has_one = !message.has.is_unspecified();
            match message.requested.or(has_one.then_some(message.has)) {
                Some(wanted) if wanted == own && has_one => say(kind::ACK, LeaseEvent::Renewed),
                Some(wanted) if wanted == own => say(kind::ACK, LeaseEvent::Given),
                Some(_) => say(kind::NAK, LeaseEvent::Refused),
                None => None,
            }
        }
        kind::INFORM => say(kind::ACK, LeaseEvent::Informed),
        kind::RELEASE if is_for_us && message.has == own => Some((None, LeaseEvent::Released)),
        kind::DECLINE if is_for_us && message.requested == Some(own) => {
            Some((None, LeaseEvent::Declined))
        }
        _ => None,
    }
}

/// A message to the client, in a frame.
fn compose(kind: u8, to: &Message<'_>, own: Ipv4Addr, terms: &Terms<'_>) -> Option<Vec<u8>> {
    let server = terms.v4?.server();
    // Whom an acknowledgement is for that gives nothing has its address already.
    let is_inform = to.kind == kind::INFORM;
    let given = match kind {
        kind::NAK => Ipv4Addr::UNSPECIFIED,
        _ if is_inform => Ipv4Addr::UNSPECIFIED,
        _ => own,
    };
    let mut bytes = vec![0; FIXED];
    bytes[..3].copy_from_slice(&[REPLY, HARDWARE[0], HARDWARE[1]]);
    // The transaction's number, and flags; but not the seconds.
    bytes[4..8].copy_from_slice(&to.fixed[4..8]);
    bytes[10..12].copy_from_slice(&to.fixed[10..12]);
    if kind != kind::NAK {
        bytes[12..16].copy_from_slice(&to.has.octets());
    }
    bytes[16..20].copy_from_slice(&given.octets());
    bytes[28..44].copy_from_slice(&to.fixed[28..44]);
    bytes.extend(COOKIE);
    let mut options = Writer4::new(usize::from(to.size) - AROUND);
    options.add(option::KIND, &[kind]);
    options.add(option::SERVER, &server.octets());
    options.add(option::CLIENT, to.id);
    if kind != kind::NAK {
        tell(&mut options, terms, is_inform)?;
    }
    if kind == kind::ACK && to.kind == kind::DISCOVER {
        options.bytes.extend([option::RAPID, 0]);
    }
    bytes.extend(options.finish());
    // RFC 2131, 4.1: to the address that it has, to all if it cannot hear otherwise, or to the one
    // that it gets.
    let (destination, mac) = match kind {
        kind::NAK => (Ipv4Addr::BROADCAST, BROADCAST_MAC),
        _ if !to.has.is_unspecified() => (to.has, terms.mac),
        _ if to.wants_broadcast() => (Ipv4Addr::BROADCAST, BROADCAST_MAC),
        _ => (own, terms.mac),
    };
    let link = Link { source: Mac::GATEWAY, destination: mac };
    udp::frame(link, (server.into(), SERVER), (destination.into(), CLIENT), &bytes)
}

/// All that there is to say, what matters most first: what has no room is left out.
fn tell(options: &mut Writer4, terms: &Terms<'_>, is_inform: bool) -> Option<()> {
    let (link, dhcp) = (terms.v4?, terms.dhcp);
    if !is_inform {
        let times = [
            (option::LEASE, dhcp.lease),
            (option::RENEWAL, dhcp.lease / 2),
            (option::REBINDING, dhcp.lease / 8 * 7),
        ];
        for (code, seconds) in times {
            options.add(code, &seconds.to_be_bytes());
        }
    }
    let IpNet::V4(prefix) = IpNet::new(link.address, link.prefix_len()).ok()? else { return None };
    options.add(option::MASK, &prefix.netmask().octets());
    if let Some(IpAddr::V4(gateway)) = link.gateway {
        options.add(option::ROUTER, &gateway.octets());
    }
    options.add(option::ROUTES, &routes(terms));
    let octets = |address: &IpAddr| match address {
        IpAddr::V4(v4) => Some(v4.octets()),
        IpAddr::V6(_) => None,
    };
    options.add(option::DNS, &dhcp.dns.iter().filter_map(octets).flatten().collect::<Vec<u8>>());
    if let Some(mtu) = terms.mtu {
        options.add(option::MTU, &mtu.to_be_bytes());
    }
    options.add(option::DOMAIN, dhcp.domain.as_deref().unwrap_or_default().as_bytes());
    Some(())
}

/// Routes, as RFC 3442 has them. Who reads them passes over the router that is told beside them, so it
/// is told here again; and on a link without neighbours first how to reach it.
fn routes(terms: &Terms<'_>) -> Vec<u8> {
    let Some(link) = terms.v4 else { return Vec::new() };
    let mut bytes = Vec::new();
    let mut put = |to: IpNet, via: IpAddr| {
        if let (IpNet::V4(to), IpAddr::V4(via)) = (to, via) {
            let significant = usize::from(to.prefix_len().div_ceil(8));
            bytes.push(to.prefix_len());
            bytes.extend(&to.network().octets()[..significant]);
            bytes.extend(via.octets());
        }
    };
    let is_alone = !link.has_neighbours;
    let of_v4 = |route: &&StaticRoute| route.via.is_ipv4();
    let more: Vec<&StaticRoute> = terms.dhcp.routes.iter().filter(of_v4).collect();
    if let Some(gateway) = link.gateway.filter(|_| is_alone || !more.is_empty()) {
        if is_alone {
            put(gateway.into(), Ipv4Addr::UNSPECIFIED.into());
        }
        put(IpNet::new_assert(Ipv4Addr::UNSPECIFIED.into(), 0), gateway);
    }
    for route in more {
        put(route.to, route.via);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use osier_compiler::Link as Told;
    use osier_model::Dhcp;

    const MAC: Mac = Mac([2, 0, 0, 0, 0, 7]);
    const OWN: Ipv4Addr = Ipv4Addr::new(10, 5, 0, 7);

    fn terms(dhcp: &Dhcp) -> Terms<'_> {
        let v4 = Told {
            address: OWN.into(),
            subnet: "10.5.0.0/24".parse().ok(),
            gateway: "10.5.0.1".parse().ok(),
            has_neighbours: true,
        };
        Terms { mac: MAC, v4: Some(v4), v6: None, dhcp, mtu: Some(1442) }
    }

    fn message(kind: u8, has: Ipv4Addr, options: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; FIXED];
        bytes[..3].copy_from_slice(&[1, 1, 6]);
        bytes[4..8].copy_from_slice(&[1, 2, 3, 4]);
        bytes[12..16].copy_from_slice(&has.octets());
        bytes[28..34].copy_from_slice(&MAC.0);
        bytes.extend(COOKIE);
        bytes.extend([option::KIND, 1, kind]);
        bytes.extend(options);
        bytes.push(255);
        bytes
    }

    fn asks(bytes: &[u8], dhcp: &Dhcp) -> Option<(Option<Vec<u8>>, LeaseEvent)> {
        let link = Link { source: MAC, destination: BROADCAST_MAC };
        let from = (Ipv4Addr::UNSPECIFIED.into(), CLIENT);
        let to = (Ipv4Addr::BROADCAST.into(), SERVER);
        let frame = udp::frame(link, from, to, bytes).unwrap();
        answer(&IpPacket::parse(&frame).unwrap(), &terms(dhcp))
    }

    /// The options of an answer, and to whom it goes.
    fn told(frame: &[u8]) -> (Vec<(u8, Vec<u8>)>, IpAddr) {
        let packet = IpPacket::parse(frame).unwrap();
        let bytes = udp::content(&packet).unwrap();
        let options: Result<Vec<_>, _> = Options4(&bytes[FIXED + 4..]).collect();
        let options = options.unwrap().into_iter().map(|(code, value)| (code, value.to_vec()));
        (options.collect(), packet.destination)
    }

    #[test]
    fn a_client_gets_its_ports_address_and_all_that_belongs_to_it() {
        let dhcp: Dhcp = serde_json::from_str(
            r#"{"lease":60,"dns":["10.5.0.2","fd05::2"],"domain":"red.example",
                "routes":[{"to":"10.9.128.0/17","via":"10.5.0.9"}]}"#,
        )
        .unwrap();
        let (frame, event) =
            asks(&message(1, Ipv4Addr::UNSPECIFIED, &[61, 2, 1, 9]), &dhcp).unwrap();
        assert_eq!(event, LeaseEvent::Offered);
        let (options, to) = told(&frame.unwrap());
        assert_eq!(to, IpAddr::from(OWN));
        let expected: Vec<(u8, Vec<u8>)> = vec![
            (53, vec![2]),
            (54, vec![10, 5, 0, 1]),
            (61, vec![1, 9]),
            (51, vec![0, 0, 0, 60]),
            (58, vec![0, 0, 0, 30]),
            (59, vec![0, 0, 0, 49]),
            (1, vec![255, 255, 255, 0]),
            (3, vec![10, 5, 0, 1]),
            (121, vec![0, 10, 5, 0, 1, 17, 10, 9, 128, 10, 5, 0, 9]),
            (6, vec![10, 5, 0, 2]),
            (26, vec![5, 162]),
            (15, b"red.example".to_vec()),
        ];
        assert_eq!(options, expected);
    }

    type Answered = Option<(bool, LeaseEvent)>;

    #[test]
    fn what_a_client_asks_for_decides_between_yes_and_no() {
        let dhcp = Dhcp::default();
        let none = Ipv4Addr::UNSPECIFIED;
        let (own, other) = ([50, 4, 10, 5, 0, 7], [50, 4, 10, 5, 0, 8]);
        let elsewhere = [54, 4, 10, 5, 0, 99];
        let cases: &[(u8, Ipv4Addr, &[u8], Answered)] = &[
            (3, none, &own, Some((true, LeaseEvent::Given))),
            (3, none, &other, Some((true, LeaseEvent::Refused))),
            (3, none, &[&own[..], &elsewhere].concat(), None),
            (3, none, &[], None),
            (3, OWN, &[], Some((true, LeaseEvent::Renewed))),
            (3, Ipv4Addr::new(10, 5, 0, 8), &[], Some((true, LeaseEvent::Refused))),
            (1, none, &[80, 0], Some((true, LeaseEvent::Given))),
            (7, OWN, &[], Some((false, LeaseEvent::Released))),
            (7, none, &[], None),
            (4, none, &own, Some((false, LeaseEvent::Declined))),
            (8, OWN, &[], Some((true, LeaseEvent::Informed))),
            (2, none, &[], None),
            (0, none, &[], None),
        ];
        for (kind, has, options, expected) in cases {
            let found = asks(&message(*kind, *has, options), &dhcp);
            let found = found.map(|(frame, event)| (frame.is_some(), event));
            assert_eq!(found, *expected, "{kind} {has} {options:?}");
        }
    }

    #[test]
    fn what_is_no_clients_is_not_answered() {
        let dhcp = Dhcp::default();
        let refused = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = message(1, Ipv4Addr::UNSPECIFIED, &[]);
            change(&mut bytes);
            asks(&bytes, &dhcp).is_none()
        };
        assert!(!refused(&|_| {}));
        // A server's, no Ethernet, another's address, a relay's, no cookie, an option that is cut.
        assert!(refused(&|b| b[0] = 2));
        assert!(refused(&|b| b[1] = 6));
        assert!(refused(&|b| b[28] = 4));
        assert!(refused(&|b| b[24] = 10));
        assert!(refused(&|b| b[FIXED] = 0));
        assert!(refused(&|b| {
            b.pop();
            b.extend([61, 9, 1]);
        }));
        assert!(refused(&|b| b.truncate(FIXED + 2)));
    }

    #[test]
    fn an_answer_is_no_larger_than_its_client_takes() {
        let dhcp: Dhcp = serde_json::from_value(serde_json::json!({
            "domain": vec!["abcdefghij"; 22].join("."),
            "routes": vec![serde_json::json!({"to": "10.9.128.0/32", "via": "10.5.0.9"}); 16],
            "dns": vec!["10.5.0.2"; 8],
        }))
        .unwrap();
        let len = |size: &[u8]| {
            let (frame, _) = asks(&message(1, Ipv4Addr::UNSPECIFIED, size), &dhcp).unwrap();
            let frame = frame.unwrap();
            (frame.len() - 14, told(&frame).0.iter().any(|(code, _)| *code == option::DOMAIN))
        };
        let (small, large) = (len(&[]), len(&[57, 2, 5, 220]));
        assert!(small.0 <= 576 && !small.1, "{small:?}");
        assert!(large.0 > 576 && large.0 <= 1280 && large.1, "{large:?}");
    }

    #[test]
    fn who_has_no_neighbours_is_told_the_way_to_its_router() {
        let dhcp = Dhcp::default();
        let mut terms = terms(&dhcp);
        if let Some(link) = &mut terms.v4 {
            link.has_neighbours = false;
        }
        assert_eq!(routes(&terms), [32, 10, 5, 0, 1, 0, 0, 0, 0, 0, 10, 5, 0, 1]);
    }
}
