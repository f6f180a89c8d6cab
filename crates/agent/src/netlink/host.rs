//! The machine's own side: the gateway's interface, and parameters of interfaces.

use super::ethtool::Ethtool;
use super::exchange::{Netlink, NetlinkError};
use super::link::Link;
use super::requests;
use ipnet::IpNet;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::AddressAttribute;
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteProtocol};
use osier_model::Mac;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// How long the kernel may take to let an interface carry packets, and how often to look.
pub(super) const CARRIER_PATIENCE: Duration = Duration::from_secs(1);
pub(super) const CARRIER_PAUSE: Duration = Duration::from_micros(200);

/// What an interface of the machine shall be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostInterface {
    /// Its name.
    pub name: String,
    /// Its MTU.
    pub mtu: u16,
    /// All of its addresses, but for link-local ones.
    pub addresses: Vec<IpAddr>,
    /// Neighbours that need no resolution.
    pub neighbours: Vec<(IpAddr, Mac)>,
    /// Routes by those neighbours.
    pub routes: Vec<HostRoute>,
}

/// A route of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRoute {
    /// Where to.
    pub destination: IpNet,
    /// By whom.
    pub via: IpAddr,
    /// From which address.
    pub source: Option<IpAddr>,
}

/// Makes an interface so; what is so already stays. Addresses beyond are taken off. Blocks.
///
/// Nothing is set that is there: the kernel would tell of it, and a switch that hears of routes reads
/// all of them anew, without any for a moment in which tunnels lead nowhere.
pub fn set_up_host(interface: &HostInterface) -> Result<(), NetlinkError> {
    let netlink = Netlink::open()?;
    let name = &interface.name;
    let index = index_of(&netlink, name)?;
    let mut batch = vec![
        requests::set_link_mtu(name, index, interface.mtu),
        requests::set_link_up(name, index),
    ];
    let has: Vec<IpAddr> = addresses(&netlink)?
        .into_iter()
        .filter_map(|(found, address)| (found == index).then_some(address))
        .collect();
    // First what shall be: with the last address of an interface all of its routes go.
    for address in interface.addresses.iter().filter(|address| !has.contains(address)) {
        batch.push(requests::add_address(name, index, (*address).into()));
    }
    let routes = routes(&netlink, index, interface)?;
    for HostRoute { destination, via, .. } in &routes {
        if !interface.routes.iter().any(|route| route.destination == *destination) {
            batch.push(requests::delete_route(name, index, *destination, *via));
        }
    }
    for address in has {
        let local = matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local());
        if !local && !interface.addresses.contains(&address) {
            batch.push(requests::delete_address(name, index, address.into()));
        }
    }
    for (address, mac) in &interface.neighbours {
        batch.push(requests::add_neighbour(name, index, *address, *mac));
    }
    for route in interface.routes.iter().filter(|route| !routes.contains(route)) {
        let HostRoute { destination, via, source } = route;
        batch.push(requests::add_route(name, index, *destination, Some(*via), *source));
    }
    netlink.execute(batch).map(drop)
}

/// Routes by the interface's neighbours that are there. Routes that others made by other ways are
/// theirs.
fn routes(
    netlink: &Netlink,
    index: u32,
    interface: &HostInterface,
) -> Result<Vec<HostRoute>, NetlinkError> {
    let mut routes = Vec::new();
    for v4 in [true, false] {
        for message in netlink.execute(vec![requests::dump_routes(v4)])? {
            let RouteNetlinkMessage::NewRoute(route) = message else { continue };
            let (mut to, mut via, mut out, mut source) = (None, None, None, None);
            for attribute in &route.attributes {
                match attribute {
                    RouteAttribute::Destination(address) => to = ip_of(address),
                    RouteAttribute::Gateway(address) => via = ip_of(address),
                    RouteAttribute::PrefSource(address) => source = ip_of(address),
                    RouteAttribute::Oif(number) => out = Some(*number),
                    _ => {}
                }
            }
            let length = route.header.destination_prefix_length;
            let to = to.and_then(|to| IpNet::new(to, length).ok());
            let via = via.filter(|_| out == Some(index));
            let (Some(destination), Some(via)) = (to, via) else { continue };
            let ours = route.header.protocol == RouteProtocol::Static
                && interface.neighbours.iter().any(|(address, _)| *address == via);
            if ours {
                routes.push(HostRoute { destination, via, source });
            }
        }
    }
    Ok(routes)
}

fn ip_of(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(v4) => Some((*v4).into()),
        RouteAddress::Inet6(v6) => Some((*v6).into()),
        _ => None,
    }
}

/// The MTU of the interface that has an address. Blocks.
pub fn mtu_of_address(address: IpAddr) -> Result<Option<u32>, NetlinkError> {
    Ok(link_of_address(address)?.and_then(|link| link.mtu))
}

/// The name of the interface that has an address. Blocks.
pub fn name_of_address(address: IpAddr) -> Result<Option<String>, NetlinkError> {
    Ok(link_of_address(address)?.map(|link| link.name))
}

fn link_of_address(address: IpAddr) -> Result<Option<Link>, NetlinkError> {
    let netlink = Netlink::open()?;
    let Some((index, _)) = addresses(&netlink)?.into_iter().find(|(_, found)| *found == address)
    else {
        return Ok(None);
    };
    Link::find(&netlink, requests::get_link_by_index(index))
}

/// All addresses with the numbers of their interfaces.
fn addresses(netlink: &Netlink) -> Result<Vec<(u32, IpAddr)>, NetlinkError> {
    let mut addresses = Vec::new();
    for message in netlink.execute(vec![requests::dump_addresses()])? {
        let RouteNetlinkMessage::NewAddress(found) = message else { continue };
        let mut own = None;
        for attribute in &found.attributes {
            match attribute {
                // On a link between two ends the other attribute is the peer's.
                AddressAttribute::Local(address) => own = Some(*address),
                AddressAttribute::Address(address) => own = own.or(Some(*address)),
                _ => {}
            }
        }
        addresses.extend(own.map(|address| (found.header.index, address)));
    }
    Ok(addresses)
}

/// The number of an interface in the namespace of the calling thread.
pub(super) fn index_of(netlink: &Netlink, name: &str) -> Result<u32, NetlinkError> {
    let found = Link::find(netlink, requests::get_link(name))?;
    found.map(|link| link.index).ok_or_else(|| NetlinkError::NoInterface(name.to_owned()))
}

/// Waits until an interface that is up, and whose other end is, too, carries packets: the kernel
/// sees to that a little later, and drops what is sent meanwhile.
pub(super) fn wait_for_carrier(
    netlink: &Netlink,
    ethtool: &Ethtool,
    name: &str,
) -> Result<(), NetlinkError> {
    let end = Instant::now() + CARRIER_PATIENCE;
    loop {
        // Asked for, it happens now; an older kernel does it when it gets to it.
        let _ = ethtool.carrier(name);
        let link = Link::find(netlink, requests::get_link(name))?;
        let link = link.ok_or_else(|| NetlinkError::NoInterface(name.to_owned()))?;
        // Behind that it is as good as it gets: there is no more to be done for it.
        if link.works || Instant::now() >= end {
            return Ok(());
        }
        std::thread::sleep(CARRIER_PAUSE);
    }
}

/// Keeps the kernel from speaking on an interface that belongs to the switch: it would answer ARP
/// for any address of the machine, and connections would go around the switch. One at a time, because
/// of what [`is_sysctl`] says.
pub(super) fn silence(interface: &str) -> Result<(), NetlinkError> {
    write_sysctl(&format!("net/ipv4/conf/{interface}/arp_ignore"), "1")?;
    match write_sysctl(&format!("net/ipv6/conf/{interface}/disable_ipv6"), "1") {
        // A kernel without IPv6 says nothing in it.
        Err(NetlinkError::Parameter { source, .. })
            if source.kind() == std::io::ErrorKind::NotFound =>
        {
            Ok(())
        }
        result => result,
    }
}

/// Whether a parameter of the kernel has a value. To look is cheap. Some of those of interfaces
/// cannot be set while the kernel changes any interface of the machine: who writes them then does
/// not wait, but tries without end, so pods that come together would keep processors from work.
pub(super) fn is_sysctl(name: &str, value: &str) -> bool {
    std::fs::read_to_string(format!("/proc/sys/{name}")).is_ok_and(|found| found.trim() == value)
}

/// Sets a parameter of the kernel in the namespace of the calling thread: `net/ipv4/ip_forward`.
pub fn write_sysctl(name: &str, value: &str) -> Result<(), NetlinkError> {
    let path = format!("/proc/sys/{name}");
    std::fs::write(&path, value).map_err(|source| NetlinkError::Parameter {
        path,
        value: value.to_owned(),
        source,
    })
}
