//! The `osier` binary: one program for the node's agent and for people.
//!
//! Arguments are read here and nothing else is done here: each verb is a library's.

use anyhow::{Context, bail};
use osier_agent::config::{Config, DEFAULT_PATH};
use std::path::PathBuf;
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing_subscriber::EnvFilter;

const USAGE: &str = "\
Usage: osier VERB [OPTIONS]

Verbs:
  agent [--config FILE]   run this node's agent (default: /etc/osier/agent.toml)
  version                 print the version
  help                    print this text

The agent logs to standard error; OSIER_LOG=debug (or a filter such as osier_agent=debug) says more.
";

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
enum Verb {
    Agent { config: PathBuf },
    Version,
    Help,
}

fn main() -> ExitCode {
    match run(std::env::args().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("osier: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: impl Iterator<Item = String>) -> anyhow::Result<()> {
    match parse(arguments)? {
        Verb::Help => print!("{USAGE}"),
        Verb::Version => println!("osier {}", env!("CARGO_PKG_VERSION")),
        Verb::Agent { config } => {
            let filter = EnvFilter::try_from_env("OSIER_LOG").unwrap_or_else(|_| "info".into());
            tracing_subscriber::fmt()
                .with_env_filter(filter)
                .with_writer(std::io::stderr)
                .with_ansi(false)
                .init();
            let config = Config::load(&config)?;
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .context("there is no runtime")?;
            runtime.block_on(agent(config))?;
        }
    }
    Ok(())
}

fn parse(mut arguments: impl Iterator<Item = String>) -> anyhow::Result<Verb> {
    let verb = match arguments.next().as_deref() {
        Some("agent") => {
            let mut config = PathBuf::from(DEFAULT_PATH);
            while let Some(option) = arguments.next() {
                match option.as_str() {
                    "--config" => {
                        config = arguments.next().context("--config needs a file")?.into();
                    }
                    other => bail!("agent has no option {other:?}: see osier help"),
                }
            }
            Verb::Agent { config }
        }
        Some("version" | "--version") => Verb::Version,
        Some("help" | "--help" | "-h") => Verb::Help,
        Some(other) => bail!("there is no verb {other:?}: see osier help"),
        None => bail!("a verb is missing: see osier help"),
    };
    if let Some(extra) = arguments.next() {
        bail!("{extra:?} is too much: see osier help");
    }
    Ok(verb)
}

/// Runs the agent until SIGTERM or SIGINT.
async fn agent(config: Config) -> anyhow::Result<()> {
    let (stop, stopped) = watch::channel(false);
    let mut terminate = signal(SignalKind::terminate()).context("signals cannot be heard")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("signals cannot be heard")?;
    // Who wants the configuration or the view read anew sends this; the view is read by itself.
    let _hangup = signal(SignalKind::hangup()).context("signals cannot be heard")?;
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        // If nobody listens, the agent has ended.
        let _ = stop.send(true);
        std::future::pending::<()>().await;
    });
    Ok(osier_agent::run(config, stopped).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Verb, String> {
        parse(line.split_whitespace().map(str::to_owned)).map_err(|error| error.to_string())
    }

    #[test]
    fn arguments_are_read_or_explained() {
        let config = PathBuf::from("/x.toml");
        assert_eq!(parsed("agent --config /x.toml"), Ok(Verb::Agent { config }));
        assert_eq!(parsed("agent"), Ok(Verb::Agent { config: DEFAULT_PATH.into() }));
        assert_eq!(parsed("--help"), Ok(Verb::Help));
        for (line, said) in [
            ("", "a verb is missing"),
            ("agnet", "there is no verb \"agnet\""),
            ("agent --config", "--config needs a file"),
            ("agent -x", "no option \"-x\""),
            ("version 2", "\"2\" is too much"),
        ] {
            assert!(parsed(line).is_err_and(|error| error.contains(said)), "{line}");
        }
    }
}
