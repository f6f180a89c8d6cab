//! What clients of a network are told that ask for their configuration: by DHCP (RFC 2131), DHCPv6
//! (RFC 8415) and router discovery (RFC 4861). Which address a client gets is none of it: that is its
//! port's.

use crate::error::{Invalid, Problem};
use crate::network::{Subnet, check_prefix, is_usable};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::ops::RangeInclusive;

/// Answers to clients of a network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Dhcp {
    /// Seconds that a lease lasts; it is renewed after the half of them.
    pub lease: u32,
    /// Name servers, of either family.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dns: Vec<IpAddr>,
    /// The domain that names are looked up in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// The MTU to say; that of the port if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u16>,
    /// Routes beside the default one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<StaticRoute>,
    /// Subnets and gateways to say, of a network that has none itself: one whose addresses come
    /// from pools.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub subnets: Vec<Subnet>,
}

/// A route that clients are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StaticRoute {
    /// Where to.
    pub to: IpNet,
    /// By whom, of the same family.
    pub via: IpAddr,
}

impl Default for Dhcp {
    fn default() -> Self {
        Self {
            lease: 3600,
            dns: Vec::new(),
            domain: None,
            mtu: None,
            routes: Vec::new(),
            subnets: Vec::new(),
        }
    }
}

// === impl Dhcp ===

impl Dhcp {
    /// Seconds that a lease may last: long enough to be renewed, short enough to count.
    pub const LEASE: RangeInclusive<u32> = 20..=31_536_000;
    /// What an interface of IPv4 must take, to what Ethernet has at most (RFC 791).
    pub const MTU: RangeInclusive<u16> = 68..=9216;
    /// The least of an interface with IPv6 (RFC 8200, 5): less is not said there.
    pub const LEAST_MTU_V6: u16 = 1280;
    /// Name servers that are told.
    pub const MOST_DNS: usize = 8;
    /// Routes that are told: an answer is one packet.
    pub const MOST_ROUTES: usize = 16;

    /// Checks it as a part of `object`.
    pub(crate) fn validate(&self, object: &str) -> Result<(), Invalid> {
        let fail =
            |field: &str, problem| Err(Invalid::new(object, format!("dhcp.{field}"), problem));
        let range = |found: u64, min: u64, max: u64| Problem::Range { found, min, max };
        if !Self::LEASE.contains(&self.lease) {
            let (min, max) = (*Self::LEASE.start(), *Self::LEASE.end());
            return fail("lease", range(self.lease.into(), min.into(), max.into()));
        }
        if let Some(mtu) = self.mtu.filter(|mtu| !Self::MTU.contains(mtu)) {
            let (min, max) = (*Self::MTU.start(), *Self::MTU.end());
            return fail("mtu", range(mtu.into(), min.into(), max.into()));
        }
        for (field, found, most) in [
            ("dns", self.dns.len(), Self::MOST_DNS),
            ("routes", self.routes.len(), Self::MOST_ROUTES),
        ] {
            if found > most {
                return fail(field, range(found as u64, 0, most as u64));
            }
        }
        for (i, server) in self.dns.iter().enumerate() {
            if server.is_unspecified() || server.is_multicast() {
                return fail(&format!("dns[{i}]"), Problem::NotUnicast(server.to_string()));
            }
        }
        if let Some(domain) = self.domain.as_deref().filter(|domain| !is_domain(domain)) {
            return fail("domain", Problem::NotDomain(domain.to_owned()));
        }
        for (i, route) in self.routes.iter().enumerate() {
            if let Err(problem) = check_prefix(route.to) {
                return fail(&format!("routes[{i}].to"), problem);
            }
            if route.to.addr().is_ipv4() != route.via.is_ipv4() {
                let (address, prefix) = (route.via, route.to.to_string());
                return fail(&format!("routes[{i}].via"), Problem::OtherFamily { address, prefix });
            }
        }
        for (i, subnet) in self.subnets.iter().enumerate() {
            if let Err(problem) = check_prefix(subnet.cidr) {
                return fail(&format!("subnets[{i}].cidr"), problem);
            }
            if let Some(address) = subnet.gateway.filter(|a| !is_usable(subnet.cidr, *a)) {
                let prefix = subnet.cidr.to_string();
                return fail(
                    &format!("subnets[{i}].gateway"),
                    Problem::NotInside { address, prefix },
                );
            }
        }
        Ok(())
    }
}

/// Labels of letters, digits and hyphens (RFC 1123, 2.1), 253 bytes at most.
fn is_domain(text: &str) -> bool {
    let is_label = |label: &str| {
        let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        (1..=63).contains(&label.len())
            && label.bytes().all(is_inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clients_cannot_be_told_is_refused() {
        let dhcp = |text: &str| serde_json::from_str::<Dhcp>(text).unwrap().validate("network red");
        dhcp(
            r#"{"dns":["10.5.0.2","fd05::2"],"domain":"red.example","mtu":1400,
                 "routes":[{"to":"10.9.0.0/16","via":"10.5.0.9"}],
                 "subnets":[{"cidr":"10.5.0.0/24","gateway":"10.5.0.1"}]}"#,
        )
        .unwrap();
        for (text, said) in [
            (r#"{"lease":5}"#, "dhcp.lease: 5 is not in 20 to 31536000"),
            (r#"{"mtu":40}"#, "dhcp.mtu: 40 is not in 68 to 9216"),
            (
                r#"{"dns":["ff02::1"]}"#,
                "dhcp.dns[0]: ff02::1 is not an address that a port can have",
            ),
            (r#"{"domain":"a b"}"#, "dhcp.domain: \"a b\" is no domain"),
            (r#"{"domain":"a..b"}"#, "dhcp.domain: \"a..b\" is no domain"),
            (
                r#"{"routes":[{"to":"10.9.0.1/16","via":"10.5.0.9"}]}"#,
                "dhcp.routes[0].to: 10.9.0.1/16 has bits behind its length: did you mean 10.9.0.0/16?",
            ),
            (
                r#"{"routes":[{"to":"10.9.0.0/16","via":"fd05::9"}]}"#,
                "dhcp.routes[0].via: fd05::9 is not of the family of 10.9.0.0/16",
            ),
            (
                r#"{"subnets":[{"cidr":"10.5.0.0/24","gateway":"10.6.0.1"}]}"#,
                "dhcp.subnets[0].gateway: 10.6.0.1 is not a usable address of 10.5.0.0/24",
            ),
        ] {
            assert_eq!(dhcp(text).unwrap_err().to_string(), format!("network red: {said}"));
        }
    }
}
