//! A controller and agents, over loopback with TLS.
#![allow(clippy::unwrap_used, reason = "a panic is the report")]

mod asks;
mod join;
mod rig;
mod scale;
mod security;
mod stream;
