//! From a packet and what is compiled to the answer: who asks, who answers, and with what.

use super::icmp::{self, Fault, Link};
use super::ip::IpPacket;
use super::neighbour;
use super::refuse::refusal;
use osier_compiler::registers::Register;
use osier_compiler::{Compiler, Question};
use osier_model::{Mac, Network};
use osier_openflow::action::Action;
use osier_openflow::message::{PacketIn2, PacketOut};
use std::net::IpAddr;

/// The answer to a packet that the switch asks about; `None` if it needs none.
pub fn reply(compiler: &Compiler, asked: &PacketIn2) -> Option<PacketOut> {
    let question = Question::decode(&asked.userdata)?;
    let packet = IpPacket::parse(&asked.packet)?;
    let Some((tag, _)) = asked.metadata.get_u128(Register::IN_TAG.field()) else {
        // Not by a port: by the machine.
        let link = Link { source: Mac::FABRIC, destination: Mac::GATEWAY };
        let refusal = || refusal(&packet, link);
        let answer = (question == Question::Reject).then(refusal).flatten();
        return Some(PacketOut::new(vec![Action::output(compiler.local().gateway)], answer?));
    };
    let (port, network, at) = compiler.port_with_tag(u32::try_from(tag).ok()?)?;
    let link = Link { source: Mac::GATEWAY, destination: port.mac };
    let error = |fault| icmp::error(fault, &packet, router(compiler, network, &packet), link);
    let answer = match question {
        Question::TooBig { mtu } => error(Fault::TooBig(mtu)),
        Question::Expired => error(Fault::Expired),
        Question::Reject => refusal(&packet, link),
        Question::Denied { .. } => None,
        Question::Neighbour => {
            let target = neighbour::target(&packet)?;
            let ours = compiler.router_addresses(network).contains(&target.into());
            ours.then(|| neighbour::advertisement(&packet, target, link)).flatten()
        }
    };
    Some(PacketOut::new(vec![Action::output(at.ofport)], answer?))
}

/// Who tells of an error: the router in the subnet of who sent the packet, or another of its
/// addresses there. In a network without a router it is as if the receiver did.
fn router(compiler: &Compiler, network: &Network, packet: &IpPacket<'_>) -> IpAddr {
    let addresses = compiler.router_addresses(network);
    let nearest = addresses
        .iter()
        .filter(|address| address.is_ipv4() == packet.source.is_ipv4())
        .max_by_key(|address| shared_bits(**address, packet.source));
    nearest.copied().unwrap_or(packet.destination)
}

/// How many leading bits two addresses share.
fn shared_bits(one: IpAddr, other: IpAddr) -> u32 {
    match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => (one.to_bits() ^ other.to_bits()).leading_zeros(),
        (IpAddr::V6(one), IpAddr::V6(other)) => (one.to_bits() ^ other.to_bits()).leading_zeros(),
        _ => 0,
    }
}
