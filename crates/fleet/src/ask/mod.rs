//! What a controller asks an agent, and what it hears: values that both sides share.
//!
//! They travel as JSON, but for captures, which are the bytes of a file. How a question is answered
//! is the agent's to know.

mod connection;
mod node;
mod packet;
mod policy;
mod service;
mod trace;

pub use connection::{
    ConnectionsRequest, Counted, Denied, Grounds, Parties, Side, TrackedConnection,
    TrackedConnections, Who,
};
pub use node::{Check, CheckResult, Diagnostics, PauseState};
pub use packet::{Packet, Protocol};
pub use policy::RuleHits;
pub use service::ServiceTraffic;
pub use trace::{Outcome, TraceFrom, TraceRequest, TraceStep, Traced, Transit, chosen};

use osier_model::PortKey;
use serde::{Deserialize, Serialize};

/// A question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", content = "of", rename_all = "kebab-case")]
pub enum Ask {
    /// Where a packet would go: [`Traced`].
    Trace(TraceRequest),
    /// Packets of a port: the bytes of a pcap file, as they come.
    Capture(CaptureRequest),
    /// What people look at when something is wrong: [`Diagnostics`].
    Diagnostics,
    /// Stop to change the switch: [`PauseState`].
    Pause,
    /// Go on: [`PauseState`].
    Resume,
    /// How the machine is: a list of [`Check`].
    Check,
    /// How often rules of policies granted something: a list of [`RuleHits`].
    Hits,
    /// What came to Services by this node: a list of [`ServiceTraffic`].
    Services,
    /// What the switch tracks, and what was denied lately: [`TrackedConnections`].
    Connections(ConnectionsRequest),
}

/// Which packets, and how many.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaptureRequest {
    /// Of which port of the node.
    pub port: PortKey,
    /// For how long at most.
    pub seconds: u32,
    /// How many at most.
    pub count: u32,
    /// How much of each at most, in bytes.
    pub snap_length: u32,
}
