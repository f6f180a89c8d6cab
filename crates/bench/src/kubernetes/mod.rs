//! Pods of real clusters: with Osier, and with the CNI project's reference plugins.
//!
//! Both are made by the same kubelet and containerd, on two nodes each, in turns on the same machine.

mod audit;
mod calls;
mod cluster;
mod crowd;
mod memory;
mod pods;
mod process;

pub(crate) use memory::MEMORY;
pub(crate) use pods::{LEAST, PODS};
