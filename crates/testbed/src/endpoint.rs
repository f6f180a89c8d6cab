//! What a pod is to a switch: a namespace at the other end of a veth.

use std::fmt;
use std::net::IpAddr;

use crate::command::CommandError;
use crate::netns::Netns;
use crate::node::silence;
use crate::ovs::Ovs;

/// An endpoint could not be attached.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// A foreign command failed.
    #[error("cannot make the endpoint")]
    Command(#[from] CommandError),
    /// The switch gave it another port number, or none.
    #[error("asked for OpenFlow port {wanted} of {interface}, got {found}")]
    Ofport {
        /// The switch's end.
        interface: String,
        /// The number asked for.
        wanted: u16,
        /// What the database says.
        found: String,
    },
}

/// An Ethernet address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MacAddr(pub [u8; 6]);

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, rest @ ..] = self.0;
        write!(f, "{first:02x}")?;
        rest.iter().try_for_each(|byte| write!(f, ":{byte:02x}"))
    }
}

/// What an endpoint shall be.
#[derive(Debug, Clone)]
pub struct EndpointConfig {
    /// Its name, unique in the lab and at most 12 letters: `veth` names come from it.
    pub name: String,
    /// Its OpenFlow port number.
    pub ofport: u16,
    /// Its address on Ethernet.
    pub mac: MacAddr,
    /// Its IP addresses, with the lengths of their prefixes.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Its MTU; if `None`, what its node allows, or 1500.
    pub mtu: Option<u16>,
}

impl EndpointConfig {
    /// An endpoint whose MAC, `10.77.0.0/16` and `fd77::/64` addresses end in its port number.
    pub fn numbered(name: &str, ofport: u16) -> Self {
        let [high, low] = ofport.to_be_bytes();
        Self {
            name: name.to_owned(),
            ofport,
            mac: MacAddr([0x0a, 0x77, 0, 0, high, low]),
            addresses: vec![
                (IpAddr::from([10, 77, high, low]), 16),
                (IpAddr::from([0xfd77, 0, 0, 0, 0, 0, 0, ofport]), 64),
            ],
            mtu: None,
        }
    }
}

/// An endpoint, attached. Dropping it takes its namespace and both ends of its veth away, and leaves
/// the port in the switch's database, as a pod does that died unseen; see [`Endpoint::detach`].
#[derive(Debug)]
pub struct Endpoint {
    netns: Netns,
    host_interface: String,
    config: EndpointConfig,
}

impl Endpoint {
    /// The name of the interface inside.
    pub const INTERFACE: &'static str = "eth0";

    /// Attaches a new endpoint to a bridge.
    pub fn attach(ovs: &Ovs, bridge: &str, config: &EndpointConfig) -> Result<Self, AttachError> {
        let host_interface = format!("ve-{}", config.name);
        let netns = ovs.netns().lab().netns(&config.name)?;
        let endpoint = Self { netns, host_interface, config: config.clone() };
        endpoint.make_veth(ovs.netns())?;
        endpoint.configure()?;
        let host = &endpoint.host_interface;
        let request = format!("ofport_request={}", config.ofport);
        ovs.vsctl(&["add-port", bridge, host, "--", "set", "interface", host, &request])?;
        let found = ovs.vsctl(&["get", "interface", host, "ofport"])?.trim().to_owned();
        if found == config.ofport.to_string() {
            Ok(endpoint)
        } else {
            let interface = host.clone();
            Err(AttachError::Ofport { interface, wanted: config.ofport, found })
        }
    }

    /// Removes the endpoint and its port.
    pub fn detach(self, ovs: &Ovs) -> Result<(), CommandError> {
        ovs.vsctl(&["del-port", &self.host_interface]).map(drop)
    }

    /// Its namespace.
    pub fn netns(&self) -> &Netns {
        &self.netns
    }

    /// The interface at the switch's end.
    pub fn host_interface(&self) -> &str {
        &self.host_interface
    }

    /// Its OpenFlow port number.
    pub fn ofport(&self) -> u16 {
        self.config.ofport
    }

    /// Its address on Ethernet.
    pub fn mac(&self) -> MacAddr {
        self.config.mac
    }

    /// Its IP addresses.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.config.addresses.iter().map(|(address, _)| *address)
    }

    /// The veth is made in place, its peer already in the endpoint's namespace: moving an interface
    /// costs ten times as much.
    fn make_veth(&self, host: &Netns) -> Result<(), CommandError> {
        let mtu = self.config.mtu.unwrap_or(1500);
        host.ip(&format!(
            "link add {} mtu {mtu} type veth peer name {} mtu {mtu} address {} netns {}",
            self.host_interface,
            Self::INTERFACE,
            self.config.mac,
            self.netns.name()
        ))?;
        silence(host, &self.host_interface)?;
        host.ip(&format!("link set {} up", self.host_interface)).map(drop)
    }

    fn configure(&self) -> Result<(), CommandError> {
        let interface = Self::INTERFACE;
        // The userspace datapath takes packets as they are: checksums must be there.
        self.netns.run(&["ethtool", "-K", interface, "tx", "off"])?;
        for (address, length) in &self.config.addresses {
            let nodad = if address.is_ipv6() { "nodad" } else { "" };
            self.netns.ip(&format!("address add {address}/{length} dev {interface} {nodad}"))?;
        }
        self.netns.ip(&format!("link set {interface} up")).map(drop)
    }
}
