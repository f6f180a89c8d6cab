//! Switches without an agent, and no Kubernetes anywhere: `osier controller` as a process, Open vSwitch
//! as COE's plugin leaves it, curl as the watcher. `ping` and plain sockets judge.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is the report")]

mod affinity;
#[allow(dead_code, reason = "clusters of controllers use all of it")]
mod client;
mod deposed;
mod leases;
mod life;
mod mixed;
mod papers;
mod policies;
mod reach;
#[allow(dead_code, reason = "clusters of controllers use all of it")]
mod rig;
#[allow(dead_code, reason = "clusters of controllers use all of it")]
mod seat;
mod services;
mod tended;
