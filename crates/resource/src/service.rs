//! Services and their endpoints, as users write them.

use crate::leaf;
use crate::status::Condition;
use ipnet::IpNet;
use osier_model::{
    Endpoint, EndpointPort, Endpoints, EndpointsKey, Locality, PoolName, RouterName, Service,
    ServiceName, ServicePort, SliceName, Transport,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Addresses behind which endpoints answer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ServiceSpec {
    /// Whose addresses it uses; those of the default router if it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<leaf::Name>")]
    pub router: Option<RouterName>,
    /// Its addresses inside of the cluster; allocated from the fabric's if none is named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<leaf::Address>")]
    pub addresses: Vec<IpAddr>,
    /// Where its addresses come from, if none is named; the fabric's if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<leaf::Name>")]
    pub pools: Vec<PoolName>,
    /// Addresses of it that the outside knows, and leads to some node by itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<leaf::Address>")]
    pub external: Vec<IpAddr>,
    /// The same, given by load balancers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<leaf::Address>")]
    pub balanced: Vec<IpAddr>,
    /// What it listens on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<ServicePortSpec>,
    /// For how many seconds a client stays with its endpoint, up to a day; each connection for
    /// itself if it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<u32>,
    /// Which endpoints clients inside of the cluster reach.
    #[serde(default, skip_serializing_if = "Locality::is_cluster")]
    #[schemars(with = "leaf::Locality")]
    pub internal_traffic: Locality,
    /// Which endpoints clients outside of it reach; with `local` they keep their addresses.
    #[serde(default, skip_serializing_if = "Locality::is_cluster")]
    #[schemars(with = "leaf::Locality")]
    pub external_traffic: Locality,
    /// Who may use the addresses that load balancers gave; everyone if it is empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<leaf::Prefix>")]
    pub source_ranges: Vec<IpNet>,
    /// Where each node says over HTTP whether it has endpoints of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_port: Option<u16>,
}

/// One port that a Service listens on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ServicePortSpec {
    /// Its name; endpoints give their own port by it. May be left out if there is only one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// What carries it.
    #[serde(default)]
    #[schemars(with = "leaf::Transport")]
    pub transport: Transport,
    /// Its number at the Service's addresses.
    pub port: u16,
    /// Its number at every node's own addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_port: Option<u16>,
}

/// Some of a Service's endpoints: those that share their ports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct EndpointsSpec {
    /// Of which Service.
    #[schemars(with = "leaf::Name")]
    pub service: ServiceName,
    /// Where they listen, by the names of the Service's ports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<leaf::EndpointPort>")]
    pub ports: Vec<EndpointPort>,
    /// Who they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<leaf::Endpoint>")]
    pub endpoints: Vec<Endpoint>,
}

/// Of a Service.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct ServiceStatus {
    /// Its addresses inside of the cluster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<leaf::Address>")]
    pub addresses: Vec<IpAddr>,
    /// How many endpoints take connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<u64>,
    /// How many endpoints it has, of the family that has more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoints: Option<u64>,
    /// What is so.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// Of endpoints.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct EndpointsStatus {
    /// What is so.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

// === impl ServiceSpec ===

impl ServiceSpec {
    /// As the model has it, with addresses that were given.
    pub(crate) fn to_model(&self, name: ServiceName, addresses: Vec<IpAddr>) -> Service {
        let port = |port: &ServicePortSpec| ServicePort {
            name: port.name.clone(),
            transport: port.transport,
            port: port.port,
            node_port: port.node_port,
        };
        Service {
            name,
            router: self.router.clone(),
            addresses,
            external: self.external.clone(),
            balanced: self.balanced.clone(),
            ports: self.ports.iter().map(port).collect(),
            affinity: self.affinity,
            internal_traffic: self.internal_traffic,
            external_traffic: self.external_traffic,
            source_ranges: self.source_ranges.clone(),
            health_port: self.health_port,
        }
    }
}

// === impl EndpointsSpec ===

impl EndpointsSpec {
    /// As the model has it.
    pub(crate) fn to_model(&self, slice: SliceName) -> Endpoints {
        Endpoints {
            key: EndpointsKey { service: self.service.clone(), slice },
            ports: self.ports.clone(),
            endpoints: self.endpoints.clone(),
        }
    }
}
