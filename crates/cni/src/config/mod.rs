//! Network configurations: our plugin's, and those of the systems before it, made one.
//!
//! Every member means the same under every `type`, so there is one reader and no table of dialects;
//! `docs/cni.md` says what each means here. Members of the wrong type are code 6, wrong values
//! code 7, unknown members are ignored. What the agent does about a member is not decided here.

mod request;
mod runtime;
mod switch;

pub use request::{AttachRequest, Attachment, DetachRequest, GcRequest};
pub use runtime::{Bandwidth, PortMapping, Protocol, Rate, RuntimeConfig};
pub use switch::SwitchSettings;

use crate::fields::{self, Fields};
use crate::spec::{Code, Dns, Error, Version, check_identifier, is_identifier};
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

/// Where the agent listens unless the configuration says otherwise.
pub const DEFAULT_SOCKET: &str = "/run/osier/cni.sock";

/// How long the agent is waited for unless the configuration says otherwise.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// The longest path of a socket: `sun_path` of unix(7), without its final zero.
const MAX_SOCKET_PATH: usize = 107;

/// Under which name the plugin was configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `osier`.
    Osier,
    /// `odlovs-cni`: flat switch settings.
    OdlovsCni,
    /// `odlcoe`: switch settings in `ovsConfig`.
    Odlcoe,
    /// `ovs-odl`: bridge and VNI in `ovs`.
    OvsOdl,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Osier, Self::OdlovsCni, Self::Odlcoe, Self::OvsOdl];

    /// As it is written in `type`, which is also the name of the executable.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Osier => "osier",
            Self::OdlovsCni => "odlovs-cni",
            Self::Odlcoe => "odlcoe",
            Self::OvsOdl => "ovs-odl",
        }
    }
}

/// What every call needs to know, and all that the plugin itself looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// In which version to answer.
    pub version: Version,
    /// `name`: the network's name, for the runtime.
    pub name: String,
    /// `type`.
    pub kind: Kind,
    /// `agentSocket`.
    pub socket: PathBuf,
    /// `agentTimeout`.
    pub timeout: Duration,
}

impl Header {
    /// Reads it from a configuration.
    pub fn decode(config: &[u8]) -> Result<Self, Error> {
        let document = fields::document(config)?;
        Self::read(&Fields::of(&document)?)
    }

    fn read(config: &Fields<'_>) -> Result<Self, Error> {
        // The version first: without it nothing else can be judged.
        let version = read_version(config)?;
        let name = config
            .text("name")?
            .ok_or_else(|| config.wrong("name", "is missing: name the network"))?;
        check_identifier("`name`", name).map_err(Error::config)?;
        let kinds = || Kind::ALL.map(Kind::as_str).join(", ");
        let kind = config.text("type")?.unwrap_or_default();
        let kind = Kind::ALL.into_iter().find(|k| k.as_str() == kind).ok_or_else(|| {
            config.wrong("type", format_args!("is {kind:?}: this plugin is one of {}", kinds()))
        })?;
        let socket = config.text("agentSocket")?.unwrap_or(DEFAULT_SOCKET);
        if !socket.starts_with('/') || socket.len() > MAX_SOCKET_PATH || socket.contains('\0') {
            let why =
                format!("is {socket:?}: write an absolute path of at most {MAX_SOCKET_PATH} bytes");
            return Err(config.wrong("agentSocket", why));
        }
        let timeout =
            config.number("agentTimeout", 1..=600)?.map_or(DEFAULT_TIMEOUT, Duration::from_secs);
        Ok(Self { version, name: name.to_owned(), kind, socket: socket.into(), timeout })
    }
}

fn read_version(config: &Fields<'_>) -> Result<Version, Error> {
    Version::parse(config.text("cniVersion")?)
}

/// The version that a configuration says, if it can be read that far; for printing errors.
pub fn version_of(config: &[u8]) -> Option<Version> {
    let document: Value = serde_json::from_slice(config).ok()?;
    Version::parse(document.get("cniVersion").and_then(Value::as_str)).ok()
}

/// Who gives out addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Ipam {
    /// The agent, from the node's blocks or the network's pool.
    #[default]
    Agent,
    /// The plugin of this name, run by the agent: `host-local`, `static`, `dhcp` or another.
    Delegate(String),
}

impl Ipam {
    /// The names under which older configurations meant an allocator of their own controller.
    const OURS: [&str; 3] = ["osier", "ipam-odl", "odl-ipam"];

    fn read(config: &Fields<'_>) -> Result<Self, Error> {
        let Some(ipam) = config.object("ipam")? else { return Ok(Self::Agent) };
        match ipam.text("type")? {
            Some(name) if Self::OURS.contains(&name) => Ok(Self::Agent),
            Some(name) if is_identifier(name) => Ok(Self::Delegate(name.to_owned())),
            Some(name) => Err(ipam.wrong("type", format_args!("is {name:?}: write a plugin's name, not a path"))),
            None if ipam.is_empty() => Ok(Self::Agent),
            None => Err(ipam.wrong(
                "type",
                "is missing: name a plugin such as host-local, or leave out `ipam` and let the agent give out addresses",
            )),
        }
    }
}

/// A configuration, made one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkConfig {
    /// Version, name, type, the agent.
    pub header: Header,
    /// `network`: the network of the model to attach to; without it, the pod's own.
    pub network: Option<String>,
    /// `bridge`, `ovsBridge`, `ovs.bridge`: the bridge that the node's agent must be of.
    pub bridge: Option<String>,
    /// `ovs.vxlan`: the VNI that the network must have.
    pub vni: Option<u32>,
    /// `mtu`: at most this; the agent's own may be smaller.
    pub mtu: Option<u16>,
    /// `isDefaultGateway`: whether the default route leads here; unsaid, as address management has it.
    pub default_route: Option<bool>,
    /// `isGateway`: whether routes to what the network's router reaches lead here; unsaid, if there
    /// is no other way to talk.
    pub gateway_routes: Option<bool>,
    /// `forceAddress`: a repeated ADD may change the addresses that the first one gave.
    pub force_address: bool,
    /// `ipMasq`: source NAT towards the outside; unsaid, as the agent is configured.
    pub masquerade: Option<bool>,
    /// `hairpinMode`: packets may leave by the port they came from; unsaid, they may.
    pub hairpin: Option<bool>,
    /// `ipam`.
    pub ipam: Ipam,
    /// `dns`: what to say about name resolution if address management says nothing.
    pub dns: Dns,
    /// `runtimeConfig` and `args.cni`.
    pub runtime: RuntimeConfig,
    /// What older configurations say about the switch.
    pub switch: SwitchSettings,
}

impl NetworkConfig {
    /// Reads a configuration.
    pub fn decode(config: &[u8]) -> Result<Self, Error> {
        let document = fields::document(config)?;
        Self::read(&Fields::of(&document)?)
    }

    fn read(config: &Fields<'_>) -> Result<Self, Error> {
        let header = Header::read(config)?;
        let network = config.text("network")?;
        if network.is_some_and(|n| n.len() > 253 || n.chars().any(char::is_control)) {
            return Err(config.wrong("network", "is no network's name"));
        }
        Ok(Self {
            header,
            network: network.map(str::to_owned),
            bridge: switch::bridge(config)?,
            vni: switch::vni(config)?,
            // 68 is the least that RFC 791 lets a link have.
            mtu: config.number("mtu", 68..=65535)?.and_then(|n| u16::try_from(n).ok()),
            default_route: config.flag("isDefaultGateway")?,
            gateway_routes: config.flag("isGateway")?,
            force_address: config.flag("forceAddress")?.unwrap_or(false),
            masquerade: config.flag("ipMasq")?,
            hairpin: config.flag("hairpinMode")?,
            ipam: Ipam::read(config)?,
            dns: read_dns(config)?,
            runtime: RuntimeConfig::read(config)?,
            switch: SwitchSettings::read(config)?,
        })
    }
}

fn read_dns(config: &Fields<'_>) -> Result<Dns, Error> {
    let Some(dns) = config.object("dns")? else { return Ok(Dns::default()) };
    let owned = |texts: Vec<&str>| texts.into_iter().map(str::to_owned).collect();
    Ok(Dns {
        nameservers: owned(dns.texts("nameservers")?),
        domain: dns.text("domain")?.map(str::to_owned),
        search: owned(dns.texts("search")?),
        options: owned(dns.texts("options")?),
    })
}

fn decoding(what: &str, error: impl std::fmt::Display) -> Error {
    Error::new(Code::DECODING_FAILURE, format!("{what} cannot be read")).with_details(error)
}

#[cfg(test)]
mod tests;
