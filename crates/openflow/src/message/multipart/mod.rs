//! Multipart requests and replies.
//!
//! ```text
//!  8      10      12   16
//! +------+-------+----+-------- ··
//! | type | flags | 0  | body        struct ofp_multipart_request and _reply, 7.3.5
//! +------+-------+----+-------- ··   flags: 1 = more parts follow
//! ```
//!
//! Each part of a reply is decoded on its own and tells whether more follow, so that a caller
//! can take replies of any length in pieces of at most 64 KiB. No entry spans two parts.
//!
//! Left out is what Open vSwitch refuses (flow stats, of which flow descriptions tell more) or
//! what nobody here asks for (queues, table features).

mod desc;
mod monitor;
mod reply;
mod request;
mod table;

pub use desc::SwitchDesc;
pub use monitor::{FlowMonitor, FlowMonitorCommand, FlowMonitorFlags, FlowUpdate, MonitoredFlow};
pub use reply::{MultipartReply, ReplyBody};
pub use request::{FlowRequest, MultipartRequest};
pub use table::{TableDesc, TableStats};

/// What a multipart message is about (7.3.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MultipartKind(pub u16);

#[allow(missing_docs, reason = "named as in the specification")]
impl MultipartKind {
    pub const DESC: Self = Self(0);
    pub const FLOW_DESC: Self = Self(1);
    pub const AGGREGATE_STATS: Self = Self(2);
    pub const TABLE_STATS: Self = Self(3);
    pub const PORT_STATS: Self = Self(4);
    pub const GROUP_STATS: Self = Self(6);
    pub const GROUP_DESC: Self = Self(7);
    pub const GROUP_FEATURES: Self = Self(8);
    pub const METER_STATS: Self = Self(9);
    pub const METER_DESC: Self = Self(10);
    pub const METER_FEATURES: Self = Self(11);
    pub const PORT_DESC: Self = Self(13);
    pub const TABLE_DESC: Self = Self(14);
    pub const FLOW_MONITOR: Self = Self(16);
    pub const FLOW_STATS: Self = Self(17);
}

/// "More parts follow."
const MORE: u16 = 1;
