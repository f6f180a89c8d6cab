//! Our own resources in Kubernetes: their definitions, and the way between them and the model's.

mod convert;
mod definition;
mod schema;

pub(crate) use convert::{CustomSeen, api_resource, port_object, port_of, read, status_of};
pub(crate) use definition::{DEFAULT_ROUTER, KINDS, PODS};
pub use definition::{GROUP, VERSION, crds};
