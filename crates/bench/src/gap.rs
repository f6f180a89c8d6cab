//! A switch killed under traffic and started again at once: for how long pods do not hear of one
//! another, on its node and from another one.
//!
//! No rival runs beside: the goal itself stands on its side. Others keep pods waiting for 1.1 to
//! 1.6 s.

use crate::Suite;
use crate::figure::{Figure, Goal, Wanted};
use crate::node::{Cluster, PATIENCE};
use crate::runtime::{Plugin, Pod};
use anyhow::{Context, Result};
use osier_testbed::traffic::{Pinger, ping_until};
use osier_testbed::wait_until;
use std::net::IpAddr;
use std::time::Duration;

const AT_MOST: Duration = Duration::from_millis(600);
/// Replies before and after: the gap is between them.
const REPLIES: usize = 50;

const GAP: Goal = Goal {
    name: "vswitchd-gap",
    about: "vswitchd killed and started at once: the longest time without a reply between pods, \
            of one node and of two, worst of all runs, against 0.6 s",
    wanted: Wanted::AtMost(1.0),
};

/// A switch that was killed under traffic.
pub(crate) const KILLED: Suite = Suite { goals: &[GAP], run: gap };

fn gap(rounds: usize) -> Result<Vec<Figure>> {
    eprintln!("vswitchd-gap: pods ping each {:?}, and the switch is killed", Pinger::INTERVAL);
    let mut cluster = Cluster::start(2)?;
    let (here, there) = (Plugin::ours(&cluster, 0), Plugin::ours(&cluster, 1));
    let near = Pod::make(cluster.lab(), "near", 2)?;
    let far = Pod::make(cluster.lab(), "far", 1)?;
    here.add(&near[0])?;
    let others = [here.address(&near[1])?, there.address(&far[0])?];
    let mut gaps = Vec::new();
    for round in 1..=rounds {
        let [within, between] = killed(&mut cluster, &near[0], others)?;
        eprintln!("  {round}: {within:.3?} on the node, {between:.3?} to the other");
        gaps.push(within.max(between));
    }
    let worst = gaps.into_iter().max().context("there is a round")?;
    Ok(vec![Figure::times(&GAP, worst, AT_MOST)])
}

/// Kills and starts the first node's switch: the longest gap to each of the others.
fn killed(cluster: &mut Cluster, from: &Pod, others: [IpAddr; 2]) -> Result<[Duration; 2]> {
    let mut pingers = Vec::new();
    for to in others {
        ping_until(&from.netns, to, PATIENCE)?;
        pingers.push(Pinger::start(&from.netns, to)?);
    }
    more_replies(&pingers)?;
    let node = cluster.node_mut(0);
    node.kill_vswitchd();
    node.start_vswitchd()?;
    more_replies(&pingers)?;
    let mut gaps = [Duration::ZERO; 2];
    for (gap, pinger) in gaps.iter_mut().zip(pingers) {
        *gap = pinger.stop()?.longest_gap;
    }
    Ok(gaps)
}

fn more_replies(pingers: &[Pinger]) -> Result<()> {
    for pinger in pingers {
        let enough = pinger.replies() + REPLIES;
        wait_until("replies", PATIENCE, || match pinger.replies() {
            n if n >= enough => Ok(()),
            n => Err(n),
        })?;
    }
    Ok(())
}
