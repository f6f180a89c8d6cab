//! `osier agent`: this node's agent, until it is told to stop.

use anyhow::Context;
use clap::Args;
use osier_agent::config::{Config, DEFAULT_PATH};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing_subscriber::EnvFilter;

#[derive(Debug, Args)]
#[command(after_help = "\
The agent logs to standard error. OSIER_LOG=debug, or a filter such as osier_agent=debug, says more.")]
pub(crate) struct Arguments {
    /// The configuration; the default one may be missing
    #[arg(long, value_name = "FILE", default_value = DEFAULT_PATH)]
    config: PathBuf,
}

impl Arguments {
    /// Where the configuration is.
    #[allow(dead_code, reason = "the agent's own program does not ask")]
    pub(crate) fn config(&self) -> &Path {
        &self.config
    }
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let filter = EnvFilter::try_from_env("OSIER_LOG").unwrap_or_else(|_| "info".into());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(osier_agent::log::tee)
        .with_ansi(false)
        .init();
    let config = Config::load(&arguments.config)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("there is no runtime")?;
    runtime.block_on(serve(config))?;
    Ok(ExitCode::SUCCESS)
}

/// Runs the agent until SIGTERM or SIGINT.
async fn serve(config: Config) -> anyhow::Result<()> {
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
