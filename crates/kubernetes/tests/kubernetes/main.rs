//! The controller against a real API server and etcd, with `kubectl` as the other opinion.
//!
//! One API server serves all of these, one after the other, in a namespace of its own: nodes are the
//! whole cluster's. `scripts/install-kubernetes` gets the programs.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is the report")]
#![allow(clippy::needless_pass_by_value, reason = "JSON is written where it is passed")]

mod agent;
mod controller;
mod faulty;
mod pki;
mod policies;
mod server;

mod bad_days;
mod election;
mod join;
mod nodes;
mod outage;
mod own;
mod services;
