//! Services, as a node's switch leads to them.

use super::Counted;
use osier_model::ServiceName;
use serde::{Deserialize, Serialize};

/// What came to a Service by a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceTraffic {
    /// Which.
    pub service: ServiceName,
    /// Connections that were led to an endpoint, since the switch has its flows.
    pub begun: u64,
    /// Packets that nobody was there to answer.
    pub refused: u64,
    /// Connections that are tracked now.
    pub open: u64,
    /// Packets and bytes, both ways: of all connections if the fabric says that they are counted, else of
    /// those that are open, if the switch's tracker counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<Counted>,
}
