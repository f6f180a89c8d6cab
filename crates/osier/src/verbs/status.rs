//! `osier status`: is the cluster as it should be?

use super::{asking, verdict};
use crate::client::answers::Status;
use crate::client::{Client, ClientError, Connection};
use crate::output::{Form, Output};
use crate::render::paint::Paint;
use crate::render::status::{draw, problems};
use anyhow::Context;
use clap::Args;
use serde_json::Value;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;
use time::OffsetDateTime;

/// To the upper left, and clear what is below.
pub(super) const CLEAR: &str = "\x1b[H\x1b[2J";
/// How often it is asked while watching.
const EVERY: Duration = Duration::from_secs(2);

#[derive(Debug, Args)]
#[command(after_help = "\
Each node is converged if its switch is as the controller wants it. Tunnels are shown from each \
node (row) to each other (column).

Exit codes: 0 if all is well, 1 if something is not, or nobody answers.

Examples:
  osier status                                    # the whole picture
  osier status --watch                            # again and again
  osier status -o json | jq '.nodes[].converged'  # for programs
  until osier status > /dev/null; do sleep 1; done")]
pub(crate) struct Arguments {
    /// Show it again whenever it changes, until Ctrl-C
    #[arg(short, long)]
    watch: bool,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    asking(&arguments.connection, async |client| {
        if arguments.watch {
            return watch(client, arguments.output).await;
        }
        let (value, status) = ask(client).await?;
        let (now, paint) = (OffsetDateTime::now_utc(), Paint::for_output());
        arguments.output.print(&value, |form| draw(&status, form == Form::Wide, now, paint))?;
        Ok(verdict(problems(&status, now).is_empty()))
    })
}

/// The answer, whole and as far as we show it.
async fn ask(client: &Client) -> Result<(Value, Status), anyhow::Error> {
    let value: Value = client.get("/status").await?;
    let status = serde_json::from_value(value.clone())
        .context("the controller's status is of another version: -o json shows it whole")?;
    Ok((value, status))
}

/// Shows it until somebody ends us.
async fn watch(client: &Client, output: Output) -> anyhow::Result<ExitCode> {
    let mut shown = String::new();
    let (paint, is_terminal) = (Paint::for_output(), std::io::stdout().is_terminal());
    let is_wide = output.form == Form::Wide;
    loop {
        let text = match ask(client).await {
            Ok((value, status)) => match output.form {
                Form::Json => value.to_string() + "\n",
                Form::Yaml => format!("---\n{}", serde_saphyr::to_string(&value)?),
                Form::Table | Form::Wide => {
                    draw(&status, is_wide, OffsetDateTime::now_utc(), paint)
                }
            },
            // What is refused stays refused; who is away may come back.
            Err(error) if !is_absence(&error) => return Err(error),
            Err(error) => format!("✗ {error:#}\n"),
        };
        if text != shown {
            let clear = if is_terminal { CLEAR } else { "" };
            let mut stdout = std::io::stdout();
            stdout.write_all(format!("{clear}{text}").as_bytes())?;
            stdout.flush()?;
            shown = text;
        }
        tokio::time::sleep(EVERY).await;
    }
}

fn is_absence(error: &anyhow::Error) -> bool {
    error.downcast_ref::<ClientError>().is_some_and(ClientError::is_absence)
}
