//! The row reconciler against real databases and switches, and against an in-memory server.
//! `ovs-vsctl` is the oracle.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

mod hostile;
mod lab;
mod model;
mod real;
mod refusals;
mod restore;
