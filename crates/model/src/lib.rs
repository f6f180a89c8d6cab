//! The model: what Osier knows, whoever wrote it (Kubernetes, RESTCONF, Neutron, a file).
//!
//! Values and functions only: no I/O, no clock, no randomness. Time is passed in, names are
//! validated where they are made, and an [`Invalid`] says which field of which object is wrong and
//! what would be right.
//!
//! - A [`Network`] is an L2 domain with subnets; a [`Router`] an L3 domain (a VRF) that joins
//!   networks; a [`Port`] an attachment of a device to a network; a [`Node`] a switch with a tunnel
//!   address and blocks of addresses of its own.
//! - A [`Service`] is addresses behind which [`Endpoints`] answer.
//! - A [`Policy`] says who may talk to whom, in terms of [`Selection`]s; [`Law`] judges by them.
//! - A [`View`] is what one node must know; a [`Change`] one step of it.
//! - A [`Pool`] gives addresses out ([`AddressPool`]), each once, and lets freed ones cool down.

mod change;
mod choice;
mod dhcp;
mod error;
mod id;
mod intervals;
mod judge;
mod mac;
mod name;
mod network;
mod node;
mod policy;
mod pool;
mod port;
mod router;
mod selector;
mod service;
mod statement;
mod view;
mod workload;

pub use change::{Change, Key, Object, ViewContent};
pub use choice::{Backend, Candidates, Standpoint};
pub use dhcp::{Dhcp, StaticRoute};
pub use error::{Invalid, Problem};
pub use id::{Identity, Vni, VrfId};
pub use intervals::Intervals;
pub use judge::{Judgement, Law, Party, Talk, Verdict};
pub use mac::{Mac, ParseMacError};
pub use name::{
    DeviceName, EndpointsKey, InterfaceName, NameError, NamespaceName, NetworkName, NodeName,
    PolicyName, PoolName, PortKey, RouterName, ServiceName, SliceName,
};
pub use network::{Network, Reach, Subnet};
pub use node::Node;
pub use policy::{
    Block, Direction, Guard, Peer, Policy, PolicyRule, PortRange, RulePort, RuleRef, Selection,
    SelectionId,
};
pub use pool::{AddressPool, AllocateError, Pool, Stock};
pub use port::{Limit, Limits, Port};
pub use router::Router;
pub use selector::{Labels, Selector};
pub use service::{
    Endpoint, EndpointPort, EndpointState, Endpoints, Locality, Service, ServicePort, Transport,
};
pub use statement::{
    NamedPort, PortChoice, Saying, StatedNamespace, StatedPeer, StatedPolicy, StatedPort,
    StatedRule, StatedWorkload, Statement, StatementKey,
};
pub use view::{Fabric, Isolation, PolicyMode, Tunnel, View};
pub use workload::Workload;
