//! DHCPv6 (RFC 8415), the server's side: one address, that of the client's port, and what the network
//! says to all. As for IPv4 nothing is remembered; see there.

use crate::discovery::dns;
use crate::icmp::Link;
use crate::ip::IpPacket;
use crate::lease::{LeaseEvent, Terms};
use crate::options::{Options6, domain_name, put6};
use crate::udp;
use osier_model::Mac;
use std::net::{IpAddr, Ipv6Addr};

const SERVER: u16 = 547;
const CLIENT: u16 = 546;
/// A server is known by its Ethernet address (RFC 8415, 11.4): the same one on every node.
const SERVER_ID: [u8; 10] = {
    let [a, b, c, d, e, f] = Mac::GATEWAY.0;
    [0, 3, 0, 1, a, b, c, d, e, f]
};
/// The longest identifier of a client (RFC 8415, 11.1).
const LONGEST_ID: usize = 130;
/// Associations of one message that are answered, and addresses of one that are told to be no more.
const ASSOCIATIONS: usize = 8;
const STALE: usize = 8;

mod kind {
    pub(super) const SOLICIT: u8 = 1;
    pub(super) const ADVERTISE: u8 = 2;
    pub(super) const REQUEST: u8 = 3;
    pub(super) const CONFIRM: u8 = 4;
    pub(super) const RENEW: u8 = 5;
    pub(super) const REBIND: u8 = 6;
    pub(super) const REPLY: u8 = 7;
    pub(super) const RELEASE: u8 = 8;
    pub(super) const DECLINE: u8 = 9;
    pub(super) const INFORMATION: u8 = 11;
}

mod option {
    pub(super) const CLIENT: u16 = 1;
    pub(super) const SERVER: u16 = 2;
    /// Addresses for good, addresses for a while, and prefixes.
    pub(super) const LASTING: u16 = 3;
    pub(super) const PASSING: u16 = 4;
    pub(super) const PREFIXES: u16 = 25;
    pub(super) const ADDRESS: u16 = 5;
    pub(super) const STATUS: u16 = 13;
    pub(super) const RAPID: u16 = 14;
    /// RFC 3646.
    pub(super) const DNS: u16 = 23;
    pub(super) const SEARCH: u16 = 24;
}

/// RFC 8415, 21.13.
#[derive(Debug, Clone, Copy)]
enum Status {
    Success = 0,
    NoAddress = 2,
    NotOnLink = 4,
    NoPrefix = 6,
}

/// What a client wants to have, by its own number.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Association<'a> {
    code: u16,
    id: &'a [u8],
    addresses: Vec<Ipv6Addr>,
}

/// What a client says, as far as it matters.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Message<'a> {
    kind: u8,
    transaction: &'a [u8],
    client: &'a [u8],
    server: Option<&'a [u8]>,
    is_rapid: bool,
    associations: Vec<Association<'a>>,
}

// === impl Message ===

impl<'a> Message<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (&[kind, ..], options) = bytes.split_first_chunk::<4>()?;
        let mut message = Self {
            kind,
            transaction: bytes.get(1..4)?,
            client: &[],
            server: None,
            is_rapid: false,
            associations: Vec::new(),
        };
        for option in Options6(options) {
            let (code, value) = option.ok()?;
            match code {
                option::CLIENT if (1..=LONGEST_ID).contains(&value.len()) => message.client = value,
                option::CLIENT => return None,
                option::SERVER => message.server = Some(value),
                option::RAPID => message.is_rapid = true,
                option::LASTING | option::PASSING | option::PREFIXES
                    if message.associations.len() < ASSOCIATIONS =>
                {
                    message.associations.push(Association::parse(code, value)?);
                }
                _ => {}
            }
        }
        Some(message)
    }

    /// Whether it has what its kind must have, and nothing that it must not (RFC 8415, 16).
    fn is_right(&self) -> bool {
        let (has_client, is_ours) = (!self.client.is_empty(), self.server == Some(&SERVER_ID));
        match self.kind {
            kind::SOLICIT | kind::CONFIRM | kind::REBIND => has_client && self.server.is_none(),
            kind::REQUEST | kind::RENEW | kind::RELEASE | kind::DECLINE => has_client && is_ours,
            kind::INFORMATION => self.associations.is_empty() && (is_ours || self.server.is_none()),
            _ => false,
        }
    }

    fn addresses(&self) -> impl Iterator<Item = Ipv6Addr> {
        self.associations.iter().flat_map(|association| association.addresses.iter().copied())
    }
}

// === impl Association ===

impl<'a> Association<'a> {
    fn parse(code: u16, value: &'a [u8]) -> Option<Self> {
        // Addresses for a while have no times of their own.
        let head = if code == option::PASSING { 4 } else { 12 };
        let (head, options) = value.split_at_checked(head)?;
        let mut addresses = Vec::new();
        for option in Options6(options) {
            let (code, value) = option.ok()?;
            if code == option::ADDRESS && addresses.len() < STALE {
                addresses.push(Ipv6Addr::from(*value.first_chunk::<16>()?));
            }
        }
        Some(Self { code, id: &head[..4], addresses })
    }
}

/// What becomes of a client's packet: a frame, if it is answered, and what it was about.
pub(crate) fn answer(
    packet: &IpPacket<'_>,
    terms: &Terms<'_>,
) -> Option<(Option<Vec<u8>>, LeaseEvent)> {
    let message = Message::parse(udp::content(packet)?)?;
    let IpAddr::V6(own) = terms.v6?.address else { return None };
    if !message.is_right() {
        return None;
    }
    let is_own = message.addresses().all(|address| address == own);
    let mut options = Vec::new();
    let (kind, event) = match message.kind {
        kind::SOLICIT if message.is_rapid => {
            put6(&mut options, option::RAPID, &[]);
            (kind::REPLY, LeaseEvent::Given)
        }
        kind::SOLICIT => (kind::ADVERTISE, LeaseEvent::Offered),
        kind::REQUEST => (kind::REPLY, LeaseEvent::Given),
        kind::RENEW | kind::REBIND => (kind::REPLY, LeaseEvent::Renewed),
        // It wants to know whether what it has is right here.
        kind::CONFIRM if message.addresses().next().is_none() => return None,
        kind::CONFIRM if is_own => (kind::REPLY, LeaseEvent::Renewed),
        kind::CONFIRM => (kind::REPLY, LeaseEvent::Refused),
        kind::RELEASE => (kind::REPLY, LeaseEvent::Released),
        kind::DECLINE => (kind::REPLY, LeaseEvent::Declined),
        _ => (kind::REPLY, LeaseEvent::Informed),
    };
    match message.kind {
        kind::CONFIRM => {
            let status = if is_own { Status::Success } else { Status::NotOnLink };
            put_status(&mut options, status);
        }
        kind::RELEASE | kind::DECLINE => put_status(&mut options, Status::Success),
        kind::INFORMATION => tell(&mut options, terms),
        _ => {
            associate(&mut options, &message, own, terms.dhcp.lease);
            tell(&mut options, terms);
        }
    }
    Some((compose(kind, &message, packet.source, terms.mac, &options), event))
}

/// The address goes to the first association that asks for one; the others get nothing.
fn associate(options: &mut Vec<u8>, message: &Message<'_>, own: Ipv6Addr, lease: u32) {
    let mut is_given = false;
    for Association { code, id, addresses } in &message.associations {
        let mut value = id.to_vec();
        if *code == option::LASTING && !is_given {
            is_given = true;
            for seconds in [lease / 2, lease / 8 * 7] {
                value.extend(seconds.to_be_bytes());
            }
            let stale = addresses.iter().filter(|address| **address != own);
            for (address, seconds) in [(own, lease)].into_iter().chain(stale.map(|a| (*a, 0))) {
                let seconds = seconds.to_be_bytes();
                let parts = [&address.octets()[..], &seconds, &seconds].concat();
                put6(&mut value, option::ADDRESS, &parts);
            }
        } else {
            if *code != option::PASSING {
                value.extend([0; 8]);
            }
            let is_prefix = *code == option::PREFIXES;
            put_status(&mut value, if is_prefix { Status::NoPrefix } else { Status::NoAddress });
        }
        put6(options, *code, &value);
    }
}

fn put_status(options: &mut Vec<u8>, status: Status) {
    put6(options, option::STATUS, &(status as u16).to_be_bytes());
}

/// What the network says to all.
fn tell(options: &mut Vec<u8>, terms: &Terms<'_>) {
    let dns: Vec<u8> = dns(terms.dhcp).flat_map(|server| server.octets()).collect();
    if !dns.is_empty() {
        put6(options, option::DNS, &dns);
    }
    if let Some(domain) = &terms.dhcp.domain {
        put6(options, option::SEARCH, &domain_name(domain));
    }
}

fn compose(
    kind: u8,
    to: &Message<'_>,
    client: IpAddr,
    mac: Mac,
    options: &[u8],
) -> Option<Vec<u8>> {
    let mut bytes = vec![kind];
    bytes.extend(to.transaction);
    if !to.client.is_empty() {
        put6(&mut bytes, option::CLIENT, to.client);
    }
    put6(&mut bytes, option::SERVER, &SERVER_ID);
    bytes.extend(options);
    let link = Link { source: Mac::GATEWAY, destination: mac };
    let from = (IpAddr::from(Mac::GATEWAY.link_local()), SERVER);
    udp::frame(link, from, (client, CLIENT), &bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use osier_compiler::Link as Place;
    use osier_model::Dhcp;

    const ID: [u8; 4] = [0, 0, 0, 9];

    fn own() -> Ipv6Addr {
        "fd05::7".parse().unwrap()
    }

    fn terms(dhcp: &Dhcp) -> Terms<'_> {
        let v6 = Place {
            address: own().into(),
            subnet: "fd05::/64".parse().ok(),
            gateway: "fd05::1".parse().ok(),
            has_neighbours: true,
        };
        Terms { mac: Mac([2, 0, 0, 0, 0, 7]), v4: None, v6: Some(v6), dhcp, mtu: None }
    }

    fn wants(code: u16, addresses: &[Ipv6Addr]) -> Vec<u8> {
        let mut value = ID.to_vec();
        value.resize(if code == option::PASSING { 4 } else { 12 }, 0);
        for address in addresses {
            put6(&mut value, option::ADDRESS, &[&address.octets()[..], &[0; 8]].concat());
        }
        let mut option = Vec::new();
        put6(&mut option, code, &value);
        option
    }

    type Told = Vec<(u16, Vec<u8>)>;

    fn asks(kind: u8, is_ours: bool, options: &[u8]) -> Option<(Told, LeaseEvent)> {
        let dhcp: Dhcp =
            serde_json::from_str(r#"{"lease":80,"dns":["10.5.0.2","fd05::2"],"domain":"red"}"#)
                .unwrap();
        let mut bytes = vec![kind, 1, 2, 3];
        put6(&mut bytes, option::CLIENT, &[0, 3, 0, 1, 2, 0, 0, 0, 0, 7]);
        if is_ours {
            put6(&mut bytes, option::SERVER, &SERVER_ID);
        }
        bytes.extend(options);
        let link =
            Link { source: Mac([2, 0, 0, 0, 0, 7]), destination: Mac([0x33, 0x33, 0, 1, 0, 2]) };
        let (from, to): (IpAddr, IpAddr) =
            ("fe80::7".parse().unwrap(), "ff02::1:2".parse().unwrap());
        let frame = udp::frame(link, (from, CLIENT), (to, SERVER), &bytes).unwrap();
        let (frame, event) = answer(&IpPacket::parse(&frame).unwrap(), &terms(&dhcp))?;
        let frame = frame.unwrap();
        let packet = IpPacket::parse(&frame).unwrap();
        assert_eq!(packet.destination, from);
        let content = udp::content(&packet).unwrap();
        assert_eq!(content[1..4], [1, 2, 3]);
        let options: Vec<_> = Options6(&content[4..]).collect::<Result<_, _>>().unwrap();
        Some((options.into_iter().map(|(code, value)| (code, value.to_vec())).collect(), event))
    }

    #[test]
    fn a_client_gets_its_ports_address_once() {
        let stale: Ipv6Addr = "fd05::8".parse().unwrap();
        let wanted = [wants(option::LASTING, &[stale]), wants(option::LASTING, &[])].concat();
        let wanted = [wanted, wants(option::PASSING, &[]), wants(option::PREFIXES, &[])].concat();
        let (options, event) = asks(kind::SOLICIT, false, &wanted).unwrap();
        assert_eq!(event, LeaseEvent::Offered);
        let codes: Vec<u16> = options.iter().map(|(code, _)| *code).collect();
        assert_eq!(codes, [1, 2, 3, 3, 4, 25, 23, 24]);
        let times = [&ID[..], &[0, 0, 0, 40, 0, 0, 0, 70]].concat();
        let given = [&own().octets()[..], &[0, 0, 0, 80, 0, 0, 0, 80]].concat();
        let gone = [&stale.octets()[..], &[0; 8]].concat();
        let mut expected = times;
        put6(&mut expected, option::ADDRESS, &given);
        put6(&mut expected, option::ADDRESS, &gone);
        assert_eq!(options[2].1, expected);
        assert_eq!(options[3].1[12..], [0, 13, 0, 2, 0, 2]);
        assert_eq!(options[4].1[4..], [0, 13, 0, 2, 0, 2]);
        assert_eq!(options[5].1[12..], [0, 13, 0, 2, 0, 6]);
        assert_eq!(options[7].1, b"\x03red\0");
    }

    #[test]
    fn kinds_are_answered_as_they_are_meant() {
        let (mine, other) = (wants(3, &[own()]), wants(3, &["fd05::8".parse().unwrap()]));
        let cases: &[(u8, bool, &[u8], Option<LeaseEvent>)] = &[
            (kind::SOLICIT, true, &mine, None),
            (kind::SOLICIT, false, &[0, 14, 0, 0], Some(LeaseEvent::Given)),
            (kind::REQUEST, true, &mine, Some(LeaseEvent::Given)),
            (kind::REQUEST, false, &mine, None),
            (kind::RENEW, true, &mine, Some(LeaseEvent::Renewed)),
            (kind::REBIND, false, &mine, Some(LeaseEvent::Renewed)),
            (kind::CONFIRM, false, &mine, Some(LeaseEvent::Renewed)),
            (kind::CONFIRM, false, &other, Some(LeaseEvent::Refused)),
            (kind::CONFIRM, false, &[], None),
            (kind::RELEASE, true, &mine, Some(LeaseEvent::Released)),
            (kind::DECLINE, true, &mine, Some(LeaseEvent::Declined)),
            (kind::INFORMATION, false, &[], Some(LeaseEvent::Informed)),
            (kind::INFORMATION, false, &mine, None),
            (kind::REPLY, true, &mine, None),
            // Cut: an option, one inside of an association, an association.
            (kind::SOLICIT, false, &[0, 3, 0, 99, 1], None),
            (kind::SOLICIT, false, &[&[0, 3, 0, 14][..], &[0; 14]].concat(), None),
            (kind::SOLICIT, false, &[0, 3, 0, 2, 1, 1], None),
        ];
        for (kind, is_ours, options, expected) in cases {
            let found = asks(*kind, *is_ours, options).map(|(_, event)| event);
            assert_eq!(found, *expected, "{kind} {is_ours} {options:?}");
        }
    }
}
