//! What a controller answers, as far as it is shown to people. What a newer one says beyond that is
//! passed over; programs get its answers whole (`-o json`).

use serde::Deserialize;
use serde_json::Value;

/// A page of resources.
#[derive(Debug, Deserialize)]
pub(crate) struct Page {
    #[serde(default)]
    pub(crate) metadata: PageMetadata,
    #[serde(default)]
    pub(crate) items: Vec<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PageMetadata {
    pub(crate) resource_version: String,
    #[serde(rename = "continue")]
    pub(crate) more: Option<String>,
}

/// Something that happened to a resource.
#[derive(Debug, Deserialize)]
pub(crate) struct Event {
    #[serde(rename = "type")]
    pub(crate) kind: EventKind,
    #[serde(default)]
    pub(crate) object: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum EventKind {
    Added,
    Modified,
    Deleted,
    /// Nothing but how far we have come.
    Bookmark,
    Error,
}

/// What became of resources that were applied or deleted together.
#[derive(Debug, Deserialize)]
pub(crate) struct Outcome {
    #[serde(default)]
    pub(crate) items: Vec<ItemOutcome>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ItemOutcome {
    pub(crate) kind: String,
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) result: String,
}

/// How the cluster is.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Status {
    pub(crate) controller: ControllerStatus,
    pub(crate) nodes: Vec<NodeStatus>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ControllerStatus {
    pub(crate) version: String,
    pub(crate) term: Option<u64>,
    pub(crate) leader: Option<bool>,
    pub(crate) certificate_expiry: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct NodeStatus {
    pub(crate) name: String,
    pub(crate) connected: bool,
    pub(crate) since: Option<String>,
    pub(crate) converged: bool,
    pub(crate) converged_since: Option<String>,
    pub(crate) wanted_revision: Option<u64>,
    pub(crate) applied_revision: Option<u64>,
    pub(crate) faults: Vec<String>,
    pub(crate) version: Option<String>,
    pub(crate) paused: bool,
    pub(crate) certificate_expiry: Option<String>,
    pub(crate) ports: Option<u64>,
    pub(crate) tunnels: Vec<TunnelStatus>,
    pub(crate) differs: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct TunnelStatus {
    pub(crate) peer: String,
    pub(crate) state: String,
    pub(crate) rtt_ms: Option<f64>,
}

/// What was looked at, and whether it is well.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Checks {
    pub(crate) checks: Vec<Check>,
}

#[derive(Debug, Clone, Default, Deserialize, serde::Serialize)]
#[serde(default)]
pub(crate) struct Check {
    pub(crate) name: String,
    pub(crate) node: Option<String>,
    pub(crate) result: CheckResult,
    pub(crate) detail: String,
    pub(crate) advice: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CheckResult {
    Ok,
    Warning,
    Failed,
    #[default]
    Skipped,
}

/// The way of a packet.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Trace {
    pub(crate) verdict: String,
    pub(crate) reason: String,
    pub(crate) hops: Vec<Hop>,
}

/// What one switch did with it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Hop {
    pub(crate) node: String,
    pub(crate) summary: String,
    pub(crate) tables: Vec<TableVisit>,
    pub(crate) output: String,
    pub(crate) raw: String,
}

/// What one table did with it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct TableVisit {
    pub(crate) table: u8,
    pub(crate) name: String,
    pub(crate) flow: Option<String>,
    pub(crate) owner: Option<String>,
    pub(crate) note: String,
}

/// What a node tells of itself.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Diagnostics {
    pub(crate) flows: String,
    pub(crate) groups: String,
    pub(crate) ovsdb: String,
    pub(crate) log: String,
    pub(crate) view: Value,
    pub(crate) metrics: String,
    pub(crate) machine: String,
}
