//! The wire between a pod and the switch.

use super::exchange::{Netlink, NetlinkError};
use super::host;
use super::link::Link;
use super::namespace::Namespace;
use super::requests::{self, GROUP};
use osier_model::Mac;

/// A pair of interfaces: one end at the switch, the other in a pod.
#[derive(Debug, Clone)]
pub struct Veth {
    /// The switch's end.
    pub host: String,
    /// The pod's end.
    pub peer: String,
    /// The Ethernet address of the pod's end.
    pub mac: Mac,
    /// The MTU of both.
    pub mtu: u16,
}

/// Makes the pair in one request, the pod's end already where it belongs. Blocks for a millisecond
/// or two.
///
/// One request, because each change of an interface makes `ovs-vswitchd` look at all of its ports:
/// the switch's end is up, and sees all packets, from the start. Nothing can pass before the pod's
/// end is up, too, which is `set_up_pod`'s to do; by then the kernel is silent on the switch's.
///
/// A pair of ours that an agent left half made is replaced.
pub fn create_veth(veth: &Veth, namespace: &Namespace) -> Result<(), NetlinkError> {
    let netlink = Netlink::open()?;
    let create = || {
        let Veth { host, peer, mac, mtu } = veth;
        requests::create_veth(host, peer, *mac, *mtu, namespace.as_raw_fd())
    };
    match netlink.execute(vec![create()]) {
        Err(error) if error.is_exists() && is_ours(&netlink, &veth.host)? => {
            netlink.execute(vec![requests::delete_link(&veth.host)])?;
            netlink.execute(vec![create()])?;
        }
        result => drop(result?),
    }
    host::silence(&veth.host)
}

fn is_ours(netlink: &Netlink, name: &str) -> Result<bool, NetlinkError> {
    let found = Link::find(netlink, requests::get_link(name))?;
    Ok(found.is_some_and(|link| link.group == GROUP))
}

/// Deletes an interface; one that is not there is deleted already. Blocks, up to 20 ms.
pub fn delete_link(name: &str) -> Result<(), NetlinkError> {
    match Netlink::open()?.execute(vec![requests::delete_link(name)]) {
        Err(error) if error.is_missing() => Ok(()),
        result => result.map(drop),
    }
}

/// Deletes an interface if it is one of ours. Blocks, up to 20 ms.
pub fn delete_own_link(name: &str) -> Result<(), NetlinkError> {
    if is_ours(&Netlink::open()?, name)? { delete_link(name) } else { Ok(()) }
}

/// Whether there is such an interface.
pub fn link_exists(name: &str) -> Result<bool, NetlinkError> {
    Ok(Link::find(&Netlink::open()?, requests::get_link(name))?.is_some())
}
