//! The agent on real switches, asked by the real plugin as a runtime would.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is the report")]

mod burst;
mod changes;
mod clients;
mod cluster;
mod dhcp;
mod failures;
mod kills;
mod lab;
mod leaving;
mod limits;
mod networks;
mod obstacles;
mod outside;
mod restart;
mod socket;
mod steady;
mod wishes;
