//! The `osier` binary: one program for the node's agent and for people.
//!
//! Arguments are read here; each verb is a module of [`verbs`], which reads its own options and
//! calls a library. Results go to standard output, everything else to standard error.

mod output;
mod progress;
mod verbs;

use clap::Parser;
use std::error::Error;
use std::process::ExitCode;

/// A Kubernetes network on Open vSwitch.
#[derive(Debug, Parser)]
#[command(
    name = "osier",
    version,
    arg_required_else_help = true,
    after_help = "\
New here? On a machine of your own, as root:
  osier lab up --nodes 3 --pods 4   # three nodes with real switches, four pods
  osier lab ping-all                # all of them talk
  osier lab down                    # and nothing stays"
)]
struct Osier {
    #[command(subcommand)]
    verb: verbs::Verb,
}

fn main() -> ExitCode {
    match verbs::run(Osier::parse().verb) {
        Ok(code) => code,
        // Whoever read our output has seen enough: `osier lab status | head -1`.
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("osier: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let kind = |cause: &(dyn Error + 'static)| Some(cause.downcast_ref::<std::io::Error>()?.kind());
    error.chain().find_map(kind) == Some(std::io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_consistent() {
        Osier::command().debug_assert();
    }

    #[test]
    fn wrong_arguments_are_explained() {
        for (line, said) in [
            ("agnet", "unrecognized subcommand 'agnet'"),
            ("agent --config", "a value is required for '--config"),
            ("agent -x", "unexpected argument '-x'"),
            ("version 2", "unexpected argument '2'"),
            ("lab up --nodes 0", "0 nodes: a lab has 1 to 32"),
            ("lab up --family ipv5", "[possible values: ipv4, ipv6, dual]"),
            ("lab up --name ../x", "is no lab's name"),
            ("lab status -o xml", "[possible values: table, wide, json, yaml]"),
            ("lab exec pod1", "<COMMAND>..."),
        ] {
            let words = std::iter::once("osier").chain(line.split_whitespace());
            let error = Osier::try_parse_from(words).expect_err(line).to_string();
            assert!(error.contains(said), "{line}: {error}");
        }
    }
}
