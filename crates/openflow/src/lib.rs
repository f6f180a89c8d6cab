//! OpenFlow 1.5 with the Nicira and ONF extensions of Open vSwitch.

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
pub mod subfield;
pub mod text;
pub mod wire;
