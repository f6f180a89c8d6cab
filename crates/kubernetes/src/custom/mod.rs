//! Our own resources in Kubernetes: their definitions, and the way between them and the model's.

mod definition;
mod schema;

pub use definition::{GROUP, VERSION, crds};
