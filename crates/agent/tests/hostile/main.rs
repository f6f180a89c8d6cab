//! A pod with all capabilities against its network: real switches, agents as processes, frames of its
//! own making. Each lie goes beside an honest frame of its kind, which must arrive.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is the report")]

mod asking;
mod bridged;
#[path = "../fabric/cluster.rs"]
#[allow(dead_code, reason = "shared with the tests of whole clusters, which use the rest")]
mod cluster;
mod deck;
mod floods;
mod frame;
mod judged;
#[path = "../node/lab.rs"]
#[allow(dead_code, reason = "shared with the tests of one node, which use the rest")]
mod lab;
mod routed;
mod stage;
#[path = "../fabric/talk.rs"]
#[allow(dead_code, reason = "shared with the tests of whole clusters, which use the rest")]
mod talk;
