//! Pods at once and one at a time: until they are ready, inside of the CNI call, and what the API
//! server has to do for it.

use super::audit;
use super::cluster::{Programs, Side as Which, pod, pods};
use crate::Suite;
use crate::figure::{Amount, Figure, Goal, Wanted};
use crate::measure::{Side, in_turns, middle};
use anyhow::{Result, ensure};
use std::collections::BTreeMap;
use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

/// Pods that are made at once, half of them on each node.
const MANY: usize = 60;
/// Pods that are made one after the other.
const FEW: usize = 16;
/// Longer than any call.
const CALL: Duration = Duration::from_millis(100);
/// Behind the start of clusters.
const REST: Duration = Duration::from_secs(5);

const GOALS: [Goal; 4] = [
    Goal {
        name: "k8s-ready",
        about: "60 pods at once on two nodes of a cluster, from their creation until all are ready, \
                against bridge, host-local and portmap; wall",
        wanted: Wanted::AtMost(0.95),
    },
    Goal {
        name: "k8s-cni",
        about: "a pod of a cluster, one at a time; median time inside of the CNI call",
        wanted: Wanted::AtMost(0.5),
    },
    Goal {
        name: "k8s-cni-burst",
        about: "the same during the 60; median time inside of the CNI call",
        wanted: Wanted::AtMost(0.3),
    },
    Goal {
        name: "k8s-api",
        about: "requests of all of Osier to the API server during the 60, for each pod; against 1",
        wanted: Wanted::AtMost(1.0),
    },
];

const FLOOR: Goal = Goal {
    name: "k8s-floor",
    about: "60 pods at once with a plugin that does nothing, against bridge, host-local and portmap; \
            wall: the least that k8s-ready can be here",
    wanted: Wanted::Nothing,
};

/// All four, of the same clusters.
pub(crate) const PODS: Suite = Suite { goals: &GOALS, run };
/// What no plugin can beat.
pub(crate) const LEAST: Suite = Suite { goals: &[FLOOR], run: floor };

/// What making many pods at once took.
struct Burst {
    ready: Duration,
    adds: Vec<Duration>,
    /// Of our own cluster.
    requests: Option<BTreeMap<String, usize>>,
}

fn run(rounds: usize) -> Result<Vec<Figure>> {
    eprintln!("k8s: {MANY} pods at once, and {FEW} one by one, on two clusters of two nodes");
    let programs = Programs::build()?;
    let (ours, rival) = (Which::ours(&programs)?, Which::rival(&programs)?);
    eprintln!("  both clusters are up");
    // What was started with them comes to rest.
    thread::sleep(REST);
    let singles = one_by_one(&ours, &rival)?;
    let bursts = in_turns(rounds, |side| match side {
        Side::Ours => at_once(&ours, true),
        Side::Rival => at_once(&rival, false),
    })?;
    let adds = |bursts: &[Burst]| {
        middle(bursts.iter().flat_map(|burst| burst.adds.iter().copied()).collect())
    };
    let requests: Vec<f64> = bursts.ours.iter().map(Burst::requests_per_pod).collect();
    let most = requests.into_iter().fold(0.0, f64::max);
    Ok(vec![
        Figure::times(&GOALS[0], ready(&bursts.ours), ready(&bursts.rival)),
        Figure::times(&GOALS[1], middle(singles.0), middle(singles.1)),
        Figure::times(&GOALS[2], adds(&bursts.ours), adds(&bursts.rival)),
        Figure { goal: &GOALS[3], ours: Amount::Count(most), rival: Amount::Count(1.0) },
    ])
}

fn floor(rounds: usize) -> Result<Vec<Figure>> {
    eprintln!("k8s-floor: {MANY} pods at once on two clusters of two nodes");
    let programs = Programs::build()?;
    let (nothing, rival) = (Which::nothing(&programs)?, Which::rival(&programs)?);
    eprintln!("  both clusters are up");
    thread::sleep(REST);
    let bursts = in_turns(rounds, |side| match side {
        Side::Ours => at_once(&nothing, false),
        Side::Rival => at_once(&rival, false),
    })?;
    Ok(vec![Figure::times(&FLOOR, ready(&bursts.ours), ready(&bursts.rival))])
}

/// The CNI calls of pods that are made one at a time, ours and the rival's in turns.
fn one_by_one(ours: &Which, rival: &Which) -> Result<(Vec<Duration>, Vec<Duration>)> {
    for side in [ours, rival] {
        side.forget()?;
    }
    for n in 0..FEW {
        let order = if n % 2 == 0 { [ours, rival] } else { [rival, ours] };
        for side in order {
            let create = side.cluster.kubectl_command().args(["create", "-f", "-"]);
            create.input(pod(&in_turns_on(n), "single", n)).run()?;
            // Nobody asks meanwhile: kubectl costs more than the call.
            side.wait_for_adds(n + 1)?;
            thread::sleep(CALL);
            until_ready(side, "single")?;
        }
    }
    let times = (ours.adds()?, rival.adds()?);
    for (name, times) in [("Ours", &times.0), ("Rival", &times.1)] {
        ensure!(times.len() == FEW, "{name}: {} ADDs of {FEW} pods", times.len());
        eprintln!("  one by one: {name}: {:.2?}", middle(times.clone()));
    }
    for side in [ours, rival] {
        clear(side, "single")?;
    }
    Ok(times)
}

fn at_once(side: &Which, is_ours: bool) -> Result<Burst> {
    side.forget()?;
    let pods = pods("burst", MANY, in_turns_on);
    let create = side.cluster.kubectl_command().args(["create", "-f", "-"]).input(pods);
    let spent = || -> Result<[Duration; 4]> {
        let cpu = |program, verb| side.cpu(program, verb);
        let osier = [cpu("osier-agent", None)?, cpu("osier", Some("controller"))?];
        Ok([osier[0], osier[1], cpu("ovs-vswitchd", None)?, cpu("ovsdb-server", None)?])
    };
    let spent_before = spent()?;
    let before = is_ours.then(|| audit::requests(&side.cluster)).transpose()?;
    let begun = Instant::now();
    create.run()?;
    until_ready(side, "burst")?;
    let ready = begun.elapsed();
    let requests = match before {
        Some(before) => Some(audit::between(&before, &audit::requests(&side.cluster)?)),
        None => None,
    };
    let spent_after = spent()?;
    let spent: Vec<Duration> = spent_after
        .iter()
        .zip(spent_before)
        .map(|(after, before)| after.saturating_sub(before))
        .collect();
    eprintln!("  CPU of agents, controller, ovs-vswitchd, ovsdb-server: {spent:.2?}");
    let adds = side.adds()?;
    ensure!(adds.len() == MANY, "{} ADDs of {MANY} pods", adds.len());
    clear(side, "burst")?;
    Ok(Burst { ready, adds, requests })
}

fn ready(bursts: &[Burst]) -> Duration {
    middle(bursts.iter().map(|burst| burst.ready).collect())
}

fn in_turns_on(number: usize) -> String {
    format!("node-{}", number % 2 + 1)
}

fn until_ready(side: &Which, group: &str) -> Result<()> {
    let label = format!("group={group}");
    let wait = ["wait", "pod", "-l", &label, "--for=condition=Ready", "--timeout=170s"];
    side.cluster.kubectl(&wait)?;
    Ok(())
}

/// Takes pods away, and waits until nodes have done so.
fn clear(side: &Which, group: &str) -> Result<()> {
    let label = format!("group={group}");
    side.cluster.kubectl(&["delete", "pod", "-l", &label, "--timeout=170s"])?;
    Ok(())
}

// === impl Burst ===

impl Burst {
    #[allow(clippy::cast_precision_loss, reason = "small numbers")]
    fn requests_per_pod(&self) -> f64 {
        let all: usize = self.requests.iter().flat_map(BTreeMap::values).sum();
        all as f64 / MANY as f64
    }
}

impl fmt::Display for Burst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let adds = middle(self.adds.clone());
        write!(f, "{:.2?} until ready, {adds:.2?} in an ADD", self.ready)?;
        match &self.requests {
            Some(requests) => write!(f, "; requests: {requests:?}"),
            None => Ok(()),
        }
    }
}
