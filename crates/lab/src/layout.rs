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
    /// Its controller, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<ControllerLayout>,
    /// Its nodes.
    pub nodes: Vec<NodeLayout>,
    /// Its pods.
    pub pods: Vec<PodLayout>,
}

/// A controller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControllerLayout {
    /// Its namespace, as `ip netns` knows it.
    pub netns: String,
    /// Its address in the underlay.
    pub address: IpAddr,
    /// Its directory, which also holds a credential.
    pub dir: PathBuf,
    /// Where its API is, seen from its namespace.
    pub server: String,
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

// === impl ControllerLayout ===

impl ControllerLayout {
    /// What the command line needs to find it, from its namespace.
    pub fn environment(&self) -> [(String, String); 3] {
        let file = |name: &str| self.dir.join(name).display().to_string();
        [
            ("OSIER_SERVER".to_owned(), self.server.clone()),
            ("OSIER_CA".to_owned(), file("ca.pem")),
            ("OSIER_CREDENTIAL_FILE".to_owned(), file("credential")),
        ]
    }
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
