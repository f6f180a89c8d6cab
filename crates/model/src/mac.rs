//! Ethernet addresses.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use thiserror::Error;

/// An Ethernet address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Mac(pub [u8; 6]);

/// Text that is not an Ethernet address.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0:?} is not an Ethernet address (six hexadecimal bytes with colons)")]
pub struct ParseMacError(String);

// === impl Mac ===

impl Mac {
    /// The gateway's, the same on every node: a packet that goes there is to be routed.
    /// Locally administered; its last five bytes spell "osier".
    pub const GATEWAY: Self = Self([0x0e, b'o', b's', b'i', b'e', b'r']);

    /// The fabric's, as the machine sees it: its next hop to every pod.
    pub const FABRIC: Self = Self([0x0e, b'o', b's', b'i', b'e', b'r' + 1]);

    /// The service gateway's, where the machine takes in what pods send to Services.
    pub const SERVICES: Self = Self([0x0e, b'o', b's', b'i', b'e', b'r' + 2]);

    /// An address that follows from an IP address, so that it is the same after a restart and
    /// differs where IP addresses do: `0a:58` and an IPv4 address, `0a:59` and the low end of an
    /// IPv6 address.
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(v4) => {
                let [a, b, c, d] = v4.octets();
                Self([0x0a, 0x58, a, b, c, d])
            }
            IpAddr::V6(v6) => {
                let [.., a, b, c, d] = v6.octets();
                Self([0x0a, 0x59, a, b, c, d])
            }
        }
    }

    /// The address that IPv6 gives to its device for the link alone (RFC 4291, appendix A).
    pub fn link_local(self) -> Ipv6Addr {
        let mut address = [0; 16];
        address[..2].copy_from_slice(&[0xfe, 0x80]);
        address[8..11].copy_from_slice(&self.0[..3]);
        address[11..13].copy_from_slice(&[0xff, 0xfe]);
        address[13..].copy_from_slice(&self.0[3..]);
        // The bit that says "universal" is inverted.
        address[8] ^= 2;
        address.into()
    }

    /// Whether one device can have it: neither a group's address nor all zeros.
    pub fn is_unicast(self) -> bool {
        self.0[0] & 1 == 0 && self.0 != [0; 6]
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, byte) in self.0.iter().enumerate() {
            write!(f, "{}{byte:02x}", if i == 0 { "" } else { ":" })?;
        }
        Ok(())
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::str::FromStr for Mac {
    type Err = ParseMacError;

    fn from_str(text: &str) -> Result<Self, ParseMacError> {
        let bad = || ParseMacError(text.to_owned());
        let mut mac = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut mac {
            let digits = parts.next().filter(|p| matches!(p.len(), 1 | 2)).ok_or_else(bad)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| bad())?;
        }
        if parts.next().is_some() { Err(bad()) } else { Ok(Self(mac)) }
    }
}

impl TryFrom<String> for Mac {
    type Error = ParseMacError;
    fn try_from(text: String) -> Result<Self, ParseMacError> {
        text.parse()
    }
}

impl From<Mac> for String {
    fn from(mac: Mac) -> Self {
        mac.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_local_addresses_are_those_of_the_kernel() {
        let mac: Mac = "0a:58:0a:01:01:05".parse().unwrap();
        assert_eq!(mac.link_local().to_string(), "fe80::858:aff:fe01:105");
    }
}
