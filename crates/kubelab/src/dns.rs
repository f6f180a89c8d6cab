//! The cluster's resolver.

use crate::cluster::Cluster;
use crate::error::ClusterError;
use crate::install::COREDNS_VERSION;
use crate::settings::CLUSTER_DNS;

const MANIFESTS: &str = include_str!("coredns.yaml");

impl Cluster {
    /// Installs CoreDNS, and waits until it answers.
    pub fn install_dns(&self) -> Result<(), ClusterError> {
        let manifests = MANIFESTS
            .replace("COREDNS_VERSION", COREDNS_VERSION)
            .replace("CLUSTER_DNS", &CLUSTER_DNS.to_string());
        self.apply(&manifests)?;
        let status = ["-n", "kube-system", "rollout", "status", "deployment/coredns"];
        self.kubectl(&[&status[..], &["--timeout=120s"]].concat()).map(drop)
    }
}
