//! Services, and what they are to the model.
//!
//! Those that have no address of their own (headless, `ExternalName`) are nothing to it: names lead
//! to their endpoints, not packets.

use super::{called, partial, slim};
use ipnet::IpNet;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use osier_model::{Locality, Transport};
use osier_resource::{Document, Metadata, Resource, ServicePortSpec, ServiceSpec, ServiceStatus};
use serde::Deserialize;
use std::net::IpAddr;

/// Services that are somebody else's to make real say so with a label, and those that nobody is to make
/// real with another. Their endpoints have the same.
pub(crate) const OURS: &str =
    "!service.kubernetes.io/service-proxy-name,!service.kubernetes.io/headless";
/// How long a client stays with its endpoint if it is not said.
const AFFINITY: u32 = 10_800;

/// A Service, as it is read.
#[derive(Deserialize, Debug, Clone)]
pub(crate) struct ServiceObject {
    #[serde(deserialize_with = "slim", default)]
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

partial!(ServiceObject, NamespaceResourceScope, "", "v1", "Service", "services");

#[derive(Deserialize, Debug, Clone, Default)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    r#type: String,
    #[serde(rename = "clusterIP")]
    cluster_ip: String,
    #[serde(rename = "clusterIPs")]
    cluster_ips: Vec<String>,
    #[serde(rename = "externalIPs")]
    external_ips: Vec<String>,
    ports: Vec<PortSeen>,
    session_affinity: String,
    session_affinity_config: AffinityConfig,
    internal_traffic_policy: String,
    external_traffic_policy: String,
    load_balancer_source_ranges: Vec<String>,
    health_check_node_port: u16,
}

#[derive(Deserialize, Debug, Clone, Default)]
#[serde(rename_all = "camelCase", default)]
struct PortSeen {
    name: String,
    protocol: String,
    port: u16,
    node_port: u16,
}

#[derive(Deserialize, Debug, Clone, Default)]
#[serde(default)]
struct AffinityConfig {
    #[serde(rename = "clientIP")]
    client_ip: Option<ClientIp>,
}

#[derive(Deserialize, Debug, Clone, Default)]
#[serde(rename_all = "camelCase", default)]
struct ClientIp {
    timeout_seconds: Option<u32>,
}

#[derive(Deserialize, Debug, Clone, Default)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    load_balancer: LoadBalancer,
}

#[derive(Deserialize, Debug, Clone, Default)]
#[serde(default)]
struct LoadBalancer {
    ingress: Vec<Ingress>,
}

#[derive(Deserialize, Debug, Clone, Default)]
#[serde(rename_all = "camelCase", default)]
struct Ingress {
    ip: String,
    ip_mode: Option<String>,
}

// === impl ServiceObject ===

impl ServiceObject {
    /// `namespace:service`.
    pub(crate) fn name(&self) -> String {
        called(&self.metadata)
    }

    /// What it is to the model, if it is anything, and what of it cannot be used.
    pub(crate) fn plan(&self) -> (Option<Resource>, Vec<String>) {
        let Self { metadata, spec, status } = self;
        let mut bad = Vec::new();
        let cluster: Vec<&String> = match spec.cluster_ips.is_empty() {
            true => [&spec.cluster_ip].into_iter().filter(|ip| !ip.is_empty()).collect(),
            false => spec.cluster_ips.iter().collect(),
        };
        let is_headless = cluster.iter().any(|ip| *ip == "None");
        if spec.r#type == "ExternalName" || is_headless || cluster.is_empty() {
            return (None, bad);
        }
        let addresses = addresses("clusterIPs", cluster, &mut bad);
        let has_family = |a: &IpAddr| addresses.iter().any(|own| own.is_ipv4() == a.is_ipv4());
        let is_balanced = spec.r#type == "LoadBalancer";
        let given = status.load_balancer.ingress.iter().filter(|ingress| {
            // Such a balancer sends to the nodes, and not with its own address.
            is_balanced && !ingress.ip.is_empty() && ingress.ip_mode.as_deref() != Some("Proxy")
        });
        let mut external = self::addresses("externalIPs", &spec.external_ips, &mut bad);
        let mut balanced =
            self::addresses("status.loadBalancer", given.map(|ingress| &ingress.ip), &mut bad);
        external.retain(has_family);
        balanced.retain(|address| has_family(address) && !external.contains(address));
        let mut source_ranges = Vec::new();
        for text in spec.load_balancer_source_ranges.iter().filter(|_| is_balanced) {
            match text.trim().parse::<IpNet>() {
                Ok(range) => source_ranges.push(range.trunc()),
                Err(_) => bad.push(format!("loadBalancerSourceRanges: {text:?} is no prefix")),
            }
        }
        let affinity = (spec.session_affinity == "ClientIP").then(|| {
            let said = spec.session_affinity_config.client_ip.as_ref();
            said.and_then(|said| said.timeout_seconds).unwrap_or(AFFINITY)
        });
        let external_traffic = locality(&spec.external_traffic_policy);
        let spec = ServiceSpec {
            pools: Vec::new(),
            router: None,
            addresses,
            external,
            balanced,
            ports: spec.ports.iter().filter_map(|port| port.plan(&mut bad)).collect(),
            affinity,
            internal_traffic: locality(&spec.internal_traffic_policy),
            external_traffic,
            source_ranges,
            health_port: Some(spec.health_check_node_port)
                .filter(|port| *port != 0 && !external_traffic.is_cluster()),
        };
        let made = metadata.creation_timestamp.as_ref().map(|time| time.0.to_string());
        let metadata = Metadata { creation_timestamp: made, ..Metadata::named(self.name()) };
        let status = ServiceStatus::default();
        (Some(Resource::Service(Document { metadata, spec, status })), bad)
    }
}

// === impl PortSeen ===

impl PortSeen {
    fn plan(&self, bad: &mut Vec<String>) -> Option<ServicePortSpec> {
        let transport = transport(&self.protocol);
        if transport.is_none() {
            bad.push(format!("port {}: protocol {:?} is not known", self.port, self.protocol));
        }
        Some(ServicePortSpec {
            name: self.name.clone(),
            transport: transport?,
            port: self.port,
            node_port: Some(self.node_port).filter(|port| *port != 0),
        })
    }
}

/// What carries a port.
pub(crate) fn transport(protocol: &str) -> Option<Transport> {
    match protocol {
        "" | "TCP" => Some(Transport::Tcp),
        "UDP" => Some(Transport::Udp),
        "SCTP" => Some(Transport::Sctp),
        _ => None,
    }
}

fn locality(policy: &str) -> Locality {
    if policy == "Local" { Locality::Local } else { Locality::Cluster }
}

fn addresses<'a>(
    field: &str,
    texts: impl IntoIterator<Item = &'a String>,
    bad: &mut Vec<String>,
) -> Vec<IpAddr> {
    let mut addresses = Vec::new();
    for text in texts {
        match text.parse() {
            Ok(address) if !addresses.contains(&address) => addresses.push(address),
            Ok(_) => {}
            Err(_) => bad.push(format!("{field}: {text:?} is no IP address")),
        }
    }
    addresses
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn plan(spec: &Value, ingress: &Value) -> (Option<ServiceSpec>, Vec<String>) {
        let object = json!({"metadata": {"name": "web", "namespace": "shop"}, "spec": spec,
            "status": {"loadBalancer": {"ingress": ingress}}});
        let object: ServiceObject = serde_json::from_value(object).unwrap();
        let (resource, bad) = object.plan();
        let spec = resource.map(|resource| match resource {
            Resource::Service(service) => {
                assert_eq!(service.metadata.name, "shop:web");
                service.spec
            }
            _ => panic!("no Service"),
        });
        (spec, bad)
    }

    #[test]
    fn without_an_address_it_is_nothing() {
        for spec in [
            json!({"type": "ClusterIP", "clusterIP": "None", "clusterIPs": ["None"]}),
            json!({"type": "ExternalName", "externalName": "example.com"}),
            json!({"type": "ExternalName", "clusterIP": "10.96.0.7"}),
            json!({"type": "ClusterIP"}),
        ] {
            assert_eq!(plan(&spec, &json!([])), (None, Vec::new()));
        }
    }

    #[test]
    fn every_field_that_matters_is_taken() {
        let (spec, bad) = plan(
            &json!({
                "type": "LoadBalancer", "clusterIP": "10.96.0.7",
                "clusterIPs": ["10.96.0.7", "fd96::7"], "externalIPs": ["198.51.100.7"],
                "ports": [{"name": "http", "protocol": "TCP", "port": 80, "nodePort": 30080,
                    "targetPort": "http"}, {"name": "dns", "protocol": "UDP", "port": 53}],
                "sessionAffinity": "ClientIP",
                "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}},
                "internalTrafficPolicy": "Local", "externalTrafficPolicy": "Local",
                "loadBalancerSourceRanges": ["198.51.100.9/24", "all"],
                "healthCheckNodePort": 31000, "allocateLoadBalancerNodePorts": false,
            }),
            &json!([{"ip": "203.0.113.1", "ipMode": "VIP"}, {"ip": "203.0.113.2", "ipMode": "Proxy"},
                {"hostname": "balancer.example"}]),
        );
        assert_eq!(bad, [r#"loadBalancerSourceRanges: "all" is no prefix"#]);
        let expected = json!({
            "addresses": ["10.96.0.7", "fd96::7"], "external": ["198.51.100.7"],
            "balanced": ["203.0.113.1"],
            "ports": [{"name": "http", "transport": "tcp", "port": 80, "nodePort": 30080},
                {"name": "dns", "transport": "udp", "port": 53}],
            "affinity": 60, "internalTraffic": "local", "externalTraffic": "local",
            "sourceRanges": ["198.51.100.0/24"], "healthPort": 31000,
        });
        assert_eq!(serde_json::to_value(spec.unwrap()).unwrap(), expected);
    }

    #[test]
    fn what_is_left_out_is_usual_and_other_families_are_left_alone() {
        let (spec, bad) = plan(
            &json!({"clusterIP": "fd96::7", "externalIPs": ["198.51.100.7", "x"],
                "sessionAffinity": "ClientIP", "ports": [{"port": 80}]}),
            &json!([{"ip": "203.0.113.1"}]),
        );
        let expected = json!({"addresses": ["fd96::7"], "affinity": 10800,
            "ports": [{"transport": "tcp", "port": 80}]});
        assert_eq!(serde_json::to_value(spec.unwrap()).unwrap(), expected);
        assert_eq!(bad, [r#"externalIPs: "x" is no IP address"#]);
    }
}
