//! Inside of a pod's namespace.

use super::ethtool::Ethtool;
use super::exchange::{Netlink, NetlinkError};
use super::link::Link;
use super::namespace::{Namespace, NamespaceError};
use super::{host, requests};
use ipnet::IpNet;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::AddressAttribute;
use netlink_packet_route::route::RouteType;
use osier_model::Mac;
use std::net::IpAddr;
use std::time::Instant;

/// The loopback interface has this number in every namespace.
const LOOPBACK: u32 = 1;

/// What a pod's interface shall be.
#[derive(Debug, Clone)]
pub struct PodInterface {
    /// Its name.
    pub name: String,
    /// Its addresses, with what is on the link with them.
    pub addresses: Vec<IpNet>,
    /// Routers on the link.
    pub routers: Vec<IpAddr>,
    /// The routers' Ethernet address: nobody has to resolve it.
    pub router_mac: Mac,
    /// Routes, and by which router; without one, what is on the link.
    pub routes: Vec<(IpNet, Option<IpAddr>)>,
    /// Whether checksums must be in packets when they leave the pod.
    pub full_checksums: bool,
}

/// What a pod's interface is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodState {
    /// Its Ethernet address.
    pub mac: Option<Mac>,
    /// Whether both ends are up.
    pub up: bool,
    /// Its addresses, also those that it gave itself.
    pub addresses: Vec<IpAddr>,
}

/// Makes the interface ready for use: when this is done, the pod can talk, and the other end, `host`
/// in our own namespace, carries packets.
pub async fn set_up_pod(
    namespace: &Namespace,
    host: String,
    interface: PodInterface,
) -> Result<Result<(), NetlinkError>, NamespaceError> {
    let outside = || {
        // They stay in our own namespace.
        Ok((Netlink::open()?, Ethtool::open().map_err(NetlinkError::Socket)?))
    };
    let inside = move |outside: Result<(Netlink, Ethtool), _>| {
        let (netlink, ethtool) = outside?;
        set_up(&interface)?;
        host::wait_for_carrier(&netlink, &ethtool, &host)
    };
    namespace.within_behind(outside, inside).await
}

/// What the interface is now.
pub async fn inspect(
    namespace: &Namespace,
    name: String,
) -> Result<Result<PodState, NetlinkError>, NamespaceError> {
    namespace.within(move || state(&name)).await
}

fn set_up(pod: &PodInterface) -> Result<(), NetlinkError> {
    let netlink = Netlink::open()?;
    let name = &pod.name;
    let index = host::index_of(&netlink, name)?;
    if pod.full_checksums {
        let ethtool = Ethtool::open().map_err(NetlinkError::Socket)?;
        ethtool.disable_transmit_checksums(name).map_err(|source| NetlinkError::Refused {
            what: format!("switch checksum offload of {name} off"),
            source,
        })?;
    }
    if pod.addresses.iter().any(|net| net.addr().is_ipv6()) {
        // Some runtimes switch it off in namespaces that they make.
        let disabled = format!("net/ipv6/conf/{name}/disable_ipv6");
        if !host::is_sysctl(&disabled, "0") {
            host::write_sysctl(&disabled, "0")?;
        }
    }
    let mut batch = vec![requests::set_link_up("lo", LOOPBACK), requests::set_link_up(name, index)];
    for net in &pod.addresses {
        batch.push(requests::add_address(name, index, *net));
    }
    for router in &pod.routers {
        batch.push(requests::add_neighbour(name, index, *router, pod.router_mac));
    }
    for (to, via) in &pod.routes {
        batch.push(requests::add_route(name, index, *to, *via, None));
    }
    netlink.execute(batch)?;
    wait_for_addresses(&netlink, &pod.addresses)
}

/// Waits until the kernel takes what comes to an interface's addresses. Of IPv6 it sends from them at once,
/// and takes answers a little later, when it has got to that: until then they are lost.
fn wait_for_addresses(netlink: &Netlink, addresses: &[IpNet]) -> Result<(), NetlinkError> {
    let end = Instant::now() + host::CARRIER_PATIENCE;
    for address in addresses.iter().map(IpNet::addr).filter(IpAddr::is_ipv6) {
        // Behind that it is as good as it gets, as with carriers.
        while !is_taken(netlink, address)? && Instant::now() < end {
            std::thread::sleep(host::CARRIER_PAUSE);
        }
    }
    Ok(())
}

fn is_taken(netlink: &Netlink, address: IpAddr) -> Result<bool, NetlinkError> {
    let is_local = |message: &RouteNetlinkMessage| matches!(message, RouteNetlinkMessage::NewRoute(route) if route.header.kind == RouteType::Local);
    match netlink.execute(vec![requests::get_route(address)]) {
        Ok(told) => Ok(told.iter().any(is_local)),
        // There is no way at all.
        Err(NetlinkError::Refused { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

fn state(name: &str) -> Result<PodState, NetlinkError> {
    let netlink = Netlink::open()?;
    let link = Link::find(&netlink, requests::get_link(name))?;
    let link = link.ok_or_else(|| NetlinkError::NoInterface(name.to_owned()))?;
    let mut addresses = Vec::new();
    for message in netlink.execute(vec![requests::dump_addresses()])? {
        let RouteNetlinkMessage::NewAddress(found) = message else { continue };
        if found.header.index == link.index {
            addresses.extend(found.attributes.iter().find_map(|attribute| match attribute {
                AddressAttribute::Address(address) => Some(*address),
                _ => None,
            }));
        }
    }
    // Without the lower layer the other end is down, or gone from the switch's namespace.
    Ok(PodState { mac: link.mac, up: link.up, addresses })
}
