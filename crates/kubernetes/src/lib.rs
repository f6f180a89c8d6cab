//! Kubernetes as the northbound of the controller: its API server is the only truth.
//!
//! Nodes, pods and our own resources are watched and become the model; what has to be remembered
//! (blocks, numbers, the authority) is kept in objects. The one crate that knows `kube`.
//!
//! [`Kubernetes`] is the process: it waits for its turn in the `election`, and `lead`s. `world` is
//! what there is in Kubernetes, `plan` what that is to the model, `mirror` makes the model so, and
//! `scribe` writes back.

mod announce;
mod authority;
mod blocks;
mod client;
mod courtesy;
mod custom;
mod election;
mod error;
mod lead;
mod mirror;
mod north;
mod people;
mod plan;
mod problems;
mod review;
mod run;
mod scribe;
mod standby;
mod waits;
mod world;

pub use custom::{GROUP, VERSION, crds};
pub use error::KubernetesError;
pub use kube::client::Body;
pub use people::{PeopleError, Proxy, kubeconfig_is_there};
pub use run::Kubernetes;
