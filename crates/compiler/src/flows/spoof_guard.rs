//! What may come from a port: its own Ethernet address with its own addresses, in IP, ARP and
//! neighbour discovery; and from none, who asks a DHCP server for one (whom the node answers is asked
//! for elsewhere: `client`). Everything else is dropped
//! by the table's miss.
//!
//! And what may not, whosever addresses it has: what only routers and servers say, tags, what the
//! switch could not read to its last header, and addresses that only a node uses.

use super::neighbour::{self, ADVERTISEMENT, SOLICITATION};
use super::{mac, priority};
use crate::local::Attachment;
use crate::pipeline::Table;
use crate::plan::{Emitter, Rule};
use crate::registers::Register;
use crate::services::{NODE_PORT_ADDRESSES, STAND_INS};
use ipnet::IpNet;
use osier_model::{Mac, Network, Port, Reach};
use osier_openflow::field::Field;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const ARP: u16 = 0x0806;
pub(super) const UDP: u8 = 17;
/// The protocol of messages about packets, by family, and where their kind is.
const MESSAGES: [(u8, Field); 2] = [(1, Field::ICMP_TYPE), (58, Field::ICMPV6_TYPE)];
/// What only routers say. IPv4: redirect (RFC 792), router advertisement (RFC 1256). IPv6: router
/// advertisement, redirect (RFC 4861), renumbering (RFC 2894), router discovery (RFC 4286).
const OF_ROUTERS: [&[u8]; 2] = [&[5, 9], &[134, 137, 138, 151]];
/// RFC 2131, 4.1.
pub(super) const DHCP_SERVER: u16 = 67;
/// Where clients are answered, by family: there, and RFC 8415, 7.2.
pub(super) const DHCP_CLIENTS: [u16; 2] = [68, 546];
/// Headers of IPv6 behind which there is another: what the datapaths of Open vSwitch say where a packet
/// ends before its last one (RFC 7112 forbids that).
const UNREAD: [u8; 2] = [0, 59];

/// What no port sends; once for the pipeline.
pub(crate) fn forbidden(out: &mut Emitter) {
    let never = |priority| Rule::new(Table::SpoofGuard, priority);
    out.add(never(priority::INVALID).masked(Field::VLAN_VID, 0x1000_u16, 0x1000_u16));
    for header in UNREAD {
        out.add(never(priority::INVALID).family(true).eq(Field::IP_PROTO, header));
    }
    for ipv6 in [false, true] {
        let n = usize::from(ipv6);
        let (protocol, field) = MESSAGES[n];
        let message = || never(priority::GUARD).family(ipv6).eq(Field::IP_PROTO, protocol);
        for kind in OF_ROUTERS[n] {
            out.add(message().eq(field, *kind));
        }
        out.add(answers_client(never(priority::GUARD), ipv6));
    }
    // Nobody may advertise what is not theirs; a port's own come before this.
    for kind in [SOLICITATION, ADVERTISEMENT] {
        out.add(neighbour::is(never(priority::GUARD), kind));
    }
    for prefix in NODE_PORT_ADDRESSES.into_iter().map(IpNet::from).chain(STAND_INS) {
        out.add(never(priority::GUARD).destined(prefix));
    }
}

pub(crate) fn flows(
    out: &mut Emitter,
    port: &Port,
    network: &Network,
    addresses: impl Iterator<Item = IpAddr>,
    at: Attachment,
) {
    let from_port = |priority| from(port, at, priority);
    let bridged = network.reach == Reach::Bridged;
    let serves = port.addresses.iter().any(|address| network.dhcp_servers.contains(address));
    for address in addresses {
        out.add(from_port(priority::NORMAL).sourced(address).to(Table::Dispatch));
        match address {
            IpAddr::V4(_) => out.add(
                from_port(priority::NORMAL)
                    .eq(Field::ETH_TYPE, ARP)
                    .eq(Field::ARP_SHA, mac(port.mac))
                    .eq(Field::ARP_SPA, address)
                    .to(Table::Dispatch),
            ),
            IpAddr::V6(v6) => discovery(out, port, v6, at, bridged),
        }
        if bridged && serves {
            let answers = answers_client(from_port(priority::HIGH), address.is_ipv6());
            out.add(answers.sourced(address).to(Table::Dispatch));
        }
    }
    if bridged && network.dhcp.is_none() {
        asks_for_address(out, port, at);
    }
}

/// Who asks says its own Ethernet address. Who answers does, too, or none: that is enough where the
/// question was for it alone (RFC 4861, 4.4). Where there are no neighbours, nobody asks.
fn discovery(out: &mut Emitter, port: &Port, address: Ipv6Addr, at: Attachment, bridged: bool) {
    let says = |kind| {
        neighbour::is(from(port, at, priority::HIGH), kind)
            .eq(Field::IPV6_SRC, address)
            .eq(Field::ICMPV6_CODE, 0_u8)
            // What one piece says, another may say otherwise (RFC 6980).
            .eq(Field::IP_FRAG, 0_u8)
    };
    let solicits = says(SOLICITATION).eq(Field::ND_SLL, mac(port.mac));
    out.add(solicits.to(Table::Dispatch));
    if bridged {
        for own in [port.mac, Mac([0; 6])] {
            let advertises =
                says(ADVERTISEMENT).eq(Field::ND_TARGET, address).eq(Field::ND_TLL, mac(own));
            out.add(advertises.to(Table::Dispatch));
        }
    }
}

/// Whoever has no address, or has it renewed, asks all for it.
fn asks_for_address(out: &mut Emitter, port: &Port, at: Attachment) {
    out.add(
        from(port, at, priority::NORMAL)
            .sourced(Ipv4Addr::UNSPECIFIED.into())
            .eq(Field::IPV4_DST, Ipv4Addr::BROADCAST)
            .eq(Field::IP_PROTO, UDP)
            .eq(Field::UDP_SRC, DHCP_CLIENTS[0])
            .eq(Field::UDP_DST, DHCP_SERVER)
            .to(Table::Dispatch),
    );
}

/// To whoever waits for an address, wherever it comes from.
fn answers_client(rule: Rule, ipv6: bool) -> Rule {
    let client = DHCP_CLIENTS[usize::from(ipv6)];
    rule.family(ipv6).eq(Field::IP_PROTO, UDP).eq(Field::UDP_DST, client)
}

/// What comes from a port with its own Ethernet address.
pub(super) fn from(port: &Port, at: Attachment, priority: u16) -> Rule {
    Rule::new(Table::SpoofGuard, priority)
        .when(Register::IN_TAG, at.tag)
        .eq(Field::ETH_SRC, mac(port.mac))
}
