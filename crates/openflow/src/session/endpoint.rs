//! Where a peer is, in the words of `ovs-ofctl` and `ovs-vsctl set-controller`.

use std::fmt;
use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use thiserror::Error;

/// The port of OpenFlow at IANA.
pub const DEFAULT_PORT: u16 = 6653;

/// Where to connect to, or (`p…`) where to wait for peers.
///
/// ```
/// # use osier_openflow::session::Endpoint;
/// let switch: Endpoint = "tcp:[fd00::2]".parse().unwrap();
/// assert_eq!(switch.to_string(), "tcp:[fd00::2]:6653");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// `unix:PATH`
    Unix(PathBuf),
    /// `tcp:HOST[:PORT]`
    Tcp(Host),
    /// `ssl:HOST[:PORT]`
    Ssl(Host),
    /// `punix:PATH`
    PassiveUnix(PathBuf),
    /// `ptcp:[PORT][:HOST]`
    PassiveTcp(Host),
    /// `pssl:[PORT][:HOST]`
    PassiveSsl(Host),
}

/// A host and a port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Host {
    /// A name or an address, IPv6 without brackets.
    pub name: String,
    /// The port.
    pub port: u16,
}

/// Why a text is no endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{text}` is no OpenFlow endpoint: {problem}")]
pub struct EndpointError {
    /// The text.
    pub text: String,
    /// What is wrong with it.
    pub problem: EndpointProblem,
}

/// What is wrong with an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EndpointProblem {
    /// Starts with nothing that we know.
    #[error("it must start with unix:, tcp:, ssl:, punix:, ptcp: or pssl:")]
    Kind,
    /// A socket without a path.
    #[error("the path is missing")]
    NoPath,
    /// Nowhere to connect to.
    #[error("the host is missing")]
    NoHost,
    /// A `[` without its `]`, or something behind it that is no port.
    #[error("brackets must enclose an IPv6 address, and only :PORT may follow")]
    Brackets,
    /// What is in brackets is no IPv6 address.
    #[error("`{0}` is no IPv6 address")]
    NoIpv6(String),
    /// Colons outside of brackets.
    #[error("an IPv6 address must be in brackets")]
    BareIpv6,
    /// No port.
    #[error("`{0}` is no port")]
    Port(String),
}

// === impl Endpoint ===

impl Endpoint {
    /// Whether it waits for peers.
    pub fn is_passive(&self) -> bool {
        matches!(self, Self::PassiveUnix(_) | Self::PassiveTcp(_) | Self::PassiveSsl(_))
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let parsed = match text.split_once(':') {
            Some(("unix", path)) => socket_path(path).map(Self::Unix),
            Some(("tcp", host)) => Host::active(host).map(Self::Tcp),
            Some(("ssl", host)) => Host::active(host).map(Self::Ssl),
            Some(("punix", path)) => socket_path(path).map(Self::PassiveUnix),
            Some(("ptcp", host)) => Host::passive(host).map(Self::PassiveTcp),
            Some(("pssl", host)) => Host::passive(host).map(Self::PassiveSsl),
            _ => Err(EndpointProblem::Kind),
        };
        parsed.map_err(|problem| EndpointError { text: text.to_owned(), problem })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(host) => write!(f, "tcp:{host}"),
            Self::Ssl(host) => write!(f, "ssl:{host}"),
            Self::PassiveUnix(path) => write!(f, "punix:{}", path.display()),
            Self::PassiveTcp(host) => write!(f, "ptcp:{}:{}", host.port, Bracketed(&host.name)),
            Self::PassiveSsl(host) => write!(f, "pssl:{}:{}", host.port, Bracketed(&host.name)),
        }
    }
}

fn socket_path(path: &str) -> Result<PathBuf, EndpointProblem> {
    if path.is_empty() { Err(EndpointProblem::NoPath) } else { Ok(PathBuf::from(path)) }
}

// === impl Host ===

impl Host {
    /// `HOST[:PORT]`
    fn active(text: &str) -> Result<Self, EndpointProblem> {
        let (name, rest) = split_name(text)?;
        if name.is_empty() {
            return Err(EndpointProblem::NoHost);
        }
        let port = match rest {
            Some(port) => port.parse().ok().filter(|port| *port != 0),
            None => Some(DEFAULT_PORT),
        };
        let port = port.ok_or_else(|| EndpointProblem::Port(rest.unwrap_or("").to_owned()))?;
        Ok(Self { name: name.to_owned(), port })
    }

    /// `[PORT][:HOST]`; port 0 lets the kernel choose, no host means any IPv4 address.
    fn passive(text: &str) -> Result<Self, EndpointProblem> {
        let (port, name) = match text.split_once(':') {
            Some((port, host)) => match split_name(host)? {
                (name, None) => (port, name),
                (_, Some(_)) => return Err(EndpointProblem::BareIpv6),
            },
            None => (text, ""),
        };
        let number = if port.is_empty() { Ok(DEFAULT_PORT) } else { port.parse() };
        let port = number.map_err(|_| EndpointProblem::Port(port.to_owned()))?;
        let name = if name.is_empty() { "0.0.0.0" } else { name };
        Ok(Self { name: name.to_owned(), port })
    }
}

impl From<SocketAddr> for Host {
    fn from(address: SocketAddr) -> Self {
        Self { name: address.ip().to_string(), port: address.port() }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", Bracketed(&self.name), self.port)
    }
}

/// A name, in brackets if it holds colons.
struct Bracketed<'a>(&'a str);

impl fmt::Display for Bracketed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.contains(':') { write!(f, "[{}]", self.0) } else { f.write_str(self.0) }
    }
}

/// Splits `NAME`, `NAME:REST`, `[IPV6]` or `[IPV6]:REST`.
fn split_name(text: &str) -> Result<(&str, Option<&str>), EndpointProblem> {
    if let Some(inside) = text.strip_prefix('[') {
        let (name, behind) = inside.split_once(']').ok_or(EndpointProblem::Brackets)?;
        // A link-local address may name its interface behind a percent sign.
        let address = name.split_once('%').map_or(name, |(address, _)| address);
        if address.parse::<Ipv6Addr>().is_err() {
            return Err(EndpointProblem::NoIpv6(name.to_owned()));
        }
        return match behind.strip_prefix(':') {
            Some(rest) => Ok((name, Some(rest))),
            None if behind.is_empty() => Ok((name, None)),
            None => Err(EndpointProblem::Brackets),
        };
    }
    match text.split_once(':') {
        Some((_, rest)) if rest.contains(':') => Err(EndpointProblem::BareIpv6),
        Some((name, rest)) => Ok((name, Some(rest))),
        None => Ok((text, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_ovs_ofctl_reads_and_prints_it_in_full() {
        for (text, full) in [
            ("unix:/run/br0.mgmt", "unix:/run/br0.mgmt"),
            ("unix:br:0", "unix:br:0"),
            ("tcp:10.0.0.1", "tcp:10.0.0.1:6653"),
            ("tcp:10.0.0.1:99", "tcp:10.0.0.1:99"),
            ("tcp:[fe80::1%eth0]:99", "tcp:[fe80::1%eth0]:99"),
            ("ssl:[::1]", "ssl:[::1]:6653"),
            ("ssl:switch.example", "ssl:switch.example:6653"),
            ("punix:/x", "punix:/x"),
            ("ptcp:", "ptcp:6653:0.0.0.0"),
            ("ptcp:0", "ptcp:0:0.0.0.0"),
            ("ptcp::127.0.0.1", "ptcp:6653:127.0.0.1"),
            ("pssl:99:[::]", "pssl:99:[::]"),
        ] {
            let endpoint: Endpoint = text.parse().unwrap();
            assert_eq!(endpoint.to_string(), full);
            assert_eq!(full.parse(), Ok(endpoint));
        }
    }

    #[test]
    fn says_what_is_wrong() {
        for (text, said) in [
            ("br0", "it must start with unix:, tcp:, ssl:, punix:, ptcp: or pssl:"),
            ("udp:1.2.3.4", "it must start with unix:, tcp:, ssl:, punix:, ptcp: or pssl:"),
            ("unix:", "the path is missing"),
            ("tcp:", "the host is missing"),
            ("tcp::99", "the host is missing"),
            ("tcp:h:", "`` is no port"),
            ("tcp:h:0", "`0` is no port"),
            ("tcp:h:65536", "`65536` is no port"),
            ("tcp:::1", "an IPv6 address must be in brackets"),
            ("tcp:[::1", "brackets must enclose an IPv6 address, and only :PORT may follow"),
            ("tcp:[::1]x", "brackets must enclose an IPv6 address, and only :PORT may follow"),
            ("tcp:[1.2.3.4]", "`1.2.3.4` is no IPv6 address"),
            ("ptcp:x", "`x` is no port"),
            ("ptcp:1:::1", "an IPv6 address must be in brackets"),
        ] {
            let e = text.parse::<Endpoint>().unwrap_err();
            assert_eq!(e.to_string(), format!("`{text}` is no OpenFlow endpoint: {said}"));
        }
    }
}
