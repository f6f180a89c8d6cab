//! A port: what comes from it, and the ways to it. A local one is a number of this switch; a remote
//! one a node behind the tunnel. Ports of a routed network have no way by Ethernet address: there
//! everything goes through the router, and that is what keeps a pod's flows few.

use super::{
    admission, arp, client, mac, neighbour, network, out_of, priority, service_gateway, source_nat,
    spoof_guard, through_tunnel,
};
use crate::link::Link;
use crate::local::{Attachment, host};
use crate::meters;
use crate::pipeline::Table;
use crate::plan::{Emitter, Rule};
use crate::registers::{Destination, Origin, Register};
use osier_model::{Mac, Network, Node, Port, Reach, VrfId};
use osier_openflow::action::Action;
use osier_openflow::field::Field;
use osier_openflow::port_no::PortNo;
use std::net::IpAddr;

/// Where a port is, as seen from this node.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place<'a> {
    /// `large`: its packets may exceed the tunnel.
    Here {
        at: Attachment,
        large: bool,
        /// Whether the machine reaches it whatever its router is.
        bare: bool,
        /// Where its packets to Services come back from the machine.
        service_gateway: Option<PortNo>,
        /// How fast it may begin tracked connections.
        connection_rate: Option<u32>,
    },
    At(&'a Node),
}

pub(crate) fn flows(
    out: &mut Emitter,
    port: &Port,
    network: &Network,
    vrf: Option<VrfId>,
    links: &[Link],
    place: Place<'_>,
) {
    if let Place::Here { at, large, service_gateway, connection_rate, .. } = place {
        ingress(out, port, network, vrf, at, large);
        spoof_guard::flows(out, port, network, own_addresses(port, network), at);
        if network.dhcp.is_some() {
            client::flows(out, port, links, at);
        }
        limits(out, port, at);
        if let Some(rate) = connection_rate {
            admission::flows(out, at, rate);
        }
        if vrf == Some(VrfId::default()) {
            source_nat::hairpin(out, at);
            if let Some(gateway) = service_gateway {
                service_gateway::of_port(out, port, at, large, gateway);
            }
        }
        if vrf.is_some() && network::asks_all(network) {
            for address in &port.addresses {
                if let IpAddr::V4(v4) = address {
                    arp::own(out, network.vni, *v4);
                }
            }
        }
    }
    if let Some(vrf) = vrf {
        routes(out, port, network, vrf, place);
    }
    if network.reach == Reach::Bridged {
        bridged(out, port, network, place);
    }
}

/// Its addresses, and where there are neighbours the one that IPv6 gives to it for the link alone.
fn own_addresses(port: &Port, network: &Network) -> impl Iterator<Item = IpAddr> {
    let speaks_ipv6 = port.addresses.iter().any(IpAddr::is_ipv6);
    let link_local = (network.reach == Reach::Bridged && speaks_ipv6)
        .then(|| IpAddr::V6(port.mac.link_local()))
        .filter(|address| !port.addresses.contains(address));
    port.addresses.iter().copied().chain(link_local)
}

fn ingress(
    out: &mut Emitter,
    port: &Port,
    network: &Network,
    vrf: Option<VrfId>,
    at: Attachment,
    large: bool,
) {
    let mut rule = Rule::new(Table::Ingress, priority::NORMAL).eq(Field::IN_PORT, at.ofport.0);
    if port.limits.egress.is_some() {
        rule = rule.then(Action::Meter(meters::from_port(at.tag)));
    }
    rule = rule
        .load(Register::FROM, Origin::Port as u8)
        .load(Register::IN_TAG, at.tag)
        .load(Register::NETWORK, network.vni.get())
        .load(Register::SOURCE, port.identity.0);
    if let Some(vrf) = vrf.filter(|vrf| vrf.0 != 0) {
        rule = rule.load(Register::VRF, vrf.0);
    }
    if large {
        rule = rule.load(Register::LARGE, 1_u8);
    }
    out.add(rule.to(Table::SpoofGuard));
}

/// What is above its limits is dropped: at the first table from it, at the last one to it.
fn limits(out: &mut Emitter, port: &Port, at: Attachment) {
    if let Some(limit) = port.limits.egress {
        out.add_meter(meters::limit(meters::from_port(at.tag), limit));
    }
    if let Some(limit) = port.limits.ingress {
        let id = meters::to_port(at.tag);
        out.add_meter(meters::limit(id, limit));
        out.add(
            Rule::new(Table::Egress, priority::HIGH)
                .when(Register::TO, Destination::Port as u8)
                .when(Register::OUT_PORT, at.ofport.0)
                .then(Action::Meter(id))
                .then(Action::output(at.ofport)),
        );
    }
}

/// Sends the packet to the port, in its network.
fn deliver(rule: Rule, port: &Port, network: &Network, place: Place<'_>) -> Rule {
    match place {
        Place::Here { at, .. } => {
            out_of(rule, at.ofport, Destination::Port).load(Register::TARGET, port.identity.0)
        }
        Place::At(node) => through_tunnel(rule, node, network.vni),
    }
}

fn routes(out: &mut Emitter, port: &Port, network: &Network, vrf: VrfId, place: Place<'_>) {
    for address in &port.addresses {
        let prefix = host(*address);
        let mut rule = Rule::new(Table::Route, priority::route(prefix.prefix_len()))
            .when(Register::VRF, vrf.0)
            .destined(prefix);
        // To a routed network elsewhere it is the router there that delivers.
        if matches!(place, Place::Here { .. }) || network.reach == Reach::Bridged {
            rule = rule.set(Field::ETH_SRC, mac(Mac::GATEWAY)).set(Field::ETH_DST, mac(port.mac));
        }
        if let Place::Here { bare: true, .. } = place
            && vrf != VrfId::default()
        {
            let machine = Rule::new(Table::Route, priority::route(prefix.prefix_len()))
                .when(Register::VRF, 0_u8)
                .when(Register::FROM, Origin::Gateway as u8)
                .destined(prefix)
                .set(Field::ETH_SRC, mac(Mac::GATEWAY))
                .set(Field::ETH_DST, mac(port.mac));
            out.add(deliver(machine, port, network, place).to(Table::Hop));
        }
        out.add(deliver(rule, port, network, place).to(Table::Hop));
    }
}

fn bridged(out: &mut Emitter, port: &Port, network: &Network, place: Place<'_>) {
    let forward = Rule::new(Table::Forward, priority::NORMAL)
        .when(Register::NETWORK, network.vni.get())
        .eq(Field::ETH_DST, mac(port.mac));
    out.add(deliver(forward, port, network, place).to(Table::SenderGuard));
    for address in own_addresses(port, network) {
        match address {
            IpAddr::V4(v4) => arp::answer(out, network.vni, v4, port.mac),
            IpAddr::V6(v6) => {
                let rule = neighbour::solicitation(network.vni, v6);
                out.add(deliver(rule, port, network, place).to(Table::Egress));
            }
        }
    }
}
