//! Writing and reading many flows: our session against `ovs-ofctl`.
//!
//! Our flows are values, as a compiler would hand them over, while the rival reads text, which is
//! what it can do; so what we would take with that text is measured beside it and told.

use crate::Suite;
use crate::figure::{Figure, Goal, Wanted};
use crate::measure::{self, Cost, Side, in_turns, median};
use crate::switch::Switch;
use crate::workload;
use anyhow::{Context, Result, bail, ensure};
use osier_openflow::flow::{Flow, FlowDesc, FlowMod};
use osier_openflow::message::{BundleFlags, MultipartRequest, ReplyBody};
use osier_openflow::session::{Options, Session};
use std::path::Path;
use tokio::runtime::Runtime;

const FLOWS: usize = 100_000;

const BUNDLE_WALL: Goal = Goal {
    name: "of-bundle-100k",
    about: "100,000 flows in one bundle, against ovs-ofctl --bundle add-flows; wall time",
    wanted: Wanted::AtMost(1.0),
};
const BUNDLE_CPU: Goal = Goal {
    name: "of-bundle-100k-cpu",
    about: "the same; CPU time of the client",
    wanted: Wanted::AtMost(0.5),
};
const DECODE_CPU: Goal = Goal {
    name: "of-decode",
    about: "reading 100,000 flows back, against ovs-ofctl dump-flows; CPU time of the client",
    wanted: Wanted::AtMost(0.5),
};

/// Writing flows.
pub(crate) const BUNDLE: Suite = Suite { goals: &[BUNDLE_WALL, BUNDLE_CPU], run: bundle };
/// Reading flows.
pub(crate) const DECODE: Suite = Suite { goals: &[DECODE_CPU], run: decode };

fn bundle(rounds: usize) -> Result<Vec<Figure>> {
    eprintln!("of-bundle-100k: {FLOWS} flows in one atomic, ordered bundle");
    eprintln!("  ours: flows in memory; from connecting to the answer to the commit");
    eprintln!("  rival: ovs-ofctl as a process, which reads text; from its start to its end");
    let switch = Switch::start()?;
    let runtime = runtime()?;
    let text = workload::flows(FLOWS);
    let file = switch.keep("flows.txt", &text)?;
    let flows = parse(&text)?;
    same_flows(&switch, &runtime, &flows, &file)?;
    let costs = in_turns(rounds, |side| {
        switch.clear()?;
        let cost = match side {
            Side::Ours => write_ours(&switch, &runtime, &flows)?,
            Side::Rival => write_rival(&switch, &file)?,
        };
        switch.expect_flows(FLOWS)?;
        Ok(cost)
    })?;
    let both = |of: fn(&Cost) -> _| (median(&costs.ours, of), median(&costs.rival, of));
    let (wall, cpu) = (both(|cost| cost.wall), both(|cost| cost.cpu));
    let parsing = parsing(rounds, &text)?;
    eprintln!("  reading the same text as ovs-ofctl does would take us {parsing} more:");
    for (what, (ours, rival), more) in [("wall", wall, parsing.wall), ("CPU", cpu, parsing.cpu)] {
        let ours = (ours + more).as_secs_f64();
        let ratio = ours / rival.as_secs_f64();
        eprintln!("    {what} {ours:.3} s, a ratio of {ratio:.2}");
    }
    let figure = |goal, (ours, rival)| Figure::times(goal, ours, rival);
    Ok(vec![figure(&BUNDLE_WALL, wall), figure(&BUNDLE_CPU, cpu)])
}

fn decode(rounds: usize) -> Result<Vec<Figure>> {
    eprintln!("of-decode: {FLOWS} flows read back");
    eprintln!("  ours: from connecting to all flows as values in memory");
    eprintln!(
        "  rival: ovs-ofctl as a process, which prints to /dev/null; from its start to its end"
    );
    let switch = Switch::start()?;
    let runtime = runtime()?;
    let file = switch.keep("flows.txt", &workload::flows(FLOWS))?;
    write_rival(&switch, &file)?;
    switch.settle()?;
    let costs = in_turns(rounds, |side| {
        let cost = match side {
            Side::Ours => read_ours(&switch, &runtime)?,
            Side::Rival => measure::command(&mut switch.ofctl(&["dump-flows"]))?,
        };
        switch.expect_flows(FLOWS)?;
        Ok(cost)
    })?;
    let cpu = |costs| median(costs, |cost| cost.cpu);
    let (ours, rival) = (cpu(&costs.ours), cpu(&costs.rival));
    Ok(vec![Figure::times(&DECODE_CPU, ours, rival)])
}

/// One thread, as the rival has.
fn runtime() -> Result<Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start a runtime")
}

fn parse(text: &str) -> Result<Vec<FlowMod>> {
    text.lines()
        .map(|line| line.parse::<Flow>().map(FlowMod::add).with_context(|| line.to_owned()))
        .collect()
}

/// What reading the text costs us.
fn parsing(rounds: usize, text: &str) -> Result<Cost> {
    let costs: Vec<_> = (0..rounds)
        .map(|_| measure::operation(|| parse(text)).map(|(_, cost)| cost))
        .collect::<Result<_>>()?;
    let (wall, cpu) = (median(&costs, |cost| cost.wall), median(&costs, |cost| cost.cpu));
    Ok(Cost { wall, cpu })
}

/// Fails unless both sides leave the same flows on the switch.
fn same_flows(switch: &Switch, runtime: &Runtime, flows: &[FlowMod], file: &Path) -> Result<()> {
    write_ours(switch, runtime, flows)?;
    let ours = switch.flows()?;
    switch.clear()?;
    write_rival(switch, file)?;
    let rivals = switch.flows()?;
    if let Some(odd) = ours.symmetric_difference(&rivals).next() {
        bail!("the two sides do not write the same flows; only one has{odd}");
    }
    ensure!(ours.len() == FLOWS, "the switch shows {} flows instead of {FLOWS}", ours.len());
    Ok(())
}

fn write_ours(switch: &Switch, runtime: &Runtime, flows: &[FlowMod]) -> Result<Cost> {
    let endpoint = switch.endpoint();
    let flags = BundleFlags::ATOMIC | BundleFlags::ORDERED;
    let (_session, cost) = measure::operation(|| {
        runtime.block_on(async {
            let (session, _events) = Session::connect(&endpoint, Options::default()).await?;
            session.bundle(flags, flows).await?;
            Ok(session)
        })
    })?;
    Ok(cost)
}

fn write_rival(switch: &Switch, file: &Path) -> Result<Cost> {
    measure::command(switch.ofctl(&["--bundle", "add-flows"]).arg(file))
}

fn read_ours(switch: &Switch, runtime: &Runtime) -> Result<Cost> {
    let endpoint = switch.endpoint();
    let (flows, cost) = measure::operation(|| {
        runtime.block_on(async {
            let (session, _events) = Session::connect(&endpoint, Options::default()).await?;
            let mut flows: Vec<FlowDesc> = Vec::new();
            let mut answer = session.multipart(MultipartRequest::all_flows()).await?;
            while let Some(part) = answer.next().await {
                let ReplyBody::FlowDesc(part) = part?.body else {
                    bail!("an answer that is not about flows");
                };
                flows.extend(part);
            }
            Ok(flows)
        })
    })?;
    ensure!(flows.len() == FLOWS, "{} flows were read instead of {FLOWS}", flows.len());
    Ok(cost)
}
