//! Answers to what a switch asks: packets that are too large for the tunnel, packets without a hop
//! left, neighbours that look for their router, connections to Services without endpoints, and
//! clients that ask for their addresses, by DHCP, DHCPv6 or router discovery.
//!
//! [`reply`] is a function of what is compiled and of the packet, so agents and the controller, for
//! switches that have no agent, answer the same. Nothing is kept here: the address that a client gets
//! is its port's, and a lease is a promise that holds as long as the port.
//!
//! Pods write these packets, so all of it is read as if by an enemy: what cannot be understood is
//! not answered, an answer is never larger than what everybody takes, and none causes another.

mod dhcpv4;
mod dhcpv6;
mod discovery;
mod icmp;
mod ip;
mod lease;
mod neighbour;
mod options;
mod refuse;
mod reply;
mod udp;

pub use ip::IpPacket;
pub use lease::{Family, LeaseEvent};
pub use reply::{Reply, advertisements, reply};
