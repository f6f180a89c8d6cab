//! What a node knows of itself that no view says: the numbers of its switch's ports.

use crate::meters;
use ipnet::IpNet;
use osier_openflow::port_no::PortNo;

/// The fixed ports of this node's switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalPorts {
    /// The gateway: the machine's own interface on the switch.
    pub gateway: PortNo,
    /// The service gateway: where pods' packets to Services go into the machine's stack, and come back
    /// from it; if there is one.
    pub service_gateway: Option<PortNo>,
    /// The tunnel.
    pub tunnel: PortNo,
    /// The largest packet that fits the tunnel, without its Ethernet header, if that is known.
    pub tunnel_mtu: Option<u16>,
    /// How many tracked connections a port may begin in a second, if that is bounded.
    pub connection_rate: Option<u32>,
}

/// Where a local port is attached to the switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Attachment {
    /// Its number at the switch.
    pub ofport: PortNo,
    /// Its tag in the pipeline: unlike the number never used twice in the life of an agent.
    pub tag: u32,
    /// The largest packet that may come from it. If that fits the tunnel, nobody measures.
    pub mtu: Option<u16>,
}

// === impl LocalPorts ===

impl LocalPorts {
    /// Whether the machine is at the bridge's own port: on switches without an agent. It then reaches
    /// the ports of this node in all routers, as their addresses are each there once.
    pub(crate) fn is_bare(self) -> bool {
        self.gateway == PortNo::LOCAL
    }
}

// === impl Attachment ===

impl Attachment {
    /// The largest tag: each has four meters.
    pub const MAX_TAG: u32 = meters::MAX_TAG;

    /// Whether its packets may be too large for the tunnel.
    pub(crate) fn exceeds_tunnel(&self, local: LocalPorts) -> bool {
        self.mtu.zip(local.tunnel_mtu).is_some_and(|(mtu, tunnel)| mtu > tunnel)
    }
}

/// A host's address as a prefix.
pub(crate) fn host(address: std::net::IpAddr) -> IpNet {
    IpNet::from(address)
}
