//! The node agent: serves the CNI socket, makes pods' interfaces, gives addresses, programs the
//! switch.
//!
//! It owns nothing that it cannot rebuild: which pod has which port and address stands in the
//! `external_ids` of the port itself, what the cluster looks like in its view. It is never needed
//! for existing pods to talk.

pub mod addresses;
pub mod config;
pub mod netlink;
pub mod view;
