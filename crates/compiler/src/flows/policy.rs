//! Policies: who is under them, what they know already, what they grant, and how that is remembered.
//!
//! A packet is judged twice: may its sender send it, may its receiver receive it. Its node judges a
//! sender by what it knows of the receiver: an identity if the port is here, an address if it is not.
//! If that grants nothing and the packet goes to another node, it goes there unjudged, and is let
//! through there only if a rule names both identities.
//!
//! What is granted is remembered with its connection, and is not judged again; answers pass with it.

use super::node::own_addresses;
use super::priority;
use crate::compile::default_vni;
use crate::conntrack::{self, ask, fields, remember, state, zone_of};
use crate::pipeline::Table;
use crate::plan::{Emitter, Rule};
use crate::policies::{Clause, Part, RuleId};
use crate::question::Question;
use crate::registers::{Destination, Origin, Register};
use osier_model::{Direction, Identity, Node, Tunnel, Vni, VrfId};
use osier_openflow::action::Action;
use osier_openflow::field::Field;
use std::collections::BTreeMap;

const ARP: u16 = 0x0806;
const IPV6: u16 = 0x86dd;
const ICMPV6: u8 = 58;
/// Neighbour discovery, which no connection tracker knows: RFC 4861, 4.3 and 4.4.
const NEIGHBOURS: [u8; 2] = [135, 136];

/// How policies are applied.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Application {
    /// What policies are now, if connections are judged again when that changes.
    pub(crate) epoch: Option<u32>,
    /// Whether the agent hears of what is denied.
    pub(crate) log: bool,
}

/// What is there without any policy.
pub(crate) fn pipeline(out: &mut Emitter, tunnel: Tunnel, law: Application) {
    connections(out);
    known(out, law);
    // Nobody isolates the receiver.
    out.add(
        Rule::new(Table::IngressPolicy, priority::HIGH)
            .when(Register::RECEIVER_ISOLATED, 0_u8)
            .to(Table::Grant),
    );
    let mut elsewhere = Rule::new(Table::EgressPolicy, priority::ELSEWHERE)
        .when(Register::FROM, Origin::Port as u8)
        .when(Register::TO, Destination::Tunnel as u8);
    if tunnel == Tunnel::Vxlan {
        // Of other networks the key tells no sender.
        elsewhere = elsewhere.when(Register::NETWORK, default_vni().get());
    }
    out.add(
        elsewhere
            .load(Register::UNJUDGED, 1_u8)
            .load(Register::EGRESS_RULE, RuleId::ELSEWHERE.0)
            .to(Table::Grant),
    );
    for direction in [Direction::Egress, Direction::Ingress] {
        let denied = || Question::Denied { direction }.ask();
        if law.log {
            out.add(Rule::new(table_of(direction), priority::LAST).then(denied()));
        }
        // Only IP is tracked, and a switch takes no such action without knowing that it is.
        for ipv6 in [false, true].into_iter().filter(|_| law.epoch.is_some()) {
            let cut = Rule::new(table_of(direction), priority::CUT).family(ipv6);
            let cut = cut.tracked(0).judged(None, None).then(conntrack::refuse());
            out.add(if law.log { cut.then(denied()) } else { cut });
        }
    }
    zone(out, zone_of(VrfId::default()), |rule| rule.when(Register::VRF, 0_u8), 0);
}

/// What has nothing to do with connections.
fn connections(out: &mut Emitter) {
    let passes = |rule: Rule| rule.to(Table::SourceNat);
    out.add(passes(Rule::new(Table::Connection, priority::KNOWN).eq(Field::ETH_TYPE, ARP)));
    for kind in NEIGHBOURS {
        let rule = Rule::new(Table::Connection, priority::KNOWN)
            .eq(Field::ETH_TYPE, IPV6)
            .eq(Field::IP_PROTO, ICMPV6)
            .eq(Field::ICMPV6_TYPE, kind);
        out.add(passes(rule.eq(Field::ICMPV6_CODE, 0_u8)));
    }
    // What no policy can judge reaches nobody who is under one.
    out.add(Rule::new(Table::Connection, priority::LAST).when(Register::GUARDED, 1_u8));
}

fn known(out: &mut Emitter, law: Application) {
    let known = |priority| Rule::new(Table::Known, priority);
    out.add(known(priority::INVALID).tracked(state::INVALID));
    let judged = |unjudged| known(priority::KNOWN).tracked(0).judged(Some(unjudged), law.epoch);
    out.add(judged(false).to(Table::SourceNat));
    out.add(judged(true).load(Register::UNJUDGED, 1_u8).to(Table::SourceNat));
    if law.epoch.is_some() {
        // Whoever asked is judged again, not who answers; but who was refused then is not answered.
        let answers = |priority| known(priority).tracked(state::ANSWER);
        out.add(answers(priority::KNOWN).judged(None, Some(conntrack::REFUSED)));
        out.add(answers(priority::HIGH).judged(None, None).to(Table::SourceNat));
    }
    out.add(
        known(priority::HIGH)
            .when(Register::HAIRPIN, 1_u8)
            .load(Register::EGRESS_RULE, RuleId::ITSELF.0)
            .load(Register::INGRESS_RULE, RuleId::ITSELF.0)
            .to(Table::Grant),
    );
    let judge = |rule: Rule, next| match law.epoch {
        Some(epoch) => rule.load(Register::EPOCH, epoch).to(next),
        None => rule.to(next),
    };
    let sent = known(priority::NORMAL)
        .when(Register::SENDER_ISOLATED, 0_u8)
        .when(Register::UNJUDGED, 0_u8);
    out.add(judge(sent, Table::IngressPolicy));
    out.add(judge(known(priority::LAST), Table::EgressPolicy));
}

/// A node reaches its own ports always, by what nobody else can use.
pub(crate) fn own(out: &mut Emitter, node: &Node) {
    for address in own_addresses(node) {
        out.add(
            Rule::new(Table::Known, priority::GUARD)
                .when(Register::FROM, Origin::Gateway as u8)
                .sourced(address)
                .load(Register::INGRESS_RULE, RuleId::NODE.0)
                .to(Table::Grant),
        );
    }
}

/// Connections of a router's addresses. Those of the default one are there always.
pub(crate) fn zone_of_router(out: &mut Emitter, vrf: VrfId) {
    if vrf != VrfId::default() {
        zone(out, zone_of(vrf), |rule| rule.when(Register::VRF, vrf.0), 0);
    }
}

/// Connections inside of a network that has no router.
pub(crate) fn zone_of_network(out: &mut Emitter, vni: Vni) {
    let of_network = |rule: Rule| rule.when(Register::NETWORK, vni.get());
    zone(out, conntrack::zone_of_network(vni), of_network, 1);
}

/// Connections of a zone: looked up, unless they were on their way to a Service, and remembered.
fn zone(out: &mut Emitter, zone: u16, of: impl Fn(Rule) -> Rule, above: u16) {
    let rule = |table, priority| of(Rule::new(table, priority + above));
    out.add(
        rule(Table::Connection, priority::HIGH)
            .when(Register::GUARDED, 1_u8)
            .tracked(0)
            .eq(Field::CT_ZONE, zone)
            .to(Table::Known),
    );
    for ipv6 in [false, true] {
        let guarded = rule(Table::Connection, priority::NORMAL).when(Register::GUARDED, 1_u8);
        out.add(guarded.family(ipv6).then(ask(zone, Table::Known)));
        let grant = rule(Table::Grant, priority::NORMAL).family(ipv6);
        out.add(grant.through(Table::Admission).then(remember(zone)).to(Table::SourceNat));
    }
}

/// Ports of an identity are under policies; which of what comes to them and what they send is
/// isolated is said by direction.
pub(crate) fn subject(out: &mut Emitter, identity: Identity, isolated: [bool; 2]) {
    let guard = |rule: Rule, isolated: bool, register| match isolated {
        true => rule.load(Register::GUARDED, 1_u8).load(register, 1_u8),
        false => rule.load(Register::GUARDED, 1_u8),
    };
    let sends = Rule::new(Table::SenderGuard, priority::NORMAL)
        .when(Register::FROM, Origin::Port as u8)
        .when(Register::SOURCE, identity.0);
    out.add(guard(sends, isolated[1], Register::SENDER_ISOLATED).to(Table::ReceiverGuard));
    let receives = Rule::new(Table::ReceiverGuard, priority::NORMAL)
        .when(Register::TO, Destination::Port as u8)
        .when(Register::TARGET, identity.0);
    out.add(guard(receives, isolated[0], Register::RECEIVER_ISOLATED).to(Table::Connection));
}

/// What a clause counts for: a flow for each priority that rules are spread over.
pub(crate) fn clause(
    out: &mut Emitter,
    direction: Direction,
    clause: Clause,
    parts: &BTreeMap<u16, Vec<Part>>,
) {
    for (band, parts) in parts {
        let counts = parts.iter().map(|part| Action::Conjunction {
            id: part.rule.0,
            clause: part.nth,
            clauses: part.of,
        });
        let rule = Rule::new(table_of(direction), priority::NORMAL - band);
        for rule in matching(&rule, clause) {
            out.add(counts.clone().fold(rule, Rule::then));
        }
    }
}

/// Packets that a clause means: of both families where it does not say which.
fn matching(rule: &Rule, clause: Clause) -> Vec<Rule> {
    let families = || [false, true].into_iter().map(|ipv6| rule.clone().family(ipv6));
    match clause {
        Clause::Source(identity) => vec![rule.clone().when(Register::SOURCE, identity.0)],
        Clause::Target(identity) => vec![rule.clone().when(Register::TARGET, identity.0)],
        Clause::SourceIn(prefix) => vec![rule.clone().sourced_in(prefix)],
        Clause::TargetIn(prefix) => vec![rule.clone().destined(prefix)],
        Clause::Family { ipv6 } => vec![rule.clone().family(ipv6)],
        Clause::Port { transport, value, mask } => {
            let Some((protocol, _, port)) = fields(transport) else { return families().collect() };
            let of_transport = families().map(|rule| rule.eq(Field::IP_PROTO, protocol));
            match mask {
                0 => of_transport.collect(),
                _ => of_transport.map(|rule| rule.masked(port, value, mask)).collect(),
            }
        }
    }
}

/// What a rule grants: it is judged for this side.
pub(crate) fn granted(out: &mut Emitter, rule: RuleId, direction: Direction, band: u16) {
    let granted =
        Rule::new(table_of(direction), priority::NORMAL - band).eq(Field::CONJ_ID, rule.0);
    out.add(match direction {
        Direction::Egress => granted
            .load(Register::EGRESS_RULE, rule.0)
            .load(Register::UNJUDGED, 0_u8)
            .to(Table::IngressPolicy),
        Direction::Ingress => granted.load(Register::INGRESS_RULE, rule.0).to(Table::Grant),
    });
}

fn table_of(direction: Direction) -> Table {
    match direction {
        Direction::Ingress => Table::IngressPolicy,
        Direction::Egress => Table::EgressPolicy,
    }
}
