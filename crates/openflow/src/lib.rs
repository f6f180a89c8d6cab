//! OpenFlow 1.5 with the Nicira and ONF extensions of Open vSwitch.
//!
//! Three layers, each usable without the next:
//! - **values**: [`flow::Flow`], [`group::Group`], [`meter::Meter`], with [`matching::Match`] and
//!   [`action::Action`] in one canonical form, so that what a switch reads back compares equal to
//!   what it was sent;
//! - **wire and text**: [`message::Message`] to bytes and back, [`text`] as `ovs-ofctl` prints and
//!   reads it;
//! - **session** (feature `session`, on by default): one task a connection, every request with its
//!   own answer, bundles, streams of multipart replies.
//!
//! What comes from outside is never trusted: a decoder returns an error that names what and where,
//! and what does not fit its wire field is an error when it is written, never cut.
//!
//! ```
//! use osier_openflow::flow::{Flow, FlowMod};
//! use osier_openflow::message::Message;
//! use osier_openflow::wire::Writer;
//!
//! let flow: Flow = "table=4,priority=10,tcp,tp_dst=80,actions=ct(commit,zone=7),output:3".parse()?;
//! let mut w = Writer::new();
//! Message::FlowMod(FlowMod::add(flow.clone())).encode(1, &mut w)?;
//! let (_, back) = Message::decode(w.as_slice())?;
//! assert_eq!(back, Message::FlowMod(FlowMod::add(flow)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod action;
pub mod field;
pub mod flow;
pub mod group;
pub mod instruction;
pub mod matching;
pub mod message;
pub mod meter;
pub mod port;
pub mod port_no;
#[cfg(feature = "session")]
pub mod session;
pub mod subfield;
pub mod text;
pub mod wire;
