//! Identities that were given: an object is one, so that the next leader gives the same.

use super::{partial, slim};
use crate::custom::{GROUP, VERSION};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An identity, as it is read and written. Its name is its number.
#[derive(Deserialize, Serialize, Debug, Clone)]
pub(crate) struct IdentityObject {
    #[serde(rename = "apiVersion", default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(deserialize_with = "slim", default)]
    pub(crate) metadata: ObjectMeta,
    /// What workloads that have it have in common.
    pub(crate) spec: Value,
}

partial!(IdentityObject, ClusterResourceScope, GROUP, VERSION, "Identity", "identities");

// === impl IdentityObject ===

impl IdentityObject {
    pub(crate) fn of(number: u32, spec: Value) -> Self {
        Self {
            api_version: format!("{GROUP}/{VERSION}"),
            kind: "Identity".to_owned(),
            metadata: ObjectMeta { name: Some(number.to_string()), ..ObjectMeta::default() },
            spec,
        }
    }

    /// Its number, if it is one of ours.
    pub(crate) fn number(&self) -> Option<u32> {
        self.metadata.name.as_ref()?.parse().ok()
    }
}
