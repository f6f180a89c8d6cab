//! The command line against a real `osier controller`, both as processes, on loopback.

mod access;
mod controller;
mod nodes;
mod papers;
mod refused;
mod resources;
mod watching;
