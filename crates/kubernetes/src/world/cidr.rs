//! Where Services' addresses are from.

use super::{partial, slim};
use ipnet::IpNet;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

/// A `ServiceCIDR`, as it is read.
#[derive(Deserialize, Debug, Clone)]
pub(crate) struct CidrObject {
    #[serde(deserialize_with = "slim", default)]
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    spec: Spec,
}

partial!(
    CidrObject,
    ClusterResourceScope,
    "networking.k8s.io",
    "v1",
    "ServiceCIDR",
    "servicecidrs"
);

#[derive(Deserialize, Debug, Clone, Default)]
#[serde(default)]
struct Spec {
    cidrs: Vec<String>,
}

// === impl CidrObject ===

impl CidrObject {
    /// Its prefixes; the API server lets no others in.
    pub(crate) fn prefixes(&self) -> Vec<IpNet> {
        let parse = |text: &String| text.parse::<IpNet>().ok();
        self.spec.cidrs.iter().filter_map(parse).map(|prefix| prefix.trunc()).collect()
    }
}
