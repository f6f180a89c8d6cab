//! Packets that are traced.

use osier_model::Mac;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// A packet, as far as switches look at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packet {
    /// Its sender's Ethernet address; unsaid, that of the port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac_source: Option<Mac>,
    /// Whom it goes to on the link; unsaid, whom the port's own stack would send it to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac_target: Option<Mac>,
    /// From which address.
    pub source: IpAddr,
    /// To which; of the same family.
    pub target: IpAddr,
    /// What it carries.
    pub protocol: Protocol,
    /// From which port; for ICMP the type of message, an echo request if unsaid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_port: Option<u16>,
    /// To which port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_port: Option<u16>,
    /// Hops that it has left.
    #[serde(default = "ttl")]
    pub ttl: u8,
}

/// What a packet carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// Echo requests, of ICMP or ICMPv6.
    Icmp,
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

fn ttl() -> u8 {
    64
}
