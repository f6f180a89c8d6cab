//! The `osier` binary: one program for the node's agent and for people.
//!
//! Arguments are read here; each verb is a module of [`verbs`], which reads its own options and
//! calls a library. Results go to standard output, everything else to standard error.

mod client;
mod kinds;
mod manifests;
mod output;
mod pcap;
mod preflight;
mod progress;
mod redact;
mod render;
mod verbs;

use clap::{CommandFactory, FromArgMatches, Parser};
use std::error::Error;
use std::io::Write;
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
  osier lab down                    # and nothing stays

With a controller:
  osier apply -f net.yaml           # make networks, routers, ports
  osier get networks                # what there is
  osier status                      # is every node as it should be?
  osier trace shop:web shop:db      # why does a packet arrive, or not?

Exit codes: 0 well, 1 failed or not healthy, 2 wrong usage. Colour only on terminals, never with \
NO_COLOR."
)]
struct Osier {
    #[command(subcommand)]
    verb: verbs::Verb,
}

fn main() -> ExitCode {
    let osier = match client::is_plugin() {
        // `kubectl osier` calls it so, and so do its help texts.
        true => Osier::from_arg_matches(&Osier::command().bin_name("kubectl osier").get_matches())
            .unwrap_or_else(|error| error.exit()),
        false => Osier::parse(),
    };
    match verbs::run(osier.verb) {
        Ok(code) => code,
        // Whoever read our output has seen enough: `osier lab status | head -1`.
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            explain(&error);
            ExitCode::FAILURE
        }
    }
}

/// What went wrong, and what can be done about it.
fn explain(error: &anyhow::Error) {
    let mut stderr = std::io::stderr();
    // Who closed standard error does not want to know.
    let _ = writeln!(stderr, "osier: {error:#}");
    let advice =
        error.chain().find_map(|cause| cause.downcast_ref::<client::ClientError>()?.advice());
    if let Some(advice) = advice {
        let _ = writeln!(stderr, "  {advice}");
    }
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let kind = |cause: &(dyn Error + 'static)| Some(cause.downcast_ref::<std::io::Error>()?.kind());
    error.chain().find_map(kind) == Some(std::io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Osier::command().debug_assert();
    }

    #[test]
    fn kinds_have_many_names() {
        for word in ["networks", "network", "net", "NET", "Network"] {
            Osier::try_parse_from(["osier", "get", word]).expect(word);
        }
    }

    #[test]
    fn every_verb_shows_how_it_is_used() {
        let has_examples = |command: &clap::Command| {
            command.get_after_help().is_some_and(|help| help.to_string().contains("osier "))
        };
        for command in Osier::command().get_subcommands() {
            let name = command.get_name();
            assert!(
                has_examples(command) || ["agent", "controller", "version"].contains(&name),
                "{name}"
            );
        }
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
            ("get", "<KIND>"),
            ("get netwroks", "tip: a similar value exists: 'networks'"),
            ("get ports -o xml", "[possible values: table, wide, json, yaml, name]"),
            ("get ports a:b -l x=y", "cannot be used with"),
            ("apply", "--filename <FILE>"),
            ("delete", "the following required arguments were not provided"),
            ("delete network", "<NAME>..."),
            ("delete network a -f x.yaml", "cannot be used with"),
            ("trace a:b", "<TO>"),
            ("trace a:b c:d --tcp 80 --udp 53", "cannot be used with"),
            ("trace a:b c:d --tcp 70000", "70000 is not in 0..=65535"),
            ("node token n1", "--address <IP>"),
            ("node token n1 --address n1", "invalid IP address syntax"),
            ("status --server http://x", "only https is spoken"),
            ("login https://x --ca a --credential s3cret", "unexpected argument '--credential'"),
        ] {
            let words = std::iter::once("osier").chain(line.split_whitespace());
            let error = Osier::try_parse_from(words).expect_err(line).to_string();
            assert!(error.contains(said), "{line}: {error}");
        }
    }
}
