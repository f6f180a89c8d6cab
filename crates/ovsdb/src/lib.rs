//! OVSDB for Osier: RFC 7047 and the additions of Open vSwitch.
//!
//! The pure half knows bytes and values: [`value`] and its JSON ([`frame`] finds messages, [`rpc`]
//! reads them), [`op`]erations, [`schema`]s, row [`delta`]s, the [`cache`], typed [`rows`], and the
//! [`text`] that `ovs-vsctl` prints. The tokio half (feature `session`) speaks to servers:
//! `session` follows a database and runs transactions, [`unixctl`] is the `ovs-appctl` protocol.
//! An in-memory `server` (its own feature) is for fault tests. Nothing here knows what a bridge
//! is for.

pub mod cache;
pub mod delta;
pub mod error;
pub mod frame;
pub mod monitor;
mod notation;
pub mod op;
mod row;
pub mod rows;
pub mod rpc;
pub mod schema;
#[cfg(feature = "server")]
pub mod server;
#[cfg(feature = "session")]
pub mod session;
pub mod text;
pub mod unixctl;
mod uuid;
pub mod value;

pub use op::{Condition, Mutation, Operation, Transaction};
pub use row::{Fields, Layout, Name, Row};
pub use uuid::{Uuid, UuidError};
pub use value::{Atom, Value};
