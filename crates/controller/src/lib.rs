//! The controller: one place that knows the whole model, and tells each node what it needs.
//!
//! [`Engine`] is the way in: it allocates, checks, stores and publishes. Around it, the API gives
//! the model to people over HTTPS, and the fleet's server gives each agent its view. The controller
//! owns nothing that it cannot rebuild from its store.

mod api;
mod attachments;
mod audit;
pub mod config;
mod controller;
pub mod credentials;
mod engine;
mod flows;
mod joins;
mod metrics;
mod nodes;
mod northbound;
mod pki;
mod restconf;
mod switches;
mod trace;

pub use controller::{Controller, ControllerError};
pub use engine::{
    AllocationRules, Effect, Engine, Exhausted, IDENTITIES, Operation, Outcome, StartError,
    Started, Write, WriteError, Written, kept_identity,
};
pub use joins::kept_pause;
pub use metrics::Metrics;
pub use nodes::NodeStates;
pub use northbound::{Caller, NodeState, Northbound, Pod};
pub use pki::{PkiError, certificate_pem, kept_authority};
