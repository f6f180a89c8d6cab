//! The two clusters: alike, but for what connects their pods.

use super::{audit, calls, process};
use crate::node::{build_plugin, cargo};
use anyhow::{Context, Result};
use osier_kubelab::{Cluster, Osier, PAUSE, Settings};
use osier_testbed::{Lab, wait_until};
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_mins(1);

/// Programs as they are released, and the stopwatch.
#[derive(Debug)]
pub(super) struct Programs {
    folder: PathBuf,
}

/// A cluster of two nodes whose plugins are timed.
pub(super) struct Side {
    pub(super) cluster: Cluster,
    /// Holds what the API server reads at its start.
    _lab: Lab,
}

// === impl Programs ===

impl Programs {
    /// Builds them if they are not up to date.
    pub(super) fn build() -> Result<Self> {
        cargo(&["build", "--quiet", "--release", "-p", "osier", "-p", "xtask"])?;
        let plugins = ["-p", "osier-bench", "--bin", "cni-stopwatch", "--bin", "cni-nothing"];
        cargo(&[&["build", "--quiet", "--release"], &plugins[..]].concat())?;
        build_plugin()?;
        let own = std::env::current_exe()?;
        let folder = own.parent().context("a program is in a directory")?.to_owned();
        Ok(Self { folder })
    }

    /// The command line.
    pub(super) fn osier(&self) -> PathBuf {
        self.folder.join("osier")
    }

    fn stopwatch(&self) -> PathBuf {
        self.folder.join("cni-stopwatch")
    }
}

// === impl Side ===

impl Side {
    /// With Osier, as a user installs it.
    pub(super) fn ours(programs: &Programs) -> Result<Self> {
        let side = Self::up()?;
        let values = ["datapath=netdev"];
        let osier = Osier::of_programs(side.cluster.lab(), &programs.folder, "bench", &values)?;
        side.cluster.install_osier(&osier)?;
        side.time(programs, &["osier"])?;
        Ok(side)
    }

    /// With `bridge`, `host-local` and `portmap`, on the same nodes: their uplink is a port of the switch,
    /// too, since what the userspace datapath costs each packet to the API server is not to be compared.
    pub(super) fn rival(programs: &Programs) -> Result<Self> {
        let side = Self::up()?;
        side.cluster.install_reference_network()?;
        side.time(programs, &["bridge", "portmap"])?;
        Ok(side)
    }

    /// With a plugin that does nothing: pods are ready as if it took no time.
    pub(super) fn nothing(programs: &Programs) -> Result<Self> {
        let side = Self::up()?;
        let plugin = programs.folder.join("cni-nothing");
        let plugin = plugin.to_str().context("the plugin's path is text")?;
        for node in side.cluster.nodes() {
            node.machine().run(&["cp", plugin, "/opt/cni/bin/nothing"])?;
            // Of this name containerd runs one for each pod, whatever the network is.
            node.machine().run(&["cp", plugin, "/opt/cni/bin/loopback"])?;
            let config =
                json!({"cniVersion": "0.4.0", "name": "none", "plugins": [{"type": "nothing"}]});
            node.machine().write("/etc/cni/net.d/10-nothing.conflist", config.to_string())?;
        }
        side.cluster.wait_until_ready()?;
        side.time(programs, &["nothing"])?;
        Ok(side)
    }

    fn up() -> Result<Self> {
        let lab = Lab::new()?;
        let mut settings = Settings { verbose: false, ..Settings::default() };
        audit::enable(&mut settings, &lab)?;
        Ok(Self { cluster: Cluster::up(settings)?, _lab: lab })
    }

    fn time(&self, programs: &Programs, plugins: &[&str]) -> Result<()> {
        let mut nodes = self.cluster.nodes().iter();
        nodes.try_for_each(|node| calls::time(node.machine(), &programs.stopwatch(), plugins))
    }

    /// CPU time so far of a program on all nodes.
    pub(super) fn cpu(&self, program: &str, verb: Option<&str>) -> Result<Duration> {
        let mut sum = Duration::ZERO;
        for node in self.cluster.nodes() {
            for process in process::find(node.machine(), program, verb)? {
                sum += process.cpu()?;
            }
        }
        Ok(sum)
    }

    /// Waits until so many ADDs were noted.
    pub(super) fn wait_for_adds(&self, count: usize) -> Result<()> {
        wait_until("a CNI call", PATIENCE, || match self.adds() {
            Ok(adds) if adds.len() >= count => Ok(()),
            Ok(adds) => Err(format!("{} of {count}", adds.len())),
            Err(error) => Err(error.to_string()),
        })?;
        Ok(())
    }

    /// Forgets the calls so far.
    pub(super) fn forget(&self) -> Result<()> {
        self.cluster.nodes().iter().try_for_each(|node| calls::forget(node.machine()))
    }

    /// How long each ADD took since then, on all nodes.
    pub(super) fn adds(&self) -> Result<Vec<Duration>> {
        let mut adds = Vec::new();
        for node in self.cluster.nodes() {
            adds.extend(calls::adds(node.machine())?);
        }
        Ok(adds)
    }
}

/// So many of them, on nodes that are told by their number.
pub(super) fn pods(group: &str, count: usize, node: impl Fn(usize) -> String) -> String {
    let each: Vec<String> = (0..count).map(|n| pod(&node(n), group, n)).collect();
    each.join("---\n")
}

/// The smallest pod that there is.
pub(super) fn pod(node: &str, group: &str, number: usize) -> String {
    format!(
        "apiVersion: v1
kind: Pod
metadata: {{name: {group}-{number}, labels: {{group: {group}}}}}
spec:
  nodeName: {node}
  terminationGracePeriodSeconds: 1
  automountServiceAccountToken: false
  containers: [{{name: pause, image: \"{PAUSE}\"}}]
"
    )
}
