//! Benchmarks. Each figure is a ratio of ours to a rival, both measured in the same run.
//!
//! Standard output holds one line a figure and nothing else; how it came about is on standard
//! error. A new subject is a module with a [`Suite`] and a line in [`SUITES`].

mod api;
mod change;
mod cni;
mod connect;
mod controlled;
mod counted;
mod failover;
mod figure;
mod fleet;
mod flows;
mod gap;
mod growth;
mod kubernetes;
mod managed;
mod measure;
mod node;
mod openflow;
mod ovn;
mod ovsdb;
mod path;
mod policies;
mod rest;
mod restore;
mod runtime;
mod services;
mod southbound;
mod switch;
mod workload;

use anyhow::{Result, bail};
use figure::{Figure, Goal};
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

const USAGE: &str = "usage: osier-bench list
       osier-bench run [--rounds N] [--strict] [NAME...]

run measures the figures named, or all of them, and prints each as
NAME ratio=OURS/RIVAL goal<=GOAL ours=… rival=…;
of what is gained, not spent, the goal is a least: goal>=GOAL.
  --rounds N  how often both are measured; the medians count (default 5)
  --strict    exit with 1 if a goal is missed";

/// All that can be measured.
const SUITES: &[Suite] = &[
    openflow::BUNDLE,
    openflow::DECODE,
    ovsdb::PORTS_WRITTEN,
    southbound::RESYNC,
    southbound::CHANGE,
    restore::RESTORED,
    cni::ADD,
    cni::ADD_32,
    growth::ADD_GROWTH,
    growth::AGENT_MEMORY,
    path::WITHIN,
    path::BETWEEN,
    gap::KILLED,
    change::BESIDE_50,
    change::BESIDE_1500,
    change::GROWTH,
    fleet::LARGE_CLUSTER,
    kubernetes::PODS,
    kubernetes::LEAST,
    kubernetes::MEMORY,
    services::NFTABLES,
    services::IPTABLES,
    services::GROWTH,
    services::TRAFFIC,
    services::GATEWAY,
    policies::SCALE,
    policies::TRAFFIC,
    rest::REST_PODS,
    failover::FAILOVER,
];

/// Figures that one measurement yields together.
struct Suite {
    goals: &'static [Goal],
    /// Measures so many rounds; yields a figure for each goal, in their order.
    run: fn(rounds: usize) -> Result<Vec<Figure>>,
}

/// What the command line asks for.
struct Request {
    names: Vec<String>,
    rounds: usize,
    strict: bool,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match args.first().map(String::as_str) {
        Some("list") if args.len() == 1 => list().map(|()| true),
        Some("run") => parse(&args[1..]).and_then(|request| run(&request)),
        Some("--help" | "-h" | "help") => print(USAGE).map(|()| true),
        _ => Err(anyhow::anyhow!(USAGE)),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("osier-bench: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn goals() -> impl Iterator<Item = &'static Goal> {
    SUITES.iter().flat_map(|suite| suite.goals)
}

fn list() -> Result<()> {
    let width = goals().map(|goal| goal.name.len()).max().unwrap_or(0);
    goals().try_for_each(|goal| {
        print(&format!("{:width$}  goal{}  {}", goal.name, goal.wanted, goal.about))
    })
}

fn parse(args: &[String]) -> Result<Request> {
    let mut request = Request { names: Vec::new(), rounds: 5, strict: false };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--strict" => request.strict = true,
            "--rounds" => match args.next().and_then(|n| n.parse().ok()) {
                Some(rounds @ 1..) => request.rounds = rounds,
                _ => bail!("--rounds needs a number from 1\n{USAGE}"),
            },
            option if option.starts_with('-') => bail!("unknown option {option}\n{USAGE}"),
            name if goals().any(|goal| goal.name == name) => request.names.push(name.to_owned()),
            name => {
                let known: Vec<_> = goals().map(|goal| goal.name).collect();
                bail!("no figure is called {name}; there are {}", known.join(", "));
            }
        }
    }
    Ok(request)
}

/// Measures and prints; whether all goals that had to be met were.
fn run(request: &Request) -> Result<bool> {
    let wanted = |goal: &Goal| {
        request.names.is_empty() || request.names.iter().any(|name| name == goal.name)
    };
    let mut met = true;
    for suite in SUITES.iter().filter(|suite| suite.goals.iter().any(wanted)) {
        for figure in (suite.run)(request.rounds)?.iter().filter(|figure| wanted(figure.goal)) {
            print(&figure.to_string())?;
            if !figure.is_met() {
                eprintln!("{}: the goal is missed", figure.goal.name);
                met = false;
            }
        }
    }
    Ok(met || !request.strict)
}

/// Prints a line; nobody listening any more is no failure.
fn print(line: &str) -> Result<()> {
    match writeln!(io::stdout(), "{line}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
