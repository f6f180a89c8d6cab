//! What goes through the connection tracker: packets to Services, and what may be an answer to
//! one. Everything else passes untouched.

use super::{mac, out_of, priority, service_gateway};
use crate::conntrack::{SOURCE_ZONE, fields, look_up, state, zone_of};
use crate::local::LocalPorts;
use crate::pipeline::Table;
use crate::plan::{Emitter, Rule};
use crate::question::Question;
use crate::registers::{Destination, Register};
use crate::services::{Use, is_of_machine};
use ipnet::IpNet;
use osier_model::{Fabric, Mac, VrfId};
use osier_openflow::field::Field;
use std::net::IpAddr;

const TCP: u8 = 6;
/// The bit of TCP's flags that only beginnings have.
const SYN: u16 = 2;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;

/// Errors about packets: RFC 792 (unreachable, time exceeded, bad parameter), RFC 4443, 3.
const ERRORS: [(u16, u8, Field, &[u8]); 2] =
    [(IPV4, 1, Field::ICMP_TYPE, &[3, 11, 12]), (IPV6, 58, Field::ICMPV6_TYPE, &[1, 2, 3, 4])];

/// What holds for the whole cluster: its range of Services' addresses, and connections that are
/// known.
pub(crate) fn fabric(out: &mut Emitter, fabric: &Fabric) {
    for range in &fabric.services {
        to_services(out, VrfId::default(), *range);
        let to = |priority| {
            let rule = Rule::new(Table::Service, priority).when(Register::VRF, 0_u8);
            rule.destined(*range)
        };
        // Nobody has that address, or does not listen there.
        out.add(to(priority::LAST).then(Question::Reject.ask()));
        if !fabric.service_gateway {
            // It goes on, and nobody knows how it began: its endpoint is gone. Another one would not know it
            // either, or take it for what had the same ports before; and the tracker in `ovs-vswitchd` would
            // remember that for a day, and let nothing begin from that port.
            out.add(goes_on(to(priority::ASTRAY)).then(Question::Reject.ask()));
        }
    }
    let known = [state::DESTINATION_TRANSLATED, state::ESTABLISHED, state::RELATED];
    for bits in known {
        out.add(
            Rule::new(Table::Service, priority::KNOWN)
                .tracked(bits)
                .load(Register::FROM_SERVICE, 1_u8)
                .to(Table::Route),
        );
    }
    out.add(Rule::new(Table::Service, priority::INVALID).tracked(state::INVALID));
}

/// What begins no connection.
pub(super) fn goes_on(rule: Rule) -> Rule {
    rule.eq(Field::IP_PROTO, TCP).masked(Field::TCP_FLAGS, 0_u16, SYN)
}

/// What several Services share.
pub(crate) fn shared(out: &mut Emitter, shared: &Use, local: LocalPorts, fabric: &Fabric) {
    let answered = if fabric.accounting { Table::Account } else { Table::GatewayMac };
    match *shared {
        Use::Router(vrf) => router(out, vrf, answered),
        Use::Address(vrf, address) => {
            to_services(out, vrf, address.into());
            if vrf == VrfId::default() {
                service_gateway::apart(out, local, fabric, address);
            }
            if is_of_machine(address) {
                // Who asked knows the machine's own address, wherever it is: the machine translates.
                let rule = Rule::new(Table::Route, priority::ROUTER)
                    .when(Register::VRF, vrf.0)
                    .sourced(address)
                    .set(Field::ETH_DST, mac(Mac::GATEWAY))
                    .set(Field::ETH_SRC, mac(Mac::FABRIC));
                out.add(out_of(rule, local.gateway, Destination::Gateway).to(Table::Hop));
            }
        }
        Use::Door { vrf, address, transport, port } => {
            let Some((protocol, _, destination)) = fields(transport) else { return };
            let rule = Rule::new(Table::Track, priority::NORMAL)
                .when(Register::VRF, vrf.0)
                .destined(address.into())
                .eq(Field::IP_PROTO, protocol)
                .eq(destination, port);
            out.add(rule.then(look_up(zone_of(vrf), Table::Service)));
        }
        Use::Source(vrf, address) => {
            out.add(answer(vrf).sourced(address).then(look_up(zone_of(vrf), answered)));
        }
        Use::Target { vrf, ipv6, transport, port } => {
            let Some((protocol, source, _)) = fields(transport) else { return };
            out.add(
                answer(vrf)
                    .eq(Field::ETH_TYPE, if ipv6 { IPV6 } else { IPV4 })
                    .eq(Field::IP_PROTO, protocol)
                    .eq(source, port)
                    .then(look_up(zone_of(vrf), answered)),
            );
        }
    }
}

fn to_services(out: &mut Emitter, vrf: VrfId, prefix: IpNet) {
    out.add(
        Rule::new(Table::Track, priority::NORMAL)
            .when(Register::VRF, vrf.0)
            .destined(prefix)
            .then(look_up(zone_of(vrf), Table::Service)),
    );
}

fn answer(vrf: VrfId) -> Rule {
    Rule::new(Table::Track, priority::ANSWER).when(Register::VRF, vrf.0)
}

/// Errors are about packets of whatever port, and only a whole packet tells its ports.
fn router(out: &mut Emitter, vrf: VrfId, answered: Table) {
    for (family, protocol, field, kinds) in ERRORS {
        for kind in kinds {
            out.add(
                answer(vrf)
                    .eq(Field::ETH_TYPE, family)
                    .eq(Field::IP_PROTO, protocol)
                    .eq(field, *kind)
                    .then(look_up(zone_of(vrf), answered)),
            );
        }
        out.add(
            answer(vrf)
                .eq(Field::ETH_TYPE, family)
                .masked(Field::IP_FRAG, 1_u8, 1_u8)
                .then(look_up(zone_of(vrf), answered)),
        );
    }
}

/// Answers to a source that was given here: back to whose it was, wherever that is, and then as
/// other answers.
pub(crate) fn answers_to(out: &mut Emitter, address: IpAddr, local: LocalPorts) {
    let to = || {
        Rule::new(Table::Track, priority::HIGH).when(Register::VRF, 0_u8).destined(address.into())
    };
    out.add(to().untracked().forget_in_port().then(look_up(SOURCE_ZONE, Table::Track)));
    // Nobody here knows it; the machine may, where it leads to Services.
    out.add(match local.service_gateway {
        Some(_) => {
            let rule = to()
                .tracked(0)
                .set(Field::ETH_DST, mac(Mac::GATEWAY))
                .set(Field::ETH_SRC, mac(Mac::FABRIC));
            out_of(rule, local.gateway, Destination::Gateway).to(Table::Hop)
        }
        None => to().tracked(0),
    });
}
