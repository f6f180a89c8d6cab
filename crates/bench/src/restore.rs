//! A switch that was killed with 100,000 flows: from its start until packets go through it again.
//!
//! Both sides have a switch of their own with the same flows and two pods, and hold the new process
//! back by `flow-restore-wait` until the flows are there.

use crate::Suite;
use crate::figure::{Figure, Goal, Wanted};
use crate::measure::{Cost, Side, in_turns, median};
use crate::southbound::{FLOWS, flows, ownership, text};
use crate::switch::Switch;
use anyhow::{Context, Result, ensure};
use osier_openflow::flow::Flow;
use osier_openflow::session::{Backoff, Dialer, Options as SessionOptions};
use osier_ovsdb::session::Remote;
use osier_southbound::flows::{FlowReconciler, Options, Plan};
use osier_southbound::rows::{self, Restore, RestoreOptions, RowReconciler};
use osier_testbed::{Endpoint, EndpointConfig, traffic};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// Two pods, at numbers that the workload does not use.
const PODS: [(&str, u16); 2] = [("east", 5001), ("west", 5002)];
const PATIENCE: Duration = Duration::from_mins(1);
const KEY: &str = "flow-restore-wait";

const RESTORE: Goal = Goal {
    name: "restore-100k",
    about: "vswitchd killed with 100,000 flows: from its start to traffic, against ovs-ofctl \
            add-flows of a saved dump; wall time",
    wanted: Wanted::AtMost(1.0),
};

/// A switch that was killed.
pub(crate) const RESTORED: Suite = Suite { goals: &[RESTORE], run: restore };

/// A switch, and two pods on it that a pair of flows joins.
struct Joined {
    pods: Vec<Endpoint>,
    switch: Switch,
}

fn restore(rounds: usize) -> Result<Vec<Figure>> {
    eprintln!("restore-100k: ovs-vswitchd killed with {FLOWS} flows, and started again");
    eprintln!("  ours: the reconcilers notice, replay and let it go on");
    eprintln!("  rival: ovs-ofctl add-flows of a saved dump, then ovs-vsctl lets it go on");
    let runtime = runtime()?;
    let mut flows = flows(FLOWS - PODS.len())?;
    for (from, to) in [(PODS[0].1, PODS[1].1), (PODS[1].1, PODS[0].1)] {
        let wire = format!("priority=40000,in_port={from},actions=output:{to}");
        let cookie = flows[0].cookie;
        flows.push(Flow { cookie, ..wire.parse()? });
    }
    let (mut ours, mut rival) = (Joined::start()?, Joined::start()?);
    let _kept = runtime.block_on(keep(&ours.switch, &flows))?;
    let file = rival.switch.keep("flows.txt", &text(&flows)?)?;
    load(&rival.switch, &file)?;
    for joined in [&ours, &rival] {
        joined.wait_for_traffic()?;
        joined.switch.expect_flows(FLOWS)?;
    }
    let costs = in_turns(rounds, |side| {
        let joined = if side == Side::Ours { &mut ours } else { &mut rival };
        joined.switch.kill_vswitchd();
        let start = Instant::now();
        joined.switch.start_vswitchd()?;
        if side == Side::Rival {
            load(&joined.switch, &file)?;
        }
        joined.wait_for_traffic()?;
        let wall = start.elapsed();
        joined.switch.expect_flows(FLOWS)?;
        joined.switch.settle()?;
        Ok(Cost { wall, cpu: Duration::ZERO })
    })?;
    let wall = |costs: &[Cost]| median(costs, |cost| cost.wall);
    Ok(vec![Figure::times(&RESTORE, wall(&costs.ours), wall(&costs.rival))])
}

/// Our side: both reconcilers, and what lets the switch go on.
async fn keep(switch: &Switch, flows: &[Flow]) -> Result<(FlowReconciler, RowReconciler, Restore)> {
    let database: Remote = format!("unix:{}", switch.db_socket().display()).parse()?;
    let ids = rows::Ownership::new("bench-", "restore");
    let rows = RowReconciler::connect(vec![database], ids, rows::Options::default());
    let backoff = Backoff { first: Duration::from_millis(10), most: Duration::from_millis(100) };
    let dialer = Dialer::new(switch.endpoint(), SessionOptions::default(), backoff);
    let reconciler = FlowReconciler::start(dialer, ownership(), Options::default());
    let settling = reconciler.put("all", Plan::flows(flows.iter().cloned())).await?;
    reconciler.resume().await?;
    settling.await?;
    rows.resume().await?;
    let bridges: Vec<Box<dyn rows::Replays>> = vec![Box::new(reconciler.clone())];
    let restore = Restore::start(&rows, bridges, RestoreOptions::default());
    Ok((reconciler, rows, restore))
}

/// The rival's side.
fn load(switch: &Switch, file: &PathBuf) -> Result<()> {
    let added = switch.ofctl(&["add-flows"]).arg(file).status()?;
    ensure!(added.success(), "ovs-ofctl add-flows: {added}");
    switch.vsctl(&["remove", "Open_vSwitch", ".", "other_config", KEY])?;
    switch.vsctl(&["set", "Open_vSwitch", ".", &format!("other_config:{KEY}=true")])
}

// === impl Joined ===

impl Joined {
    fn start() -> Result<Self> {
        let switch = Switch::start()?;
        let pods =
            PODS.iter().map(|(name, port)| switch.attach(&EndpointConfig::numbered(name, *port)));
        Ok(Self { pods: pods.collect::<Result<_>>()?, switch })
    }

    fn wait_for_traffic(&self) -> Result<()> {
        let [from, to] = &self.pods[..] else { anyhow::bail!("there are two pods") };
        let to = to.addresses().next().context("a pod has an address")?;
        Ok(traffic::ping_until(from.netns(), to, PATIENCE)?)
    }
}

/// The reconcilers go on while this thread waits for the switch.
fn runtime() -> Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .context("cannot start a runtime")
}
