//! Endpoint slices, and what they are to the model.

use super::service::transport;
use super::{called, partial, slim};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use osier_model::{Endpoint, EndpointPort, EndpointState, NodeName, ServiceName};
use osier_resource::{Document, EndpointsSpec, EndpointsStatus, Metadata, Resource};
use serde::Deserialize;

/// Of which Service a slice is.
const SERVICE: &str = "kubernetes.io/service-name";

/// A slice, as it is read.
#[derive(Deserialize, Debug, Clone)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SliceObject {
    #[serde(deserialize_with = "slim", default)]
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    address_type: String,
    #[serde(default, deserialize_with = "or_none")]
    endpoints: Vec<EndpointSeen>,
    #[serde(default, deserialize_with = "or_none")]
    ports: Vec<PortSeen>,
}

partial!(
    SliceObject,
    NamespaceResourceScope,
    "discovery.k8s.io",
    "v1",
    "EndpointSlice",
    "endpointslices"
);

#[derive(Deserialize, Debug, Clone, Default)]
#[serde(rename_all = "camelCase", default)]
struct EndpointSeen {
    addresses: Vec<String>,
    conditions: Conditions,
    node_name: Option<String>,
    hints: Hints,
}

#[derive(Deserialize, Debug, Clone, Default)]
#[serde(default)]
struct Conditions {
    ready: Option<bool>,
    serving: Option<bool>,
    terminating: Option<bool>,
}

#[derive(Deserialize, Debug, Clone, Default)]
#[serde(rename_all = "camelCase", default)]
struct Hints {
    for_zones: Vec<Named>,
    for_nodes: Vec<Named>,
}

#[derive(Deserialize, Debug, Clone, Default)]
#[serde(default)]
struct Named {
    name: String,
}

#[derive(Deserialize, Debug, Clone, Default)]
#[serde(default)]
struct PortSeen {
    name: Option<String>,
    protocol: Option<String>,
    port: Option<u16>,
}

/// Go writes a list of nothing as `null`.
fn or_none<'de, D: serde::Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

// === impl SliceObject ===

impl SliceObject {
    /// `namespace:slice`.
    pub(crate) fn name(&self) -> String {
        called(&self.metadata)
    }

    /// What it is to the model, if it is anything, and what of it cannot be used.
    pub(crate) fn plan(&self) -> (Option<Resource>, Vec<String>) {
        let mut bad = Vec::new();
        let namespace = self.metadata.namespace.as_deref().unwrap_or_default();
        let service = self.metadata.labels.as_ref().and_then(|labels| labels.get(SERVICE));
        let service =
            service.and_then(|name| ServiceName::new(&format!("{namespace}:{name}")).ok());
        let Some(service) = service else { return (None, bad) };
        if !["IPv4", "IPv6"].contains(&self.address_type.as_str()) {
            bad.push(format!("addressType {:?} has no addresses", self.address_type));
            return (None, bad);
        }
        let is_v4 = self.address_type == "IPv4";
        let endpoints =
            self.endpoints.iter().filter_map(|endpoint| endpoint.plan(is_v4, &mut bad)).collect();
        let port = |port: &PortSeen| {
            Some(EndpointPort {
                name: port.name.clone().unwrap_or_default(),
                transport: transport(port.protocol.as_deref().unwrap_or_default())?,
                port: port.port?,
            })
        };
        let ports = self.ports.iter().filter_map(port).collect();
        let spec = EndpointsSpec { service, ports, endpoints };
        let (metadata, status) = (Metadata::named(self.name()), EndpointsStatus::default());
        (Some(Resource::Endpoints(Document { metadata, spec, status })), bad)
    }
}

// === impl EndpointSeen ===

impl EndpointSeen {
    fn plan(&self, is_v4: bool, bad: &mut Vec<String>) -> Option<Endpoint> {
        // Those that one has are all the same one; the first is as good as any.
        let text = self.addresses.first()?;
        let address = match text.parse::<std::net::IpAddr>() {
            Ok(address) if address.is_ipv4() == is_v4 => address,
            _ => {
                bad.push(format!("{text:?} is no address of the slice's type"));
                return None;
            }
        };
        let Conditions { ready, serving, terminating } = self.conditions;
        let state = match (ready.unwrap_or(true), serving.unwrap_or(true)) {
            (true, _) => EndpointState::Ready,
            (false, true) if terminating.unwrap_or(false) => EndpointState::Terminating,
            (false, _) => EndpointState::Unready,
        };
        let node = |name: &str| NodeName::new(name).ok();
        Some(Endpoint {
            address,
            node: self.node_name.as_deref().and_then(node),
            state,
            weight: 1,
            zones: self.hints.for_zones.iter().map(|zone| zone.name.clone()).collect(),
            nodes: self.hints.for_nodes.iter().filter_map(|named| node(&named.name)).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn plan(mut slice: Value) -> (Option<EndpointsSpec>, Vec<String>) {
        slice["metadata"] = json!({"name": "web-x", "namespace": "shop",
            "labels": {SERVICE: "web"}});
        let object: SliceObject = serde_json::from_value(slice).unwrap();
        let (resource, bad) = object.plan();
        let spec = resource.map(|resource| match resource {
            Resource::Endpoints(endpoints) => {
                assert_eq!(endpoints.metadata.name, "shop:web-x");
                endpoints.spec
            }
            _ => panic!("no endpoints"),
        });
        (spec, bad)
    }

    #[test]
    fn conditions_are_one_state() {
        for (conditions, state) in [
            (json!({}), EndpointState::Ready),
            (json!({"ready": true, "serving": true, "terminating": false}), EndpointState::Ready),
            // Who publishes endpoints that are not ready has them ready.
            (json!({"ready": true, "serving": false, "terminating": true}), EndpointState::Ready),
            (
                json!({"ready": false, "serving": true, "terminating": true}),
                EndpointState::Terminating,
            ),
            (
                json!({"ready": false, "serving": false, "terminating": true}),
                EndpointState::Unready,
            ),
            (json!({"ready": false, "serving": true}), EndpointState::Unready),
            (json!({"ready": false}), EndpointState::Unready),
        ] {
            let slice = json!({"addressType": "IPv4",
                "endpoints": [{"addresses": ["10.1.0.1"], "conditions": conditions.clone()}]});
            let (spec, _) = plan(slice);
            assert_eq!(spec.unwrap().endpoints[0].state, state, "{conditions}");
        }
    }

    #[test]
    fn every_field_that_matters_is_taken_and_what_is_wrong_is_said() {
        let (spec, bad) = plan(json!({"addressType": "IPv6",
            "endpoints": [
                {"addresses": ["fd00::1"], "nodeName": "a", "zone": "x",
                    "hints": {"forZones": [{"name": "x"}], "forNodes": [{"name": "a"}]}},
                {"addresses": ["10.1.0.1"]}, {"addresses": ["fd00::2"], "deprecatedTopology": {}}],
            "ports": [{"name": "http", "protocol": "TCP", "port": 8080}, {"name": "any"}]}));
        let expected = json!({"service": "shop:web",
            "ports": [{"name": "http", "transport": "tcp", "port": 8080}],
            "endpoints": [
                {"address": "fd00::1", "node": "a", "state": "ready", "zones": ["x"], "nodes": ["a"]},
                {"address": "fd00::2", "state": "ready"}]});
        assert_eq!(serde_json::to_value(spec.unwrap()).unwrap(), expected);
        assert_eq!(bad, [r#""10.1.0.1" is no address of the slice's type"#]);

        let (spec, bad) = plan(json!({"addressType": "FQDN", "endpoints": null, "ports": null}));
        assert_eq!((spec, bad.len()), (None, 1));
    }
}
