//! Answers to what the switch asks: packets that are too large for the tunnel, packets without a
//! hop left, neighbours that look for their router, and connections to Services without endpoints. What
//! policies denied is logged, and answered by nobody.
//!
//! [`reply`] is a function of what is compiled and of the packet; its parts know Ethernet and IP
//! and nothing else. `serve` is the task that listens and sends. Pods write these packets, so all
//! of it is read as if by an enemy: what cannot be understood is not answered. The switch bounds how
//! many come, the session how many wait, and what is lost is asked again by who needs it.

mod denied;
mod icmp;
mod ip;
mod neighbour;
mod refuse;
mod reply;
mod task;

pub use reply::reply;
pub(crate) use task::serve;
