//! CNI for Osier: what a container runtime says, and how the agent hears it.
//!
//! [`spec`] has the specification's own values (environment, results, errors, versions 0.1.0 to
//! 1.1.0); [`config`] reads the configurations of our plugin and of the systems before it; [`rpc`]
//! is the protocol of the agent's socket, pure functions over bytes; [`relay`] is the plugin itself;
//! [`delegate`] runs other plugins for address management. Nothing here knows what a switch is:
//! the binary `osier-cni` asks the agent, and the agent does the work.

pub mod config;
pub mod delegate;
mod fields;
pub mod loopback;
pub mod relay;
pub mod rpc;
pub mod spec;
mod timed;

/// The longest network configuration, request or answer that is read, in bytes.
pub const MAX_DOCUMENT: usize = 1 << 20;
