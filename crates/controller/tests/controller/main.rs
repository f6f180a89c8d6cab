//! A whole controller over loopback: curl is its client, the fleet's own client its agent.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is the report")]

mod agent;
mod api;
mod asks;
mod crash;
mod disk;
mod hostile;
mod join;
mod judged;
mod pools;
mod restconf;
mod rig;
