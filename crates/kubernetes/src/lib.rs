//! Kubernetes as the northbound of the controller: its API server is the only truth.
//!
//! Nodes, pods and our own resources are watched and become the model; what has to be remembered
//! (blocks, numbers, the authority) is kept in objects. The one crate that knows `kube`.

mod custom;

pub use custom::{GROUP, VERSION, crds};
