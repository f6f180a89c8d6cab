//! Addresses as CNI writes them: an address with its prefix length, and a MAC.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// An address with the length of its prefix, `10.1.2.3/24`. The host part is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Cidr {
    /// The address, host part included.
    pub address: IpAddr,
    /// The length of the prefix, at most 32 or 128.
    pub prefix: u8,
}

/// A text that is no address with a prefix length.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no address with a prefix length, such as 10.1.2.3/24 or fd00::1/64")]
pub struct CidrError(String);

impl Cidr {
    /// One address: `/32` or `/128`.
    pub fn host(address: IpAddr) -> Self {
        Self { address, prefix: longest(address) }
    }

    /// Reads `10.1.2.3/24`, and also `10.1.2.3` as one address.
    pub fn parse_or_host(text: &str) -> Result<Self, CidrError> {
        text.parse().or_else(|e| text.parse().map(Self::host).map_err(|_| e))
    }
}

const fn longest(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

impl FromStr for Cidr {
    type Err = CidrError;

    fn from_str(text: &str) -> Result<Self, CidrError> {
        let parse = || {
            let (address, prefix) = text.split_once('/')?;
            let address = address.parse().ok()?;
            // `u8::from_str` would take a sign.
            let digits = prefix.bytes().all(|b| b.is_ascii_digit());
            let prefix = prefix.parse().ok().filter(|p| digits && *p <= longest(address))?;
            Some(Self { address, prefix })
        };
        parse().ok_or_else(|| CidrError(text.to_owned()))
    }
}

impl TryFrom<String> for Cidr {
    type Error = CidrError;

    fn try_from(text: String) -> Result<Self, CidrError> {
        text.parse()
    }
}

impl From<Cidr> for String {
    fn from(cidr: Cidr) -> Self {
        cidr.to_string()
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

/// An Ethernet address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac(pub [u8; 6]);

/// A text that is no unicast Ethernet address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no unicast Ethernet address, such as 02:00:0a:01:02:03")]
pub struct MacError(String);

impl FromStr for Mac {
    type Err = MacError;

    /// An interface can have unicast addresses only, and not the one of all zeros.
    fn from_str(text: &str) -> Result<Self, MacError> {
        let parse = || {
            let mut octets = [0; 6];
            let mut parts = text.split([':', '-']);
            for octet in &mut octets {
                let part = parts.next().filter(|p| p.len() == 2 && !p.starts_with('+'))?;
                *octet = u8::from_str_radix(part, 16).ok()?;
            }
            let usable = parts.next().is_none() && octets[0] & 1 == 0 && octets != [0; 6];
            usable.then_some(Self(octets))
        };
        parse().ok_or_else(|| MacError(text.to_owned()))
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, octet) in self.0.iter().enumerate() {
            let separator = if i == 0 { "" } else { ":" };
            write!(f, "{separator}{octet:02x}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cidrs_keep_their_host_part() {
        for text in ["10.1.2.3/24", "fd00::1/64", "0.0.0.0/0", "::/128", "10.0.0.1/32"] {
            assert_eq!(text.parse::<Cidr>().unwrap().to_string(), text);
        }
        for text in ["", "10.1.2.3", "10.1.2.3/33", "fd00::/129", "10.1.2/24", "10.1.2.3/+8", "/8"]
        {
            assert!(text.parse::<Cidr>().is_err(), "{text}");
        }
        assert_eq!(Cidr::parse_or_host("fd00::7").unwrap().to_string(), "fd00::7/128");
        assert_eq!(Cidr::parse_or_host("10.1.2.3/8").unwrap().prefix, 8);
    }

    #[test]
    fn macs_are_unicast() {
        assert_eq!("02:AB:0a:01:02:03".parse::<Mac>().unwrap().to_string(), "02:ab:0a:01:02:03");
        assert_eq!("02-00-0a-01-02-03".parse::<Mac>().unwrap().0[5], 3);
        let wrong = ["", "02:00:0a:01:02", "01:00:5e:00:00:01", "00:00:00:00:00:00", "2:0:a:1:2:3"];
        for text in wrong.into_iter().chain(["02:00:0a:01:02:03:04", "02:00:0a:01:02:+3"]) {
            assert!(text.parse::<Mac>().is_err(), "{text}");
        }
    }
}
