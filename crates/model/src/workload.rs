//! Workloads: what devices are to policies.

use crate::id::Identity;
use crate::name::{DeviceName, NodeName};
use serde::{Deserialize, Serialize};

/// What a device is to policies. It may be known before the device has a port: a pod is told apart
/// before its first packet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Which device: a pod is `namespace:pod`.
    pub device: DeviceName,
    /// On which node.
    pub node: NodeName,
    /// What it is.
    pub identity: Identity,
}
