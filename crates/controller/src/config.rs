//! The controller's configuration: one TOML file in which everything has a default that works.

mod etcd;
mod kubernetes;
mod restconf;
mod switches;

pub use etcd::EtcdConfig;
pub use kubernetes::{
    AddressSource, BlockMasks, BlockRest, KubernetesConfig, LeaseConfig, Services,
};
pub use restconf::{PlainConfig, RestconfConfig};
pub use switches::{DialConfig, SwitchTls, SwitchesConfig};

use crate::engine::AllocationRules;
use serde::Deserialize;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;

/// Where the configuration is unless told otherwise.
pub const DEFAULT_PATH: &str = "/etc/osier/controller.toml";

/// The longest configuration that is read, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// What the controller is told.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The controller's own directory: the store, credentials, the audit log.
    pub state_dir: PathBuf,
    /// The cluster's name, for people: it stands in the authority's certificate.
    pub cluster: String,
    /// The API.
    pub api: ApiConfig,
    /// The agents' port.
    pub fleet: FleetConfig,
    /// Limits of the API.
    pub limits: Limits,
    /// The audit log.
    pub audit: AuditConfig,
    /// What is given out.
    pub allocation: AllocationConfig,
    /// Kubernetes, if the model comes from there.
    pub kubernetes: Option<KubernetesConfig>,
    /// etcd, if the model is kept there for several controllers.
    pub etcd: Option<EtcdConfig>,
    /// RESTCONF, if it is served.
    pub restconf: Option<RestconfConfig>,
    /// Switches without an agent, if there are any.
    pub switches: Option<SwitchesConfig>,
}

/// The API.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ApiConfig {
    /// Where it is served.
    pub listen: SocketAddr,
    /// Names by which clients know it, beside the machine's and `localhost`.
    pub names: Vec<String>,
    /// Addresses by which clients know it, beside the loopback ones and that of `listen`.
    pub addresses: Vec<IpAddr>,
}

/// The agents' port.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FleetConfig {
    /// Where it is served.
    pub listen: SocketAddr,
    /// How long certificates hold, those of agents and the controller's own.
    pub certificate_hours: u32,
    /// Agents at once.
    pub connections: usize,
    /// The pods' MTU that joining nodes are told; nothing: it follows from their uplinks.
    pub mtu: Option<u16>,
}

/// Limits of the API.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// The largest body.
    pub body_bytes: usize,
    /// The largest head of a request.
    pub header_bytes: usize,
    /// How long a client may take to send the head of a request, or a TLS handshake.
    pub header_seconds: u32,
    /// How long a request may take, with its body.
    pub request_seconds: u32,
    /// Connections at once.
    pub connections: usize,
    /// Requests in a second with one credential.
    pub requests_per_second: u32,
    /// Requests at once with one credential.
    pub burst: u32,
    /// Watches at once.
    pub watches: usize,
}

/// The audit log.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AuditConfig {
    /// The size at which a new file is begun.
    pub file_bytes: u64,
    /// How many files are kept.
    pub files: u32,
}

/// What is given out.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AllocationConfig {
    /// Length of a node's IPv4 block.
    pub block_v4: u8,
    /// Length of a node's IPv6 block.
    pub block_v6: u8,
    /// How long a freed address rests.
    pub cool_down_seconds: u32,
}

/// A configuration that cannot be used.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{} cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is no configuration; the cause shows the line and the key.
    #[error("{} is no configuration of the controller", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Why.
        source: Box<toml::de::Error>,
    },
    /// A number that cannot be.
    #[error("{}: {key} is {found}, but must be {allowed}", path.display())]
    Range {
        /// The file.
        path: PathBuf,
        /// Which.
        key: &'static str,
        /// As it is.
        found: u64,
        /// As it may be.
        allowed: &'static str,
    },
}

impl Default for Config {
    fn default() -> Self {
        Self {
            state_dir: "/var/lib/osier/controller".into(),
            cluster: "osier".to_owned(),
            api: ApiConfig::default(),
            fleet: FleetConfig::default(),
            limits: Limits::default(),
            audit: AuditConfig::default(),
            allocation: AllocationConfig::default(),
            kubernetes: None,
            etcd: None,
            restconf: None,
            switches: None,
        }
    }
}

impl Default for ApiConfig {
    fn default() -> Self {
        let listen = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 6645));
        Self { listen, names: Vec::new(), addresses: Vec::new() }
    }
}

impl Default for FleetConfig {
    fn default() -> Self {
        let listen = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 6646));
        Self { listen, certificate_hours: 24, connections: 4096, mtu: None }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: 8 << 20,
            header_bytes: 16 << 10,
            header_seconds: 10,
            request_seconds: 30,
            connections: 1024,
            requests_per_second: 1000,
            burst: 2000,
            watches: 256,
        }
    }
}

impl Default for AuditConfig {
    fn default() -> Self {
        Self { file_bytes: 64 << 20, files: 5 }
    }
}

impl Default for AllocationConfig {
    fn default() -> Self {
        Self { block_v4: 24, block_v6: 64, cool_down_seconds: 60 }
    }
}

// === impl Config ===

impl Config {
    /// Reads a configuration. The default one may be missing.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let read = |source| ConfigError::Read { path: path.to_owned(), source };
        let text = match std::fs::metadata(path) {
            Ok(metadata) if metadata.len() > MAX_FILE => {
                return Err(read(io::ErrorKind::FileTooLarge.into()));
            }
            Ok(_) => std::fs::read_to_string(path).map_err(read)?,
            Err(error)
                if error.kind() == io::ErrorKind::NotFound && path == Path::new(DEFAULT_PATH) =>
            {
                String::new()
            }
            Err(error) => return Err(read(error)),
        };
        let parsed: Result<Self, _> = toml::from_str(&text);
        let config = parsed.map_err(|source| ConfigError::Parse {
            path: path.to_owned(),
            source: Box::new(source),
        })?;
        config.check(path)?;
        Ok(config)
    }

    fn check(&self, path: &Path) -> Result<(), ConfigError> {
        let number = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        let (limits, allocation) = (&self.limits, &self.allocation);
        let checks = [
            ("allocation.block_v4", allocation.block_v4.into(), 8..=30, "8 to 30"),
            ("allocation.block_v6", allocation.block_v6.into(), 16..=120, "16 to 120"),
            ("fleet.certificate_hours", self.fleet.certificate_hours.into(), 1..=8760, "1 to 8760"),
            ("fleet.connections", number(self.fleet.connections), 1..=1 << 20, "1 to 1048576"),
            ("limits.body_bytes", number(limits.body_bytes), 1024..=64 << 20, "1 KiB to 64 MiB"),
            ("limits.header_bytes", number(limits.header_bytes), 8192..=1 << 20, "8 KiB to 1 MiB"),
            ("limits.header_seconds", limits.header_seconds.into(), 1..=600, "1 to 600"),
            ("limits.request_seconds", limits.request_seconds.into(), 1..=600, "1 to 600"),
            ("limits.connections", number(limits.connections), 1..=1 << 20, "1 to 1048576"),
            (
                "limits.requests_per_second",
                limits.requests_per_second.into(),
                1..=1 << 20,
                "1 to 1048576",
            ),
            ("limits.burst", limits.burst.into(), 1..=1 << 20, "1 to 1048576"),
            ("limits.watches", number(limits.watches), 1..=1 << 20, "1 to 1048576"),
            ("audit.file_bytes", self.audit.file_bytes, 4096..=1 << 40, "at least 4096"),
            ("audit.files", self.audit.files.into(), 1..=1000, "1 to 1000"),
        ];
        let kubernetes = self.kubernetes.iter().flat_map(KubernetesConfig::ranges);
        let restconf = self.restconf.iter().flat_map(RestconfConfig::ranges);
        let etcd = self.etcd.iter().flat_map(EtcdConfig::ranges);
        let switches = self.switches.iter().flat_map(SwitchesConfig::ranges);
        let others = kubernetes.chain(restconf).chain(etcd).chain(switches);
        for (key, found, range, allowed) in checks.into_iter().chain(others) {
            if !range.contains(&found) {
                return Err(ConfigError::Range { path: path.to_owned(), key, found, allowed });
            }
        }
        Ok(())
    }

    /// The store's file.
    pub fn store(&self) -> PathBuf {
        self.state_dir.join("store.redb")
    }

    /// The file of credentials.
    pub fn credentials(&self) -> PathBuf {
        self.state_dir.join("credentials.json")
    }

    /// The authority's certificate, for clients.
    pub fn authority(&self) -> PathBuf {
        self.state_dir.join("authority.pem")
    }

    /// The term of the last start here.
    pub fn last_term(&self) -> PathBuf {
        self.state_dir.join("term")
    }

    /// What the machine's administrator needs to use the API.
    pub fn admin(&self) -> PathBuf {
        self.state_dir.join("admin.toml")
    }

    /// Where backups are put.
    pub fn backups(&self) -> PathBuf {
        self.state_dir.join("backups")
    }

    /// The audit log.
    pub fn audit_log(&self) -> PathBuf {
        self.state_dir.join("audit.log")
    }

    /// How much is given at once, and when again.
    pub fn rules(&self) -> AllocationRules {
        AllocationRules {
            block_v4: self.allocation.block_v4,
            block_v6: self.allocation.block_v6,
            cool_down: Duration::from_secs(self.allocation.cool_down_seconds.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_that_ships_has_the_defaults() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/controller.toml");
        assert_eq!(Config::load(&path).unwrap(), Config::default());
    }

    #[test]
    fn what_is_wrong_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.toml");
        for (text, said) in [
            ("[limits]\nboddy_bytes = 3", "unknown field `boddy_bytes`"),
            ("[limits]\nburst = 0", "limits.burst is 0, but must be 1 to 1048576"),
            ("[api]\nlisten = \"nowhere\"", "invalid socket address"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = Config::load(&path).unwrap_err();
            let source = std::error::Error::source(&error).map(ToString::to_string);
            let error = format!("{error}: {}", source.unwrap_or_default());
            assert!(error.contains(said), "{error}");
        }
        assert!(Config::load(&folder.path().join("missing.toml")).is_err());
    }
}
