//! Several controllers on three real members of etcd, each a process of its own: what happens to
//! clients, switches and agents when any of them dies, sleeps, is cut off, or has a wrong clock.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is the report")]

mod faults;
mod gateway;
mod history;
mod reboots;
mod shared;
mod strict;

#[path = "../switches/client.rs"]
mod client;
#[path = "../../../agent/tests/fabric/proxy.rs"]
#[allow(dead_code, reason = "other tests take its rules away")]
mod proxy;
#[path = "../switches/rig.rs"]
#[allow(dead_code, reason = "other tests use it with one controller")]
mod rig;
#[path = "../switches/seat.rs"]
mod seat;
#[path = "../switches/tended.rs"]
mod tended;
