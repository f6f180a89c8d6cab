//! The requests that we make, as values.

use super::exchange::Request;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressMessage, AddressScope};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkExtentMask, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{
    RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use osier_model::Mac;
use std::net::IpAddr;
use std::os::fd::RawFd;

/// The group of interfaces of ours ("os" in ASCII): unlike an alias it is set in the request that
/// makes them, so there is no moment at which one of ours is not known as such.
pub(crate) const GROUP: u32 = 0x6f73;

/// The table of routes for what goes out where it came in, and its rule's place before the main one.
pub(super) const DETOUR: u32 = GROUP;

/// Queues of each end. By default the kernel makes one for each processor of the machine, each with
/// files in sysfs, which is most of the time that it takes to make a pair. A veth hands its packets
/// to the processor that sends them, whatever the queue, so more would only cost.
const VETH_QUEUES: u32 = 1;

fn family(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}

pub(super) fn get_link(name: &str) -> Request {
    let mut message = LinkMessage::default();
    message.attributes.push(LinkAttribute::IfName(name.to_owned()));
    message.attributes.push(without_counters());
    let message = RouteNetlinkMessage::GetLink(message);
    Request { what: format!("tell of interface {name}"), message, flags: 0 }
}

pub(super) fn get_link_by_index(index: u32) -> Request {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message.attributes.push(without_counters());
    let message = RouteNetlinkMessage::GetLink(message);
    Request { what: format!("tell of interface number {index}"), message, flags: 0 }
}

/// The counters of an interface are most of what the kernel tells of it.
fn without_counters() -> LinkAttribute {
    LinkAttribute::ExtMask(vec![LinkExtentMask::SkipStats])
}

pub(super) fn dump_addresses() -> Request {
    let message = RouteNetlinkMessage::GetAddress(AddressMessage::default());
    Request { what: "list addresses".to_owned(), message, flags: NLM_F_DUMP }
}

pub(super) fn delete_link(name: &str) -> Request {
    let mut message = LinkMessage::default();
    message.attributes.push(LinkAttribute::IfName(name.to_owned()));
    let message = RouteNetlinkMessage::DelLink(message);
    Request { what: format!("delete interface {name}"), message, flags: 0 }
}

/// Both ends at once, the peer where `namespace` is. This end is up; it would take a switch one more
/// change to have it see all packets, so it does that, too.
pub(super) fn create_veth(
    name: &str,
    peer_name: &str,
    peer_mac: Mac,
    mtu: u16,
    namespace: RawFd,
) -> Request {
    let mut peer = LinkMessage::default();
    peer.attributes = vec![
        LinkAttribute::IfName(peer_name.to_owned()),
        LinkAttribute::Mtu(mtu.into()),
        LinkAttribute::Address(peer_mac.0.to_vec()),
        LinkAttribute::NetNsFd(namespace),
        LinkAttribute::NumTxQueues(VETH_QUEUES),
        LinkAttribute::NumRxQueues(VETH_QUEUES),
    ];
    let mut message = LinkMessage::default();
    message.header.flags = LinkFlags::Up | LinkFlags::Promisc;
    message.header.change_mask = LinkFlags::Up | LinkFlags::Promisc;
    message.attributes = vec![
        LinkAttribute::IfName(name.to_owned()),
        LinkAttribute::Mtu(mtu.into()),
        LinkAttribute::Group(GROUP),
        LinkAttribute::NumTxQueues(VETH_QUEUES),
        LinkAttribute::NumRxQueues(VETH_QUEUES),
        LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
        ]),
    ];
    let what = format!("make interface {name} with {peer_name} in the pod's namespace");
    let message = RouteNetlinkMessage::NewLink(message);
    Request { what, message, flags: NLM_F_CREATE | NLM_F_EXCL }
}

pub(super) fn set_link_up(name: &str, index: u32) -> Request {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message.header.flags = LinkFlags::Up;
    message.header.change_mask = LinkFlags::Up;
    let message = RouteNetlinkMessage::SetLink(message);
    Request { what: format!("set interface {name} up"), message, flags: 0 }
}

pub(super) fn set_link_mtu(name: &str, index: u32, mtu: u16) -> Request {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message.attributes.push(LinkAttribute::Mtu(mtu.into()));
    let message = RouteNetlinkMessage::SetLink(message);
    Request { what: format!("set the MTU of {name} to {mtu}"), message, flags: 0 }
}

/// An address, with the length of what is on the link with it. Usable at once.
pub(super) fn add_address(name: &str, index: u32, net: IpNet) -> Request {
    let address = net.addr();
    let mut message = AddressMessage::default();
    message.header.family = family(address);
    message.header.prefix_len = net.prefix_len();
    message.header.scope = AddressScope::Universe;
    message.header.index = index;
    message.attributes = vec![AddressAttribute::Local(address), AddressAttribute::Address(address)];
    if address.is_ipv6() {
        message.attributes.push(AddressAttribute::Flags(AddressFlags::Nodad));
    }
    let message = RouteNetlinkMessage::NewAddress(message);
    let flags = NLM_F_CREATE | NLM_F_REPLACE;
    Request { what: format!("give {net} to {name}"), message, flags }
}

pub(super) fn delete_address(name: &str, index: u32, net: IpNet) -> Request {
    let mut request = add_address(name, index, net);
    if let RouteNetlinkMessage::NewAddress(message) = request.message {
        request.message = RouteNetlinkMessage::DelAddress(message);
    }
    Request { what: format!("take {net} from {name}"), flags: 0, ..request }
}

pub(super) fn add_neighbour(name: &str, index: u32, address: IpAddr, mac: Mac) -> Request {
    let mut message = NeighbourMessage::default();
    message.header.family = family(address);
    message.header.ifindex = index;
    message.header.state = NeighbourState::Permanent;
    message.header.kind = RouteType::Unspec;
    let destination = match address {
        IpAddr::V4(v4) => NeighbourAddress::Inet(v4),
        IpAddr::V6(v6) => NeighbourAddress::Inet6(v6),
    };
    message.attributes = vec![
        NeighbourAttribute::Destination(destination),
        NeighbourAttribute::LinkLayerAddress(mac.0.to_vec()),
    ];
    let message = RouteNetlinkMessage::NewNeighbour(message);
    let what = format!("make {address} a permanent neighbour on {name}");
    Request { what, message, flags: NLM_F_CREATE | NLM_F_REPLACE }
}

/// A route; its router need not be reachable by an address of the link (`onlink`).
pub(super) fn add_route(
    name: &str,
    index: u32,
    to: IpNet,
    via: Option<IpAddr>,
    source: Option<IpAddr>,
) -> Request {
    let mut message = RouteMessage::default();
    message.header.address_family = family(to.addr());
    message.header.destination_prefix_length = to.prefix_len();
    message.header.table = RouteHeader::RT_TABLE_MAIN;
    message.header.protocol = RouteProtocol::Static;
    message.header.scope = if via.is_some() { RouteScope::Universe } else { RouteScope::Link };
    message.header.kind = RouteType::Unicast;
    if to.prefix_len() > 0 {
        message.attributes.push(RouteAttribute::Destination(to.network().into()));
    }
    if let Some(via) = via {
        message.header.flags = RouteFlags::Onlink;
        message.attributes.push(RouteAttribute::Gateway(via.into()));
    }
    message.attributes.push(RouteAttribute::Oif(index));
    message.attributes.extend(source.map(|source| RouteAttribute::PrefSource(source.into())));
    let message = RouteNetlinkMessage::NewRoute(message);
    let by = via.map(|via| format!(" via {via}")).unwrap_or_default();
    let what = format!("route {to}{by} on {name}");
    Request { what, message, flags: NLM_F_CREATE | NLM_F_REPLACE }
}

/// The way of everything that comes in by an interface.
pub(super) fn add_detour(name: &str, index: u32, via: IpAddr) -> Request {
    let all = match via {
        IpAddr::V4(_) => IpNet::V4(Ipv4Net::default()),
        IpAddr::V6(_) => IpNet::V6(Ipv6Net::default()),
    };
    let mut request = add_route(name, index, all, Some(via), None);
    if let RouteNetlinkMessage::NewRoute(message) = &mut request.message {
        message.header.table = RouteHeader::RT_TABLE_UNSPEC;
        message.attributes.push(RouteAttribute::Table(DETOUR));
    }
    request
}

/// What comes in by an interface is looked up in a table of its own.
pub(super) fn add_rule(name: &str, v4: bool) -> Request {
    let mut message = RuleMessage::default();
    message.header.family = if v4 { AddressFamily::Inet } else { AddressFamily::Inet6 };
    message.header.action = RuleAction::ToTable;
    message.attributes = vec![
        RuleAttribute::Iifname(name.to_owned()),
        RuleAttribute::Table(DETOUR),
        RuleAttribute::Priority(DETOUR),
    ];
    let message = RouteNetlinkMessage::NewRule(message);
    let what = format!("look up what comes by {name} in table {DETOUR}");
    Request { what, message, flags: NLM_F_CREATE | NLM_F_EXCL }
}

pub(super) fn delete_rule(name: &str, v4: bool) -> Request {
    let mut request = add_rule(name, v4);
    if let RouteNetlinkMessage::NewRule(message) = request.message {
        request.message = RouteNetlinkMessage::DelRule(message);
    }
    Request { what: format!("remove the rule for what comes by {name}"), flags: 0, ..request }
}

pub(super) fn dump_rules(v4: bool) -> Request {
    let mut message = RuleMessage::default();
    message.header.family = if v4 { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let message = RouteNetlinkMessage::GetRule(message);
    Request { what: "list rules of routing".to_owned(), message, flags: NLM_F_DUMP }
}

pub(super) fn dump_routes(v4: bool) -> Request {
    let mut message = RouteMessage::default();
    message.header.address_family = if v4 { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let message = RouteNetlinkMessage::GetRoute(message);
    Request { what: "list routes".to_owned(), message, flags: NLM_F_DUMP }
}

/// Which way a packet to an address would take.
pub(super) fn get_route(to: IpAddr) -> Request {
    let mut message = RouteMessage::default();
    message.header.address_family = family(to);
    message.header.destination_prefix_length = IpNet::from(to).prefix_len();
    message.attributes.push(RouteAttribute::Destination(to.into()));
    let message = RouteNetlinkMessage::GetRoute(message);
    Request { what: format!("tell of the way to {to}"), message, flags: 0 }
}

pub(super) fn delete_route(name: &str, index: u32, to: IpNet, via: IpAddr) -> Request {
    let mut request = add_route(name, index, to, Some(via), None);
    if let RouteNetlinkMessage::NewRoute(message) = request.message {
        request.message = RouteNetlinkMessage::DelRoute(message);
    }
    Request { what: format!("remove the route {to} via {via} on {name}"), flags: 0, ..request }
}
