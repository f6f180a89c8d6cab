//! From a packet and what is compiled to the answer: who asks, who answers, and with what.

use crate::icmp::{self, Fault, Link};
use crate::ip::IpPacket;
use crate::lease::{Family, LeaseEvent, Terms};
use crate::refuse::refusal;
use crate::{dhcpv4, dhcpv6, discovery, neighbour};
use osier_compiler::registers::Register;
use osier_compiler::{Attachment, Compiler, Question};
use osier_model::{Mac, Network, Port};
use osier_openflow::action::Action;
use osier_openflow::message::{PacketIn2, PacketOut};
use std::net::IpAddr;

/// What becomes of a packet that the switch asks about.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reply {
    /// The answer, if it needs one.
    pub packet: Option<PacketOut>,
    /// What it meant for a lease.
    pub lease: Option<(Family, LeaseEvent)>,
}

/// The answer to a packet that the switch asks about.
pub fn reply(compiler: &Compiler, asked: &PacketIn2) -> Reply {
    look(compiler, asked).unwrap_or_default()
}

fn look(compiler: &Compiler, asked: &PacketIn2) -> Option<Reply> {
    let question = Question::decode(&asked.userdata)?;
    let packet = IpPacket::parse(&asked.packet)?;
    let Some((tag, _)) = asked.metadata.get_u128(Register::IN_TAG.field()) else {
        // Not by a port: by the machine.
        let link = Link { source: Mac::FABRIC, destination: Mac::GATEWAY };
        let refusal = || refusal(&packet, link);
        let answer = (question == Question::Reject).then(refusal).flatten();
        let packet = PacketOut::new(vec![Action::output(compiler.local().gateway)], answer?);
        return Some(Reply { packet: Some(packet), lease: None });
    };
    let (port, network, at) = compiler.port_with_tag(u32::try_from(tag).ok()?)?;
    let link = Link { source: Mac::GATEWAY, destination: port.mac };
    let error = |fault| icmp::error(fault, &packet, router(compiler, network, &packet), link);
    let terms = || Terms::of(compiler, port, network, at);
    let mut lease = None;
    let answer = match question {
        Question::TooBig { mtu } => error(Fault::TooBig(mtu)),
        Question::Expired => error(Fault::Expired),
        Question::Reject => refusal(&packet, link),
        Question::Neighbour => {
            let target = neighbour::target(&packet)?;
            let ours = compiler.router_addresses(network).contains(&target.into());
            ours.then(|| neighbour::advertisement(&packet, target, link)).flatten()
        }
        Question::Dhcp => {
            let (frame, event) = dhcpv4::answer(&packet, &terms()?)?;
            lease = Some((Family::V4, event));
            frame
        }
        Question::Dhcp6 => {
            let (frame, event) = dhcpv6::answer(&packet, &terms()?)?;
            lease = Some((Family::V6, event));
            frame
        }
        Question::Router if discovery::is_solicitation(&packet) => {
            lease = Some((Family::V6, LeaseEvent::Advertised));
            discovery::advertisement(&terms()?, Some(packet.source))
        }
        Question::Router | Question::Denied { .. } => None,
    };
    let packet = answer.map(|frame| PacketOut::new(vec![Action::output(at.ofport)], frame));
    Some(Reply { packet, lease })
}

/// What routers say from time to time, to all ports that are told of them: nobody asks again while
/// what it heard holds.
pub fn advertisements(compiler: &Compiler) -> Vec<PacketOut> {
    let advertise = |(port, network, at): (&Port, &Network, Attachment)| {
        let terms = Terms::of(compiler, port, network, at)?;
        let frame = discovery::advertisement(&terms, None)?;
        Some(PacketOut::new(vec![Action::output(at.ofport)], frame))
    };
    let asking = compiler.attached().filter(|(_, network, _)| network.dhcp.is_some());
    asking.filter_map(advertise).collect()
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
