//! The verbs, one module each: its options as a `clap` type, and a `run` that calls a library.
//!
//! A new verb is a module here, a variant of [`Verb`] and a line of [`run`]. What it shows, it shows
//! through [`crate::output`].

mod agent;
mod completions;
mod lab;

use clap::Subcommand;
use std::io::Write;
use std::process::ExitCode;

/// What is asked for.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Make and use a playground on this machine: real switches, agents and pods
    Lab(lab::Arguments),
    /// Run this node's agent
    Agent(agent::Arguments),
    /// Print a script that completes osier's words in a shell
    Completions(completions::Arguments),
    /// Print the version
    Version,
}

/// Does it: the exit code.
pub(crate) fn run(verb: Verb) -> anyhow::Result<ExitCode> {
    match verb {
        Verb::Lab(arguments) => lab::run(arguments),
        Verb::Agent(arguments) => agent::run(&arguments),
        Verb::Completions(arguments) => completions::run(&arguments),
        Verb::Version => {
            writeln!(std::io::stdout(), "osier {}", env!("CARGO_PKG_VERSION"))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}
