//! What a node gets when it joins.

use ipnet::IpNet;
use osier_model::{NodeName, Tunnel};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// How a node's network is made: enough to write its CNI configuration and to start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeConfiguration {
    /// Whose.
    pub node: NodeName,
    /// How packets travel between nodes.
    pub tunnel: Tunnel,
    /// Where tunnels to it end.
    pub address: IpAddr,
    /// Addresses for its pods.
    pub blocks: Vec<Block>,
    /// Addresses of all pods.
    pub cluster: Vec<IpNet>,
    /// The largest packet of a pod, if the cluster has an opinion; else it follows from the uplink.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u16>,
}

/// Addresses for pods, and the way out of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// The prefix.
    pub cidr: IpNet,
    /// The gateway.
    pub gateway: IpAddr,
}

// === impl NodeConfiguration ===

impl NodeConfiguration {
    /// Of a node, as the model has it.
    pub fn of(node: &osier_model::Node, fabric: &osier_model::Fabric, mtu: Option<u16>) -> Self {
        let block = |cidr: &IpNet| {
            let gateway = osier_model::Node::gateway_of(*cidr);
            Block { cidr: *cidr, gateway }
        };
        Self {
            node: node.name.clone(),
            tunnel: fabric.tunnel,
            address: node.tunnel,
            blocks: node.blocks.iter().map(block).collect(),
            cluster: fabric.cluster.clone(),
            mtu,
        }
    }
}
