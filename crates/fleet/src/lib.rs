//! Agents and their controller: how a node's view reaches it, and how the controller hears of the
//! node.
//!
//! - [`Hub`] holds the cluster and a short history of each node's view; a change reaches the nodes
//!   that must hear of it, a slow node holds up nobody, one that comes back gets what it missed.
//! - [`server`] is the controller's half: gRPC over mutual TLS, for any [`Views`], [`Reports`] and
//!   [`Joins`]. [`client`] is the agent's: it follows the view, keeps it on disk and works from it
//!   when alone.
//! - [`pki`] is the cluster's authority; a [`Token`] lets one node join, once.
//! - [`simulation`] runs a thousand clients in one process.
//!
//! What objects mean is the model's; where the model is stored is the controller's.

pub mod ask;
mod attach;
pub mod client;
mod configuration;
mod hub;
#[cfg(test)]
mod loopback;
pub mod pki;
mod report;
pub mod server;
pub mod simulation;
mod token;
mod views;
mod wire;

pub use attach::{AttachError, AttachRequest, Attachments};
pub use configuration::{Block, NodeConfiguration};
pub use hub::{HistoryLimits, Hub};
pub use pki::{Authority, AuthorityError};
pub use report::{Applied, Fault, Report, TunnelHealth};
pub use token::{
    Fingerprint, JoinRefused, ParseTokenError, Proof, Redemption, ServiceAccountToken, Ticket,
    Token, TokenRecord,
};
pub use views::{AgentVersion, Event, Joins, Reports, UnknownNode, Views};
/// The messages themselves, for those who speak the protocol without [`client`] or [`server`].
pub use wire::proto;
pub use wire::{
    Digest, MAX_ANSWER_PART, MAX_FROM_AGENT, MAX_FROM_CONTROLLER, OLDEST_VERSION, Position, VERSION,
};

/// The name that every controller's certificate has, and that agents ask for.
pub const SERVER_NAME: &str = "controller.osier";
