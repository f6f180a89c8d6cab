//! Makes a switch equal to what is wanted of it, changes only what differs, and keeps it so.
//!
//! [`flows`] is the OpenFlow half: Geneve option maps, meters, groups and flows.
//! [`rows`] is the OVSDB half: bridges, ports, interfaces, queues and settings.
//! [`arrivals`] tells early of ports that come.
//!
//! A reconciler takes whole plans, by owner, and knows nothing of their meaning: no pod, network
//! or service is named in this crate. Whose flow is whose is a parameter.

pub mod arrivals;
pub mod flows;
pub mod rows;
