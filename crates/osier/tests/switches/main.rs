//! Switches without an agent, and no Kubernetes anywhere: `osier controller` as a process, Open vSwitch
//! as COE's plugin leaves it, curl as the watcher. `ping` and plain sockets judge.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is the report")]

mod leases;
mod deposed;
mod life;
mod mixed;
mod papers;
mod reach;
mod rig;
mod services;
