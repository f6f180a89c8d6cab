//! What is there without any object: misses, the gateway, what kind of packet it is, hops, and the
//! way out.

use super::{mac, priority};
use crate::compile::{DEFAULT_VNI, IDENTITY_OPTION};
use crate::local::LocalPorts;
use crate::pipeline::{Miss, Table};
use crate::plan::{Emitter, Rule};
use crate::registers::{Destination, Origin, Register};
use osier_model::{Mac, Tunnel};
use osier_openflow::action::Action;
use osier_openflow::field::Field;
use osier_openflow::message::TlvMap;
use osier_openflow::subfield::Subfield;

/// Ethernet types.
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const ARP: u16 = 0x0806;
const ICMPV6: u8 = 58;
/// Neighbour solicitation and advertisement.
const NEIGHBOUR: [u8; 2] = [135, 136];

/// The identity of the machine itself.
const HOST_IDENTITY: u32 = 2;

pub(crate) fn flows(out: &mut Emitter, local: LocalPorts, tunnel: Tunnel) {
    misses(out);
    gateway_in(out, local);
    dispatch(out);
    default_route(out, local);
    hops(out);
    egress(out, local, tunnel);
}

fn misses(out: &mut Emitter) {
    for table in Table::ALL {
        let rule = Rule::new(*table, priority::MISS);
        out.add(match table.miss() {
            Miss::Drop => rule,
            Miss::Continue(next) => rule.to(next),
        });
    }
}

/// What the machine sends is trusted: it may use any source.
fn gateway_in(out: &mut Emitter, local: LocalPorts) {
    out.add(
        Rule::new(Table::Ingress, priority::NORMAL)
            .eq(Field::IN_PORT, local.gateway.0)
            .load(Register::FROM, Origin::Gateway as u8)
            .load(Register::NETWORK, DEFAULT_VNI)
            .load(Register::SOURCE, HOST_IDENTITY)
            .to(Table::Dispatch),
    );
}

fn dispatch(out: &mut Emitter) {
    let rule = || Rule::new(Table::Dispatch, priority::NORMAL);
    out.add(rule().eq(Field::ETH_TYPE, ARP).to(Table::Arp));
    for kind in NEIGHBOUR {
        out.add(neighbour(rule(), kind).to(Table::Neighbour));
    }
    // To a gateway, by whichever of its addresses: a pod's next hop, or the machine's.
    for address in [Mac::GATEWAY, Mac::FABRIC] {
        for family in [IPV4, IPV6] {
            out.add(
                Rule::new(Table::GatewayMac, priority::NORMAL)
                    .eq(Field::ETH_DST, mac(address))
                    .eq(Field::ETH_TYPE, family)
                    .to(Table::Route),
            );
        }
    }
    // Nobody may advertise what is not theirs; the spoof guard lets a port's own through.
    for kind in NEIGHBOUR {
        out.add(neighbour(Rule::new(Table::SpoofGuard, priority::GUARD), kind));
    }
}

fn neighbour(rule: Rule, kind: u8) -> Rule {
    rule.eq(Field::ETH_TYPE, IPV6).eq(Field::IP_PROTO, ICMPV6).eq(Field::ICMPV6_TYPE, kind)
}

/// What no pod and no node has goes to the machine, which routes or answers it.
fn default_route(out: &mut Emitter, local: LocalPorts) {
    for family in [IPV4, IPV6] {
        let rule = Rule::new(Table::Route, priority::route(0))
            .when(Register::VRF, 0_u8)
            .eq(Field::ETH_TYPE, family)
            .set(Field::ETH_DST, mac(Mac::GATEWAY))
            .set(Field::ETH_SRC, mac(Mac::FABRIC));
        out.add(super::out_of(rule, local.gateway, Destination::Gateway).to(Table::Hop));
    }
}

/// One hop from pod to pod, wherever they are; the machine counts for what goes through it.
fn hops(out: &mut Emitter) {
    for to in [Destination::Port, Destination::Tunnel] {
        for family in [IPV4, IPV6] {
            out.add(
                Rule::new(Table::Hop, priority::NORMAL)
                    .when(Register::FROM, Origin::Port as u8)
                    .when(Register::TO, to as u8)
                    .eq(Field::ETH_TYPE, family)
                    .then(Action::DecTtl)
                    .to(Table::Egress),
            );
        }
    }
}

fn egress(out: &mut Emitter, local: LocalPorts, tunnel: Tunnel) {
    for to in [Destination::Port, Destination::Gateway] {
        let output = Action::OutputReg { src: Register::OUT_PORT.subfield(), max_len: u16::MAX };
        out.add(
            Rule::new(Table::Egress, priority::NORMAL).when(Register::TO, to as u8).then(output),
        );
    }
    let mut rule =
        Rule::new(Table::Egress, priority::NORMAL).when(Register::TO, Destination::Tunnel as u8);
    if tunnel == Tunnel::Geneve {
        out.add_tlv(IDENTITY_TLV);
        rule = rule.copy(Register::SOURCE.subfield(), identity_option());
    }
    // What came through the tunnel never goes back into it.
    out.add(rule.then(Action::output(local.tunnel)));
}

/// The option that carries the sender's identity: experimental class, four bytes.
const IDENTITY_TLV: TlvMap =
    TlvMap { class: 0xffff, kind: 0x81, len: 4, index: IDENTITY_OPTION as u16 };

/// The bits of the option.
pub(crate) fn identity_option() -> Subfield {
    Subfield::new(Field::tun_metadata(IDENTITY_OPTION), 0, 32)
        .expect("an option has room for 32 bits")
}
