//! What users want of each kind.
//!
//! The model's own types, less what users need not choose: a number or an address that is left out
//! is allocated by the controller and reported in the status.

use crate::leaf;
use ipnet::IpNet;
use osier_model::{
    Dhcp, Isolation, Limits, Mac, NetworkName, NodeName, PolicyMode, PoolName, Reach, RouterName,
    Subnet, Tunnel, Vni, VrfId,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// What holds for the whole cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct FabricSpec {
    /// How packets travel between nodes.
    #[serde(default)]
    #[schemars(with = "leaf::Tunnel")]
    pub tunnel: Tunnel,
    /// Addresses of all pods: between them nothing is translated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<leaf::Prefix>")]
    pub cluster: Vec<IpNet>,
    /// Where Services' addresses inside of the cluster are from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<leaf::Prefix>")]
    pub services: Vec<IpNet>,
    /// How policies are applied.
    #[serde(default, skip_serializing_if = "PolicyMode::is_default")]
    #[schemars(with = "leaf::PolicyMode")]
    pub policy: PolicyMode,
    /// Namespaces are apart, by a policy that each of them gets: workloads are reached by those of their own
    /// namespace and of shared ones, and by nodes and the outside. Policies add to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<leaf::Isolation>")]
    pub isolation: Option<Isolation>,
    /// Packets and bytes of Services are counted, for `osier top services`: by two flows more for each of
    /// their addresses and ports.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub accounting: bool,
    /// Pods are led to Services by their node's own stack, where kube-proxy is: what they send there goes
    /// through the node's service gateway. If not, every node's switch leads to them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub service_gateway: bool,
}

/// A machine with a switch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct NodeSpec {
    /// Where tunnels to it end.
    #[schemars(with = "leaf::Address")]
    pub tunnel: IpAddr,
    /// Addresses of the machine itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<leaf::Address>")]
    pub addresses: Vec<IpAddr>,
    /// Addresses for its pods, which it gives out without asking anyone; allocated if none is
    /// named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<leaf::Prefix>")]
    pub blocks: Vec<IpNet>,
    /// Where it stands, for endpoints that are better near.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

/// Addresses to give out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PoolSpec {
    /// The prefix that they are of.
    #[schemars(with = "leaf::Prefix")]
    pub cidr: IpNet,
    /// What is not given out: the gateway, other people's addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<leaf::Prefix>")]
    pub exclude: Vec<IpNet>,
}

/// An L3 domain.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RouterSpec {
    /// Its number in the datapath; allocated if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<u16>")]
    pub vrf: Option<VrfId>,
}

/// An L2 domain with subnets.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct NetworkSpec {
    /// Its number, and tunnel key; allocated if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<leaf::Vni>")]
    pub vni: Option<Vni>,
    /// The router that joins it to others; alone if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<leaf::Name>")]
    pub router: Option<RouterName>,
    /// How its ports reach one another.
    #[serde(default)]
    #[schemars(with = "leaf::Reach")]
    pub reach: Reach,
    /// Its addresses, of either family.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<leaf::Subnet>")]
    pub subnets: Vec<Subnet>,
    /// Where addresses of its ports come from, if they name none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<leaf::Name>")]
    pub pools: Vec<PoolName>,
    /// Addresses of ports of it that answer as DHCP servers. Answers of others are dropped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dhcp_servers: Vec<IpAddr>,
    /// What ports of it are told by their node that ask for their addresses; nobody answers if it
    /// is not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<leaf::Dhcp>")]
    pub dhcp: Option<Dhcp>,
}

/// An attachment of a device to a network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PortSpec {
    /// Of which network.
    #[schemars(with = "leaf::Name")]
    pub network: NetworkName,
    /// On which node.
    #[schemars(with = "leaf::Name")]
    pub node: NodeName,
    /// Its Ethernet address; made from its first address if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<leaf::MacAddress>")]
    pub mac: Option<Mac>,
    /// Its addresses, of either family; allocated from the network's pools if none is named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<leaf::Address>")]
    pub addresses: Vec<IpAddr>,
    /// How fast it may send and receive.
    #[serde(default, skip_serializing_if = "Limits::is_none")]
    #[schemars(with = "leaf::Limits")]
    pub limits: Limits,
}
