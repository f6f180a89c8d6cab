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

use osier_openflow::message::{ConfigFlags, SwitchConfig};

/// What every session with a switch says of packets. The flags are the whole switch's, and the last word
/// counts: so all say the same. Without them no flow sees the ports of a packet in pieces, also not in its
/// first. A connection to a bridge's own socket gets nothing at all unless it names a length for packets.
pub const SWITCH_CONFIG: SwitchConfig =
    SwitchConfig { flags: ConfigFlags::FRAG_NX_MATCH, miss_send_len: 128 };
