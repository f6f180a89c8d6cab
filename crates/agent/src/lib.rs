//! The node agent: serves the CNI socket, makes pods' interfaces, gives addresses, programs the
//! switch.
//!
//! It owns nothing that it cannot rebuild: which pod has which port and address stands in the
//! `external_ids` of the port itself, what the cluster looks like in its view. It is never needed
//! for existing pods to talk.

pub mod addresses;
pub mod adopt;
mod agent;
pub mod cni_server;
pub mod config;
pub mod desired;
mod forward;
pub mod gateway;
pub mod health;
pub mod metrics;
pub mod netlink;
pub mod ports;
pub mod switch;
pub mod view;

pub use agent::{AgentError, run};
