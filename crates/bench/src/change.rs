//! One more port, from the API to the switch: against OVN, and against ourselves with fewer ports.
//!
//! Ours takes from the write, over a connection that is kept, until the switch itself has told of
//! the flows; the rival's `ovn-nbctl` from its start to its end, which `--wait=hv` puts behind the
//! flows.

use crate::Suite;
use crate::controlled::Controlled;
use crate::figure::{Figure, Goal, Wanted};
use crate::measure::{Cost, Rounds, Side, in_turns, median};
use crate::node::osier;
use crate::ovn::Ovn;
use anyhow::Result;
use osier_testbed::{Fabric, Family, Lab};
use std::time::Duration;

/// Behind a change CPU is counted for so long, on both sides: not all work is waited for.
pub(crate) const SETTLED: Duration = Duration::from_millis(100);
/// Changes in a round: each waits for a disk, whose times differ by more than what is looked for.
const CHANGES: usize = 12;
const FEW: usize = 50;
const MANY: usize = 1500;

const VS_FEW: [Goal; 2] = [
    Goal {
        name: "change-vs-ovn-50",
        about: "one more port beside 50, API write to flows on the node, against `ovn-nbctl \
                --wait=hv`; wall",
        wanted: Wanted::AtMost(0.2),
    },
    Goal {
        name: "change-vs-ovn-50-cpu",
        about: "the same; CPU of all processes",
        wanted: Wanted::AtMost(0.2),
    },
];
const VS_MANY: [Goal; 2] = [
    Goal {
        name: "change-vs-ovn-1500",
        about: "one more port beside 1,500, API write to flows on the node, against `ovn-nbctl \
                --wait=hv`; wall",
        wanted: Wanted::AtMost(0.1),
    },
    Goal {
        name: "change-vs-ovn-1500-cpu",
        about: "the same; CPU of all processes",
        wanted: Wanted::AtMost(0.1),
    },
];
const OWN: [Goal; 2] = [
    Goal {
        name: "change-ports-growth",
        about: "one more port beside 1,500 against one beside 50, API write to flows; wall",
        wanted: Wanted::AtMost(1.2),
    },
    Goal {
        name: "change-ports-growth-cpu",
        about: "the same; CPU of all processes",
        wanted: Wanted::AtMost(1.2),
    },
];

/// Against OVN, 50 ports.
pub(crate) const BESIDE_50: Suite =
    Suite { goals: &VS_FEW, run: |rounds| against_ovn(&VS_FEW, FEW, rounds) };
/// Against OVN, 1,500 ports.
pub(crate) const BESIDE_1500: Suite =
    Suite { goals: &VS_MANY, run: |rounds| against_ovn(&VS_MANY, MANY, rounds) };
/// Against ourselves.
pub(crate) const GROWTH: Suite = Suite { goals: &OWN, run: growth };

fn against_ovn(goals: &'static [Goal; 2], ports: usize, rounds: usize) -> Result<Vec<Figure>> {
    eprintln!("{}: a node of ours and one of OVN, {ports} ports each", goals[0].name);
    let osier = osier()?;
    let labs = [Lab::new()?, Lab::new()?];
    let [fabric, other] = [fabric(&labs[0])?, fabric(&labs[1])?];
    let ours = Controlled::start(&fabric.nodes()[0], &osier, ports)?;
    let rival = Ovn::with_ports(&other.nodes()[0], ports)?;
    let (mut client, mut number) = (ours.client()?, ports);
    let costs = in_turns(rounds * CHANGES, |side| {
        number += 1;
        match side {
            Side::Ours => ours.change(&mut client, number),
            Side::Rival => rival.change(number),
        }
    })?;
    ours.tell("ours")?;
    Ok(figures(goals, &costs))
}

fn growth(rounds: usize) -> Result<Vec<Figure>> {
    eprintln!("{}: two nodes, each with a controller of its own", OWN[0].name);
    let osier = osier()?;
    let labs = [Lab::new()?, Lab::new()?];
    let [full, empty] = [fabric(&labs[0])?, fabric(&labs[1])?];
    let many = Controlled::start(&full.nodes()[0], &osier, MANY)?;
    let few = Controlled::start(&empty.nodes()[0], &osier, FEW)?;
    let (mut to_many, mut to_few, mut number) = (many.client()?, few.client()?, MANY);
    let costs = in_turns(rounds * CHANGES, |side| {
        number += 1;
        match side {
            Side::Ours => many.change(&mut to_many, number),
            Side::Rival => few.change(&mut to_few, number),
        }
    })?;
    many.tell("beside 1,500")?;
    few.tell("beside 50")?;
    Ok(figures(&OWN, &costs))
}

/// Both sides have an underlay of their own: neither hears of the other.
fn fabric(lab: &Lab) -> Result<Fabric> {
    Ok(Fabric::new(lab, Family::Ipv4, 1)?)
}

fn figures(goals: &'static [Goal; 2], costs: &Rounds<Cost>) -> Vec<Figure> {
    let wall = |costs: &[Cost]| median(costs, |cost| cost.wall);
    let cpu = |costs: &[Cost]| median(costs, |cost| cost.cpu);
    vec![
        Figure::times(&goals[0], wall(&costs.ours), wall(&costs.rival)),
        Figure::times(&goals[1], cpu(&costs.ours), cpu(&costs.rival)),
    ]
}
