//! A network: what comes through the tunnel under its key, its router's own addresses, and its
//! floods.

use super::pipeline::with_key;
use super::{arp, mac, neighbour, policy, priority};
use crate::compile::default_vni;
use crate::pipeline::Table;
use crate::plan::{Emitter, Rule};
use crate::registers::Register;
use osier_model::{Mac, Network, Reach, Tunnel, VrfId};
use osier_openflow::action::Action;
use osier_openflow::field::Field;
use osier_openflow::subfield::Subfield;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// Echo request and reply, and the protocol, by family.
const ECHO: [(u8, Field, u8, u8); 2] =
    [(1, Field::ICMP_TYPE, 8, 0), (58, Field::ICMPV6_TYPE, 128, 129)];

/// `routers` are the addresses that ports of the network use as their gateways.
pub(crate) fn flows(
    out: &mut Emitter,
    network: &Network,
    vrf: Option<VrfId>,
    routers: &BTreeSet<IpAddr>,
    tunnel: Tunnel,
) {
    // What is routed goes to the gateway's address also through the tunnel.
    let next = match vrf {
        Some(_) => Table::Track,
        None => Table::Forward,
    };
    let mut rule = with_key(Rule::new(Table::TunnelIn, priority::NORMAL), network.vni, tunnel)
        .load(Register::NETWORK, network.vni.get());
    if let Some(vrf) = vrf.filter(|vrf| vrf.0 != 0) {
        rule = rule.load(Register::VRF, vrf.0);
    }
    out.add(rule.to(next));
    let Some(vrf) = vrf else { return policy::zone_of_network(out, network.vni) };
    for router in routers {
        match router {
            IpAddr::V4(v4) => arp::answer(out, network.vni, *v4, Mac::GATEWAY),
            IpAddr::V6(v6) => neighbour::ask(out, network.vni, *v6),
        }
    }
    if asks_all(network) {
        arp::answer_all(out, network.vni);
    }
    // The others are the machine's own, which answers for itself.
    for gateway in network.subnets.iter().filter_map(|s| s.gateway) {
        ping(out, gateway, vrf);
    }
}

/// Whether ports of a routed network may believe that they are on one link, and ask for whomever. On the
/// default network nobody does: who makes its ports tells them their gateway's Ethernet address.
pub(crate) fn asks_all(network: &Network) -> bool {
    network.reach == Reach::Routed && network.vni != default_vni()
}

/// The router answers an echo request by turning it round and routing it again.
fn ping(out: &mut Emitter, address: IpAddr, vrf: VrfId) {
    let (protocol, kind, request, reply) = ECHO[usize::from(address.is_ipv6())];
    let (src, dst) = match address {
        IpAddr::V4(_) => (Field::IPV4_SRC, Field::IPV4_DST),
        IpAddr::V6(_) => (Field::IPV6_SRC, Field::IPV6_DST),
    };
    out.add(
        Rule::new(Table::Route, priority::ROUTER)
            .when(Register::VRF, vrf.0)
            .destined(address.into())
            .eq(Field::IP_PROTO, protocol)
            .eq(kind, request)
            .copy(Subfield::whole(src), Subfield::whole(dst))
            .set(src, address)
            .set(kind, reply)
            .then(Action::SetTtl(64))
            .set(Field::ETH_SRC, mac(Mac::GATEWAY))
            .forget_in_port()
            .to(Table::Route),
    );
}
