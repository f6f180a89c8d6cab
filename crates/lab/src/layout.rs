//! What is where in a lab: facts that do not change while it is up.

use crate::spec::LabSpec;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::path::PathBuf;

/// A lab's facts. While it is being made, nodes and pods are missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// What was asked for.
    pub spec: LabSpec,
    /// What its namespaces' names begin with.
    pub id: String,
    /// Its directory: sockets, logs, databases.
    pub dir: PathBuf,
    /// The process that keeps it.
    pub keeper: u32,
    /// Its nodes.
    pub nodes: Vec<NodeLayout>,
    /// Its pods.
    pub pods: Vec<PodLayout>,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeLayout {
    /// Its name.
    pub name: String,
    /// Its namespace, as `ip netns` knows it.
    pub netns: String,
    /// Its address in the underlay.
    pub address: IpAddr,
    /// Addresses for its pods.
    pub blocks: Vec<IpNet>,
    /// Its switch's directory, which also holds the agent's files.
    pub dir: PathBuf,
}

/// A pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodLayout {
    /// Its name.
    pub name: String,
    /// Its node's name.
    pub node: String,
    /// Its namespace, as `ip netns` knows it.
    pub netns: String,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
}

// === impl Layout ===

impl Layout {
    /// The pods of a node.
    pub fn pods_of<'a>(&'a self, node: &'a str) -> impl Iterator<Item = &'a PodLayout> {
        self.pods.iter().filter(move |pod| pod.node == node)
    }

    /// A pod by its name.
    pub fn pod(&self, name: &str) -> Option<&PodLayout> {
        self.pods.iter().find(|pod| pod.name == name)
    }

    /// A node by its name.
    pub fn node(&self, name: &str) -> Option<&NodeLayout> {
        self.nodes.iter().find(|node| node.name == name)
    }
}
