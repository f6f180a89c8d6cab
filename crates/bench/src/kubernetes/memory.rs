//! Memory of the controller and of an agent in a cluster of 5,000 pods.
//!
//! A hundred nodes and their pods are objects without a kubelet. Two nodes are real, with agents, and
//! one of these has as many real pods as each of the others has made-up ones.

use super::cluster::{Programs, Side, pods};
use super::{crowd, process};
use crate::Suite;
use crate::figure::{Amount, Figure, Goal, Wanted};
use anyhow::{Result, ensure};
use osier_kubelab::Cluster;
use osier_testbed::wait_until;
use std::process::Command;
use std::time::Duration;

/// Nodes that are objects only.
const NODES: usize = 100;
/// Pods of each node.
const PODS: usize = 50;
/// What memories are measured against, in bytes.
const MODEST_AGENT: u64 = 30_000_000;
const MODEST_CONTROLLER: u64 = 200_000_000;
const PATIENCE: Duration = Duration::from_mins(2);

const GOALS: [Goal; 2] = [
    Goal {
        name: "k8s-agent-memory",
        about: "resident memory of an agent with 50 pods in a cluster of 5,000, against 30 MB",
        wanted: Wanted::AtMost(1.0),
    },
    Goal {
        name: "k8s-controller-memory",
        about: "resident memory of the controller of a cluster of 5,000 pods, against 200 MB",
        wanted: Wanted::AtMost(1.0),
    },
];

/// Both, of the same cluster.
pub(crate) const MEMORY: Suite = Suite { goals: &GOALS, run };

fn run(_rounds: usize) -> Result<Vec<Figure>> {
    eprintln!("k8s-memory: {NODES} nodes with {PODS} pods each, as objects; two real nodes");
    let programs = Programs::build()?;
    let side = Side::ours(&programs)?;
    let cluster = &side.cluster;
    tell(cluster, "at the start")?;
    // It would find that nobody hears of these nodes, and take their pods away.
    cluster.control_plane().stop("kube-controller-manager")?;
    let real = pods("real", PODS, |_| "node-1".to_owned());
    cluster.kubectl_command().args(["create", "-f", "-"]).input(real).run()?;
    crowd::make(cluster, NODES, PODS)?;
    let ready = ["wait", "pod", "-l", "group=real", "--for=condition=Ready", "--timeout=170s"];
    cluster.kubectl(&ready)?;
    let (agent, controller) = tell(cluster, "when all pods are there")?;
    // The answer is a list of all of them, which takes memory, too.
    wait_until("the controller to know all pods", PATIENCE, || {
        knows(&programs, cluster).map_err(|error| error.to_string())
    })?;
    let (agent_later, controller_later) = tell(cluster, "after it has told them all")?;
    let flows = ["ovs-ofctl", "-O", "OpenFlow15", "dump-flows", "br-int"];
    let flows = cluster.node("node-1")?.machine().run(&flows)?.lines().count();
    eprintln!("  node-1 has {flows} flows");
    let against = |goal, ours: u64, rival| Figure {
        goal,
        ours: Amount::Memory(ours),
        rival: Amount::Memory(rival),
    };
    Ok(vec![
        against(&GOALS[0], agent.max(agent_later), MODEST_AGENT),
        against(&GOALS[1], controller.max(controller_later), MODEST_CONTROLLER),
    ])
}

/// Whether the controller tells of all pods.
fn knows(programs: &Programs, cluster: &Cluster) -> Result<()> {
    let mut osier = Command::new(programs.osier());
    let said =
        osier.args(["get", "pods", "-A"]).env("KUBECONFIG", cluster.kubeconfig()).output()?;
    let text = String::from_utf8_lossy(&said.stdout);
    let made_up = text.lines().filter(|line| line.contains("sim-")).count();
    ensure!(made_up == NODES * PODS, "{made_up} pods: {}", String::from_utf8_lossy(&said.stderr));
    Ok(())
}

/// Memory of node-1's agent and of the controller.
fn tell(cluster: &Cluster, when: &str) -> Result<(u64, u64)> {
    let (mut agent, mut controller) = (0, 0);
    for process in process::find(cluster.node("node-1")?.machine(), "osier-agent", None)? {
        agent += process.resident()?;
    }
    for node in cluster.nodes() {
        for process in process::find(node.machine(), "osier", Some("controller"))? {
            controller += process.resident()?;
        }
    }
    ensure!(agent > 0 && controller > 0, "Osier does not run");
    eprintln!("  {when}: agent {} kB, controller {} kB", agent / 1000, controller / 1000);
    Ok((agent, controller))
}
