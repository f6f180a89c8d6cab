//! RESTCONF for the modules of Netvirt COE, less the sockets.
//!
//! The YANG files in `yang/` are published, and are also what is checked by: they are read at the
//! first use ([`Schema::get`]), so there is no second list of members. A request's path becomes a
//! [`Path`], its body canonical data ([`read`]), and a method on both an edit of the [`Datastore`].
//!
//! Data is kept in *units*, one for each entry of a top list (a pod, a Service): an edit of one pod
//! costs that pod. [`Coe`] says what units mean to the model: networks `node-ip:namespace`, routers
//! `namespace`, ports `namespace:pod-name`. Nothing here does I/O, knows HTTP, or stores anything.

mod body;
pub mod coe;
mod datastore;
mod edit;
mod error;
mod path;
mod schema;
mod show;
mod views;
mod yang;

pub use body::{Normalised, Rule, read};
pub use coe::{Coe, Isolation, Target};
pub use datastore::{Datastore, UnitChange};
pub use edit::{Edit, Edited, Method};
pub use error::{ErrorTag, Problem};
pub use path::{Content, Flavour, Path, PathError, Step};
pub use schema::{LeafType, Module, Node, NodeKind, Schema};
pub use show::{show, show_all};
pub use views::{View, Views};
