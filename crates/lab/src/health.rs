//! Whether the parts of a lab do what they should, each asked by a foreign tool or the plugin.

use crate::error::LabError;
use osier_testbed::{CommandError, Node};
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::fmt;
use std::io::{Read, Write};
use std::time::Duration;

/// How long a part may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The same, for Open vSwitch's tools.
const TIMEOUT: &str = "--timeout=5";
/// Where an agent tells of its health, in its node's namespace.
const AGENT: &str = "127.0.0.1:9476";
const LONGEST_ANSWER: u64 = 64 << 10;

/// How a part is: well, or why not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Health {
    /// Well.
    Ok,
    /// Not well: why.
    Bad(String),
}

/// A node's health.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeHealth {
    /// Its name.
    pub name: String,
    /// `ovsdb-server`.
    pub database: Health,
    /// `ovs-vswitchd`.
    pub switch: Health,
    /// `osier agent`.
    pub agent: Health,
}

/// A pod's health, as the plugin's CHECK tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodHealth {
    /// Its name.
    pub name: String,
    /// Its interface, addresses and port.
    pub network: Health,
}

/// A whole lab's health.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Its nodes.
    pub nodes: Vec<NodeHealth>,
    /// Its pods.
    pub pods: Vec<PodHealth>,
}

// === impl Health ===

impl Health {
    /// Whether it is well.
    pub fn is_ok(&self) -> bool {
        *self == Self::Ok
    }
}

impl From<String> for Health {
    fn from(text: String) -> Self {
        if text == "ok" { Self::Ok } else { Self::Bad(text) }
    }
}

impl From<Health> for String {
    fn from(health: Health) -> Self {
        match health {
            Health::Ok => "ok".to_owned(),
            Health::Bad(why) => why,
        }
    }
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ok => "ok",
            Self::Bad(why) => why,
        })
    }
}

impl<T, E: Error> From<Result<T, E>> for Health {
    fn from(result: Result<T, E>) -> Self {
        match result {
            Ok(_) => Self::Ok,
            Err(error) => Self::Bad(chain(&error)),
        }
    }
}

/// An error and its causes, in one line.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

// === impl Report ===

impl Report {
    /// Whether all is well.
    pub fn is_ok(&self) -> bool {
        self.problems().is_empty()
    }

    /// What is not well, one sentence each.
    pub fn problems(&self) -> Vec<String> {
        let nodes = self.nodes.iter().flat_map(|node| {
            let parts =
                [("database", &node.database), ("switch", &node.switch), ("agent", &node.agent)];
            parts.map(|(part, health)| (format!("{part} of {}", node.name), health))
        });
        let pods = self.pods.iter().map(|pod| (pod.name.clone(), &pod.network));
        let bad = nodes.chain(pods).filter(|(_, health)| !health.is_ok());
        bad.map(|(part, health)| format!("{part}: {health}")).collect()
    }
}

/// The health of a node's switch and its database.
pub(crate) fn switch(node: &Node) -> (Health, Health) {
    let ovs = node.ovs();
    let database = format!("--db=unix:{}", ovs.db_socket().display());
    let asked = ovs.tool("ovs-vsctl").args([TIMEOUT, &database, "--no-wait", "list-br"]).run();
    (asked.into(), ovs.appctl(&[TIMEOUT, "version"]).into())
}

/// What an agent says of itself.
pub(crate) fn agent(node: &Node) -> Health {
    match ask_agent(node) {
        Ok(answer) if answer.starts_with("HTTP/1.1 200 ") => Health::Ok,
        Ok(answer) => {
            let body = answer.split_once("\r\n\r\n").map_or(answer.as_str(), |(_, body)| body);
            Health::Bad(body.trim().to_owned())
        }
        Err(error) => Health::Bad(chain(&error)),
    }
}

fn ask_agent(node: &Node) -> Result<String, LabError> {
    let address = AGENT.parse().expect("an address and a port");
    let mut stream = node.netns().tcp_connect(address).map_err(CommandError::from)?;
    let mut answer = String::new();
    stream
        .set_read_timeout(Some(PATIENCE))
        .and_then(|()| stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: lab\r\n\r\n"))
        .and_then(|()| stream.take(LONGEST_ANSWER).read_to_string(&mut answer))
        .map_err(LabError::Ask)?;
    Ok(answer)
}
