//! Real nodes, as a runtime finds them: a switch each, and the agent as a process of its own.
//!
//! Programs are those that are shipped: `osier` as released, `osier-cni` static and small.

use anyhow::{Context, Result, bail, ensure};
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use osier_testbed::{Fabric, Family, Lab, Node, Process, wait_until};
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

/// What may take long here takes seconds.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);
/// Where an agent serves its metrics, in its node's namespace.
const METRICS: &str = "127.0.0.1:9476";

/// Nodes with an agent each; they go with their owner.
pub(crate) struct Cluster {
    // Agents go before their switches.
    agents: Vec<Process>,
    fabric: Fabric,
    lab: Lab,
    plugin: PathBuf,
}

/// Programs, built if they are not up to date.
struct Programs {
    agent: PathBuf,
    plugin: PathBuf,
}

// === impl Cluster ===

impl Cluster {
    /// So many nodes, each with 4,000 addresses for pods and an agent that serves.
    pub(crate) fn start(nodes: u8) -> Result<Self> {
        let programs = Programs::build()?;
        let lab = Lab::new()?;
        let fabric = Fabric::new(&lab, Family::Ipv4, nodes)?;
        let view = view(&fabric)?;
        let agents =
            fabric.nodes().iter().map(|node| start_agent(&programs.agent, node, &view)).collect();
        Ok(Self { agents: serving(agents, &fabric)?, fabric, lab, plugin: programs.plugin })
    }

    pub(crate) fn lab(&self) -> &Lab {
        &self.lab
    }

    pub(crate) fn node(&self, index: usize) -> &Node {
        &self.fabric.nodes()[index]
    }

    pub(crate) fn node_mut(&mut self, index: usize) -> &mut Node {
        &mut self.fabric.nodes_mut()[index]
    }

    pub(crate) fn agent(&self, index: usize) -> &Process {
        &self.agents[index]
    }

    pub(crate) fn plugin(&self) -> &Path {
        &self.plugin
    }

    /// The address that pods of a node reach its router by.
    pub(crate) fn gateway(index: usize) -> String {
        format!("10.1.{}.1", (index + 1) * 16)
    }

    /// The mean time of each stage of a pod's creation so far, as a node's agent tells.
    pub(crate) fn stages(&self, index: usize) -> Result<Vec<(String, Duration)>> {
        let page = self.metrics(index)?;
        let value = |kind: &str, stage: &str| {
            let start = format!("osier_agent_pod_creation_seconds_{kind}{{stage=\"{stage}\"}} ");
            page.lines().find_map(|line| line.strip_prefix(&start)?.parse::<f64>().ok())
        };
        let stages = ["veth", "rows", "namespace", "flows", "total"];
        let means = stages.iter().filter_map(|stage| {
            let mean = value("sum", stage)? / value("count", stage)?;
            Some(((*stage).to_owned(), Duration::try_from_secs_f64(mean).ok()?))
        });
        Ok(means.collect())
    }

    fn metrics(&self, index: usize) -> Result<String> {
        let mut stream = self.node(index).netns().tcp_connect(METRICS.parse()?)?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n")?;
        let mut page = String::new();
        stream.read_to_string(&mut page)?;
        Ok(page)
    }
}

fn start_agent(program: &Path, node: &Node, view: &str) -> Result<Process> {
    let directory = node.ovs().dir();
    std::fs::write(directory.join("view.yaml"), view)?;
    let (run, name) = (directory.display(), node.name());
    let text = format!(
        "node = '{name}'\ndatapath = 'netdev'\novsdb = '{}'\novs_run_dir = '{run}'\n\
         cni_socket = '{}'\nview = '{run}/view.yaml'\ncool_down_seconds = 0\n\
         metrics = '{METRICS}'\n",
        node.ovs().db_socket().display(),
        socket(node).display(),
    );
    let config = directory.join("agent.toml");
    std::fs::write(&config, text)?;
    let program = program.to_str().context("the agent's path is text")?;
    let agent = node.netns().command(program).args(["agent", "--config"]).arg(config);
    // As `deploy/osier-agent.service` has it.
    Ok(agent.env("MALLOC_ARENA_MAX", "1").spawn()?)
}

/// Waits until all agents serve.
fn serving(agents: Result<Vec<Process>>, fabric: &Fabric) -> Result<Vec<Process>> {
    let mut agents = agents?;
    for (agent, node) in agents.iter_mut().zip(fabric.nodes()) {
        let ended = wait_until("the agent's socket", PATIENCE, || {
            let ended = agent.exited();
            if ended.is_some() {
                Ok(ended)
            } else {
                UnixStream::connect(socket(node)).map(|_| None)
            }
        })?;
        if let Some(status) = ended {
            bail!("the agent ended ({status}):\n{}", agent.stderr());
        }
    }
    Ok(agents)
}

/// Where a node's agent serves the plugin.
pub(crate) fn socket(node: &Node) -> PathBuf {
    node.ovs().dir().join("cni.sock")
}

fn view(fabric: &Fabric) -> Result<String> {
    let mut text = String::from(
        "fabric: { tunnel: geneve, cluster: [10.1.0.0/16] }\nobjects:\n\
         - { kind: router, name: default, vrf: 0 }\n\
         - { kind: network, name: pods, vni: 1, router: default, reach: routed }\n",
    );
    for (n, node) in (1..).zip(fabric.nodes()) {
        let address = node.underlay();
        let addresses = format!("tunnel: '{address}', addresses: ['{address}']");
        let block = format!("10.1.{}.0/20", n * 16);
        writeln!(text, "- {{ kind: node, name: n{n}, {addresses}, blocks: [{block}] }}")?;
    }
    Ok(text)
}

// === impl Programs ===

impl Programs {
    fn build() -> Result<Self> {
        Ok(Self { agent: osier()?.into(), plugin: build_plugin()? })
    }
}

/// Builds the plugin as it is released, static and small: where it is.
pub(crate) fn build_plugin() -> Result<PathBuf> {
    cargo(&["xtask", "cni"])?;
    // Ours is there, too: `<target>/release/osier-bench`.
    let own = std::env::current_exe()?;
    let target = own.ancestors().nth(2).context("a profile's directory is in the target's")?;
    Ok(target.join("plugin/osier-cni"))
}

/// The released `osier`, built if it is not up to date.
pub(crate) fn osier() -> Result<String> {
    cargo(&["build", "--quiet", "--release", "-p", "osier"])?;
    let path = std::env::current_exe()?.with_file_name("osier");
    Ok(path.to_str().context("the program's path is text")?.to_owned())
}

/// The process of a daemon of Open vSwitch, by the file that it keeps in its directory.
pub(crate) fn daemon_pid(directory: &Path, program: &str) -> Result<u32> {
    let path = directory.join(format!("{program}.pid"));
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    Ok(text.trim().parse()?)
}

/// CPU time of processes together, all threads that they ever had included.
pub(crate) fn cpu_of(processes: &[u32]) -> Result<Duration> {
    let each = processes.iter().map(|process| {
        let clock = clock_getcpuclockid(Pid::from_raw(process.cast_signed()))?;
        Ok(Duration::from(clock_gettime(clock)?))
    });
    each.sum()
}

pub(crate) fn cargo(arguments: &[&str]) -> Result<()> {
    let mut command = osier_testbed::cargo();
    // It says where things are, which is not what we say.
    command.args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).stdout(Stdio::null());
    let status = command.status().context("cargo cannot be run")?;
    ensure!(status.success(), "{command:?} failed: {status}");
    Ok(())
}
