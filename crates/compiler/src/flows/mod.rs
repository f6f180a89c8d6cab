//! One file for each kind of flows: which packets it owns stands in its first lines.

pub(crate) mod admission;
pub(crate) mod affinity;
pub(crate) mod arp;
pub(crate) mod balance;
pub(crate) mod client;
pub(crate) mod flood;
pub(crate) mod neighbour;
pub(crate) mod network;
pub(crate) mod node;
pub(crate) mod pipeline;
pub(crate) mod policy;
pub(crate) mod port;
pub(crate) mod service;
pub(crate) mod service_gateway;
pub(crate) mod source_nat;
pub(crate) mod spoof_guard;
pub(crate) mod track;

use crate::plan::Rule;
use crate::registers::{Destination, Register};
use osier_model::{Node, Vni};
use osier_openflow::action::{Action, SetField};
use osier_openflow::port_no::PortNo;
use std::net::IpAddr;

/// Priorities inside of a table. Routes have their own: longer prefixes first.
pub(crate) mod priority {
    pub(crate) const MISS: u16 = 0;
    /// What nothing else of a table is for.
    pub(crate) const LAST: u16 = 10;
    /// The same, of connections that are known.
    pub(crate) const CUT: u16 = 15;
    /// What policies do not grant here, but may elsewhere.
    pub(crate) const ELSEWHERE: u16 = 20;
    /// What may be an answer of an endpoint, after all that is known to be a question to one.
    pub(crate) const ANSWER: u16 = 90;
    /// Whom nothing above it names.
    pub(crate) const OTHERS: u16 = 95;
    pub(crate) const NORMAL: u16 = 100;
    pub(crate) const GUARD: u16 = 110;
    pub(crate) const HIGH: u16 = 120;
    /// What goes on and never began.
    pub(crate) const ASTRAY: u16 = 130;
    /// Connections that are known already, and packets that belong to none.
    pub(crate) const KNOWN: u16 = 140;
    /// The same, by Service.
    pub(crate) const COUNTED: u16 = 145;
    pub(crate) const INVALID: u16 = 150;
    /// Connections that are known to be led by the machine.
    pub(crate) const LED: u16 = 160;

    /// Of a route: Netvirt's ten, and a point for each bit.
    pub(crate) fn route(prefix_len: u8) -> u16 {
        10 + u16::from(prefix_len)
    }

    /// Above every route of its length: what a router itself answers.
    pub(crate) const ROUTER: u16 = 200;
    /// Above that: answers that have to go back by the way that was asked.
    pub(crate) const RETURN: u16 = 210;
}

/// Sends the packet out of a port of this node. A register gives numbers of 16 bits: the bridge's own
/// port is that of OpenFlow 1.0 there.
pub(crate) fn out_of(rule: Rule, port: PortNo, to: Destination) -> Rule {
    rule.load(Register::OUT_PORT, port.0 & 0xffff).load(Register::TO, to as u8)
}

/// Sends the packet to another node, under a network's key. Both wait in registers: a packet that has
/// them already counts as one that came from there when it begins anew, and is not sent back.
pub(crate) fn through_tunnel(rule: Rule, node: &Node, vni: Vni) -> Rule {
    through_tunnel_actions(node, vni).into_iter().fold(rule, Rule::then)
}

/// The same as actions.
pub(crate) fn through_tunnel_actions(node: &Node, vni: Vni) -> Vec<Action> {
    let (ipv4, ipv6) = match node.tunnel {
        IpAddr::V4(v4) => (u32::from(v4), 0),
        IpAddr::V6(v6) => (0, u128::from(v6)),
    };
    let load = |register: Register, value: u32| register.load(value);
    [
        load(Register::TUNNEL, ipv4),
        SetField::new(Register::TUNNEL_IPV6, ipv6).map(Action::SetField),
        load(Register::NETWORK, vni.get()),
        load(Register::TO, Destination::Tunnel as u32),
    ]
    .into_iter()
    .map(|action| action.expect("each value has as many bits as its register"))
    .collect()
}

/// An Ethernet address for the switch.
pub(crate) fn mac(mac: osier_model::Mac) -> osier_openflow::field::Mac {
    osier_openflow::field::Mac(mac.0)
}
