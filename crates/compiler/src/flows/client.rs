//! Clients that ask for their configuration, in networks whose node answers: DHCP (RFC 2131), DHCPv6
//! (RFC 8415) and router solicitations (RFC 4861). All of it goes to the agent, right from where a
//! port's sources are checked, and nowhere else: who asks needs no address, and has none to lie with.
//!
//! A port has a meter of its own for it, in front of that of all: one that asks without end is not
//! heard, and others are.

use super::neighbour::{self, SOLICITATION};
use super::spoof_guard::{DHCP_CLIENTS, DHCP_SERVER, UDP, from};
use super::{mac, priority};
use crate::link::Link;
use crate::local::Attachment;
use crate::meters;
use crate::plan::{Emitter, Rule};
use crate::question::Question;
use osier_model::{Mac, Port};
use osier_openflow::action::Action;
use osier_openflow::field::Field;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Where DHCPv6 servers listen (RFC 8415, 7.1 and 7.2).
const DHCPV6_SERVER: u16 = 547;
const ALL_DHCP_SERVERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 1, 2);
/// Where routers listen, and what they are asked with (RFC 4861, 4.1).
const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
const ROUTER_SOLICITATION: u8 = 133;
/// Addresses of one link, and their length: a client makes its own.
const LINK_LOCAL: (Ipv6Addr, Ipv6Addr) =
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), Ipv6Addr::new(0xffc0, 0, 0, 0, 0, 0, 0, 0));

pub(crate) fn flows(out: &mut Emitter, port: &Port, links: &[Link], at: Attachment) {
    let meter = meters::client(at.tag);
    let metered = Action::Meter(meter.id);
    out.add_meter(meter);
    let ask = |rule: Rule, question: Question| rule.then(metered.clone()).then(question.ask());
    // What one piece says, another may say otherwise.
    let whole = || from(port, at, priority::HIGH).eq(Field::IP_FRAG, 0_u8);
    let dhcp = |source: Ipv4Addr, to: Ipv4Addr| {
        let udp = whole().sourced(source.into()).destined(IpAddr::from(to).into());
        let udp = udp.eq(Field::IP_PROTO, UDP).eq(Field::UDP_SRC, DHCP_CLIENTS[0]);
        ask(udp.eq(Field::UDP_DST, DHCP_SERVER), Question::Dhcp)
    };
    out.add(dhcp(Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST));
    for link in links {
        // Who has it renewed asks the one that gave it, then all.
        if let IpAddr::V4(address) = link.address {
            out.add(dhcp(address, Ipv4Addr::BROADCAST));
            out.add(dhcp(address, link.server()));
        }
    }
    if links.iter().any(|link| link.address.is_ipv6()) {
        out.add(ask(
            of_link(whole().family(true))
                .eq(Field::IPV6_DST, ALL_DHCP_SERVERS)
                .eq(Field::IP_PROTO, UDP)
                .eq(Field::UDP_SRC, DHCP_CLIENTS[1])
                .eq(Field::UDP_DST, DHCPV6_SERVER),
            Question::Dhcp6,
        ));
        let solicits =
            || neighbour::is(whole(), ROUTER_SOLICITATION).eq(Field::IPV6_DST, ALL_ROUTERS);
        out.add(ask(of_link(solicits()), Question::Router));
        out.add(ask(solicits().eq(Field::IPV6_SRC, Ipv6Addr::UNSPECIFIED), Question::Router));
        // It looks again for the router that it was told of, from its address of the link.
        let looks = neighbour::is(whole(), SOLICITATION)
            .eq(Field::ICMPV6_CODE, 0_u8)
            .eq(Field::ND_TARGET, Mac::GATEWAY.link_local())
            .eq(Field::ND_SLL, mac(port.mac));
        out.add(ask(of_link(looks), Question::Neighbour));
    }
}

/// From an address of the link.
fn of_link(rule: Rule) -> Rule {
    rule.masked(Field::IPV6_SRC, LINK_LOCAL.0, LINK_LOCAL.1)
}
