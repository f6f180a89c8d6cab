//! A pod as a container runtime has it: a namespace, an id, and calls of the plugin.
//!
//! The plugin is started as the CNI specification says: its parameters in the environment, the
//! network's configuration on standard input, the answer on standard output.

use crate::error::LabError;
use osier_testbed::{Netns, Node};
use serde_json::{Value, json};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// A pod.
#[derive(Debug)]
pub(crate) struct Pod {
    pub(crate) name: String,
    /// What the cluster knows it by: its namespace, and its name there.
    known_as: (String, String),
    /// The index of its node.
    pub(crate) node: usize,
    pub(crate) netns: Netns,
    /// What the plugin said to its ADD.
    result: Value,
}

impl Pod {
    /// Makes a pod on a node.
    pub(crate) fn attach(
        plugin: &Path,
        namespace: &str,
        name: &str,
        index: usize,
        node: &Node,
    ) -> Result<Self, LabError> {
        let known_as = (namespace.to_owned(), name.to_owned());
        let name = match namespace {
            "default" => name.to_owned(),
            _ => format!("{namespace}-{name}"),
        };
        let netns = node.netns().lab().netns(&name)?;
        let mut pod = Self { name, known_as, node: index, netns, result: Value::Null };
        pod.result = pod.call(plugin, "ADD", node)?;
        if pod.addresses().is_empty() {
            let (pod, said) = (pod.name.clone(), format!("there is no address in {}", pod.result));
            return Err(LabError::Plugin { command: "ADD", pod, said });
        }
        Ok(pod)
    }

    /// Asks the plugin whether all is still as it made it.
    pub(crate) fn check(&self, plugin: &Path, node: &Node) -> Result<(), LabError> {
        self.call(plugin, "CHECK", node).map(drop)
    }

    /// Its addresses.
    pub(crate) fn addresses(&self) -> Vec<IpAddr> {
        let ips = self.result["ips"].as_array().into_iter().flatten();
        let texts = ips.filter_map(|ip| ip["address"].as_str()?.split('/').next());
        texts.filter_map(|text| text.parse().ok()).collect()
    }

    fn call(&self, plugin: &Path, command: &'static str, node: &Node) -> Result<Value, LabError> {
        let mut config = json!({
            "cniVersion": "1.1.0",
            "name": "lab",
            "type": "osier",
            "agentSocket": agent_socket(node),
        });
        if !self.result.is_null() {
            config["prevResult"] = self.result.clone();
        }
        let (namespace, name) = &self.known_as;
        let args = format!("IgnoreUnknown=1;K8S_POD_NAMESPACE={namespace};K8S_POD_NAME={name}");
        let output = node
            .netns()
            .command(&plugin.display().to_string())
            .env("CNI_COMMAND", command)
            .env("CNI_CONTAINERID", format!("lab-{}", self.name))
            .env("CNI_NETNS", format!("/run/netns/{}", self.netns.name()))
            .env("CNI_IFNAME", "eth0")
            .env("CNI_ARGS", args)
            .env("CNI_PATH", "/opt/cni/bin:/usr/lib/cni")
            .input(config.to_string())
            .output()?;
        let said: Value = serde_json::from_str(&output.stdout).unwrap_or(Value::Null);
        if output.status.success() {
            return Ok(said);
        }
        let reason = ["msg", "details"].map(|key| said[key].as_str().unwrap_or_default());
        let reason = if said.is_null() { output.stderr } else { reason.join(" ") };
        let reason = reason.trim().to_owned();
        Err(LabError::Plugin { command, pod: self.name.clone(), said: reason })
    }
}

/// The socket of a node's agent.
pub(crate) fn agent_socket(node: &Node) -> PathBuf {
    node.ovs().dir().join("cni.sock")
}
