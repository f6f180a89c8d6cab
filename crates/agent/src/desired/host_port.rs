//! Ports of the node that lead to a pod.

use osier_cni::config::{PortMapping, Protocol};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A port of the node that leads to one of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostPort {
    /// Which protocol, as nftables calls it.
    pub protocol: &'static str,
    /// On one of the node's addresses only; all zeros: on all of that family.
    pub host: Option<IpAddr>,
    /// The node's port.
    pub port: u16,
    /// The pod's.
    pub to: u16,
}

const PROTOCOLS: [&str; 3] = ["tcp", "udp", "sctp"];

impl From<&PortMapping> for HostPort {
    fn from(wish: &PortMapping) -> Self {
        let [tcp, udp, sctp] = PROTOCOLS;
        let protocol = match wish.protocol {
            Protocol::Tcp => tcp,
            Protocol::Udp => udp,
            Protocol::Sctp => sctp,
        };
        Self { protocol, host: wish.host_ip, port: wish.host_port, to: wish.container_port }
    }
}

impl HostPort {
    /// The rule that leads there, if a pod has this address.
    pub fn rule(&self, pod: IpAddr) -> Option<String> {
        let Self { protocol, host, port, to } = self;
        let family = if pod.is_ipv4() { "ip" } else { "ip6" };
        let at = match host {
            Some(host) if host.is_ipv4() != pod.is_ipv4() => return None,
            Some(host) if !host.is_unspecified() => format!("{family} daddr {host}"),
            _ if pod.is_ipv4() => "meta nfproto ipv4".to_owned(),
            _ => "meta nfproto ipv6".to_owned(),
        };
        let pod = std::net::SocketAddr::new(pod, *to);
        Some(format!("{at} {protocol} dport {port} dnat {family} to {pod}"))
    }
}

/// As in a port's record: `tcp/8080>80`, `udp/192.0.2.1/53>5353`.
impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { protocol, host, port, to } = self;
        match host {
            Some(host) => write!(f, "{protocol}/{host}/{port}>{to}"),
            None => write!(f, "{protocol}/{port}>{to}"),
        }
    }
}

/// Text that names no port of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoHostPort;

impl FromStr for HostPort {
    type Err = NoHostPort;

    fn from_str(text: &str) -> Result<Self, NoHostPort> {
        let read = || {
            let (protocol, rest) = text.split_once('/')?;
            let (at, to) = rest.split_once('>')?;
            let (host, port) = match at.rsplit_once('/') {
                Some((host, port)) => (Some(host.parse().ok()?), port),
                None => (None, at),
            };
            let protocol = PROTOCOLS.into_iter().find(|known| *known == protocol)?;
            Some(Self { protocol, host, port: port.parse().ok()?, to: to.parse().ok()? })
        };
        read().ok_or(NoHostPort)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_leads_only_to_addresses_of_its_family() {
        let port: HostPort = "udp/fd00::1/53>5353".parse().unwrap();
        assert_eq!(port.to_string(), "udp/fd00::1/53>5353");
        assert_eq!(port.rule("10.1.1.2".parse().unwrap()), None);
        let rule = port.rule("fd01::2".parse().unwrap()).unwrap();
        assert_eq!(rule, "ip6 daddr fd00::1 udp dport 53 dnat ip6 to [fd01::2]:5353");
        let any: HostPort = "tcp/0.0.0.0/8080>80".parse().unwrap();
        let rule = any.rule("10.1.1.2".parse().unwrap()).unwrap();
        assert_eq!(rule, "meta nfproto ipv4 tcp dport 8080 dnat ip to 10.1.1.2:80");
        assert_eq!(any.rule("fd01::2".parse().unwrap()), None);
        for wrong in ["", "tcp", "icmp/1>2", "tcp/x/1>2", "tcp/1", "tcp/70000>1"] {
            assert_eq!(wrong.parse::<HostPort>(), Err(NoHostPort), "{wrong}");
        }
    }
}
