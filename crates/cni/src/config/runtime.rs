//! What the runtime asks for one container: `runtimeConfig`, and `args.cni` before that existed.
//!
//! A runtime fills in only what the plugin's `capabilities` announce, so that is not looked at here.

use crate::fields::Fields;
use crate::spec::{Cidr, Error, Mac};
use serde_json::Value;
use std::net::IpAddr;

/// The wishes for one container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuntimeConfig {
    /// `ips`: addresses that it shall have. Without a prefix length: one address.
    pub ips: Vec<Cidr>,
    /// `mac`: its hardware address.
    pub mac: Option<Mac>,
    /// `bandwidth`: limits.
    pub bandwidth: Bandwidth,
    /// `portMappings`: ports of the node that lead to it.
    pub port_mappings: Vec<PortMapping>,
}

/// Limits of a container's traffic, seen from the container.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bandwidth {
    /// Towards the container.
    pub ingress: Option<Rate>,
    /// From the container.
    pub egress: Option<Rate>,
}

/// A limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Bits a second.
    pub rate: u64,
    /// Bits at once; unsaid, the agent chooses.
    pub burst: Option<u64>,
}

/// A port of the node that leads to the container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortMapping {
    /// The node's port.
    pub host_port: u16,
    /// The container's.
    pub container_port: u16,
    /// Which protocol.
    pub protocol: Protocol,
    /// On one of the node's addresses only.
    pub host_ip: Option<IpAddr>,
}

/// A protocol with ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// TCP, also if nothing is said.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

impl RuntimeConfig {
    pub(super) fn read(config: &Fields<'_>) -> Result<Self, Error> {
        let mut wishes = Self::default();
        if let Some(args) = config.object("args")?
            && let Some(cni) = args.object("cni")?
        {
            wishes.ips = ips(&cni)?;
            wishes.mac = cni.parsed("mac", str::parse)?;
        }
        let Some(runtime) = config.object("runtimeConfig")? else { return Ok(wishes) };
        let ips = ips(&runtime)?;
        if !ips.is_empty() {
            wishes.ips = ips;
        }
        wishes.mac = runtime.parsed("mac", str::parse)?.or(wishes.mac);
        if let Some(bandwidth) = runtime.object("bandwidth")? {
            wishes.bandwidth = Bandwidth {
                ingress: rate(&bandwidth, "ingressRate", "ingressBurst")?,
                egress: rate(&bandwidth, "egressRate", "egressBurst")?,
            };
        }
        wishes.port_mappings = runtime
            .objects("portMappings")?
            .iter()
            .filter_map(|m| port_mapping(m).transpose())
            .collect::<Result<_, _>>()?;
        Ok(wishes)
    }
}

fn ips(config: &Fields<'_>) -> Result<Vec<Cidr>, Error> {
    let parse = |text| {
        Cidr::parse_or_host(text).map_err(|e| config.wrong("ips", format_args!("is wrong: {e}")))
    };
    config.texts("ips")?.into_iter().filter(|text| !text.is_empty()).map(parse).collect()
}

/// Zero is no limit, as in the `bandwidth` plugin.
fn rate(config: &Fields<'_>, rate: &str, burst: &str) -> Result<Option<Rate>, Error> {
    let limit = config.number(rate, 0..=u64::MAX)?.filter(|n| *n > 0);
    let at_once = config.number(burst, 0..=u64::MAX)?.filter(|n| *n > 0);
    match (limit, at_once) {
        (Some(rate), burst) => Ok(Some(Rate { rate, burst })),
        (None, None) => Ok(None),
        (None, Some(_)) => {
            Err(config.wrong(burst, format_args!("needs {} beside it", config.name(rate))))
        }
    }
}

/// A mapping of the host's port 0 is none: Kubernetes sends them for ports that it does not map.
fn port_mapping(config: &Fields<'_>) -> Result<Option<PortMapping>, Error> {
    let port = |member, low| -> Result<u16, Error> {
        let number = config.number(member, low..=65535)?.unwrap_or_default();
        u16::try_from(number).map_err(|e| config.wrong(member, e))
    };
    let host_port = port("hostPort", 0)?;
    if host_port == 0 {
        return Ok(None);
    }
    let container_port = port("containerPort", 1)?;
    if container_port == 0 {
        return Err(config.wrong("containerPort", "is missing"));
    }
    let protocol = config.parsed("protocol", |text| match text.to_ascii_lowercase().as_str() {
        "tcp" => Ok(Protocol::Tcp),
        "udp" => Ok(Protocol::Udp),
        "sctp" => Ok(Protocol::Sctp),
        _ => Err(format!("{text:?} is none of tcp, udp, sctp")),
    })?;
    let host_ip = config.parsed("hostIP", str::parse::<IpAddr>)?;
    Ok(Some(PortMapping {
        host_port,
        container_port,
        protocol: protocol.unwrap_or(Protocol::Tcp),
        host_ip,
    }))
}

/// The configuration's list of attachments that are valid, for GC.
pub(super) fn valid_attachments<'a>(config: &Fields<'a>) -> Result<Vec<Fields<'a>>, Error> {
    // The specification first printed the second name, and libcni sends both. Absent means that
    // none is valid: that is how `cnitool gc` asks for all to be removed.
    const NAMES: [&str; 2] = ["cni.dev/valid-attachments", "cni.dev/attachments"];
    let given: Option<(&str, &Value)> = NAMES.iter().find_map(|n| config.get(n).map(|v| (*n, v)));
    given.map_or_else(|| Ok(Vec::new()), |(name, _)| config.objects(name))
}
