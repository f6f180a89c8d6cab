//! Ports.

use crate::error::{Invalid, Problem};
use crate::id::Identity;
use crate::mac::Mac;
use crate::name::{NetworkName, NodeName, PortKey};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// An attachment of a device to a network. A pod may have several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    /// Which one.
    #[serde(flatten)]
    pub key: PortKey,
    /// Of which network.
    pub network: NetworkName,
    /// On which node.
    pub node: NodeName,
    /// Its Ethernet address.
    pub mac: Mac,
    /// Its addresses, of either family.
    pub addresses: Vec<IpAddr>,
    /// What it is to policies.
    #[serde(default)]
    pub identity: Identity,
    /// How fast it may send and receive.
    #[serde(default, skip_serializing_if = "Limits::is_none")]
    pub limits: Limits,
}

/// How fast a port may send and receive. Directions are the device's own, as in CNI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// What goes to the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ingress: Option<Limit>,
    /// What comes from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub egress: Option<Limit>,
}

/// A rate, and how much may come at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// Bits in a second.
    pub rate: u64,
    /// Bits at once; a tenth of a second's worth, and at least a few large packets, if it is not
    /// said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<u64>,
}

// === impl Port ===

impl Port {
    /// Checks what can be checked without other objects.
    pub fn validate(&self) -> Result<(), Invalid> {
        let object = format!("port {}", self.key);
        if !self.mac.is_unicast() || self.mac == Mac::GATEWAY {
            return Err(Invalid::new(object, "mac", Problem::NotUnicast(self.mac.to_string())));
        }
        for (i, address) in self.addresses.iter().enumerate() {
            let fail = |problem| Err(Invalid::new(&object, format!("addresses[{i}]"), problem));
            if address.is_unspecified() || address.is_multicast() || address.is_loopback() {
                return fail(Problem::NotUnicast(address.to_string()));
            }
            if self.addresses[..i].contains(address) {
                return fail(Problem::Twice(address.to_string()));
            }
        }
        let limits = [("ingress", self.limits.ingress), ("egress", self.limits.egress)];
        for (direction, limit) in limits {
            for (field, value) in limit.iter().flat_map(Limit::numbers) {
                if !(1..=Limit::MAX).contains(&value) {
                    let problem = Problem::Range { found: value, min: 1, max: Limit::MAX };
                    return Err(Invalid::new(
                        object,
                        format!("limits.{direction}.{field}"),
                        problem,
                    ));
                }
            }
        }
        Ok(())
    }
}

// === impl Limits ===

impl Limits {
    /// Whether there is none.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

// === impl Limit ===

impl Limit {
    /// The most that a meter can count: 32 bits of kbit/s.
    pub const MAX: u64 = u32::MAX as u64 * 1000;
    /// The least burst that is assumed: a segment of 64 KiB, which the kernel hands over whole.
    const LEAST_BURST: u64 = 2 * 65536 * 8;

    /// Bits at once.
    pub fn burst(&self) -> u64 {
        self.burst.unwrap_or((self.rate / 10).max(Self::LEAST_BURST))
    }

    fn numbers(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        [("rate", Some(self.rate)), ("burst", self.burst)]
            .into_iter()
            .filter_map(|(field, value)| Some((field, value?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_that_no_meter_can_hold_are_refused() {
        let port = |limits: &str| -> Port {
            serde_json::from_str(&format!(
                r#"{{"device":"a","interface":"eth0","network":"pods","node":"n1",
                    "mac":"0a:58:0a:00:00:05","addresses":[],"limits":{limits}}}"#
            ))
            .unwrap()
        };
        let good = port(r#"{"egress":{"rate":20000000}}"#);
        good.validate().unwrap();
        assert_eq!(good.limits.egress.unwrap().burst(), 2_000_000);
        for (limits, said) in [
            (
                r#"{"ingress":{"rate":0}}"#,
                "port a: limits.ingress.rate: 0 is not in 1 to 4294967295000",
            ),
            (
                r#"{"egress":{"rate":5,"burst":4294967296000}}"#,
                "port a: limits.egress.burst: 4294967296000 is not in 1 to 4294967295000",
            ),
        ] {
            assert_eq!(port(limits).validate().unwrap_err().to_string(), said);
        }
    }
}
