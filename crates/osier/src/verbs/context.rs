//! `osier login` and `osier context`: the controllers that the user knows.

use super::runtime;
use crate::client::access::read_authority;
use crate::client::contexts::{Context, Contexts};
use crate::client::{Access, Client, Credential, Servers};
use crate::output::Output;
use crate::render::paint::{Paint, Tone};
use crate::render::table::{Cell, Table};
use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use nix::sys::termios::{LocalFlags, SetArg, tcgetattr, tcsetattr};
use osier_resource::Kind;
use serde_json::json;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug, Args)]
#[command(after_help = "\
The credential is read from standard input or a file, never from the command line, where other \
users of the machine would see it. It is kept in ~/.config/osier/config.toml (or $OSIER_CONFIG), \
which only you can read. The controller shows a first credential when it starts for the first time; \
on its own machine, root needs none of this.

Examples:
  osier login https://10.0.0.1 --ca ca.pem                # asks for the credential
  osier login https://ctl.example --ca ca.pem --name prod < credential")]
pub(crate) struct Login {
    /// Where the controller is; of several, all addresses with commas between
    server: Servers,
    /// The authority that vouches for it (PEM)
    #[arg(long, value_name = "FILE")]
    ca: PathBuf,
    /// The file with the credential, instead of standard input
    #[arg(long, value_name = "FILE")]
    credential_file: Option<PathBuf>,
    /// How to call it
    #[arg(long, default_value = "default")]
    name: String,
    /// Do not try it
    #[arg(long)]
    untried: bool,
}

#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "\
Examples:
  osier context list
  osier context use prod
  osier context remove old"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Show all, and which one is current
    List {
        #[command(flatten)]
        output: Output,
    },
    /// Add one (the same as `osier login`)
    Add(Login),
    /// Make one the current one
    Use { name: String },
    /// Forget one, and its credential
    Remove { name: String },
}

pub(crate) fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    match arguments.verb {
        Verb::List { output } => list(output),
        Verb::Add(arguments) => login(&arguments),
        Verb::Use { name } => change(|contexts| {
            check_known(contexts, &name)?;
            contexts.current = Some(name.clone());
            Ok(format!("current context: {name}"))
        }),
        Verb::Remove { name } => change(|contexts| {
            check_known(contexts, &name)?;
            contexts.contexts.remove(&name);
            contexts.current.take_if(|current| *current == name);
            Ok(format!("context {name} removed"))
        }),
    }
}

pub(crate) fn login(arguments: &Login) -> anyhow::Result<ExitCode> {
    let ca = read_authority(&arguments.ca)?;
    let credential = match &arguments.credential_file {
        Some(path) => Credential::load(path)?,
        None => read_credential()?,
    };
    let access = Access {
        server: arguments.server.clone(),
        authority: ca.clone(),
        authority_origin: arguments.ca.display().to_string(),
        credential: credential.clone(),
        origin: "That credential".to_owned(),
    };
    let client = Client::new(access, TIMEOUT)?;
    if !arguments.untried {
        runtime()?.block_on(client.object(Kind::Fabric, Kind::THE_FABRIC)).or_else(|error| {
            // Who is told that there is none was let in.
            match error.refusal() {
                Some(refusal) if refusal.status == 404 => Ok(json!(null)),
                _ => Err(error),
            }
        })?;
    }
    let context = Context {
        server: arguments.server.clone(),
        ca,
        credential: credential.expose().to_owned(),
    };
    let name = &arguments.name;
    change(|contexts| {
        contexts.contexts.insert(name.clone(), context);
        contexts.current = Some(name.clone());
        Ok(format!("context {name}: {}", arguments.server))
    })
}

/// One line of standard input; of a terminal, without showing it.
fn read_credential() -> anyhow::Result<Credential> {
    let stdin = io::stdin();
    let shown = if stdin.is_terminal() {
        write!(io::stderr(), "credential: ")?;
        let shown = tcgetattr(&stdin)?;
        let mut hidden = shown.clone();
        hidden.local_flags.remove(LocalFlags::ECHO);
        tcsetattr(&stdin, SetArg::TCSANOW, &hidden)?;
        Some(shown)
    } else {
        None
    };
    let mut line = String::new();
    let read = stdin.lock().read_line(&mut line);
    if let Some(shown) = shown {
        tcsetattr(&stdin, SetArg::TCSANOW, &shown)?;
        writeln!(io::stderr())?;
    }
    read.context("standard input cannot be read")?;
    Ok(Credential::new(&line, "standard input")?)
}

fn change(what: impl FnOnce(&mut Contexts) -> anyhow::Result<String>) -> anyhow::Result<ExitCode> {
    let path = Contexts::path()?;
    let mut contexts = Contexts::load(&path)?;
    let said = what(&mut contexts)?;
    contexts.save(&path)?;
    writeln!(io::stdout(), "{said}")?;
    Ok(ExitCode::SUCCESS)
}

fn check_known(contexts: &Contexts, name: &str) -> anyhow::Result<()> {
    if !contexts.contexts.contains_key(name) {
        bail!("there is no context {name:?}: `osier context list` shows all");
    }
    Ok(())
}

fn list(output: Output) -> anyhow::Result<ExitCode> {
    let contexts = Contexts::load(&Contexts::path()?)?;
    let is_current = |name: &str| contexts.current.as_deref() == Some(name);
    let values: Vec<_> = contexts
        .contexts
        .iter()
        .map(|(name, context)| {
            json!({"name": name, "server": context.server, "current": is_current(name)})
        })
        .collect();
    output.print(&values, |_| {
        let mut table = Table::new(["NAME", "SERVER", "CURRENT"]);
        for (name, context) in &contexts.contexts {
            let current = if is_current(name) { Cell::toned(Tone::Good, "yes") } else { "".into() };
            table.push([name.as_str().into(), context.server.to_string().into(), current]);
        }
        table.draw("", Paint::for_output())
    })?;
    Ok(ExitCode::SUCCESS)
}
