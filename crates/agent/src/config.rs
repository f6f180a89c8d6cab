//! The agent's configuration: one TOML file in which everything has a default that works.
//!
//! What the whole cluster shares (tunnels, address ranges, other nodes) is not here: that is the
//! view's. An error names the file and the key.

use osier_fleet::client::Controllers;
use osier_model::{InterfaceName, NodeName};
use serde::Deserialize;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;

/// Where the configuration is unless told otherwise.
pub const DEFAULT_PATH: &str = "/etc/osier/agent.toml";

/// Where runtimes look for the CNI configuration.
pub const DEFAULT_CNI_CONFIG: &str = "/etc/cni/net.d/10-osier.conflist";

/// How many tracked connections a pod may begin in a second, unless told otherwise: more than servers
/// begin, and less than fills a tracker before anybody looks.
const CONNECTION_RATE: u32 = 10_000;
/// In the kernel's tracker one that nobody answers is remembered for two minutes. In that time a pod fills
/// half of it, at most; but this many may always begin.
const CONNECTION_SECONDS: u32 = 240;
const LEAST_RATE: u32 = 100;
/// What the kernel's tracker has room for, where it does not say.
const USUAL_ROOM: u32 = 262_144;

/// The longest configuration that is read, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// What the agent is told about its machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The node's name in the view: `NODE_NAME` of the environment, or the machine's host name.
    pub node: NodeName,
    /// The bridge that pods are attached to.
    pub bridge: InterfaceName,
    /// Which datapath that bridge has.
    pub datapath: Datapath,
    /// The socket of the switch's database.
    pub ovsdb: PathBuf,
    /// The directory with the bridges' management sockets.
    pub ovs_run_dir: PathBuf,
    /// The socket that the CNI plugin talks to.
    pub cni_socket: PathBuf,
    /// The agent's own directory.
    pub state_dir: PathBuf,
    /// The controller; `None`: the view is a file.
    pub controller: Option<ControllerConfig>,
    /// Where the CNI configuration is written; `None`: somebody else does.
    pub cni_config: Option<PathBuf>,
    /// The file with the node's view.
    pub view: PathBuf,
    /// Where metrics and health are served; `None`: nowhere.
    pub metrics: Option<SocketAddr>,
    /// The pods' MTU.
    pub mtu: Mtu,
    /// How long a freed address rests before it is given again.
    pub cool_down: Duration,
    /// Whether pods get the machine's address where they leave the cluster.
    pub masquerade: bool,
    /// Whether a switch that restarts waits for its flows; `None`: unless that could lock the node
    /// out.
    pub flow_restore_wait: Option<bool>,
    /// How many tracked connections a pod may begin in a second.
    pub connection_rate: ConnectionRate,
}

/// How many tracked connections a pod may begin in a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionRate {
    /// What the datapath's tracker can bear.
    Auto,
    /// So many; 0: any number.
    Fixed(u32),
}

/// Where the controller is, and how a node gets to be its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControllerConfig {
    /// `host:port` of each controller, or the file that has them.
    pub addresses: Controllers,
    /// What a node joins with.
    pub joining: Joining,
}

/// What a node joins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Joining {
    /// The file with a token; read until the node has joined.
    Token(Option<PathBuf>),
    /// In Kubernetes: who the agent is there.
    ServiceAccount {
        /// The file with the token of the agent's service account, which Kubernetes renews.
        token_file: PathBuf,
        /// The file with the certificate of the cluster's authority, PEM.
        authority_file: PathBuf,
    },
}

/// Which datapath the switch uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Datapath {
    /// The kernel's.
    #[default]
    System,
    /// The one in `ovs-vswitchd` itself.
    Netdev,
}

/// The pods' MTU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mtu {
    /// That of the interface with the tunnel's address, less what a tunnel adds.
    Auto,
    /// This one.
    Fixed(u16),
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
    #[error("{} is no configuration of the agent", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: Box<toml::de::Error>,
    },
    /// A value cannot be used.
    #[error("{}: {key}: {problem}", path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// The key.
        key: &'static str,
        /// What is wrong, and what would be right.
        problem: String,
    },
}

/// The file as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    node: Option<String>,
    bridge: Option<String>,
    datapath: Datapath,
    ovsdb: Option<PathBuf>,
    ovs_run_dir: Option<PathBuf>,
    cni_socket: Option<PathBuf>,
    state_dir: Option<PathBuf>,
    view: Option<PathBuf>,
    controller: Option<FileController>,
    cni_config: Option<PathBuf>,
    metrics: Option<String>,
    mtu: Option<FileNumber>,
    cool_down_seconds: Option<u32>,
    masquerade: Option<bool>,
    flow_restore_wait: Option<bool>,
    connection_rate: Option<FileNumber>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileController {
    address: Option<FileAddress>,
    addresses_file: Option<PathBuf>,
    #[serde(alias = "token-file")]
    token_file: Option<PathBuf>,
    service_account_token_file: Option<PathBuf>,
    authority_file: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum FileAddress {
    One(String),
    Several(Vec<String>),
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum FileNumber {
    Number(i64),
    Word(String),
}

// === impl Config ===

impl Config {
    /// Reads a file. Only the default one may be missing: then all defaults hold.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let read = std::fs::metadata(path).and_then(|found| match found.len() {
            0..=MAX_FILE => std::fs::read_to_string(path),
            size => Err(io::Error::other(format!("{size} bytes, where {MAX_FILE} are allowed"))),
        });
        match read {
            Ok(text) => Self::parse(&text, path),
            Err(e) if e.kind() == io::ErrorKind::NotFound && path == Path::new(DEFAULT_PATH) => {
                Self::parse("", path)
            }
            Err(source) => Err(ConfigError::Read { path: path.to_owned(), source }),
        }
    }

    /// Reads the text of a file; `path` is for errors.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let file: File = toml::from_str(text).map_err(|source| ConfigError::Parse {
            path: path.to_owned(),
            source: Box::new(source),
        })?;
        let wrong = |key, problem| ConfigError::Value { path: path.to_owned(), key, problem };
        let node = file.node.map_or_else(host_name, Ok).map_err(|e| wrong("node", e))?;
        let bridge = file.bridge.as_deref().unwrap_or("br-int");
        let state_dir = file.state_dir.unwrap_or_else(|| "/var/lib/osier".into());
        let controller = controller(file.controller).map_err(|e| wrong("controller", e))?;
        // Without a controller a configuration's author is who writes the view.
        let default = controller.as_ref().map(|_| PathBuf::from(DEFAULT_CNI_CONFIG));
        let cni_config = file.cni_config.or(default).filter(|path| *path != Path::new("off"));
        let config = Self {
            node: NodeName::new(&node).map_err(|e| wrong("node", e.to_string()))?,
            bridge: InterfaceName::new(bridge).map_err(|e| wrong("bridge", e.to_string()))?,
            datapath: file.datapath,
            ovsdb: file.ovsdb.unwrap_or_else(|| "/run/openvswitch/db.sock".into()),
            ovs_run_dir: file.ovs_run_dir.unwrap_or_else(|| "/run/openvswitch".into()),
            cni_socket: file.cni_socket.unwrap_or_else(|| osier_cni::config::DEFAULT_SOCKET.into()),
            view: file.view.unwrap_or_else(|| state_dir.join("view.yaml")),
            state_dir,
            controller,
            cni_config,
            metrics: metrics(file.metrics.as_deref()).map_err(|e| wrong("metrics", e))?,
            mtu: mtu(file.mtu).map_err(|e| wrong("mtu", e))?,
            cool_down: Duration::from_secs(file.cool_down_seconds.unwrap_or(60).into()),
            masquerade: file.masquerade.unwrap_or(true),
            flow_restore_wait: file.flow_restore_wait,
            connection_rate: connection_rate(file.connection_rate)
                .map_err(|e| wrong("connection_rate", e))?,
        };
        for (key, value) in [
            ("ovsdb", &config.ovsdb),
            ("ovs_run_dir", &config.ovs_run_dir),
            ("cni_socket", &config.cni_socket),
            ("view", &config.view),
            ("state_dir", &config.state_dir),
            ("cni_config", config.cni_config.as_ref().unwrap_or(&config.view)),
        ] {
            if !value.is_absolute() {
                let problem = format!("{} is no absolute path", value.display());
                return Err(wrong(key, problem));
            }
        }
        Ok(config)
    }
}

fn controller(file: Option<FileController>) -> Result<Option<ControllerConfig>, String> {
    let Some(file) = file else { return Ok(None) };
    let addresses = match (file.address, file.addresses_file) {
        (Some(FileAddress::One(address)), None) => Controllers::Fixed(vec![address]),
        (Some(FileAddress::Several(addresses)), None) => Controllers::Fixed(addresses),
        (None, Some(path)) => Controllers::File(path),
        _ => return Err("either `address` or `addresses_file` is needed".to_owned()),
    };
    let joining = match (file.service_account_token_file, file.authority_file) {
        (Some(token_file), Some(authority_file)) if file.token_file.is_none() => {
            Joining::ServiceAccount { token_file, authority_file }
        }
        (None, None) => Joining::Token(file.token_file),
        _ => {
            let said = "`service_account_token_file` and `authority_file` need each other, and \
                        leave no place for `token_file`";
            return Err(said.to_owned());
        }
    };
    let wrong = |text: &&String| {
        let port = text.rsplit_once(':').filter(|(host, _)| !host.is_empty());
        port.is_none_or(|(_, port)| port.parse::<u16>().is_err())
    };
    match &addresses {
        Controllers::Fixed(fixed) if fixed.is_empty() => Err("there is none".to_owned()),
        Controllers::Fixed(fixed) => match fixed.iter().find(wrong) {
            Some(text) => Err(format!("{text:?} is no host with a port, such as 192.0.2.1:6646")),
            None => Ok(Some(ControllerConfig { addresses, joining })),
        },
        Controllers::File(_) => Ok(Some(ControllerConfig { addresses, joining })),
    }
}

/// In a pod of Kubernetes the node is told by its manifest, and may be called unlike the machine.
fn host_name() -> Result<String, String> {
    if let Ok(name) = std::env::var("NODE_NAME") {
        return Ok(name);
    }
    let name = nix::unistd::gethostname().map_err(|e| format!("the host name is unknown: {e}"))?;
    name.into_string().map_err(|name| format!("the host name {} is no text", name.display()))
}

fn metrics(text: Option<&str>) -> Result<Option<SocketAddr>, String> {
    match text.unwrap_or("127.0.0.1:9476") {
        "off" => Ok(None),
        text => text.parse().map(Some).map_err(|_| {
            format!("{text:?} is neither an address with a port, such as 127.0.0.1:9476, nor off")
        }),
    }
}

fn mtu(value: Option<FileNumber>) -> Result<Mtu, String> {
    // 1280 is the least that IPv6 works with (RFC 8200, section 5).
    let wrong = |found: &dyn std::fmt::Display| {
        Err(format!("{found} is neither \"auto\" nor a number from 1280 to 65535"))
    };
    match value {
        None => Ok(Mtu::Auto),
        Some(FileNumber::Word(word)) if word == "auto" => Ok(Mtu::Auto),
        Some(FileNumber::Word(word)) => wrong(&word),
        Some(FileNumber::Number(number)) => match u16::try_from(number) {
            Ok(mtu @ 1280..) => Ok(Mtu::Fixed(mtu)),
            _ => wrong(&number),
        },
    }
}

fn connection_rate(value: Option<FileNumber>) -> Result<ConnectionRate, String> {
    let wrong = |found: &dyn std::fmt::Display| {
        Err(format!("{found} is neither \"auto\" nor a number of connections"))
    };
    match value {
        None => Ok(ConnectionRate::Auto),
        Some(FileNumber::Word(word)) if word == "auto" => Ok(ConnectionRate::Auto),
        Some(FileNumber::Word(word)) => wrong(&word),
        Some(FileNumber::Number(number)) => match u32::try_from(number) {
            Ok(rate) => Ok(ConnectionRate::Fixed(rate)),
            Err(_) => wrong(&number),
        },
    }
}

// === impl ConnectionRate ===

impl ConnectionRate {
    /// What that is with a datapath; `room` is how many connections the kernel's tracker has room for,
    /// if it says so. Nothing is any number.
    pub fn of(self, datapath: Datapath, room: Option<u32>) -> Option<u32> {
        match (self, datapath) {
            (Self::Fixed(rate), _) => Some(rate).filter(|rate| *rate > 0),
            (Self::Auto, Datapath::Netdev) => Some(CONNECTION_RATE),
            (Self::Auto, Datapath::System) => {
                let bearable = room.unwrap_or(USUAL_ROOM) / CONNECTION_SECONDS;
                Some(bearable.clamp(LEAST_RATE, CONNECTION_RATE))
            }
        }
    }
}

impl Datapath {
    /// As the database writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Netdev => "netdev",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, ConfigError> {
        Config::parse(text, Path::new("/etc/osier/agent.toml"))
    }

    #[test]
    fn nothing_said_works() {
        let config = parse("node = 'n1'").unwrap();
        assert_eq!(config.bridge.as_str(), "br-int");
        assert_eq!(config.cni_socket, Path::new("/run/osier/cni.sock"));
        assert_eq!(config.view, Path::new("/var/lib/osier/view.yaml"));
        assert_eq!(config.metrics.unwrap().port(), 9476);
        assert_eq!((config.mtu, config.datapath), (Mtu::Auto, Datapath::System));
        assert!(parse("").is_ok(), "the host name is a node's name");
    }

    #[test]
    fn a_pod_begins_what_the_tracker_can_bear() {
        let auto = ConnectionRate::Auto;
        assert_eq!(parse("connection_rate = 'auto'").unwrap().connection_rate, auto);
        assert_eq!(parse("").unwrap().connection_rate, auto);
        assert_eq!(auto.of(Datapath::Netdev, Some(1000)), Some(10_000));
        for (room, rate) in [
            (Some(262_144), 1092),
            (None, 1092),
            (Some(65_536), 273),
            (Some(1000), 100),
            (Some(4_000_000), 10_000),
        ] {
            assert_eq!(auto.of(Datapath::System, room), Some(rate), "{room:?}");
        }
        for (said, rate) in [("0", None), ("7", Some(7)), ("20000", Some(20_000))] {
            let config = parse(&format!("connection_rate = {said}")).unwrap();
            assert_eq!(config.connection_rate.of(Datapath::System, Some(1000)), rate);
        }
    }

    #[test]
    fn the_example_shows_the_defaults() {
        let example = parse(include_str!("../../../deploy/agent.toml")).unwrap();
        assert_eq!(example, parse("").unwrap());
    }

    #[test]
    fn everything_said_is_heard() {
        let config = parse(
            "node = 'n1'\nbridge = 'ovsbrk8s'\ndatapath = 'netdev'\novsdb = '/a'\n\
             ovs_run_dir = '/b'\ncni_socket = '/c'\nstate_dir = '/d'\nmetrics = 'off'\n\
             mtu = 1400\ncool_down_seconds = 5\nmasquerade = false",
        )
        .unwrap();
        assert_eq!((config.mtu, config.metrics), (Mtu::Fixed(1400), None));
        assert_eq!(config.view, Path::new("/d/view.yaml"));
        assert_eq!(config.cool_down, Duration::from_secs(5));
        assert!(!config.masquerade && config.datapath == Datapath::Netdev);
    }

    #[test]
    fn a_controller_brings_the_cni_configuration_along() {
        let config = parse("[controller]\naddress = '[fd00::1]:6646'\ntoken_file = '/t'").unwrap();
        let controller = config.controller.unwrap();
        assert_eq!(controller.addresses, Controllers::Fixed(vec!["[fd00::1]:6646".to_owned()]));
        assert_eq!(controller.joining, Joining::Token(Some("/t".into())));
        assert_eq!(config.cni_config.as_deref(), Some(Path::new(DEFAULT_CNI_CONFIG)));
        let config = parse("cni_config = 'off'\n[controller]\naddress = ['a:1', 'b:2']").unwrap();
        assert_eq!(config.controller.unwrap().addresses.list().unwrap().len(), 2);
        assert_eq!(config.cni_config, None);
        assert_eq!(parse("").unwrap().cni_config, None);
        for wrong in [
            "address = 'a'",
            "address = ':1'",
            "address = 'a:x'",
            "address = []",
            "",
            "address = 'a:1'\naddresses_file = '/a'",
            "address = 'a:1'\nauthority_file = '/a'",
            "address = 'a:1'\nauthority_file = '/a'\nservice_account_token_file = '/b'\ntoken_file = '/c'",
        ] {
            let error = parse(&format!("[controller]\n{wrong}")).unwrap_err();
            assert!(error.to_string().contains("agent.toml: controller: "), "{error}");
        }
    }

    #[test]
    fn in_kubernetes_all_is_in_files() {
        let config = parse(
            "[controller]\naddresses_file = '/a'\nauthority_file = '/b'\n\
             service_account_token_file = '/c'",
        );
        let controller = config.unwrap().controller.unwrap();
        assert_eq!(controller.addresses, Controllers::File("/a".into()));
        let (token_file, authority_file) = ("/c".into(), "/b".into());
        assert_eq!(controller.joining, Joining::ServiceAccount { token_file, authority_file });
    }

    #[test]
    fn errors_name_file_and_key() {
        for (text, said) in [
            ("mtu = 100", "mtu: 100 is neither"),
            ("mtu = 'big'", "mtu: big is neither"),
            ("connection_rate = -1", "connection_rate: -1 is neither"),
            ("connection_rate = 'many'", "connection_rate: many is neither"),
            ("metrics = 'localhost'", "metrics: \"localhost\" is neither"),
            ("bridge = 'a/b'", "bridge: \"a/b\" is no interface name"),
            ("node = 'a b'", "node: \"a b\" has ' '"),
            ("view = 'v.yaml'", "view: v.yaml is no absolute path"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("/etc/osier/agent.toml: {said}")), "{error}");
        }
        let error = parse("brigde = 'x'").unwrap_err();
        assert_eq!(error.to_string(), "/etc/osier/agent.toml is no configuration of the agent");
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(cause.contains("brigde") && cause.contains("line 1"), "{cause}");
    }

    #[test]
    fn only_the_default_file_may_be_missing() {
        let error = Config::load(Path::new("/nonexistent/agent.toml")).unwrap_err();
        assert_eq!(error.to_string(), "/nonexistent/agent.toml cannot be read");
    }
}
