//! Network policies and namespaces, and what they are to the model.

use super::{called, partial, slim};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use osier_resource::{
    Document, Metadata, NamespaceSpec, NamespaceStatus, NetworkPolicySpec, NetworkPolicyStatus,
    PolicyType, Resource,
};
use serde::Deserialize;
use serde_json::Value;

/// A policy, as it is read.
#[derive(Deserialize, Debug, Clone)]
pub(crate) struct PolicyObject {
    #[serde(deserialize_with = "slim", default)]
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    spec: Value,
}

partial!(
    PolicyObject,
    NamespaceResourceScope,
    "networking.k8s.io",
    "v1",
    "NetworkPolicy",
    "networkpolicies"
);

/// What a policy is to the model.
pub(crate) struct Planned {
    pub(crate) resource: Resource,
    /// What of it is not understood.
    pub(crate) bad: Option<String>,
    /// Prefixes that were read without the bits behind their length.
    pub(crate) inexact: Vec<String>,
}

/// A namespace, as it is read.
#[derive(Deserialize, Debug, Clone)]
pub(crate) struct NamespaceObject {
    #[serde(deserialize_with = "slim", default)]
    pub(crate) metadata: ObjectMeta,
}

partial!(NamespaceObject, ClusterResourceScope, "", "v1", "Namespace", "namespaces");

// === impl PolicyObject ===

impl PolicyObject {
    /// `namespace:policy`.
    pub(crate) fn name(&self) -> String {
        called(&self.metadata)
    }

    /// What it is to the model. A policy that is not understood lets nothing through: whoever wrote it
    /// wanted less than everything.
    pub(crate) fn plan(&self) -> Planned {
        let read = serde_json::from_value::<NetworkPolicySpec>(self.spec.clone());
        let read = read.map_err(|error| error.to_string()).and_then(|spec| {
            let inexact = spec.inexact().map(ToString::to_string).collect();
            let resource = self.resource(spec.truncated());
            resource.validate().map_err(|fault| fault.to_string()).map(|()| (resource, inexact))
        });
        match read {
            Ok((resource, inexact)) => Planned { resource, bad: None, inexact },
            Err(why) => {
                let resource = self.resource(self.closed());
                Planned { resource, bad: Some(why), inexact: Vec::new() }
            }
        }
    }

    /// Nothing may come or go, for whom it is about as far as that is known.
    fn closed(&self) -> NetworkPolicySpec {
        let selector = self.spec.get("podSelector").cloned().unwrap_or_default();
        NetworkPolicySpec {
            pod_selector: serde_json::from_value(selector).unwrap_or_default(),
            policy_types: vec![PolicyType::Ingress, PolicyType::Egress],
            ..NetworkPolicySpec::default()
        }
    }

    fn resource(&self, spec: NetworkPolicySpec) -> Resource {
        let metadata = Metadata::named(self.name());
        Resource::NetworkPolicy(Document { metadata, spec, status: NetworkPolicyStatus::default() })
    }
}

// === impl NamespaceObject ===

impl NamespaceObject {
    pub(crate) fn name(&self) -> String {
        self.metadata.name.clone().unwrap_or_default()
    }

    pub(crate) fn plan(&self) -> Resource {
        let labels = self.metadata.labels.clone().unwrap_or_default();
        let metadata = Metadata { labels, ..Metadata::named(self.name()) };
        let (spec, status) = (NamespaceSpec::default(), NamespaceStatus::default());
        Resource::Namespace(Document { metadata, spec, status })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn plan(spec: &Value) -> (NetworkPolicySpec, Option<String>, Vec<String>) {
        let object: PolicyObject = serde_json::from_value(
            json!({"metadata": {"name": "web", "namespace": "shop"}, "spec": spec}),
        )
        .unwrap();
        let Planned { resource, bad, inexact } = object.plan();
        match resource {
            Resource::NetworkPolicy(policy) => {
                assert_eq!(policy.metadata.name, "shop:web");
                (policy.spec, bad, inexact)
            }
            _ => panic!("no policy"),
        }
    }

    #[test]
    fn a_policy_is_taken_as_it_is() {
        let spec = json!({"podSelector": {"matchLabels": {"app": "web"}},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": [
                {"podSelector": {}, "namespaceSelector": {"matchLabels": {"team": "a"}}},
                {"ipBlock": {"cidr": "10.0.0.1/8", "except": ["10.1.0.0/16"]}}],
                "ports": [{"protocol": "TCP", "port": "http"}, {"protocol": "UDP", "port": 53,
                    "endPort": 54}]}]});
        let (read, why, inexact) = plan(&spec);
        assert_eq!((why, inexact), (None, vec!["10.0.0.1/8".to_owned()]));
        // Host bits are what the API server only warns of.
        let block = read.ingress[0].from[1].ip_block.as_ref().unwrap();
        assert_eq!(block.cidr.to_string(), "10.0.0.0/8");
    }

    #[test]
    fn what_is_not_understood_is_closed() {
        for spec in [
            json!({"podSelector": {"matchLabels": {"app": "web"}}, "ingress": [{"later": true}]}),
            json!({"podSelector": {"matchLabels": {"app": "web"}},
                "ingress": [{"ports": [{"protocol": "ICMP"}]}]}),
            json!({"podSelector": {"matchLabels": {"app": "web"}},
                "egress": [{"ports": [{"port": 80, "endPort": 79}]}]}),
        ] {
            let (read, why, _) = plan(&spec);
            assert!(why.is_some() && read.ingress.is_empty() && read.egress.is_empty());
            assert_eq!(read.policy_types.len(), 2);
            assert_eq!(read.pod_selector.to_string(), "app=web");
        }
    }
}
