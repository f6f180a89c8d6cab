//! The result of an ADD: one value, read from and printed in every version's shape.

use super::{Cidr, Version};
use serde::{Deserialize, Deserializer, Serialize};
use std::net::IpAddr;
use std::str::FromStr;

/// What an ADD made. Newer members are left out where an older version is printed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddResult {
    /// The interfaces, on the host and in the container.
    pub interfaces: Vec<Interface>,
    /// The container's addresses.
    pub ips: Vec<Ip>,
    /// The container's routes.
    pub routes: Vec<Route>,
    /// Name resolution.
    pub dns: Dns,
}

/// An interface that was made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its hardware address. A text: those of others may be longer than Ethernet's.
    #[serde(default, deserialize_with = "filled", skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// From 1.1.0.
    #[serde(default, deserialize_with = "positive", skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// The path of the namespace that it is in; none on the host.
    #[serde(default, deserialize_with = "filled", skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    /// From 1.1.0: the socket of a virtual device.
    #[serde(default, deserialize_with = "filled", skip_serializing_if = "Option::is_none")]
    pub socket_path: Option<String>,
    /// From 1.1.0: the PCI address of a device.
    #[serde(
        default,
        rename = "pciID",
        deserialize_with = "filled",
        skip_serializing_if = "Option::is_none"
    )]
    pub pci_id: Option<String>,
}

/// An address of the container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ip {
    /// The address and its prefix.
    pub address: Cidr,
    /// The router, if there is one.
    pub gateway: Option<IpAddr>,
    /// The place in [`AddResult::interfaces`] of the interface that has it.
    pub interface: Option<usize>,
}

/// A route of the container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// Where to.
    pub dst: Cidr,
    /// By which router; without one, that of the address' family.
    #[serde(default, deserialize_with = "address", skip_serializing_if = "Option::is_none")]
    pub gw: Option<IpAddr>,
    /// From 1.1.0: the path's MTU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// From 1.1.0: the segment size that is advertised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advmss: Option<u32>,
    /// From 1.1.0: the metric; the lowest goes first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u32>,
    /// From 1.1.0: the routing table's number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<u32>,
    /// From 1.1.0: the scope's number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<u32>,
}

/// Name resolution.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dns {
    /// Servers, the preferred one first.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub nameservers: Vec<String>,
    /// The local domain.
    #[serde(default, deserialize_with = "filled", skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// Domains to search.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub search: Vec<String>,
    /// Options for the resolver.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
}

impl Dns {
    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Route {
    /// A route without attributes.
    pub fn new(dst: Cidr, gw: Option<IpAddr>) -> Self {
        Self { dst, gw, mtu: None, advmss: None, priority: None, table: None, scope: None }
    }
}

// === printing ===

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Printed {
    cni_version: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    interfaces: Vec<Interface>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ips: Vec<PrintedIp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ip4: Option<Ip02>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ip6: Option<Ip02>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    routes: Vec<Route>,
    #[serde(skip_serializing_if = "Dns::is_empty")]
    dns: Dns,
}

#[derive(Serialize)]
struct PrintedIp {
    /// Before 1.0.0.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'static str>,
    address: Cidr,
    #[serde(skip_serializing_if = "Option::is_none")]
    gateway: Option<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interface: Option<usize>,
}

/// One family's addressing before 0.3.0.
#[derive(Serialize, Deserialize)]
struct Ip02 {
    ip: Cidr,
    #[serde(default, deserialize_with = "address", skip_serializing_if = "Option::is_none")]
    gateway: Option<IpAddr>,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    routes: Vec<Route>,
}

impl AddResult {
    /// The result as the specification's JSON, in the shape of a version. What that version cannot
    /// say is left out: before 0.3.0 there is one address a family and no interface.
    pub fn render(&self, version: Version) -> String {
        let routes = self.routes_in(version);
        let dns = self.dns.clone();
        let mut printed = Printed { cni_version: version.as_str(), dns, ..Printed::default() };
        if version < Version::V0_3_0 {
            printed.ip4 = self.family(&routes, true);
            printed.ip6 = self.family(&routes, false);
        } else {
            printed.interfaces = self.interfaces_in(version);
            printed.ips = self.ips.iter().map(|ip| ip.in_version(version)).collect();
            printed.routes = routes;
        }
        serde_json::to_string(&printed).expect("strings and numbers are JSON")
    }

    fn interfaces_in(&self, version: Version) -> Vec<Interface> {
        let mut interfaces = self.interfaces.clone();
        if version < Version::V1_1_0 {
            for interface in &mut interfaces {
                (interface.mtu, interface.socket_path, interface.pci_id) = (None, None, None);
            }
        }
        interfaces
    }

    fn routes_in(&self, version: Version) -> Vec<Route> {
        let plain = |route: &Route| match version {
            Version::V1_1_0 => route.clone(),
            _ => Route::new(route.dst, route.gw),
        };
        self.routes.iter().map(plain).collect()
    }

    fn family(&self, routes: &[Route], v4: bool) -> Option<Ip02> {
        let ip = self.ips.iter().find(|ip| ip.address.address.is_ipv4() == v4)?;
        let routes = routes.iter().filter(|r| r.dst.address.is_ipv4() == v4).cloned().collect();
        Some(Ip02 { ip: ip.address, gateway: ip.gateway, routes })
    }
}

impl Ip {
    fn in_version(&self, version: Version) -> PrintedIp {
        let family = if self.address.address.is_ipv4() { "4" } else { "6" };
        PrintedIp {
            version: (version < Version::V1_0_0).then_some(family),
            address: self.address,
            gateway: self.gateway,
            interface: self.interface,
        }
    }
}

// === reading ===

/// The members of all versions at once: none of them means two things.
#[derive(Deserialize)]
struct Read {
    #[serde(default, deserialize_with = "or_default")]
    interfaces: Vec<Interface>,
    #[serde(default, deserialize_with = "or_default")]
    ips: Vec<ReadIp>,
    ip4: Option<Ip02>,
    ip6: Option<Ip02>,
    #[serde(default, deserialize_with = "or_default")]
    routes: Vec<Route>,
    #[serde(default, deserialize_with = "or_default")]
    dns: Dns,
}

#[derive(Deserialize)]
struct ReadIp {
    address: Cidr,
    #[serde(default, deserialize_with = "address")]
    gateway: Option<IpAddr>,
    /// Plugins of 0.3.x print -1 for none.
    interface: Option<i64>,
}

impl AddResult {
    /// Reads a result of any version.
    pub fn decode(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(bytes)
    }
}

impl<'de> Deserialize<'de> for AddResult {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let read = Read::deserialize(deserializer)?;
        let index = |i: Option<i64>| i.and_then(|i| usize::try_from(i).ok());
        let mut result = Self {
            interfaces: read.interfaces,
            ips: read
                .ips
                .into_iter()
                .map(|ip| Ip {
                    address: ip.address,
                    gateway: ip.gateway,
                    interface: index(ip.interface),
                })
                .collect(),
            routes: read.routes,
            dns: read.dns,
        };
        for family in [read.ip4, read.ip6].into_iter().flatten() {
            result.ips.push(Ip { address: family.ip, gateway: family.gateway, interface: None });
            result.routes.extend(family.routes);
        }
        Ok(result)
    }
}

/// `null` is what Go's encoder makes of an empty list.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    d: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(d)?.unwrap_or_default())
}

/// An empty text is none.
fn filled<'de, D: Deserializer<'de>>(d: D) -> Result<Option<String>, D::Error> {
    Ok(Option::<String>::deserialize(d)?.filter(|text| !text.is_empty()))
}

/// Zero is none.
fn positive<'de, D: Deserializer<'de>>(d: D) -> Result<Option<u32>, D::Error> {
    Ok(Option::<u32>::deserialize(d)?.filter(|n| *n > 0))
}

fn address<'de, D: Deserializer<'de>>(d: D) -> Result<Option<IpAddr>, D::Error> {
    let Some(text) = filled(d)? else { return Ok(None) };
    IpAddr::from_str(&text)
        .map(Some)
        .map_err(|_| serde::de::Error::custom(format_args!("{text:?} is no IP address")))
}

#[cfg(test)]
#[path = "result_tests.rs"]
mod tests;
