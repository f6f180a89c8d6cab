//! The outside form of the model's objects, for the API, the command line and files.
//!
//! A [`Resource`] is an envelope (`apiVersion`, `kind`, `metadata`) around what users want
//! (`spec`) and what the controller reports (`status`). Numbers and addresses that users need not
//! choose are optional in the spec, and stand in the status once they are allocated;
//! [`Resource::to_model`] puts both together.
//!
//! Values and functions only, as in the model, which stays the judge: nothing here says again what
//! is valid. Errors name the file, the line and the field ([`parse`]), and what may have been meant.

mod change;
mod convert;
mod kind;
mod leaf;
mod metadata;
mod parse;
mod policy;
mod resource;
mod schema;
mod service;
mod spec;
mod status;
mod strict;
mod table;
mod tree;

pub use change::{ChangeError, merge};
pub use convert::{ConvertError, Modelled};
pub use kind::{BadName, Kind, UnknownKind, port_key};
pub use metadata::Metadata;
pub use osier_model::EndpointState;
pub use parse::{Fault, MAX_FILE, ParseError, Parsed, parse};
pub use policy::{
    EgressRule, IngressRule, IpBlock, NamespaceSpec, NamespaceStatus, NetworkPolicySpec,
    NetworkPolicyStatus, NumberOrName, PolicyPeer, PolicyPort, PolicyType, Protocol, RuleStatus,
    WorkloadSpec, WorkloadStatus,
};
pub use resource::{API_VERSION, Document, Resource};
pub use schema::{components, inlined, openapi};
pub use service::{EndpointsSpec, EndpointsStatus, ServicePortSpec, ServiceSpec, ServiceStatus};
pub use spec::{FabricSpec, NetworkSpec, NodeSpec, PoolSpec, PortSpec, RouterSpec};
pub use status::{
    Condition, FabricStatus, NetworkStatus, NodeStatus, PoolStatus, PortStatus, RouterStatus, Truth,
};
pub use tree::Place;
