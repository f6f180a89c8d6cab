//! A node: a namespace with a switch whose uplink is in the underlay.
//!
//! The userspace datapath does its own routing of tunnel packets, and does it only over bridges of
//! its own. So the uplink is a port of a second bridge, `br-phy`, and that bridge's internal port
//! holds the node's address.

use std::io;
use std::net::IpAddr;

use crate::command::CommandError;
use crate::daemon::DaemonError;
use crate::endpoint::{AttachError, Endpoint, EndpointConfig};
use crate::fabric::{FabricError, Family};
use crate::netns::{Netns, NetnsError};
use crate::ovs::{FailMode, Ovs};

const UPLINK: &str = "uplink";

/// UDP, the Geneve or VXLAN header, and the inner Ethernet header.
const TUNNEL_HEADERS: u16 = 8 + 8 + 14;
/// Room that endpoints leave for Geneve options.
const GENEVE_OPTIONS: u16 = 16;

/// A kind of tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tunnel {
    /// RFC 8926.
    Geneve,
    /// RFC 7348.
    Vxlan,
}

impl Tunnel {
    /// Its name as an interface type in OVSDB.
    pub fn interface_type(self) -> &'static str {
        match self {
            Self::Geneve => "geneve",
            Self::Vxlan => "vxlan",
        }
    }
}

/// A node of a [`crate::Fabric`].
#[derive(Debug)]
pub struct Node {
    ovs: Ovs,
    name: String,
    family: Family,
    underlay: IpAddr,
    mtu: u16,
}

impl Node {
    /// The bridge that endpoints and tunnels join. It starts without a flow, and drops all.
    pub const INTEGRATION: &'static str = "br-int";
    /// The bridge that holds the uplink and the node's address; a learning switch.
    pub const PHYSICAL: &'static str = "br-phy";

    /// Makes the node; its cable hangs in `segment` as an interface called `name`.
    pub(crate) fn create(
        segment: &Netns,
        name: &str,
        family: Family,
        underlay: IpAddr,
        mtu: u16,
    ) -> Result<Self, FabricError> {
        let netns = machine(segment, name, name, mtu)?;
        let ovs = Ovs::start(&netns, name)?;
        ovs.add_bridge(Self::PHYSICAL, FailMode::Standalone)?;
        ovs.vsctl(&["add-port", Self::PHYSICAL, UPLINK])?;
        ovs.add_bridge(Self::INTEGRATION, FailMode::Secure)?;
        let node = Self { ovs, name: name.to_owned(), family, underlay, mtu };
        node.take_address()?;
        Ok(node)
    }

    /// Its name, `n1` and so on.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its switch.
    pub fn ovs(&self) -> &Ovs {
        &self.ovs
    }

    /// Its namespace.
    pub fn netns(&self) -> &Netns {
        self.ovs.netns()
    }

    /// Its address in the underlay.
    pub fn underlay(&self) -> IpAddr {
        self.underlay
    }

    /// The largest MTU that endpoints may have if their packets are to fit a tunnel, with 16 bytes
    /// of Geneve options.
    pub fn endpoint_mtu(&self) -> u16 {
        self.mtu - self.family.ip_header() - TUNNEL_HEADERS - GENEVE_OPTIONS
    }

    /// Adds a tunnel to everywhere: the flow chooses the remote node and the key.
    pub fn add_tunnel_port(
        &self,
        tunnel: Tunnel,
        name: &str,
        ofport: u16,
    ) -> Result<(), CommandError> {
        let local = format!("options:local_ip={}", self.underlay);
        let kind = format!("type={}", tunnel.interface_type());
        self.ovs
            .vsctl(&[
                "add-port",
                Self::INTEGRATION,
                name,
                "--",
                "set",
                "interface",
                name,
                &kind,
                "options:remote_ip=flow",
                "options:key=flow",
                &local,
                &format!("ofport_request={ofport}"),
            ])
            .map(drop)
    }

    /// Attaches an endpoint to the integration bridge.
    pub fn add_endpoint(&self, config: &EndpointConfig) -> Result<Endpoint, AttachError> {
        let mtu = config.mtu.unwrap_or_else(|| self.endpoint_mtu());
        let config = EndpointConfig { mtu: Some(mtu), ..config.clone() };
        Endpoint::attach(&self.ovs, Self::INTEGRATION, &config)
    }

    /// Kills `ovs-vswitchd` with SIGKILL.
    pub fn kill_vswitchd(&mut self) {
        self.ovs.kill_vswitchd();
    }

    /// Starts `ovs-vswitchd` again, and makes sure that `br-phy` still has the node's address.
    pub fn start_vswitchd(&mut self) -> Result<(), FabricError> {
        self.ovs.start_vswitchd()?;
        Ok(self.take_address()?)
    }

    /// Stops `ovs-vswitchd` without ending it.
    pub fn pause_vswitchd(&self) -> io::Result<()> {
        self.ovs.pause_vswitchd()
    }

    /// Lets `ovs-vswitchd` go on.
    pub fn resume_vswitchd(&self) -> io::Result<()> {
        self.ovs.resume_vswitchd()
    }

    /// Kills `ovsdb-server` with SIGKILL; see [`Ovs::kill_ovsdb`].
    pub fn kill_ovsdb(&mut self) {
        self.ovs.kill_ovsdb();
    }

    /// Starts `ovsdb-server` again.
    pub fn start_ovsdb(&mut self) -> Result<(), DaemonError> {
        self.ovs.start_ovsdb()
    }

    /// Loses power and boots: processes, the namespace and all interfaces are gone, and so is what a
    /// machine keeps in memory; the database's file stays. Agents and other processes must have
    /// ended, and what else holds the namespace, such as sockets, keeps the old one.
    pub(crate) fn reboot(&mut self, segment: &Netns) -> Result<(), FabricError> {
        self.ovs.kill_vswitchd();
        self.ovs.kill_ovsdb();
        segment.ip(&format!("link delete {}", self.name))?;
        let boot = format!("{}-{}", self.name, segment.lab().serial());
        let netns = machine(segment, &boot, &self.name, self.mtu)?;
        self.ovs.boot_in(&netns)?;
        Ok(self.take_address()?)
    }

    fn take_address(&self) -> Result<(), CommandError> {
        let (bridge, length) = (Self::PHYSICAL, self.family.prefix_length());
        let nodad = if self.underlay.is_ipv6() { "nodad" } else { "" };
        self.netns()
            .ip(&format!("address replace {}/{length} dev {bridge} {nodad}", self.underlay))?;
        self.netns().ip(&format!("link set {bridge} up")).map(drop)
    }
}

/// A namespace with an uplink, whose other end is in the segment and called as the node.
fn machine(segment: &Netns, netns: &str, node: &str, mtu: u16) -> Result<Netns, CommandError> {
    let netns = segment.lab().netns(netns)?;
    segment.ip(&format!(
        "link add {node} mtu {mtu} type veth peer name {UPLINK} mtu {mtu} netns {}",
        netns.name()
    ))?;
    silence(&netns, UPLINK)?;
    netns.ip(&format!("link set {UPLINK} up"))?;
    Ok(netns)
}

/// Keeps the kernel from speaking on an interface that belongs to the switch.
///
/// It would answer ARP for any address of the node, here with the wrong MAC, and packets would go
/// around the switch; it would also send IPv6 packets of its own.
pub(crate) fn silence(netns: &Netns, interface: &str) -> Result<(), NetnsError> {
    netns.sysctl(&format!("net/ipv4/conf/{interface}/arp_ignore"), "1")?;
    netns.sysctl(&format!("net/ipv6/conf/{interface}/disable_ipv6"), "1")
}
