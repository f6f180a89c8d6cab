//! `osier lab` as people use it: the real program, real switches, the real plugin.
#![allow(missing_docs, clippy::panic, clippy::unwrap_used)]

mod cluster;
mod controller;
mod disk;
mod errors;
mod explain;
mod flows;
mod isolation;
mod kills;
mod life;
mod restore;
mod world;
