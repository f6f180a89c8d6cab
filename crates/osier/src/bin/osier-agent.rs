//! The node's agent as a program of its own: what `osier agent` becomes where this is installed beside it.

#[path = "../verbs/agent.rs"]
mod agent;

use clap::Parser;
use std::process::ExitCode;

/// The node's agent of Osier.
#[derive(Debug, Parser)]
#[command(name = "osier-agent", version)]
struct Agent {
    #[command(flatten)]
    arguments: agent::Arguments,
}

fn main() -> ExitCode {
    match agent::run(&Agent::parse().arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("osier: {error:#}");
            ExitCode::FAILURE
        }
    }
}
