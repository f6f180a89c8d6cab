//! The `ovs-appctl` protocol: JSON-RPC 1.0 over a daemon's control socket, text in, text out. What
//! we act on is typed here ([`conntrack`], [`datapath`], [`coverage`]); what people read, such as
//! `ofproto/trace`, stays text. The parsers are pure; the client needs the feature `session`.

pub mod conntrack;
pub mod coverage;
pub mod datapath;

#[cfg(feature = "session")]
mod client;
#[cfg(feature = "session")]
mod commands;
mod daemon;

#[cfg(feature = "session")]
pub use client::{CallError, Client};
#[cfg(feature = "session")]
pub use commands::CommandError;
pub use daemon::{FindError, find_socket};

/// A daemon's text does not have the form we know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of {command}: expected {expected}, found {found:?}")]
pub struct TextError {
    /// The command whose text it is.
    pub command: &'static str,
    /// The line, from 1.
    pub line: usize,
    /// What was expected.
    pub expected: &'static str,
    /// What was found, cut short.
    pub found: String,
}

impl TextError {
    fn new(command: &'static str, line: usize, expected: &'static str, found: &str) -> Self {
        const SHOWN: usize = 120;
        Self { command, line, expected, found: found.chars().take(SHOWN).collect() }
    }
}
