//! A playground on one machine: nodes with a real Open vSwitch and an agent each, pods attached by
//! the real plugin, called as a runtime would.
//!
//! A [`Playground`] is such a world, owned by whoever built it. So that a lab outlives the shell
//! that made it, a [`keeper`] process owns one and [`client`] talks to it; what there is to know
//! about a lab lies in the [`Registry`]. However the keeper ends, the testbed's janitor removes all
//! that it made.
//!
//! This crate decides nothing about networks: it writes a view, starts `osier agent`, calls
//! `osier-cni`, and looks.

pub mod client;
mod controller;
pub mod enter;
mod error;
mod health;
pub mod keeper;
mod layout;
pub mod picture;
mod ping;
mod playground;
mod pod;
mod programs;
pub mod protocol;
mod registry;
mod spec;
mod view;

pub use error::LabError;
pub use health::{Health, NodeHealth, PodHealth, Report};
pub use layout::{ControllerLayout, Layout, NodeLayout, PodLayout};
pub use ping::{Matrix, Probe, ping_all};
pub use playground::Playground;
pub use programs::Programs;
pub use registry::{Entry, Registry, State};
pub use spec::{LabName, LabSpec, MAX_NODES, MAX_PODS, PodFamily, SpecError, TunnelKind};
