//! The controller against a real API server and etcd, with `kubectl` as the other opinion.
//!
//! One API server serves all of these, one after the other, in a namespace of its own: nodes are the
//! whole cluster's. `scripts/install-kubernetes` gets the programs.

mod agent;
mod controller;
mod pki;
mod server;

mod election;
mod join;
mod nodes;
mod outage;
mod own;
