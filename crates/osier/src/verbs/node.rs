//! `osier node`: let nodes join, pause and resume them.

use super::asking;
use crate::client::answers::Status;
use crate::client::{Connection, escaped};
use crate::output::{Form, Output};
use crate::render::paint::Paint;
use crate::render::status;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::io::Write;
use std::net::IpAddr;
use std::process::ExitCode;
use time::OffsetDateTime;

#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "\
Examples:
  osier node token n4 --address 192.0.2.4 > n4.token  # then: token-file in n4's agent.toml
  osier node pause n4                                 # before working on its switch by hand
  osier node resume n4                                # and it becomes as wanted again
  osier node list"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Make a token with which a node can join, once, from its address
    #[command(after_help = "\
The token is printed once and kept nowhere. It lets one machine join as this node, from this \
address; a Node resource with the address is made if there is none.")]
    Token {
        /// The node's name
        name: String,
        /// The address that the node will ask from, where its tunnels end
        #[arg(long, value_name = "IP")]
        address: IpAddr,
        /// For how many seconds it can be used
        #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
        ttl: u64,
        #[command(flatten)]
        connection: Connection,
    },
    /// Stop changing a node's switch; traffic flows on
    Pause(One),
    /// Make a paused node as wanted again, and keep it so
    Resume(One),
    /// Show all nodes and how they are
    List {
        #[command(flatten)]
        output: Output,
        #[command(flatten)]
        connection: Connection,
    },
}

#[derive(Debug, Args)]
struct One {
    /// The node's name
    name: String,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    match &arguments.verb {
        Verb::Token { name, address, ttl, connection } => token(name, *address, *ttl, connection),
        Verb::Pause(one) => tell(one, "pause", "paused"),
        Verb::Resume(one) => tell(one, "resume", "resumed"),
        Verb::List { output, connection } => list(*output, connection),
    }
}

fn token(
    name: &str,
    address: IpAddr,
    ttl: u64,
    connection: &Connection,
) -> anyhow::Result<ExitCode> {
    asking(connection, async |client| {
        let body = json!({"address": address, "ttlSeconds": ttl});
        let path = format!("/nodes/{}/token", escaped(name));
        let answer: Value = client.change(&path, &body).await?;
        let token = answer.get("token").and_then(Value::as_str);
        let token = token.ok_or_else(|| anyhow::anyhow!("the controller gave no token"))?;
        writeln!(std::io::stdout(), "{token}")?;
        // Standard output may go to a file: what to do with it goes beside it.
        let said = "it works once, within the given time, from that address; keep it secret";
        writeln!(std::io::stderr(), "token for node {name} at {address}: {said}")?;
        Ok(ExitCode::SUCCESS)
    })
}

fn tell(one: &One, verb: &str, done: &str) -> anyhow::Result<ExitCode> {
    asking(&one.connection, async |client| {
        let path = format!("/nodes/{}/{verb}", escaped(&one.name));
        let answer: Value = client.change(&path, &json!({})).await?;
        writeln!(std::io::stdout(), "node/{} {done}", one.name)?;
        if let Some(problem) = answer.get("problem").and_then(Value::as_str) {
            writeln!(std::io::stderr(), "its agent will hear of it when it can: {problem}")?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

fn list(output: Output, connection: &Connection) -> anyhow::Result<ExitCode> {
    asking(connection, async |client| {
        let value: Value = client.get("/status").await?;
        let status: Status = serde_json::from_value(value.clone())?;
        let now = OffsetDateTime::now_utc();
        let nodes = value.get("nodes").cloned().unwrap_or_default();
        output.print(&nodes, |form| {
            status::nodes(&status, form == Form::Wide, now).draw("", Paint::for_output())
        })?;
        Ok(ExitCode::SUCCESS)
    })
}
