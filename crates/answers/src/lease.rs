//! What one client is told: its port's addresses, and what its network says to all.

use osier_compiler::{Attachment, Compiler, Link};
use osier_model::{Dhcp, Mac, Network, Port};

/// What becomes of leases, to be counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LeaseEvent {
    /// An address was offered.
    Offered,
    /// An address was given.
    Given,
    /// A client keeps its address.
    Renewed,
    /// A client wanted what is not its own.
    Refused,
    /// A client needs its address no more.
    Released,
    /// A client says that somebody else has its address.
    Declined,
    /// A client that has an address was told the rest.
    Informed,
    /// A client was told of its router.
    Advertised,
}

/// Which protocol it was about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// DHCP.
    V4,
    /// DHCPv6 and router discovery.
    V6,
}

/// What one client is told.
#[derive(Debug, Clone)]
pub(crate) struct Terms<'a> {
    pub(crate) mac: Mac,
    pub(crate) v4: Option<Link>,
    pub(crate) v6: Option<Link>,
    pub(crate) dhcp: &'a Dhcp,
    pub(crate) mtu: Option<u16>,
}

// === impl LeaseEvent ===

impl LeaseEvent {
    /// In one word, for who counts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Offered => "offered",
            Self::Given => "given",
            Self::Renewed => "renewed",
            Self::Refused => "refused",
            Self::Released => "released",
            Self::Declined => "declined",
            Self::Informed => "informed",
            Self::Advertised => "advertised",
        }
    }
}

// === impl Family ===

impl Family {
    /// Its number.
    pub fn name(self) -> &'static str {
        match self {
            Self::V4 => "4",
            Self::V6 => "6",
        }
    }
}

// === impl Terms ===

impl<'a> Terms<'a> {
    /// Nothing if the network's clients are not answered.
    pub(crate) fn of(
        compiler: &Compiler,
        port: &Port,
        network: &'a Network,
        at: Attachment,
    ) -> Option<Self> {
        let dhcp = network.dhcp.as_ref()?;
        let links = compiler.links(port, network);
        let first = |is_v4| links.iter().find(|link| link.address.is_ipv4() == is_v4).copied();
        let mtu = dhcp.mtu.or(at.mtu).or(compiler.local().tunnel_mtu);
        Some(Self { mac: port.mac, v4: first(true), v6: first(false), dhcp, mtu })
    }
}
