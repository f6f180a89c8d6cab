//! Other nodes: what comes from them, and the way to their pods and to themselves. One flow for
//! each block and address of a node, however many pods it has. And of this node: its own block.

use super::pipeline::Told;
use super::{mac, out_of, policy, priority, service_gateway, source_nat, through_tunnel, track};
use crate::compile::default_vni;
use crate::local::{LocalPorts, host};
use crate::pipeline::Table;
use crate::plan::{Emitter, Rule};
use crate::registers::{Destination, Origin, Register};
use ipnet::IpNet;
use osier_model::{Mac, Node, Tunnel, VrfId};
use osier_openflow::field::Field;
use std::net::IpAddr;

/// Flows for another node.
pub(crate) fn remote(out: &mut Emitter, node: &Node, local: LocalPorts, tunnel: Tunnel) {
    let source = match node.tunnel {
        IpAddr::V4(_) => Field::TUN_SRC,
        IpAddr::V6(_) => Field::TUN_IPV6_SRC,
    };
    // Only nodes that we know may send us something.
    let mut rule = Rule::new(Table::Ingress, priority::NORMAL)
        .eq(Field::IN_PORT, local.tunnel.0)
        .eq(source, node.tunnel)
        .load(Register::FROM, Origin::Tunnel as u8);
    if tunnel == Tunnel::Geneve {
        rule = Told::by(tunnel).hear(rule);
    }
    out.add(rule.to(Table::TunnelIn));
    let hosts = node.addresses.iter().copied().map(host);
    for prefix in node.blocks.iter().copied().chain(hosts) {
        let rule = route(prefix);
        out.add(through_tunnel(rule, node, default_vni()).to(Table::Hop));
    }
}

/// Flows for this node itself; `pods` are addresses that all pods have.
pub(crate) fn own(out: &mut Emitter, node: &Node, local: LocalPorts, pods: &[IpNet]) {
    for block in &node.blocks {
        // No pod has it: to hand it to the machine would bring it back for ever.
        out.add(route(*block));
    }
    let gateways = node.blocks.iter().map(|block| Node::gateway_of(*block));
    for address in gateways.chain(node.addresses.iter().copied()) {
        let rule = route(host(address))
            .set(Field::ETH_DST, mac(Mac::GATEWAY))
            .set(Field::ETH_SRC, mac(Mac::FABRIC));
        out.add(out_of(rule, local.gateway, Destination::Gateway).to(Table::Hop));
    }
    source_nat::own(out, node, pods);
    if let Some(gateway) = local.service_gateway {
        source_nat::hairpin_by_gateway(out, node);
        service_gateway::own(out, node, gateway);
    }
    policy::own(out, node);
    for address in node.service_addresses() {
        track::answers_to(out, address, local);
    }
}

/// The way to the machine from ports of a router that is not the default one: health checks are answered.
pub(crate) fn machine_of(out: &mut Emitter, node: &Node, local: LocalPorts, vrf: VrfId) {
    for address in own_addresses(node).filter(|_| vrf != VrfId::default()) {
        let rule = Rule::new(Table::Route, priority::route(host(address).prefix_len()))
            .when(Register::VRF, vrf.0)
            .destined(host(address))
            .set(Field::ETH_DST, mac(Mac::GATEWAY))
            .set(Field::ETH_SRC, mac(Mac::FABRIC));
        out.add(out_of(rule, local.gateway, Destination::Gateway).to(Table::Hop));
    }
}

/// What the machine itself sends from.
pub(crate) fn own_addresses(node: &Node) -> impl Iterator<Item = IpAddr> {
    let gateways = node.blocks.iter().map(|block| Node::gateway_of(*block));
    node.addresses.iter().copied().chain(gateways)
}

/// A route of the default router.
fn route(prefix: IpNet) -> Rule {
    Rule::new(Table::Route, priority::route(prefix.prefix_len()))
        .when(Register::VRF, 0_u8)
        .destined(prefix)
}
