//! The whole cluster's model, and what of it each node must know.
//!
//! A [`Cluster`] holds every object, refuses what contradicts another, and tells for each change
//! what it means to each node ([`Deltas`]). Values only: no I/O, no clock; how a delta travels is
//! for others to know.
//!
//! **The span.** A *domain* is a router with the networks that it joins, or a network that has no
//! router. A node is in a domain if one of its ports is; all nodes are in the domain of the default
//! network, because a pod may be born there at any moment. A node must know every node (each is a
//! route of the default network), and of its domains the router, the networks and their ports. Of
//! the default network it needs only its own ports: the others are behind their nodes' blocks. It
//! knows the Services of its domains' routers, with all their endpoints, and those of no named router.
//!
//! Policies reach the nodes that have somebody whom they are about, or whom those may send to; a
//! node's own workloads only that node. What labels and selectors come to is for the [`Roster`] to
//! find: a cluster knows identities.
//!
//! A change costs what it changes, times the nodes that must hear of it: counts and indices, never
//! a scan of the cluster. An object is kept once and shared by all that send it.

mod check;
mod claims;
mod cluster;
mod delta;
mod domain;
mod error;
mod law;
mod roster;
mod service;
mod shared;
mod table;

pub use claims::DEFAULT_VNI;
pub use cluster::{Cluster, NodeView};
pub use delta::{Delta, Deltas, Step, changes};
pub use error::Refused;
pub use roster::{Resolution, Roster, Traits};
pub use shared::{Payload, Shared};
