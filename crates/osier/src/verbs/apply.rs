//! `osier apply`: what files say, all of it or nothing.

use super::asking;
use crate::client::answers::Outcome;
use crate::client::{Client, ClientError, Connection};
use crate::kinds;
use crate::manifests::{self, Manifest};
use anyhow::Context;
use clap::Args;
use osier_resource::Kind;
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, Args)]
#[command(after_help = "\
All resources of all files are taken in one step: if one is wrong, nothing changes, and every error \
is told with its file and line. What no file names is left alone. A metadata.resourceVersion in a \
file, as `get -o yaml` writes it, guards against changes that somebody made meanwhile.

Examples:
  osier apply -f net.yaml                # create or change
  osier apply -f examples/ --dry-run     # a folder's files: what would happen?
  osier get net blue -o yaml | sed s/10.0.0/10.0.9/ | osier apply -f -")]
pub(crate) struct Arguments {
    /// A file, a folder of *.yaml, *.yml and *.json, or - for standard input
    #[arg(short, long = "filename", value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Only say what would happen
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let manifests = manifests::load(&arguments.files).context(NOTHING_CHANGED)?;
    asking(&arguments.connection, async |client| {
        let outcome = apply(client, &manifests, arguments.dry_run).await?;
        std::io::stdout().write_all(lines(&outcome, arguments.dry_run).as_bytes())?;
        Ok(ExitCode::SUCCESS)
    })
}

const NOTHING_CHANGED: &str = "nothing was changed";

async fn apply(client: &Client, manifests: &[Manifest], dry_run: bool) -> anyhow::Result<Outcome> {
    let items: Vec<_> = manifests.iter().map(|manifest| manifest.resource.to_value()).collect();
    let body = json!({"items": items, "dryRun": dry_run});
    client.change("/apply", &body).await.map_err(|error| located(error, manifests))
}

/// An error with the places of what it is about.
fn located(mut error: ClientError, manifests: &[Manifest]) -> anyhow::Error {
    if error.is_in_doubt() {
        let said = "it is not known whether this was applied; to apply it again does no harm";
        return anyhow::Error::new(error).context(said);
    }
    if let Some(refusal) = error.refusal_mut() {
        refusal.locate(|object| {
            let is_it = |m: &&Manifest| m.called() == object || m.resource.key() == object;
            manifests.iter().find(is_it).map(Manifest::at)
        });
    }
    error.into()
}

/// A line for each: `network/blue created`.
pub(super) fn lines(outcome: &Outcome, dry_run: bool) -> String {
    let suffix = if dry_run { " (dry run)" } else { "" };
    let line = |item: &crate::client::answers::ItemOutcome| {
        let called = match item.kind.parse::<Kind>() {
            Ok(kind) => kinds::called(kind, &item.name),
            Err(_) => format!("{}/{}", item.kind.to_lowercase(), item.name),
        };
        format!("{called} {}{suffix}\n", item.result)
    };
    outcome.items.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_outcome_has_a_line() {
        let outcome = json!({"items": [
            {"kind": "Network", "name": "blue", "result": "created"},
            {"kind": "Port", "name": "shop:web", "result": "unchanged"}], "resourceVersion": "7"});
        let outcome: Outcome = serde_json::from_value(outcome).unwrap();
        assert_eq!(lines(&outcome, false), "network/blue created\nport/shop:web unchanged\n");
        assert!(lines(&outcome, true).starts_with("network/blue created (dry run)\n"));
    }
}
