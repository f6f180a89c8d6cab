//! An underlay: nodes joined by one Ethernet segment, IPv4 or IPv6.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::command::CommandError;
use crate::daemon::DaemonError;
use crate::lab::Lab;
use crate::netns::Netns;
use crate::node::Node;

/// The bridge in the middle, in a namespace of its own.
const SEGMENT: &str = "segment";

/// A node, or its place in the underlay, could not be made.
#[derive(Debug, thiserror::Error)]
pub enum FabricError {
    /// A foreign command failed.
    #[error("cannot wire the fabric")]
    Wire(#[from] CommandError),
    /// A node's switch did not start.
    #[error("a node's switch did not start")]
    Switch(#[from] DaemonError),
}

/// The address family of an underlay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Nodes have only IPv4 addresses.
    Ipv4,
    /// Nodes have only IPv6 addresses.
    Ipv6,
}

impl Family {
    /// The address of node `index`, from the ranges kept for documentation: they meet no one's pods.
    fn node_address(self, index: u8) -> IpAddr {
        match self {
            Self::Ipv4 => Ipv4Addr::new(198, 51, 100, index).into(),
            Self::Ipv6 => Ipv6Addr::new(0x2001, 0xdb8, 0x0, 0, 0, 0, 0, index.into()).into(),
        }
    }

    pub(crate) fn prefix_length(self) -> u8 {
        match self {
            Self::Ipv4 => 24,
            Self::Ipv6 => 64,
        }
    }

    pub(crate) fn ip_header(self) -> u16 {
        match self {
            Self::Ipv4 => 20,
            Self::Ipv6 => 40,
        }
    }
}

/// Nodes and the segment that joins them.
#[derive(Debug)]
pub struct Fabric {
    nodes: Vec<Node>,
    segment: Netns,
    family: Family,
    mtu: u16,
}

impl Fabric {
    /// The bridge of the segment, in its namespace.
    pub const SEGMENT: &str = SEGMENT;

    /// Joins `size` nodes by an underlay with an MTU of 1500.
    pub fn new(lab: &Lab, family: Family, size: u8) -> Result<Self, FabricError> {
        Self::with_mtu(lab, family, size, 1500)
    }

    /// Joins `size` nodes by an underlay with this MTU.
    pub fn with_mtu(lab: &Lab, family: Family, size: u8, mtu: u16) -> Result<Self, FabricError> {
        let segment = lab.netns("fabric")?;
        segment.ip(&format!("link add {SEGMENT} mtu {mtu} type bridge"))?;
        segment.ip(&format!("link set {SEGMENT} up"))?;
        let mut fabric = Self { nodes: Vec::new(), segment, family, mtu };
        for _ in 0..size {
            fabric.add_node()?;
        }
        Ok(fabric)
    }

    /// The nodes; node `i` is named `n<i+1>`.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The nodes, to kill and restart their daemons.
    pub fn nodes_mut(&mut self) -> &mut [Node] {
        &mut self.nodes
    }

    /// The namespace of the segment: its port to node `i` is an interface named as the node.
    pub fn segment(&self) -> &Netns {
        &self.segment
    }

    /// Adds one more node.
    pub fn add_node(&mut self) -> Result<&mut Node, FabricError> {
        let index = u8::try_from(self.nodes.len() + 1).unwrap_or(u8::MAX);
        let name = format!("n{index}");
        let node = Node::create(
            &self.segment,
            &name,
            self.family,
            self.family.node_address(index),
            self.mtu,
        )?;
        self.plug(&name)?;
        self.nodes.push(node);
        let last = self.nodes.len() - 1;
        Ok(&mut self.nodes[last])
    }

    /// A node's machine loses power and boots: its processes, its namespace and all interfaces are
    /// gone, the database's file stays. Processes that others started there must have ended.
    pub fn reboot(&mut self, node: usize) -> Result<(), FabricError> {
        self.nodes[node].reboot(&self.segment)?;
        Ok(self.plug(self.nodes[node].name())?)
    }

    fn plug(&self, node: &str) -> Result<(), CommandError> {
        self.segment.ip(&format!("link set {node} master {SEGMENT} mtu {} up", self.mtu)).map(drop)
    }

    /// Cuts a node off the underlay, or joins it again.
    pub fn set_link(&self, node: usize, up: bool) -> Result<(), CommandError> {
        let state = if up { "up" } else { "down" };
        self.segment.ip(&format!("link set {} {state}", self.nodes[node].name())).map(drop)
    }
}
