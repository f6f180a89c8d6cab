//! The command line against a real `osier controller`, both as processes, on loopback.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is the report")]

mod access;
mod controller;
mod nodes;
mod papers;
mod refused;
mod resources;
mod watching;
