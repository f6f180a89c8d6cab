//! Services on real nodes: real switches, agents as processes, and clients in pods, on nodes and
//! outside. Who answers says its name and whom it saw.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is the report")]

mod ask;
mod changes;
mod churn;
#[path = "../fabric/cluster.rs"]
#[allow(dead_code, reason = "shared with the tests of whole clusters, which use the rest")]
mod cluster;
mod gateway;
#[path = "../node/lab.rs"]
#[allow(dead_code, reason = "shared with the tests of one node, which use the rest")]
mod lab;
#[path = "../fabric/proxy.rs"]
mod proxy;
mod reach;
mod refusals;
mod spread;
mod stage;
#[path = "../fabric/talk.rs"]
#[allow(dead_code, reason = "shared with the tests of whole clusters, which use the rest")]
mod talk;
