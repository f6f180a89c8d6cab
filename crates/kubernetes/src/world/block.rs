//! Our own blocks of addresses: an object is one, and whoever made it has claimed it.

use super::{partial, slim};
use crate::custom::{GROUP, VERSION};
use ipnet::IpNet;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// A block, as it is read and written.
#[derive(Deserialize, Serialize, Debug, Clone)]
pub(crate) struct BlockObject {
    #[serde(rename = "apiVersion", default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(deserialize_with = "slim", default)]
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: BlockSpec,
}

partial!(BlockObject, ClusterResourceScope, GROUP, VERSION, "AddressBlock", "addressblocks");

/// A block, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BlockSeen {
    pub(crate) spec: BlockSpec,
    /// When it was made: a node's blocks stay in that order.
    pub(crate) made: Option<Time>,
}

/// Whose it is.
#[derive(Deserialize, Serialize, Debug, Clone, PartialEq, Eq)]
pub(crate) struct BlockSpec {
    pub(crate) cidr: IpNet,
    pub(crate) node: String,
}

// === impl BlockObject ===

impl BlockObject {
    /// A block for a node.
    pub(crate) fn of(cidr: IpNet, node: &str) -> Self {
        Self {
            api_version: format!("{GROUP}/{VERSION}"),
            kind: "AddressBlock".to_owned(),
            metadata: ObjectMeta { name: Some(name_of(cidr)), ..ObjectMeta::default() },
            spec: BlockSpec { cidr, node: node.to_owned() },
        }
    }
}

impl From<BlockObject> for BlockSeen {
    fn from(block: BlockObject) -> Self {
        Self { spec: block.spec, made: block.metadata.creation_timestamp }
    }
}

/// The name of a prefix: one for each, so that nobody can claim it twice.
pub(crate) fn name_of(cidr: IpNet) -> String {
    let name: String = json!(cidr.trunc())
        .as_str()
        .unwrap_or_default()
        .chars()
        .map(|c| if matches!(c, ':' | '/') { '-' } else { c })
        .collect();
    // A name begins with a letter or a digit.
    if name.starts_with('-') { format!("0{name}") } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_has_one_name() {
        for (cidr, name) in [
            ("10.244.3.0/24", "10.244.3.0-24"),
            ("10.244.3.7/24", "10.244.3.0-24"),
            ("fd00:10:244::/64", "fd00-10-244---64"),
            ("fd00::1:0/112", "fd00--1-0-112"),
        ] {
            assert_eq!(name_of(cidr.parse().unwrap()), name);
        }
    }
}
