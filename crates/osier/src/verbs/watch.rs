//! `osier watch`: what happens to resources, as it happens.

use super::asking;
use super::get::{Form, Printer, follow};
use crate::client::answers::{Event, EventKind};
use crate::client::{Connection, Follower};
use crate::kinds;
use clap::Args;
use osier_resource::Kind;
use std::process::ExitCode;

#[derive(Debug, Args)]
#[command(after_help = "\
Begins with what there is, then tells every change until Ctrl-C, also across restarts of the \
controller. `osier get KIND -w` is the same with a table first.

Examples:
  osier watch ports                     # every port that comes, changes or goes
  osier watch nodes -o json | jq .type  # an event in each line")]
pub(crate) struct Arguments {
    /// What: networks, ports, nodes...
    #[arg(value_parser = kinds::parser(), ignore_case = true)]
    kind: Kind,
    /// How to show it
    #[arg(short = 'o', long = "output", value_name = "FORM", default_value = "table")]
    form: Form,
    /// Only those with these labels: key=value,key2!=value2,key3
    #[arg(short = 'l', long, value_name = "LABELS")]
    selector: Option<String>,
    /// Only what changes from now on
    #[arg(long)]
    changes_only: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let Arguments { kind, form, selector, .. } = arguments;
    asking(&arguments.connection, async |client| {
        let listing = client.list(*kind, selector.as_deref()).await?;
        let mut follower = Follower::new(client, *kind, selector.as_deref(), &listing);
        let mut printer = Printer::new(*kind, *form, true);
        printer.print_headings()?;
        if !arguments.changes_only {
            for object in listing.items {
                printer.print_event(&Event { kind: EventKind::Added, object })?;
            }
        }
        follow(&mut follower, &[], &mut printer).await?;
        Ok(ExitCode::SUCCESS)
    })
}
