//! The plugin and the agent behind it, judged by `cnitool`, the CNI project's own client, and by the
//! specification's error cases; with Debian's plugins before and behind ours.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is the report")]

mod chains;
mod checks;
mod delegates;
mod hostile;
mod invocation;
mod loopback;
mod older;
mod refusals;
mod runtime;
mod verbs;

/// Nodes and agents, as the other tests of the agent have them.
#[path = "../node/lab.rs"]
#[allow(dead_code, reason = "what only the other tests use")]
mod lab;
