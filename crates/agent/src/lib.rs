//! The node agent: serves the CNI socket, makes pods' interfaces, gives addresses, programs the
//! switch.
//!
//! It owns nothing that it cannot rebuild: which pod has which port and address stands in the
//! `external_ids` of the port itself, what the cluster looks like in its view. It is never needed
//! for existing pods to talk.

pub mod addresses;
pub mod adopt;
mod agent;
mod alone;
mod answers;
pub mod asks;
pub mod clean;
pub mod cni_server;
pub mod config;
pub mod controller;
mod counters;
mod denied;
pub mod desired;
mod directory;
pub mod firewall;
mod fixed;
mod follow;
mod forward;
mod freed;
pub mod gateway;
pub mod health;
mod link;
pub mod log;
pub mod metrics;
pub mod netlink;
pub mod ports;
mod services;
pub mod switch;
mod uplink;
pub mod view;
mod wanted;

pub use agent::{AgentError, Upstream, run, run_with};
pub use link::LinkError;
pub use uplink::MtuError;

/// An error with its causes, for logs.
struct Chain<'a>(&'a dyn std::error::Error);

impl std::fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)?;
        let causes = std::iter::successors(self.0.source(), |cause| cause.source());
        causes.into_iter().try_for_each(|cause| write!(f, ": {cause}"))
    }
}
