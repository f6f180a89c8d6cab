//! Policies on real nodes: real switches, agents as processes, packets from pods, nodes and outside,
//! in both families, on one node and over the tunnel.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is the report")]

mod apart;
mod ask;
mod churn;
#[path = "../fabric/cluster.rs"]
#[allow(dead_code, reason = "shared with the tests of whole clusters, which use the rest")]
mod cluster;
mod first_packet;
mod gateway;
mod grants;
#[path = "../node/lab.rs"]
#[allow(dead_code, reason = "shared with the tests of one node, which use the rest")]
mod lab;
mod lasting;
#[path = "../fabric/proxy.rs"]
#[allow(dead_code, reason = "shared with tests that use the rest")]
mod proxy;
mod stage;
#[path = "../fabric/talk.rs"]
#[allow(dead_code, reason = "shared with the tests of whole clusters, which use the rest")]
mod talk;
