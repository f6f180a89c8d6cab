//! What a lab shall be: how many of what, checked before anything is made.

use osier_testbed::Family;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// The most nodes of a lab: each is two daemons and an agent on this machine.
pub const MAX_NODES: u8 = 32;
/// The most pods of a lab.
pub const MAX_PODS: u16 = 512;
/// The longest name: a socket's path must hold it.
const LONGEST_NAME: usize = 32;

/// A lab that cannot be asked for.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum SpecError {
    /// The name cannot be a directory's.
    #[error(
        "{0:?} is no lab's name: it needs 1 to {LONGEST_NAME} of a-z, 0-9 and -, a letter first"
    )]
    Name(String),
    /// Too few or too many nodes.
    #[error("{0} nodes: a lab has 1 to {MAX_NODES}")]
    Nodes(u8),
    /// Too many pods.
    #[error("{0} pods: a lab has at most {MAX_PODS}")]
    Pods(u16),
    /// A word that means nothing here.
    #[error("{found:?} is none of {known}")]
    Word {
        /// What was said.
        found: String,
        /// What could be said.
        known: &'static str,
    },
}

/// A lab's name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LabName(String);

/// Which addresses pods get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PodFamily {
    /// IPv4 only, over an IPv4 underlay.
    Ipv4,
    /// IPv6 only, over an IPv6 underlay.
    Ipv6,
    /// Both, over an IPv4 underlay.
    Dual,
}

/// How packets travel between nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TunnelKind {
    /// RFC 8926.
    Geneve,
    /// RFC 7348.
    Vxlan,
}

/// What a lab shall be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabSpec {
    /// Its name.
    pub name: LabName,
    /// How many nodes: `n1`, `n2` and so on.
    pub nodes: u8,
    /// How many pods in all, spread over the nodes: `pod1`, `pod2` and so on.
    pub pods: u16,
    /// Their addresses.
    pub family: PodFamily,
    /// How packets travel between nodes.
    pub tunnel: TunnelKind,
    /// Whether nodes hear of the cluster from a controller, and not from a file.
    #[serde(default)]
    pub controller: bool,
    /// What the controller is told, as `osier apply -f` reads it; its ports become pods.
    #[serde(default)]
    pub apply: Option<std::path::PathBuf>,
}

// === impl LabName ===

impl LabName {
    /// The name of a lab for which none was given.
    pub fn default_name() -> Self {
        Self("default".to_owned())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for LabName {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let starts = text.starts_with(|c: char| c.is_ascii_lowercase());
        if starts && text.len() <= LONGEST_NAME && text.chars().all(fits) {
            Ok(Self(text.to_owned()))
        } else {
            Err(SpecError::Name(text.to_owned()))
        }
    }
}

impl TryFrom<String> for LabName {
    type Error = SpecError;

    fn try_from(text: String) -> Result<Self, SpecError> {
        text.parse()
    }
}

impl From<LabName> for String {
    fn from(name: LabName) -> Self {
        name.0
    }
}

impl fmt::Display for LabName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// === impl PodFamily ===

impl PodFamily {
    /// The words for it.
    pub const WORDS: [&str; 3] = ["ipv4", "ipv6", "dual"];

    /// Whether pods have IPv4 addresses.
    pub fn has_ipv4(self) -> bool {
        self != Self::Ipv6
    }

    /// Whether pods have IPv6 addresses.
    pub fn has_ipv6(self) -> bool {
        self != Self::Ipv4
    }

    /// The underlay's family.
    pub(crate) fn underlay(self) -> Family {
        if self.has_ipv4() { Family::Ipv4 } else { Family::Ipv6 }
    }
}

impl FromStr for PodFamily {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        match text {
            "ipv4" => Ok(Self::Ipv4),
            "ipv6" => Ok(Self::Ipv6),
            "dual" => Ok(Self::Dual),
            _ => Err(SpecError::Word { found: text.to_owned(), known: "ipv4, ipv6, dual" }),
        }
    }
}

impl fmt::Display for PodFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ipv4 => "IPv4",
            Self::Ipv6 => "IPv6",
            Self::Dual => "IPv4 and IPv6",
        })
    }
}

// === impl TunnelKind ===

impl TunnelKind {
    /// The words for it.
    pub const WORDS: [&str; 2] = ["geneve", "vxlan"];
}

impl FromStr for TunnelKind {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        match text {
            "geneve" => Ok(Self::Geneve),
            "vxlan" => Ok(Self::Vxlan),
            _ => Err(SpecError::Word { found: text.to_owned(), known: "geneve, vxlan" }),
        }
    }
}

impl fmt::Display for TunnelKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Geneve => "Geneve",
            Self::Vxlan => "VXLAN",
        })
    }
}

// === impl LabSpec ===

impl LabSpec {
    /// Checks it.
    pub fn validate(&self) -> Result<(), SpecError> {
        if !(1..=MAX_NODES).contains(&self.nodes) {
            return Err(SpecError::Nodes(self.nodes));
        }
        if self.pods > MAX_PODS {
            return Err(SpecError::Pods(self.pods));
        }
        Ok(())
    }

    /// The index of the node that a pod goes to: they take turns.
    pub(crate) fn node_of(&self, pod: u16) -> usize {
        usize::from(pod % u16::from(self.nodes.max(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_directories_and_no_more() {
        for good in ["a", "demo", "my-lab-2"] {
            assert_eq!(good.parse::<LabName>().unwrap().as_str(), good);
        }
        let long = "a".repeat(33);
        for bad in ["", "-a", "2a", "A", "a/b", "..", "a b", "ä", long.as_str()] {
            assert_eq!(bad.parse::<LabName>(), Err(SpecError::Name(bad.to_owned())));
        }
        assert!(serde_json::from_str::<LabName>("\"../x\"").is_err());
    }

    #[test]
    fn words_are_read() {
        for word in PodFamily::WORDS {
            let family: PodFamily = word.parse().unwrap();
            assert_eq!(serde_json::to_value(family).unwrap(), word);
        }
        for word in TunnelKind::WORDS {
            let tunnel: TunnelKind = word.parse().unwrap();
            assert_eq!(serde_json::to_value(tunnel).unwrap(), word);
        }
        assert!("ipv5".parse::<PodFamily>().is_err());
    }

    #[test]
    fn sizes_have_limits() {
        let spec = |nodes, pods| LabSpec {
            name: LabName::default_name(),
            nodes,
            pods,
            family: PodFamily::Dual,
            tunnel: TunnelKind::Geneve,
            controller: false,
            apply: None,
        };
        assert_eq!(spec(3, 4).validate(), Ok(()));
        assert_eq!(spec(1, 0).validate(), Ok(()));
        assert_eq!(spec(0, 4).validate(), Err(SpecError::Nodes(0)));
        assert_eq!(spec(33, 4).validate(), Err(SpecError::Nodes(33)));
        assert_eq!(spec(1, 513).validate(), Err(SpecError::Pods(513)));
        let nodes: Vec<usize> = (0..4).map(|pod| spec(3, 4).node_of(pod)).collect();
        assert_eq!(nodes, [0, 1, 2, 0]);
    }
}
