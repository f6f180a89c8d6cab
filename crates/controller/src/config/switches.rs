//! Switches without an agent: nobody is spoken with until it is said who may come.

use super::kubernetes::Range;
use ipnet::IpNet;
use osier_switches::{Options, TlsFiles};
use serde::Deserialize;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// Where a database and a bridge are dialled, or dial.
const MANAGER: u16 = 6640;
const OPENFLOW: u16 = 6653;

/// Switches without an agent.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SwitchesConfig {
    /// Where their databases dial.
    pub manager: SocketAddr,
    /// Where their bridges dial.
    pub openflow: SocketAddr,
    /// Who may.
    pub allow: Vec<IpNet>,
    /// Those that wait to be dialled.
    pub dial: Vec<DialConfig>,
    /// TLS, both ways.
    pub tls: Option<SwitchTls>,
    /// The bridge of switches that do not say which it is.
    pub bridge: String,
}

/// A switch that waits to be dialled.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DialConfig {
    /// Where it is.
    pub address: IpAddr,
    /// The port of its database.
    #[serde(default = "manager")]
    pub manager: u16,
    /// The port of its bridge.
    #[serde(default = "openflow")]
    pub openflow: u16,
}

/// Files of TLS, as `ovs-vsctl set-ssl` has them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchTls {
    /// The key.
    pub private_key: PathBuf,
    /// The certificate.
    pub certificate: PathBuf,
    /// Whose certificates switches have to have.
    pub ca_certificate: PathBuf,
}

fn manager() -> u16 {
    MANAGER
}

fn openflow() -> u16 {
    OPENFLOW
}

impl Default for SwitchesConfig {
    fn default() -> Self {
        let at = |port| SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
        Self {
            manager: at(MANAGER),
            openflow: at(OPENFLOW),
            allow: Vec::new(),
            dial: Vec::new(),
            tls: None,
            bridge: "br-int".to_owned(),
        }
    }
}

impl SwitchesConfig {
    pub(super) fn ranges(&self) -> Vec<Range> {
        let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        let who = count(self.allow.len() + self.dial.len());
        let said = "addresses, 1 to 4096, with switches.dial: nobody else is spoken with";
        vec![("switches.allow", who, 1..=4096, said)]
    }

    pub(crate) fn options(&self) -> Options {
        let tls = self.tls.as_ref().map(|tls| TlsFiles {
            private_key: tls.private_key.clone(),
            certificate: tls.certificate.clone(),
            ca_certificate: tls.ca_certificate.clone(),
        });
        Options {
            manager: self.manager,
            openflow: self.openflow,
            allow: self.allow.clone(),
            dial: self.dial.iter().map(|d| (d.address, d.manager, d.openflow)).collect(),
            tls,
            bridge: self.bridge.clone(),
        }
    }
}
