//! Another source for connections to Services that would not be answered through this node
//! otherwise. It is an address of the node that nobody has; never the gateway's, which may do what
//! others may not.

use super::priority;
use crate::conntrack::{from_address, remember_gateway, zone_of};
use crate::local::Attachment;
use crate::pipeline::Table;
use crate::plan::{Emitter, Rule};
use crate::registers::{Destination, Origin, Register};
use ipnet::IpNet;
use osier_model::{Node, VrfId};

/// A port that reached itself: it would not take an answer from itself, and no policy keeps it from
/// itself.
pub(crate) fn hairpin(out: &mut Emitter, at: Attachment) {
    out.add(
        to_service(Table::SenderGuard, priority::HIGH, Destination::Port)
            .when(Register::IN_TAG, at.tag)
            .when(Register::OUT_PORT, at.ofport.0)
            .load(Register::HAIRPIN, 1_u8)
            .forget_in_port()
            .to(Table::ReceiverGuard),
    );
}

/// The same, where the machine led it back: it is to know that of the answers, too.
pub(crate) fn hairpin_by_gateway(out: &mut Emitter, node: &Node) {
    for address in node.service_addresses() {
        out.add(
            to_service(Table::SourceNat, priority::KNOWN, Destination::Port)
                .when(Register::HAIRPIN, 1_u8)
                .when(Register::BY_GATEWAY, 1_u8)
                .ip(address)
                .then(remember_gateway(zone_of(VrfId::default())))
                .then(from_address(address))
                .to(Table::Egress),
        );
    }
}

/// For this node: who gets its address. `pods` are addresses that all pods have.
pub(crate) fn own(out: &mut Emitter, node: &Node, pods: &[IpNet]) {
    for address in node.service_addresses() {
        let translate = |rule: Rule| rule.ip(address).then(from_address(address)).to(Table::Egress);
        let hairpin = to_service(Table::SourceNat, priority::HIGH, Destination::Port)
            .when(Register::HAIRPIN, 1_u8);
        out.add(translate(hairpin));
        let from_gateway = |to| {
            to_service(Table::SourceNat, priority::NORMAL, to)
                .when(Register::FROM, Origin::Gateway as u8)
        };
        out.add(translate(from_gateway(Destination::Tunnel)));
        // The machine would take nothing from itself.
        out.add(translate(from_gateway(Destination::Gateway).forget_in_port()));
    }
    let from_machine = |address| {
        to_service(Table::SourceNat, priority::HIGH, Destination::Tunnel)
            .when(Register::FROM, Origin::Gateway as u8)
            .sourced(address)
    };
    // Answers to the gateway's own address come back here by themselves, and pods' answers to the
    // machine's; other machines' would go straight there.
    for block in &node.blocks {
        out.add(from_machine(Node::gateway_of(*block)).to(Table::Egress));
    }
    for address in &node.addresses {
        let same = pods.iter().filter(|pods| pods.addr().is_ipv4() == address.is_ipv4());
        for pods in same {
            out.add(from_machine(*address).destined(*pods).to(Table::Egress));
        }
    }
}

fn to_service(table: Table, priority: u16, to: Destination) -> Rule {
    Rule::new(table, priority).when(Register::FROM_SERVICE, 1_u8).when(Register::TO, to as u8)
}
