//! The service gateway: what pods send to Services goes into the machine's stack by a port of its own,
//! is led to an endpoint there, by kube-proxy, and comes back by the same port. From there on it is
//! what the pod itself would have sent to the endpoint: judged as that, and seen as that. Answers take
//! the same way back.
//!
//! A connection stays with whom it began with. Those that the switch led are known in their router's
//! zone, those that the machine led in a zone of their own; so either may follow the other at any time.
//! The port is of the default network and of no router: nobody has a route to it.

use super::node::own_addresses;
use super::track::goes_on;
use super::{mac, out_of, priority};
use crate::compile::DEFAULT_VNI;
use crate::conntrack::{GATEWAY_ZONE, ask, look_up, note, remember_gateway, state, track, zone_of};
use crate::local::{Attachment, LocalPorts};
use crate::pipeline::Table;
use crate::plan::{Emitter, Rule};
use crate::registers::{Destination, Origin, Register};
use ipnet::IpNet;
use osier_model::{Fabric, Identity, Mac, Node, Port, VrfId};
use osier_openflow::field::Field;
use osier_openflow::port_no::PortNo;
use std::net::IpAddr;

/// Who leads pods to Services: the machine, by this port, or the switch.
pub(crate) fn leads(local: LocalPorts, fabric: &Fabric) -> Option<PortNo> {
    local.service_gateway.filter(|_| fabric.service_gateway)
}

/// What there is once a gateway is there; connections that it leads may outlive its time.
pub(crate) fn flows(out: &mut Emitter, local: LocalPorts, fabric: &Fabric) {
    let Some(gateway) = local.service_gateway else { return };
    for range in &fabric.services {
        answers(out, gateway, *range);
        // Endpoints of the machine itself answer by its own way to pods.
        answers(out, local.gateway, *range);
        // Nobody led it anywhere: it would come back for ever.
        out.add(from(gateway, priority::HIGH).destined(*range));
    }
    out.add(
        Rule::new(Table::SenderGuard, priority::HIGH)
            .when(Register::FROM, Origin::Service as u8)
            .to(Table::SourceNat),
    );
    remembered(out);
    returned(out, gateway);
    let led = Rule::new(Table::Service, priority::LED).eq(Field::CT_ZONE, GATEWAY_ZONE);
    out.add(lead(led.tracked(state::ESTABLISHED), gateway));
    if fabric.service_gateway {
        for range in &fabric.services {
            asked_of(out, *range);
            let of_pods = |priority| by_pods(Rule::new(Table::Service, priority)).destined(*range);
            out.add(lead_new(of_pods(priority::LAST + 1), gateway));
            // The tracker calls ends of connections invalid whose beginning it did not see.
            out.add(lead(of_pods(priority::INVALID + 1).tracked(state::INVALID), gateway));
        }
    }
    unknown(out, fabric.service_gateway);
}

/// Whom the one zone does not know is looked for in the other: where the machine leads all of them,
/// where the switch does only what goes on.
fn unknown(out: &mut Emitter, led_by_machine: bool) {
    let router = zone_of(VrfId::default());
    for ipv6 in [false, true] {
        let rule = by_pods(Rule::new(Table::Service, priority::LED - 1)).family(ipv6).masked(
            Field::CT_STATE,
            state::TRACKED,
            state::TRACKED | state::ESTABLISHED,
        );
        out.add(if led_by_machine {
            rule.eq(Field::CT_ZONE, GATEWAY_ZONE).then(look_up(router, Table::Service))
        } else {
            goes_on(rule.eq(Field::CT_ZONE, router)).then(ask(GATEWAY_ZONE, Table::Service))
        });
    }
}

/// What pods send to Services, where the machine leads: known connections are found first.
pub(crate) fn asked_of(out: &mut Emitter, prefix: IpNet) {
    out.add(
        by_pods(Rule::new(Table::Track, priority::GUARD))
            .destined(prefix)
            .then(ask(GATEWAY_ZONE, Table::Service)),
    );
}

/// Answers that the machine has translated back: what they answer was judged, and so were they.
pub(crate) fn answers(out: &mut Emitter, port: PortNo, services: IpNet) {
    out.add(
        from(port, priority::GUARD)
            .sourced_in(services)
            .then(note(GATEWAY_ZONE))
            .load(Register::FROM, Origin::Service as u8)
            .load(Register::NETWORK, DEFAULT_VNI)
            .to(Table::GatewayMac),
    );
}

/// Connections that were led by the machine, so that their answers are known.
fn remembered(out: &mut Emitter) {
    let by_gateway = |priority| {
        let rule = Rule::new(Table::SourceNat, priority).when(Register::BY_GATEWAY, 1_u8);
        rule.when(Register::HAIRPIN, 0_u8)
    };
    out.add(by_gateway(priority::INVALID).tracked(0).led_by_gateway().to(Table::Egress));
    for ipv6 in [false, true] {
        let remember = remember_gateway(zone_of(VrfId::default()));
        let rule = by_gateway(priority::KNOWN).family(ipv6);
        out.add(rule.then(remember).to(Table::Egress));
    }
}

/// Their answers go to the machine, which translates them back.
fn returned(out: &mut Emitter, gateway: PortNo) {
    let answer = Rule::new(Table::Route, priority::RETURN)
        .when(Register::VRF, 0_u8)
        .tracked(state::ANSWER)
        .eq(Field::CT_ZONE, zone_of(VrfId::default()))
        .led_by_gateway();
    out.add(towards(answer, gateway).to(Table::Hop));
}

/// A pod's packets as the machine gives them back: the pod's own, whose endpoint is known now.
pub(crate) fn of_port(out: &mut Emitter, port: &Port, at: Attachment, large: bool, by: PortNo) {
    for address in &port.addresses {
        let mut rule = from(by, priority::NORMAL)
            .sourced(*address)
            .load(Register::FROM, Origin::Port as u8)
            .load(Register::IN_TAG, at.tag)
            .load(Register::NETWORK, DEFAULT_VNI)
            .load(Register::SOURCE, port.identity.0)
            .load(Register::FROM_SERVICE, 1_u8)
            .load(Register::BY_GATEWAY, 1_u8);
        if large {
            rule = rule.load(Register::LARGE, 1_u8);
        }
        out.add(rule.then(ask(zone_of(VrfId::default()), Table::GatewayMac)));
    }
}

/// What the machine has given its own address to: connections from before there was a gateway.
pub(crate) fn own(out: &mut Emitter, node: &Node, gateway: PortNo) {
    for address in own_addresses(node) {
        out.add(
            from(gateway, priority::NORMAL)
                .sourced(address)
                .load(Register::FROM, Origin::Gateway as u8)
                .load(Register::NETWORK, DEFAULT_VNI)
                .load(Register::SOURCE, Identity::HOST.0)
                .to(Table::Dispatch),
        );
    }
}

/// Leads a new connection of a pod to the machine.
pub(crate) fn lead_new(rule: Rule, gateway: PortNo) -> Rule {
    lead(by_pods(rule).through(Table::Admission).then(track(GATEWAY_ZONE)), gateway)
}

fn lead(rule: Rule, gateway: PortNo) -> Rule {
    towards(rule, gateway).to(Table::Egress)
}

fn towards(rule: Rule, gateway: PortNo) -> Rule {
    let rule = rule.set(Field::ETH_DST, mac(Mac::SERVICES)).set(Field::ETH_SRC, mac(Mac::FABRIC));
    out_of(rule, gateway, Destination::Gateway)
}

fn by_pods(rule: Rule) -> Rule {
    rule.when(Register::FROM, Origin::Port as u8).when(Register::VRF, 0_u8)
}

fn from(port: PortNo, priority: u16) -> Rule {
    Rule::new(Table::Ingress, priority).eq(Field::IN_PORT, port.0)
}

/// An address that Services have beside the cluster's range.
pub(crate) fn apart(out: &mut Emitter, local: LocalPorts, fabric: &Fabric, address: IpAddr) {
    let Some(gateway) = local.service_gateway else { return };
    answers(out, gateway, address.into());
    if fabric.service_gateway {
        asked_of(out, address.into());
    }
}
