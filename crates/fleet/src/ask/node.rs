//! A node, as people look at it.

use serde::{Deserialize, Serialize};

/// Texts for people, each as long as it is useful.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Diagnostics {
    /// All flows, with the tables' names.
    pub flows: String,
    /// Groups and meters.
    pub groups: String,
    /// The switch's database.
    pub ovsdb: String,
    /// The agent's last lines.
    pub log: String,
    /// The node's view, as JSON.
    pub view: serde_json::Value,
    /// The agent's metrics.
    pub metrics: String,
    /// Interfaces and routes of the machine.
    pub machine: String,
}

/// Whether an agent changes its switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PauseState {
    /// Whether it does not.
    pub paused: bool,
}

/// Something that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// What.
    pub name: String,
    /// How it is.
    pub result: CheckResult,
    /// In words.
    pub detail: String,
    /// What to do.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub advice: String,
}

/// How something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckResult {
    /// Right.
    Ok,
    /// It works, and may not always.
    Warning,
    /// It does not work.
    Failed,
    /// Nobody could look.
    Skipped,
}
