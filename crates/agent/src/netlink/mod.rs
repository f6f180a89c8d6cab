//! The kernel: interfaces, addresses, routes, neighbours, namespaces. The only place that touches
//! it, and without running other programs.
//!
//! Everything here blocks for some microseconds to milliseconds, on threads of its own: a thread
//! that has entered a pod's namespace does its work there and ends, so none is ever left in the
//! wrong one. Nothing here knows what a pod's address should be: see `desired` and `gateway`.

mod detour;
mod ethtool;
mod exchange;
mod host;
mod link;
mod namespace;
mod packets;
mod pod;
mod requests;
mod veth;

pub use detour::{remove_detour, set_up_detour};
pub use exchange::NetlinkError;
pub use host::{
    HostInterface, HostRoute, mtu_of_address, name_of_address, set_up_host, write_sysctl,
};
pub use namespace::{Namespace, NamespaceError, NamespaceId};
pub(crate) use packets::PacketSocket;
pub use pod::{PodInterface, PodState, inspect, set_up_pod};
pub(crate) use requests::GROUP as PODS_GROUP;
pub use veth::{Veth, create_veth, delete_link, delete_own_link, link_exists};
