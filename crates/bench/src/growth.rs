//! What the agent costs on a node that is full: time for one more pod, and memory.
//!
//! The switch's own attach grows with its ports, and the agent only waits for it; so what counts
//! here is the CPU time of the agent's process, all threads and the kernel's work for it included.
//! A pod comes to the one node, then to the other: a full switch is busy for some 40 ms with each of
//! its own, which empties the processors' caches, and that is to be so for both.
//!
//! One thing of the switch's is in there all the same: in its userspace datapath each port is a packet
//! socket, and the kernel tells each of them of every interface that is made, by whomever, on the time
//! of who makes it. So a bare wire, which is one request to the kernel, is made beside each pod: how much
//! more that costs on the full node is told, too.

use crate::Suite;
use crate::figure::{Amount, Figure, Goal, Wanted};
use crate::measure::middle;
use crate::node::{Cluster, PATIENCE, cpu_of};
use crate::runtime::{Plugin, Pod};
use anyhow::Result;
use nix::time::{ClockId, clock_gettime};
use osier_agent::netlink::{self, Namespace, Veth};
use osier_model::Mac;
use osier_testbed::{Netns, Node, Process, wait_until};
use std::fmt::{self, Display, Formatter};
use std::time::Duration;

/// Pods on the node that is full, before one more is measured.
const MANY: usize = 495;
/// Pods that are measured together, around the 500th and around the 5th.
const MORE: usize = 10;
/// Pods of a node whose agent's memory is measured.
const FULL: usize = 250;
/// What that memory is measured against, in bytes.
const MODEST: u64 = 25_000_000;
/// Pods that come at once where it is not measured.
const CROWD: usize = 16;
/// An agent that used less CPU in this time than a tenth of it is idle.
const PAUSE: Duration = Duration::from_millis(100);

const GROWTH: Goal = Goal {
    name: "cni-own-growth",
    about: "one more pod at the 500th against the 5th; CPU time of the agent",
    wanted: Wanted::AtMost(1.2),
};
const WIRE: Goal = Goal {
    name: "cni-wire-growth",
    about: "a bare wire beside as many, which is one request to the kernel: what of that is not the agent's",
    wanted: Wanted::Nothing,
};
const MEMORY: Goal = Goal {
    name: "agent-memory",
    about: "resident memory of the agent with 250 pods, against 25 MB",
    wanted: Wanted::AtMost(1.0),
};

/// One more pod.
pub(crate) const ADD_GROWTH: Suite = Suite { goals: &[GROWTH, WIRE], run: growth };
/// Memory.
pub(crate) const AGENT_MEMORY: Suite = Suite { goals: &[MEMORY], run: memory };

/// A node that pods are added to and taken from.
struct Growing<'a> {
    plugin: Plugin,
    pods: Vec<Pod>,
    agent: &'a Process,
    /// Where it makes wires, and the other end of a bare one.
    node: &'a Node,
    elsewhere: Netns,
}

/// What one more pod took of an agent's CPU, and a bare wire of ours.
#[derive(Clone, Copy)]
struct OneMore {
    pod: Duration,
    wire: Duration,
}

fn growth(rounds: usize) -> Result<Vec<Figure>> {
    eprintln!("cni-own-growth: {MORE} pods one by one, with {MANY} others on the node or none");
    let cluster = Cluster::start(2)?;
    let many = Growing::on(&cluster, 0)?;
    let few = Growing::on(&cluster, 1)?;
    let others = Pod::make(cluster.lab(), "x", MANY)?;
    for pods in others.chunks(CROWD) {
        many.plugin.add_at_once(pods)?;
    }
    let (mut ours, mut rival) = (Vec::new(), Vec::new());
    for round in 0..=rounds {
        let (mut at_many, mut at_few) = (Vec::new(), Vec::new());
        for n in 0..MORE {
            at_many.push(many.add(n)?);
            at_few.push(few.add(n)?);
        }
        let label = if round == 0 { "warm-up".to_owned() } else { format!("round {round}") };
        let [at_500, at_5] = [&at_many, &at_few].map(|costs| OneMore::median(costs));
        eprintln!("  {label}: {at_500} against {at_5}");
        if round > 0 {
            ours.extend(at_many);
            rival.extend(at_few);
        }
        for node in [&many, &few] {
            node.plugin.delete_all(&node.pods)?;
        }
    }
    let [ours, rival] = [&ours, &rival].map(|costs| OneMore::median(costs));
    let beyond = ours.beyond_wire().as_secs_f64() / rival.beyond_wire().as_secs_f64();
    eprintln!("  beyond the wires it is {beyond:.2}");
    Ok(vec![
        Figure::times(&GROWTH, ours.pod, rival.pod),
        Figure::times(&WIRE, ours.wire, rival.wire),
    ])
}

fn memory(_rounds: usize) -> Result<Vec<Figure>> {
    eprintln!("agent-memory: {FULL} pods on a node");
    let cluster = Cluster::start(1)?;
    let plugin = Plugin::ours(&cluster, 0);
    let agent = cluster.agent(0);
    eprintln!("  {:.1} MB without pods", megabytes(agent.usage()?.rss));
    let pods = Pod::make(cluster.lab(), "x", FULL)?;
    for pods in pods.chunks(CROWD) {
        plugin.add_at_once(pods)?;
    }
    settle(agent)?;
    let used = agent.usage()?.rss;
    eprintln!("  {:.1} MB with {FULL}", megabytes(used));
    let (ours, rival) = (Amount::Memory(used), Amount::Memory(MODEST));
    Ok(vec![Figure { goal: &MEMORY, ours, rival }])
}

// === impl Growing ===

impl<'a> Growing<'a> {
    fn on(cluster: &'a Cluster, node: usize) -> Result<Self> {
        let pods = Pod::make(cluster.lab(), &format!("n{node}-"), MORE)?;
        Ok(Self {
            plugin: Plugin::ours(cluster, node),
            pods,
            agent: cluster.agent(node),
            node: cluster.node(node),
            elsewhere: cluster.lab().netns(&format!("elsewhere{node}"))?,
        })
    }

    /// Adds a pod, and a bare wire that goes again: what they cost.
    fn add(&self, n: usize) -> Result<OneMore> {
        settle(self.agent)?;
        let wire = self.wire()?;
        settle(self.agent)?;
        let before = cpu_time(self.agent)?;
        self.plugin.add(&self.pods[n])?;
        Ok(OneMore { pod: cpu_time(self.agent)?.saturating_sub(before), wire })
    }

    /// What it costs to make a wire such as pods have, without a pod.
    fn wire(&self) -> Result<Duration> {
        let veth = Veth {
            host: "bare".into(),
            peer: "end".into(),
            mac: Mac([2, 0, 0, 0, 0, 9]),
            mtu: 1400,
        };
        let elsewhere = Namespace::open(&format!("/run/netns/{}", self.elsewhere.name()))?;
        self.node.netns().within(|| {
            let before = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?;
            netlink::create_veth(&veth, &elsewhere)?;
            let took = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)? - before;
            netlink::delete_link(&veth.host)?;
            Ok(took.into())
        })?
    }
}

// === impl OneMore ===

impl OneMore {
    fn median(all: &[Self]) -> Self {
        Self {
            pod: middle(all.iter().map(|one| one.pod).collect()),
            wire: middle(all.iter().map(|one| one.wire).collect()),
        }
    }

    /// Without what making a wire costs anybody.
    fn beyond_wire(self) -> Duration {
        self.pod.saturating_sub(self.wire)
    }
}

impl Display for OneMore {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2?} of CPU, {:.2?} of it as a bare wire", self.pod, self.wire)
    }
}

fn cpu_time(process: &Process) -> Result<Duration> {
    cpu_of(&[process.pid()])
}

/// Waits until a process rests: an agent's wires are deleted behind DEL's back.
pub(crate) fn settle(agent: &Process) -> Result<()> {
    let mut before = cpu_time(agent)?;
    wait_until("a process to rest", PATIENCE, || {
        std::thread::sleep(PAUSE);
        let now = cpu_time(agent).map_err(|error| error.to_string())?;
        let used = now.saturating_sub(std::mem::replace(&mut before, now));
        if used < PAUSE / 10 { Ok(()) } else { Err(format!("{used:?} of CPU in {PAUSE:?}")) }
    })?;
    Ok(())
}

#[allow(clippy::cast_precision_loss, reason = "memories are far below 2^52 bytes")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
