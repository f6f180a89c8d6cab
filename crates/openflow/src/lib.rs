//! OpenFlow 1.5 with the Nicira and ONF extensions of Open vSwitch.

pub mod action;
pub mod field;
pub mod flow;
pub mod instruction;
pub mod matching;
pub mod message;
pub mod port_no;
pub mod subfield;
pub mod wire;
