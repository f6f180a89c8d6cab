//! What every resource has.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What every resource has.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Metadata {
    /// Its name, unique among its kind. A port's is `namespace:pod`, or `namespace:pod:interface`.
    pub name: String,
    /// Words of its users, to find it by.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The version that was read, given back with a change so that nobody's update is lost. Set by
    /// the controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
    /// Which of all that had this name. Set by the controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// How often its spec was changed. Set by the controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
    /// When it was made (RFC 3339). Set by the controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<String>,
}

/// The longest key and value of a label, as in Kubernetes.
const MAX_KEY: usize = 253 + 1 + 63;
const MAX_VALUE: usize = 63;

// === impl Metadata ===

impl Metadata {
    /// Of something that users write.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// The first label that cannot be, and why.
    pub(crate) fn bad_label(&self) -> Option<(&str, String)> {
        let plain = |text: &str, more: &str| {
            text.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c))
        };
        self.labels.iter().find_map(|(key, value)| {
            let said = if key.is_empty() || key.len() > MAX_KEY || !plain(key, "-_./") {
                format!("a key has 1 to {MAX_KEY} letters, digits and - _ . /")
            } else if value.len() > MAX_VALUE || !plain(value, "-_.") {
                format!("{value:?} is no value: at most {MAX_VALUE} letters, digits and - _ .")
            } else {
                return None;
            };
            Some((key.as_str(), said))
        })
    }
}
