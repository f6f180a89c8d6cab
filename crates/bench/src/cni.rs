//! Pods made by the plugin, against the reference plugin `bridge` with `host-local`.
//!
//! Both make a veth, give an address from a range of the node's, and set a default route. A pod can
//! talk when its ADD returns: each one's first packet goes to its router right behind it, and must
//! be answered.

use crate::Suite;
use crate::figure::{Figure, Goal, Wanted};
use crate::measure::{Cost, Side, in_turns, median};
use crate::node::Cluster;
use crate::runtime::{Plugin, Pod};
use anyhow::{Result, ensure};
use osier_testbed::traffic;
use std::time::Duration;

const PODS: usize = 100;
const BURST: usize = 32;

const ONE_BY_ONE: Goal = Goal {
    name: "cni-add",
    about: "100 pods one by one, against Debian's bridge and host-local; median wall time of an ADD",
    wanted: Wanted::AtMost(0.6),
};
const AT_ONCE: Goal = Goal {
    name: "cni-add-32",
    about: "32 pods at once, against the same; wall time of all",
    wanted: Wanted::AtMost(0.3),
};

/// Pods one by one.
pub(crate) const ADD: Suite = Suite { goals: &[ONE_BY_ONE], run: one_by_one };
/// Pods at once.
pub(crate) const ADD_32: Suite = Suite { goals: &[AT_ONCE], run: at_once };

/// One side: a plugin, and pods for it.
struct Calls {
    plugin: Plugin,
    pods: Vec<Pod>,
    gateway: String,
}

fn one_by_one(rounds: usize) -> Result<Vec<Figure>> {
    eprintln!("cni-add: {PODS} pods on a node, one by one, ours and the rival's in turns");
    eprintln!("  from the start of the plugin to its end; then a ping from the pod, not counted");
    let cluster = Cluster::start(1)?;
    let (ours, rival) = (Calls::ours(&cluster, PODS)?, Calls::rival(&cluster, PODS)?);
    let (mut our_times, mut rival_times) = (Vec::new(), Vec::new());
    for round in 0..=rounds {
        let times = add_in_turns(&ours, &rival)?;
        let [our_median, rival_median] = [&times.0, &times.1].map(|times| wall(times));
        let label = if round == 0 { "warm-up".to_owned() } else { format!("round {round}") };
        let ratio = our_median.as_secs_f64() / rival_median.as_secs_f64();
        eprintln!("  {label}: {our_median:.2?} against {rival_median:.2?}, {ratio:.2}");
        if round > 0 {
            our_times.extend(times.0);
            rival_times.extend(times.1);
        }
        ours.clear()?;
        rival.clear()?;
    }
    tell_stages(&cluster)?;
    Ok(vec![Figure::times(&ONE_BY_ONE, wall(&our_times), wall(&rival_times))])
}

/// Each side's pods, alternating, and who goes first alternates, too.
fn add_in_turns(ours: &Calls, rival: &Calls) -> Result<(Vec<Cost>, Vec<Cost>)> {
    let (mut our_times, mut rival_times) = (Vec::new(), Vec::new());
    for n in 0..PODS {
        if n % 2 == 0 {
            our_times.push(ours.add(n)?);
            rival_times.push(rival.add(n)?);
        } else {
            rival_times.push(rival.add(n)?);
            our_times.push(ours.add(n)?);
        }
    }
    Ok((our_times, rival_times))
}

fn at_once(rounds: usize) -> Result<Vec<Figure>> {
    eprintln!("cni-add-32: {BURST} pods at once on a node that has none");
    eprintln!("  from the start of the first plugin to the end of the last");
    let cluster = Cluster::start(1)?;
    let (ours, rival) = (Calls::ours(&cluster, BURST)?, Calls::rival(&cluster, BURST)?);
    let costs = in_turns(rounds, |side| {
        let calls = if side == Side::Ours { &ours } else { &rival };
        let wall = calls.plugin.add_at_once(&calls.pods)?;
        calls.pods.iter().try_for_each(|pod| calls.talks(pod))?;
        calls.clear()?;
        Ok(Cost { wall, cpu: Duration::ZERO })
    })?;
    tell_stages(&cluster)?;
    Ok(vec![Figure::times(&AT_ONCE, wall(&costs.ours), wall(&costs.rival))])
}

/// Where the agent's time goes.
fn tell_stages(cluster: &Cluster) -> Result<()> {
    let stages = cluster.stages(0)?;
    let stages: Vec<_> = stages.iter().map(|(name, mean)| format!("{name} {mean:.2?}")).collect();
    eprintln!("  mean times in the agent: {}", stages.join(", "));
    Ok(())
}

fn wall(costs: &[Cost]) -> Duration {
    median(costs, |cost| cost.wall)
}

// === impl Calls ===

impl Calls {
    fn ours(cluster: &Cluster, pods: usize) -> Result<Self> {
        let pods = Pod::make(cluster.lab(), "a", pods)?;
        Ok(Self { plugin: Plugin::ours(cluster, 0), pods, gateway: Cluster::gateway(0) })
    }

    fn rival(cluster: &Cluster, pods: usize) -> Result<Self> {
        let pods = Pod::make(cluster.lab(), "b", pods)?;
        let plugin = Plugin::bridge(cluster.lab())?;
        Ok(Self { plugin, pods, gateway: Plugin::BRIDGE_GATEWAY.to_owned() })
    }

    fn add(&self, n: usize) -> Result<Cost> {
        let pod = &self.pods[n];
        let wall = self.plugin.add(pod)?;
        self.talks(pod)?;
        Ok(Cost { wall, cpu: Duration::ZERO })
    }

    /// Fails unless the pod's first packet is answered.
    fn talks(&self, pod: &Pod) -> Result<()> {
        let ping = traffic::ping(&pod.netns, self.gateway.parse()?, 1)?;
        let name = pod.netns.name();
        ensure!(ping.received == 1, "{name} has no answer from {}", self.gateway);
        Ok(())
    }

    fn clear(&self) -> Result<()> {
        self.plugin.delete_all(&self.pods)
    }
}
