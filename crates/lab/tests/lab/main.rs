//! `osier lab` as people use it: the real program, real switches, the real plugin.
#![allow(missing_docs, clippy::panic, clippy::unwrap_used)]

mod controller;
mod errors;
mod kills;
mod life;
mod world;
