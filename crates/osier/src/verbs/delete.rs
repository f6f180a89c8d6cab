//! `osier delete`: resources, all that are named or none.

use super::apply::lines;
use super::asking;
use crate::client::Connection;
use crate::client::answers::{ItemOutcome, Outcome};
use crate::kinds;
use crate::manifests;
use clap::Args;
use osier_resource::Kind;
use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, Args)]
#[command(after_help = "\
All are deleted in one step, or none: what others still refer to stays, and the error says who.

Examples:
  osier delete network blue       # one
  osier delete ports shop:a shop:b
  osier delete -f net.yaml        # all that a file names")]
pub(crate) struct Arguments {
    /// What: network, port, node...
    #[arg(value_parser = kinds::parser(), ignore_case = true, requires = "names",
          required_unless_present = "files", conflicts_with = "files")]
    kind: Option<Kind>,
    /// Which
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// All that a file, a folder's files, or - for standard input name
    #[arg(short, long = "filename", value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let item = |kind: Kind, name: &str| json!({"kind": kind.name(), "name": name});
    let items: Vec<Value> = if let Some(kind) = arguments.kind {
        arguments.names.iter().map(|name| item(kind, name)).collect()
    } else {
        let manifests = manifests::load(&arguments.files)?;
        manifests.iter().map(|m| item(m.resource.kind(), m.resource.name())).collect()
    };
    asking(&arguments.connection, async |client| {
        let mut outcome: Outcome = client.change("/delete", &json!({"items": items})).await?;
        for ItemOutcome { result, .. } in &mut outcome.items {
            if result.is_empty() {
                "deleted".clone_into(result);
            }
        }
        std::io::stdout().write_all(lines(&outcome, false).as_bytes())?;
        Ok(ExitCode::SUCCESS)
    })
}
