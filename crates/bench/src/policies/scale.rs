//! What policies cost a node in flows; all of them at once, one pod under them, and pods elsewhere that
//! come and go. From a write to the flows, as `ovs-ofctl` tells of them.

use super::ours::Ours;
use super::rival::{self, Rival};
use super::{App, Member, REPLICAS};
use crate::Suite;
use crate::change::SETTLED;
use crate::figure::{Amount, Figure, Goal, Wanted};
use crate::flows::FlowMonitor;
use crate::measure::{Cost, Side, in_turns, median};
use anyhow::{Context, Result, ensure};
use osier_testbed::Lab;
use std::thread;
use std::time::{Duration, Instant};

/// Longer than OVN takes for all.
const PATIENCE: Duration = Duration::from_mins(2);
/// Between two looks at how many flows there are.
const PAUSE: Duration = Duration::from_millis(5);
/// Pods that come to the node in a round.
const COMING: usize = 5;
/// How many pods elsewhere come and go.
const ELSEWHERE: usize = 100;
/// The pod that comes to the node: one more replica of what is there.
pub(super) const NEWCOMER: Member = Member { of: App { namespace: 0, app: 0 }, replica: REPLICAS };

const GOALS: [Goal; 5] = [
    Goal {
        name: "pol-flows",
        about: "flows on a node with 50 of 5,000 pods under 1,000 policies, against OVN's with ACLs",
        wanted: Wanted::AtMost(0.2),
    },
    Goal {
        name: "pol-full",
        about: "1,000 policies, from their write until the node's flows are there, against OVN; wall",
        wanted: Wanted::AtMost(0.3),
    },
    Goal {
        name: "pol-full-cpu",
        about: "the same; CPU of all processes",
        wanted: Wanted::AtMost(0.3),
    },
    Goal {
        name: "pol-one-pod",
        about: "one new pod under them, from its write until its flows are there, against OVN; wall",
        wanted: Wanted::AtMost(0.2),
    },
    Goal {
        name: "pol-remote-churn",
        about: "flow changes on the node while 100 pods elsewhere, of known identities, come and go, \
                against 100",
        wanted: Wanted::AtMost(0.0),
    },
];

/// All five, of one cluster.
pub(crate) const SCALE: Suite = Suite { goals: &GOALS, run };

fn run(rounds: usize) -> Result<Vec<Figure>> {
    eprintln!("pol-flows: a node of ours and one of OVN, 1,000 policies over 5,000 pods");
    let lab = Lab::new()?;
    let fabric = rival::fabric(&lab)?;
    let (ours, rival) = (Ours::start()?, Rival::start(&fabric)?);
    let bare = [ours.flows()?, rival.flows()?];
    Ours::write_policies(&mut ours.client()?)?;
    rival.write_policies()?;
    ours.converged()?;
    rival.converged()?;
    let flows = [ours.flows()?, rival.flows()?];
    eprintln!("  flows of ours, and of OVN: {bare:?} without policies, {flows:?} with");

    let full = in_turns(rounds, |side| match side {
        Side::Ours => {
            let mut client = ours.client()?;
            Ours::delete_policies(&mut client)?;
            until("ours to be empty", bare[0], || ours.flows())?;
            ours.converged()?;
            costs(
                || {
                    Ours::write_policies(&mut client)?;
                    until("our flows", flows[0], || ours.flows())
                },
                || ours.cpu(),
            )
        }
        Side::Rival => {
            rival.delete_policies()?;
            until("OVN to be empty", bare[1], || rival.flows())?;
            rival.converged()?;
            costs(
                || {
                    rival.write_policies()?;
                    until("OVN's flows", flows[1], || rival.flows())
                },
                || rival.cpu(),
            )
        }
    })?;

    let one = in_turns(rounds * COMING, |side| match side {
        Side::Ours => {
            let mut client = ours.client()?;
            let cost = heard(&ours.monitor, || ours.add(&mut client), || ours.converged())?;
            ours.remove(&mut client)?;
            ours.converged()?;
            Ok(cost)
        }
        Side::Rival => {
            let cost = heard(&rival.monitor, || rival.add(NEWCOMER), || rival.converged())?;
            rival.remove(NEWCOMER)?;
            rival.converged()?;
            Ok(cost)
        }
    })?;

    let churn = churn(&ours, &rival)?;
    let wall = |costs: &[Cost]| median(costs, |cost| cost.wall);
    let cpu = |costs: &[Cost]| median(costs, |cost| cost.cpu);
    let [flows, theirs] = flows.map(counted);
    Ok(vec![
        Figure { goal: &GOALS[0], ours: flows, rival: theirs },
        Figure::times(&GOALS[1], wall(&full.ours), wall(&full.rival)),
        Figure::times(&GOALS[2], cpu(&full.ours), cpu(&full.rival)),
        Figure::times(&GOALS[3], wall(&one.ours), wall(&one.rival)),
        Figure { goal: &GOALS[4], ours: counted(churn), rival: counted(ELSEWHERE) },
    ])
}

fn counted(number: usize) -> Amount {
    Amount::Count(f64::from(u32::try_from(number).unwrap_or(u32::MAX)))
}

fn until(what: &str, wanted: usize, flows: impl Fn() -> Result<usize>) -> Result<()> {
    let begun = Instant::now();
    loop {
        let found = flows()?;
        if found == wanted {
            return Ok(());
        }
        ensure!(begun.elapsed() < PATIENCE, "{what}: {found} flows instead of {wanted}");
        thread::sleep(PAUSE);
    }
}

/// What something costs, with what is done a moment later.
fn costs(work: impl FnOnce() -> Result<()>, cpu: impl Fn() -> Result<Duration>) -> Result<Cost> {
    let before = cpu()?;
    let begun = Instant::now();
    work()?;
    let wall = begun.elapsed();
    thread::sleep(SETTLED);
    Ok(Cost { wall, cpu: cpu()?.saturating_sub(before) })
}

/// How long it is from a write until the last flow has changed.
fn heard(
    monitor: &FlowMonitor,
    write: impl FnOnce() -> Result<()>,
    converged: impl FnOnce() -> Result<()>,
) -> Result<Cost> {
    thread::sleep(SETTLED);
    monitor.changes();
    let begun = Instant::now();
    write()?;
    converged()?;
    thread::sleep(SETTLED);
    let last = monitor.changes().last.context("no flow has changed")?;
    Ok(Cost { wall: last.saturating_duration_since(begun), cpu: Duration::ZERO })
}

/// Flow changes of ours while pods elsewhere go and come again; OVN's are told of.
fn churn(ours: &Ours, rival: &Rival<'_>) -> Result<usize> {
    let apps = App::all().filter(|app| app.app != app.namespace % super::APPS);
    let members: Vec<Member> =
        apps.map(|of| Member { of, replica: 1 }).step_by(4).take(ELSEWHERE).collect();
    ensure!(members.len() == ELSEWHERE, "there are {} pods to come and go", members.len());
    let mut client = ours.client()?;
    thread::sleep(SETTLED);
    for monitor in [&ours.monitor, &rival.monitor] {
        monitor.changes();
    }
    for member in &members {
        Ours::forget(&mut client, *member)?;
    }
    for member in &members {
        Ours::learn(&mut client, *member)?;
    }
    drop(client);
    ours.converged()?;
    for how in ["delete", "insert"] {
        rival.elsewhere(&members, how)?;
        rival.converged()?;
    }
    thread::sleep(SETTLED);
    let [own, theirs] = [&ours.monitor, &rival.monitor].map(|monitor| monitor.changes().count);
    eprintln!(
        "  {ELSEWHERE} pods elsewhere went and came: {own} flow changes of ours, {theirs} of OVN"
    );
    // Who hears nothing at all measures nothing.
    ours.add(&mut ours.client()?)?;
    ours.converged()?;
    thread::sleep(SETTLED);
    ensure!(ours.monitor.changes().count > 0, "the switch does not tell of changes");
    Ok(own)
}
