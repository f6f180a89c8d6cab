//! A container runtime's part: it makes pods' namespaces ahead, and calls a plugin as a program in
//! the node's namespace.

use crate::node::{Cluster, socket};
use anyhow::{Context, Result, ensure};
use osier_testbed::{Lab, Netns, Node};
use std::io::Write;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Where Debian has the reference plugins.
const REFERENCE: &str = "/usr/lib/cni";

/// A plugin with its configuration, and the node that it is called on.
pub(crate) struct Plugin {
    program: PathBuf,
    config: String,
    node: Netns,
}

/// A container that has a namespace and, before its ADD, nothing else.
pub(crate) struct Pod {
    pub(crate) netns: Netns,
    namespace: String,
    name: String,
}

// === impl Pod ===

impl Pod {
    /// So many, with names that begin so.
    pub(crate) fn make(lab: &Lab, prefix: &str, count: usize) -> Result<Vec<Self>> {
        (0..count).map(|n| Self::named(lab, "shop", &format!("{prefix}{n}"))).collect()
    }

    /// One, of a namespace of Kubernetes.
    pub(crate) fn named(lab: &Lab, namespace: &str, name: &str) -> Result<Self> {
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        Ok(Self { netns: lab.netns(&name)?, namespace, name })
    }
}

// === impl Plugin ===

impl Plugin {
    /// Ours, on a node.
    pub(crate) fn ours(cluster: &Cluster, node: usize) -> Self {
        Self::of_node(cluster.plugin(), cluster.node(node))
    }

    /// Ours, on a node whose agent serves where agents here do.
    pub(crate) fn of_node(program: &Path, node: &Node) -> Self {
        let config = format!(
            r#"{{"cniVersion":"1.0.0","name":"net","type":"osier","agentSocket":"{}"}}"#,
            socket(node).display()
        );
        Self { program: program.to_owned(), config, node: node.netns().clone() }
    }

    /// `bridge` with `host-local`, in a node of its own: addresses from one range, a default route,
    /// and nothing that would cost more.
    pub(crate) fn bridge(lab: &Lab) -> Result<Self> {
        let config = format!(
            r#"{{"cniVersion":"1.0.0","name":"net","type":"bridge","bridge":"cni0","isGateway":true,
            "ipam":{{"type":"host-local","dataDir":"{}","ranges":[[{{"subnet":"10.2.0.0/20"}}]],
            "routes":[{{"dst":"0.0.0.0/0"}}]}}}}"#,
            lab.make_dir("host-local")?.display()
        );
        let program = PathBuf::from(REFERENCE).join("bridge");
        Ok(Self { program, config, node: lab.netns("rival")? })
    }

    /// The address that pods of `bridge` reach their router by.
    pub(crate) const BRIDGE_GATEWAY: &'static str = "10.2.0.1";

    /// Attaches a pod: from the start of the plugin to its end.
    pub(crate) fn add(&self, pod: &Pod) -> Result<Duration> {
        self.within(|| self.call("ADD", pod).map(|(took, _)| took))
    }

    /// Attaches a pod: the first address that it got.
    pub(crate) fn address(&self, pod: &Pod) -> Result<IpAddr> {
        let (_, result) = self.within(|| self.call("ADD", pod))?;
        let address = result.split_once("\"address\":").and_then(|(_, rest)| {
            rest.trim_start().strip_prefix('"')?.split('/').next()?.parse().ok()
        });
        address.with_context(|| format!("no address in {result}"))
    }

    /// Attaches pods at once: from the start of the first to the end of the last.
    pub(crate) fn add_at_once(&self, pods: &[Pod]) -> Result<Duration> {
        self.within(|| self.at_once("ADD", pods))
    }

    /// Detaches pods, some at once.
    pub(crate) fn delete_all(&self, pods: &[Pod]) -> Result<()> {
        self.within(|| pods.chunks(8).try_for_each(|pods| self.at_once("DEL", pods).map(drop)))
    }

    fn at_once(&self, command: &str, pods: &[Pod]) -> Result<Duration> {
        let start = Instant::now();
        std::thread::scope(|scope| {
            // These threads are in the namespace of the one that starts them.
            let calls: Vec<_> =
                pods.iter().map(|pod| scope.spawn(|| self.call(command, pod))).collect();
            calls.into_iter().try_for_each(|call| match call.join() {
                Ok(result) => result.map(drop),
                Err(panic) => std::panic::resume_unwind(panic),
            })
        })?;
        Ok(start.elapsed())
    }

    fn within<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        self.node.within(work)?
    }

    /// How long it took, and what it said.
    fn call(&self, command: &str, pod: &Pod) -> Result<(Duration, String)> {
        let start = Instant::now();
        let mut child = Command::new(&self.program)
            .env_clear()
            .env("CNI_COMMAND", command)
            .env("CNI_CONTAINERID", format!("container-{}", pod.name))
            .env("CNI_NETNS", format!("/run/netns/{}", pod.netns.name()))
            .env("CNI_IFNAME", "eth0")
            .env(
                "CNI_ARGS",
                format!(
                    "IgnoreUnknown=1;K8S_POD_NAMESPACE={};K8S_POD_NAME={}",
                    pod.namespace, pod.name
                ),
            )
            .env("CNI_PATH", REFERENCE)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run {}", self.program.display()))?;
        child.stdin.take().context("it has an input")?.write_all(self.config.as_bytes())?;
        let output = child.wait_with_output()?;
        let took = start.elapsed();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(output.status.success(), "{command} of {} failed: {said}", pod.name);
        Ok((took, said))
    }
}
