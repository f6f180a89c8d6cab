//! What the controller is told of Kubernetes, if that is where the model comes from.

use ipnet::IpNet;
use osier_model::{Isolation, PolicyMode, Tunnel};
use serde::Deserialize;
use std::net::IpAddr;
use std::path::PathBuf;

/// Kubernetes as the place where the model comes from.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub struct KubernetesConfig {
    /// How to reach the API server; nothing: by the pod's service account, or `KUBECONFIG`.
    pub kubeconfig: Option<PathBuf>,
    /// Where our own objects are; nothing: `POD_NAMESPACE`, or `osier-system`.
    pub namespace: Option<String>,
    /// Where agents find this controller; nothing: `POD_IP`, or the address that is listened at.
    pub advertise: Option<IpAddr>,
    /// How packets travel between nodes.
    pub tunnel: Tunnel,
    /// How policies are applied.
    pub policy: PolicyMode,
    /// Whether namespaces are apart, but for some.
    pub isolation: Option<Isolation>,
    /// Whether packets and bytes of Services are counted.
    pub accounting: bool,
    /// Addresses of all pods; none: what the nodes have.
    pub cluster_cidrs: Vec<IpNet>,
    /// Where nodes' addresses for pods come from.
    pub address_source: AddressSource,
    /// How large our own blocks are.
    pub block_masks: BlockMasks,
    /// How long an empty block of ours stays with its node.
    pub block_rest_seconds: BlockRest,
    /// Who makes Services real.
    pub services: Services,
    /// Where Services' addresses are from, beside what the cluster's `ServiceCIDR`s say.
    pub service_cidrs: Vec<IpNet>,
    /// Who of several controllers leads.
    pub lease: LeaseConfig,
}

/// Who makes Services real.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum Services {
    /// kube-proxy, or somebody else.
    #[default]
    KubeProxy,
    /// Osier, in every node's switch.
    Osier,
}

/// Where nodes' addresses for pods come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum AddressSource {
    /// From `spec.podCIDRs` if nodes have any, else our own blocks.
    #[default]
    Auto,
    /// From `spec.podCIDRs` only.
    Node,
    /// Our own blocks, of `cluster_cidrs`.
    Blocks,
}

/// Lengths of our own blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BlockMasks {
    /// Of IPv4.
    pub v4: u8,
    /// Of IPv6.
    pub v6: u8,
}

/// Seconds that an empty block stays with its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct BlockRest(pub u32);

/// Who of several controllers leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LeaseConfig {
    /// How long others wait for a leader that says nothing more.
    pub duration_seconds: u32,
    /// How long a leader that cannot say it goes on leading: less than that.
    pub renew_seconds: u32,
    /// How often it says so.
    pub retry_seconds: u32,
}

impl Default for BlockMasks {
    fn default() -> Self {
        Self { v4: 26, v6: 122 }
    }
}

impl Default for BlockRest {
    fn default() -> Self {
        Self(600)
    }
}

impl Default for LeaseConfig {
    fn default() -> Self {
        Self { duration_seconds: 15, renew_seconds: 10, retry_seconds: 2 }
    }
}

// === impl KubernetesConfig ===

/// A number, what it may be, and that in words.
pub(super) type Range = (&'static str, u64, std::ops::RangeInclusive<u64>, &'static str);

impl KubernetesConfig {
    pub(super) fn ranges(&self) -> Vec<Range> {
        let (masks, lease) = (&self.block_masks, &self.lease);
        let duration = u64::from(lease.duration_seconds);
        let renew = u64::from(lease.renew_seconds);
        vec![
            ("kubernetes.block_masks.v4", masks.v4.into(), 8..=30, "8 to 30"),
            ("kubernetes.block_masks.v6", masks.v6.into(), 16..=126, "16 to 126"),
            ("kubernetes.lease.duration_seconds", duration, 3..=600, "3 to 600"),
            (
                "kubernetes.lease.renew_seconds",
                renew,
                2..=duration.saturating_sub(1),
                "at least 2, and less than duration_seconds",
            ),
            (
                "kubernetes.lease.retry_seconds",
                lease.retry_seconds.into(),
                1..=renew / 2,
                "at least 1, and at most half of renew_seconds",
            ),
        ]
    }
}
