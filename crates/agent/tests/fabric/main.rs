//! Whole clusters: real switches, an agent process on each node, and pods that the plugin makes as
//! a runtime would. What is judged is what users see: packets, and what is left behind.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is the report")]

mod cluster;
#[path = "../node/lab.rs"]
#[allow(dead_code, reason = "shared with the tests of one node, which use the rest")]
mod lab;
mod matrix;
mod reboot;
mod restarts;
mod soak;
mod talk;
mod watch;
