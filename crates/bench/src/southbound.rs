//! The reconciler: reading a switch that is right already, and one change among many.

use crate::Suite;
use crate::figure::{Figure, Goal, Wanted};
use crate::measure::{self, Cost, Side, in_turns, median};
use crate::switch::Switch;
use crate::workload;
use anyhow::{Context, Result, bail, ensure};
use osier_openflow::flow::Flow;
use osier_openflow::session::{Endpoint, Events, Options as SessionOptions, Session};
use osier_southbound::flows::{CookieClass, FlowReconciler, Options, Ownership, Plan};
use std::fmt::Write;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::time::timeout;

pub(crate) const FLOWS: usize = 100_000;
const FEW: usize = 1_000;
/// Flows that one owner wants: those of a pod, say.
const EACH: usize = 10;
/// Changes that make one measurement: one alone is too short to time.
const CHANGES: usize = 200;
/// What may take long here takes seconds.
const PATIENCE: Duration = Duration::from_mins(1);
/// The class of cookies that are ours here.
const CLASS: u64 = 0x6f73 << 48;

const SYNC: Goal = Goal {
    name: "sync-100k",
    about: "resync of 100,000 flows that are there, against ovs-ofctl diff-flows; wall time",
    wanted: Wanted::AtMost(0.7),
};
const GROWTH: Goal = Goal {
    name: "change-growth",
    about: "one change among 100,000 wanted flows, against one among 1,000; wall time",
    wanted: Wanted::AtMost(1.5),
};

/// A switch that is right already.
pub(crate) const RESYNC: Suite = Suite { goals: &[SYNC], run: resync };
/// One change among many.
pub(crate) const CHANGE: Suite = Suite { goals: &[GROWTH], run: growth };

/// A reconciler whose sessions are handed to it.
struct Reconciled {
    reconciler: FlowReconciler,
    sessions: mpsc::Sender<(Session, Events)>,
    endpoint: Endpoint,
}

fn resync(rounds: usize) -> Result<Vec<Figure>> {
    eprintln!("sync-100k: {FLOWS} flows that are on the switch and are wanted");
    eprintln!("  ours: from connecting until the reconciler says that all is as wanted");
    eprintln!("  rival: ovs-ofctl diff-flows of the switch and a file; from its start to its end");
    let switch = Switch::start()?;
    let runtime = runtime()?;
    let flows = flows(FLOWS)?;
    let file = switch.keep("flows.txt", &text(&flows)?)?;
    let ours = runtime.block_on(Reconciled::start(switch.endpoint(), &flows))?;
    let first = runtime.block_on(ours.connect())?;
    runtime.block_on(first.close());
    switch.expect_flows(FLOWS)?;
    switch.settle()?;
    let sent = ours.sent();
    let costs = in_turns(rounds, |side| match side {
        Side::Ours => {
            let (session, cost) = measure::operation(|| runtime.block_on(ours.connect()))?;
            runtime.block_on(session.close());
            ensure!(ours.sent() == sent, "a switch that was right was changed");
            Ok(cost)
        }
        Side::Rival => measure::command(switch.ofctl(&["diff-flows"]).arg(&file)),
    })?;
    switch.expect_flows(FLOWS)?;
    let wall = |costs: &[Cost]| median(costs, |cost| cost.wall);
    Ok(vec![Figure::times(&SYNC, wall(&costs.ours), wall(&costs.rival))])
}

fn growth(rounds: usize) -> Result<Vec<Figure>> {
    eprintln!("change-growth: {CHANGES} changes of one flow, each on the switch before the next");
    let runtime = runtime()?;
    let (many, few) = (Changing::start(&runtime, FLOWS)?, Changing::start(&runtime, FEW)?);
    let mut round = 0;
    let costs = in_turns(rounds, |side| {
        round += 1;
        let changing = if side == Side::Ours { &many } else { &few };
        let (times, cost) = measure::operation(|| runtime.block_on(changing.change(round)))?;
        // The median of the changes, not their sum: one pause of the machine is not a change.
        let wall = median(&times, |cost| cost.wall);
        Ok(Cost { wall, cpu: cost.cpu / u32::try_from(CHANGES)? })
    })?;
    let wall = |costs: &[Cost]| median(costs, |cost| cost.wall);
    Ok(vec![Figure::times(&GROWTH, wall(&costs.ours), wall(&costs.rival))])
}

/// A switch of its own, and owners whose plans change.
struct Changing {
    ours: Reconciled,
    plans: Vec<Plan>,
    // Goes last: the session ends before its switch does.
    _session: Session,
    _switch: Switch,
}

// === impl Changing ===

impl Changing {
    fn start(runtime: &Runtime, count: usize) -> Result<Self> {
        let switch = Switch::start()?;
        let flows = flows(count)?;
        let ours = runtime.block_on(Reconciled::start(switch.endpoint(), &flows))?;
        let session = runtime.block_on(ours.connect())?;
        switch.expect_flows(count)?;
        switch.settle()?;
        let plans = flows.chunks(EACH).map(|flows| Plan::flows(flows.iter().cloned())).collect();
        Ok(Self { ours, plans, _session: session, _switch: switch })
    }

    /// Changes one flow of one owner after the other.
    async fn change(&self, round: u16) -> Result<Vec<Cost>> {
        let mut times = Vec::with_capacity(CHANGES);
        for n in 0..CHANGES {
            let owner = (n * 7919) % self.plans.len();
            let mut plan = self.plans[owner].clone();
            plan.flows[0].cookie = CLASS | u64::from(round) << 32 | n as u64;
            let start = Instant::now();
            let settling = self.ours.reconciler.put(name(owner), plan).await?;
            settling.await?;
            times.push(Cost { wall: start.elapsed(), cpu: Duration::ZERO });
        }
        Ok(times)
    }
}

// === impl Reconciled ===

impl Reconciled {
    /// Wants these flows, of a switch that it has no session with yet.
    async fn start(endpoint: Endpoint, flows: &[Flow]) -> Result<Self> {
        let (sessions, source) = mpsc::channel(1);
        let options = Options { paused: false, queue: FLOWS, ..Options::default() };
        let reconciler = FlowReconciler::start(source, ownership(), options);
        for (owner, flows) in flows.chunks(EACH).enumerate() {
            // On the switch with the first session.
            drop(reconciler.put(name(owner), Plan::flows(flows.iter().cloned())).await?);
        }
        Ok(Self { reconciler, sessions, endpoint })
    }

    /// Gives it a session, and waits until the switch is as wanted.
    async fn connect(&self) -> Result<Session> {
        let mut replayed = self.reconciler.replayed();
        let before = *replayed.borrow_and_update();
        let connected = Session::connect(&self.endpoint, SessionOptions::default()).await?;
        let session = connected.0.clone();
        self.sessions.send(connected).await.context("the reconciler has ended")?;
        let done = replayed.wait_for(|connection| *connection > before);
        match timeout(PATIENCE, done).await {
            Ok(done) => done.map(drop)?,
            Err(_) => bail!("the switch is not as wanted: {:?}", self.reconciler.status()),
        }
        Ok(session)
    }

    /// Flows that it has sent so far.
    fn sent(&self) -> u64 {
        let stats = self.reconciler.stats();
        stats.flows_added + stats.flows_changed + stats.flows_deleted
    }
}

/// Flows with cookies of our class are ours.
pub(crate) fn ownership() -> Ownership {
    Ownership {
        cookies: CookieClass { value: CLASS, mask: 0xffff << 48 },
        learned: None,
        groups: 1..=1,
        meters: 1..=1,
        tun_metadata: 0..=0,
    }
}

fn name(owner: usize) -> String {
    format!("pod {owner}")
}

/// The workload's flows, with cookies of ours.
pub(crate) fn flows(count: usize) -> Result<Vec<Flow>> {
    let parse = |(i, line): (usize, &str)| {
        let flow: Flow = line.parse().with_context(|| line.to_owned())?;
        Ok(Flow { cookie: CLASS | i as u64, ..flow })
    };
    workload::flows(count).lines().enumerate().map(parse).collect()
}

pub(crate) fn text(flows: &[Flow]) -> Result<String> {
    let mut text = String::new();
    for flow in flows {
        writeln!(text, "{flow}")?;
    }
    Ok(text)
}

/// One thread, as the rival has.
fn runtime() -> Result<Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start a runtime")
}
