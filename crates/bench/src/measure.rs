//! What something costs: wall time, and CPU time in user and kernel mode together.
//!
//! Ours is an operation of this process, the rival a process of its own, which costs from its
//! start to its end. Both sides are measured in turns and the medians compared, because machines
//! are noisy.

use anyhow::{Context, Result, ensure};
use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeVal;
use std::fmt::Display;
use std::process::Command;
use std::time::{Duration, Instant};

/// What something took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    pub(crate) wall: Duration,
    pub(crate) cpu: Duration,
}

/// What both sides took, or did: one of each for every round.
#[derive(Debug)]
pub(crate) struct Rounds<T> {
    pub(crate) ours: Vec<T>,
    pub(crate) rival: Vec<T>,
}

/// Which side is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Ours,
    Rival,
}

/// How many, or how much, of what is not time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Number(pub(crate) f64);

/// Measures an operation of this process, all its threads included.
pub(crate) fn operation<T>(work: impl FnOnce() -> Result<T>) -> Result<(T, Cost)> {
    measure(UsageWho::RUSAGE_SELF, work)
}

/// Measures a command, which must succeed, from its start to its end. Its output is its own
/// business; no other child may end meanwhile.
pub(crate) fn command(command: &mut Command) -> Result<Cost> {
    let run = || command.status().with_context(|| format!("cannot run {command:?}"));
    let (status, cost) = measure(UsageWho::RUSAGE_CHILDREN, run)?;
    ensure!(status.success(), "{command:?} failed: {status}");
    Ok(cost)
}

/// Measures both sides in turns, so many rounds, behind one that warms the machine up and does not
/// count. Who goes first alternates, too.
pub(crate) fn in_turns<T: Display>(
    rounds: usize,
    mut measured: impl FnMut(Side) -> Result<T>,
) -> Result<Rounds<T>> {
    let mut costs = Rounds { ours: Vec::new(), rival: Vec::new() };
    for round in 0..=rounds {
        let order = match round % 2 {
            0 => [Side::Ours, Side::Rival],
            _ => [Side::Rival, Side::Ours],
        };
        for side in order {
            let cost = measured(side)?;
            let label = if round == 0 { "warm-up".to_owned() } else { format!("round {round}") };
            eprintln!("  {label}: {side:?}: {cost}");
            match side {
                _ if round == 0 => {}
                Side::Ours => costs.ours.push(cost),
                Side::Rival => costs.rival.push(cost),
            }
        }
    }
    Ok(costs)
}

/// The median of what `of` takes from each cost.
pub(crate) fn median(costs: &[Cost], of: impl Fn(&Cost) -> Duration) -> Duration {
    middle(costs.iter().map(of).collect())
}

/// The median of times; of none, nothing.
pub(crate) fn middle(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    let middle = times.len() / 2;
    match times.len() {
        0 => Duration::ZERO,
        odd if odd % 2 == 1 => times[middle],
        _ => (times[middle - 1] + times[middle]) / 2,
    }
}

/// The median of numbers; of none, nothing.
pub(crate) fn middle_number(mut numbers: Vec<Number>) -> f64 {
    numbers.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let middle = numbers.len() / 2;
    match numbers.len() {
        0 => 0.0,
        odd if odd % 2 == 1 => numbers[middle].0,
        _ => f64::midpoint(numbers[middle - 1].0, numbers[middle].0),
    }
}

fn measure<T>(whose: UsageWho, work: impl FnOnce() -> Result<T>) -> Result<(T, Cost)> {
    let before = cpu(getrusage(whose)?);
    let start = Instant::now();
    let done = work()?;
    let wall = start.elapsed();
    let cpu = cpu(getrusage(whose)?).saturating_sub(before);
    Ok((done, Cost { wall, cpu }))
}

fn cpu(usage: Usage) -> Duration {
    let time = |time: TimeVal| {
        let seconds = Duration::from_secs(time.tv_sec().unsigned_abs());
        seconds + Duration::from_micros(time.tv_usec().unsigned_abs())
    };
    time(usage.user_time()) + time(usage.system_time())
}

impl Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.0}", self.0)
    }
}

impl Display for Cost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { wall, cpu } = self;
        write!(f, "{wall:.3?}")?;
        if cpu.is_zero() { Ok(()) } else { write!(f, ", {cpu:.3?} of CPU") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_ignores_a_bad_round() {
        let cost = |secs| Cost { wall: Duration::from_secs(secs), cpu: Duration::ZERO };
        let odd = [cost(3), cost(1), cost(100)];
        assert_eq!(median(&odd, |cost| cost.wall), Duration::from_secs(3));
        let even = [cost(3), cost(1), cost(100), cost(5)];
        assert_eq!(median(&even, |cost| cost.wall), Duration::from_secs(4));
    }

    #[test]
    fn a_busy_child_costs_cpu_and_an_idle_one_only_time() {
        let busy = command(
            Command::new("sh").args(["-c", "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done"]),
        );
        let idle = command(Command::new("sleep").arg("0.2"));
        let (busy, idle) = (busy.unwrap(), idle.unwrap());
        assert!(busy.cpu > idle.cpu, "{busy} against {idle}");
        assert!(idle.wall > idle.cpu * 2, "{idle}");
        assert!(command(&mut Command::new("false")).is_err());
    }

    #[test]
    fn each_side_is_measured_in_each_round_but_the_first() {
        let mut sides = Vec::new();
        let rounds = in_turns(3, |side| {
            sides.push(side);
            Ok(Cost { wall: Duration::ZERO, cpu: Duration::ZERO })
        });
        let rounds = rounds.unwrap();
        assert_eq!((rounds.ours.len(), rounds.rival.len(), sides.len()), (3, 3, 8));
        assert_ne!(sides[0], sides[2]);
    }
}
