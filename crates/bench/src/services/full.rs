//! All Services from nothing, and one endpoint's change among them, from the write of its slice to the
//! first datagram that it answers.

use super::kube_proxy::KubeProxy;
use super::ours;
use super::probe::Answering;
use crate::Suite;
use crate::figure::{Figure, Goal, Wanted};
use crate::managed::Managed;
use crate::measure::{Cost, Rounds, Side, in_turns, median};
use crate::node::osier;
use anyhow::Result;
use std::thread;
use std::time::{Duration, Instant};

const MANY: usize = 10_000;
const FEW: usize = 100;
/// Longer than kube-proxy takes for all.
const PATIENCE: Duration = Duration::from_mins(10);
/// Changes in a round.
const CHANGES: usize = 5;
/// Behind a change CPU is counted until there is hardly any in this time, on both sides: not all work is
/// waited for.
const SETTLED: Duration = Duration::from_millis(300);

macro_rules! goals {
    ($rival:literal, $about:literal, $one:literal) => {
        [
            Goal {
                name: concat!("svc-full-", $rival),
                about: concat!(
                    "10,000 Services of 10 endpoints from nothing, until the last is reached, against ",
                    $about, "; wall"
                ),
                wanted: Wanted::AtMost(0.2),
            },
            Goal {
                name: concat!("svc-full-", $rival, "-cpu"),
                about: "the same; CPU of all processes of the node",
                wanted: Wanted::AtMost(0.2),
            },
            Goal {
                name: concat!("svc-one-", $rival),
                about: concat!(
                    "one endpoint among them, from the write of its slice until it is reached, against ",
                    $about, "; wall"
                ),
                wanted: Wanted::AtMost($one),
            },
            Goal {
                name: concat!("svc-one-", $rival, "-cpu"),
                about: "the same; CPU of all processes of the node",
                wanted: Wanted::AtMost($one),
            },
        ]
    };
}

const VS_NFTABLES: [Goal; 4] = goals!("nft", "kube-proxy with nftables", 0.3);
const VS_IPTABLES: [Goal; 4] = goals!("iptables", "kube-proxy with iptables", 0.1);
const OWN: [Goal; 2] = [
    Goal {
        name: "svc-growth",
        about: "one endpoint's change among 10,000 Services against one among 100; wall",
        wanted: Wanted::AtMost(1.2),
    },
    Goal {
        name: "svc-growth-cpu",
        about: "the same; CPU of all processes of the node",
        wanted: Wanted::AtMost(1.2),
    },
];

/// Against kube-proxy with nftables.
pub(crate) const NFTABLES: Suite =
    Suite { goals: &VS_NFTABLES, run: |rounds| against(&VS_NFTABLES, "nftables", rounds) };
/// Against kube-proxy with iptables.
pub(crate) const IPTABLES: Suite =
    Suite { goals: &VS_IPTABLES, run: |rounds| against(&VS_IPTABLES, "iptables", rounds) };
/// Against ourselves.
pub(crate) const GROWTH: Suite = Suite { goals: &OWN, run: growth };

fn against(goals: &'static [Goal; 4], mode: &'static str, rounds: usize) -> Result<Vec<Figure>> {
    eprintln!("{}: {MANY} Services on a node of ours and on one with kube-proxy", goals[0].name);
    let mut ours = ours::start(&osier()?, MANY)?;
    let (flows, groups) = ours.sizes()?;
    eprintln!("  ours is up: {flows} flows, {groups} groups");
    let rival = KubeProxy::start(mode, MANY)?;
    let answering = (Answering::start(ours.netns())?, Answering::start(&rival.netns()?)?);
    rival.start_proxy()?;
    answering.1.wait(MANY - 1, 0, PATIENCE)?;
    eprintln!("  so is {mode}");
    // One of each takes long enough to tell them apart.
    let full = in_turns(1, |side| match side {
        Side::Ours => ours_from_nothing(&mut ours, &answering.0),
        Side::Rival => rival_from_nothing(&rival, &answering.1),
    })?;
    ours.converged()?;
    let mut api = rival.api()?;
    let mut ready = [0, 0];
    let one = in_turns(rounds * CHANGES, |side| match side {
        Side::Ours => {
            // The rival takes longer than the controller waits for a client that says nothing.
            let mut client = ours.client()?;
            let change = |ready| ours::change(&mut client, 0, ready);
            one(&answering.0, &mut ready[0], change, || Ok(ours.cpu()?.0))
        }
        Side::Rival => one(
            &answering.1,
            &mut ready[1],
            |ready| KubeProxy::change(&mut api, 0, ready),
            || rival.cpu(),
        ),
    })?;
    let mut all = figures(&goals[..2], &full);
    all.extend(figures(&goals[2..], &one));
    Ok(all)
}

fn growth(rounds: usize) -> Result<Vec<Figure>> {
    eprintln!("{}: two nodes, each with a controller of its own", OWN[0].name);
    let program = osier()?;
    let (many, few) = (ours::start(&program, MANY)?, ours::start(&program, FEW)?);
    let answering = (Answering::start(many.netns())?, Answering::start(few.netns())?);
    let (mut to_many, mut to_few) = (many.client()?, few.client()?);
    let mut ready = [0, 0];
    let costs = in_turns(rounds * CHANGES, |side| {
        let (ours, answering, client, ready) = match side {
            Side::Ours => (&many, &answering.0, &mut to_many, &mut ready[0]),
            Side::Rival => (&few, &answering.1, &mut to_few, &mut ready[1]),
        };
        let change = |ready| ours::change(client, 0, ready);
        one(answering, ready, change, || Ok(ours.cpu()?.0))
    })?;
    Ok(figures(&OWN, &costs))
}

fn ours_from_nothing(ours: &mut Managed, answering: &Answering) -> Result<Cost> {
    ours.clear()?;
    let (before, controller) = ours.cpu()?;
    let begun = Instant::now();
    ours.start_agent()?;
    reached(answering)?;
    let wall = begun.elapsed();
    settled(|| Ok(ours.cpu()?.0))?;
    let (now, after) = ours.cpu()?;
    let controller = after.saturating_sub(controller);
    eprintln!("  the controller, which works for all nodes, took {controller:.2?}");
    Ok(Cost { wall, cpu: now.saturating_sub(before) })
}

fn rival_from_nothing(rival: &KubeProxy, answering: &Answering) -> Result<Cost> {
    rival.clear()?;
    let begun = Instant::now();
    rival.start_proxy()?;
    reached(answering)?;
    let wall = begun.elapsed();
    Ok(Cost { wall, cpu: settled(|| rival.cpu())? })
}

/// CPU time when those who work have come to rest.
fn settled(cpu: impl Fn() -> Result<Duration>) -> Result<Duration> {
    let begun = Instant::now();
    let mut before = cpu()?;
    loop {
        thread::sleep(SETTLED);
        let now = cpu()?;
        if now.saturating_sub(before) <= SETTLED / 30 || begun.elapsed() > PATIENCE {
            return Ok(now);
        }
        before = now;
    }
}

/// The first Service and the last: nobody knows in which order they are made.
fn reached(answering: &Answering) -> Result<()> {
    answering.wait(MANY - 1, 0, PATIENCE)?;
    answering.wait(0, 0, PATIENCE)
}

/// The other of two endpoints becomes the ready one.
fn one(
    answering: &Answering,
    ready: &mut usize,
    change: impl FnOnce(usize) -> Result<()>,
    cpu: impl Fn() -> Result<Duration>,
) -> Result<Cost> {
    *ready = 1 - *ready;
    let before = cpu()?;
    let begun = Instant::now();
    change(*ready)?;
    answering.wait(0, *ready, PATIENCE)?;
    let wall = begun.elapsed();
    Ok(Cost { wall, cpu: settled(cpu)?.saturating_sub(before) })
}

fn figures(goals: &'static [Goal], costs: &Rounds<Cost>) -> Vec<Figure> {
    let wall = |costs: &[Cost]| median(costs, |cost| cost.wall);
    let cpu = |costs: &[Cost]| median(costs, |cost| cost.cpu);
    vec![
        Figure::times(&goals[0], wall(&costs.ours), wall(&costs.rival)),
        Figure::times(&goals[1], cpu(&costs.ours), cpu(&costs.rival)),
    ]
}
