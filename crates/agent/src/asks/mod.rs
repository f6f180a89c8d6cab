//! What the controller asks: where a packet would go, what a port sends, how the machine is.
//!
//! Everything here looks and changes nothing, but for pausing. It has limits in time and size, and
//! ends when nobody wants the answer any more.

mod capture;
mod check;
mod connections;
mod diagnostics;
mod services;
pub mod trace;

use crate::Chain;
use crate::config::Config;
use crate::counters::{CountError, Counters};
use crate::link::Heard;
use crate::metrics::Metrics;
use crate::ports::Ports;
use futures_util::future::BoxFuture;
use osier_fleet::ask::{Ask, PauseState, RuleHits};
use osier_fleet::client::{Answers, Reply};
use osier_model::NodeName;
use osier_ovsdb::unixctl;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use tokio::sync::watch;
use tracing::info;

/// Answers for this agent; a cheap handle.
#[derive(Debug, Clone)]
pub(crate) struct AgentAnswers(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    config: Config,
    metrics: Metrics,
    probes: watch::Receiver<BTreeMap<NodeName, Heard>>,
    ports: OnceLock<Ports>,
}

// === impl AgentAnswers ===

impl AgentAnswers {
    pub(crate) fn new(
        config: Config,
        metrics: Metrics,
        probes: watch::Receiver<BTreeMap<NodeName, Heard>>,
    ) -> Self {
        Self(Arc::new(Shared { config, metrics, probes, ports: OnceLock::new() }))
    }

    /// There is something to tell from now on.
    pub(crate) fn begin(&self, ports: Ports) {
        let _ = self.0.ports.set(ports);
    }

    async fn respond(&self, ask: Ask, reply: Reply) -> Result<(), String> {
        let starting = || "the agent has not started yet: see its log".to_owned();
        let ports = self.0.ports.get().ok_or_else(starting)?;
        let config = &self.0.config;
        let sent = match ask {
            Ask::Trace(request) => {
                reply.send_json(&trace::trace(config, ports, &request).await?).await
            }
            Ask::Capture(request) => return capture::capture(ports, &request, &reply).await,
            Ask::Diagnostics => {
                let told = diagnostics::gather(config, ports, &self.0.metrics).await;
                reply.send_json(&told).await
            }
            Ask::Pause => reply.send_json(&pause(ports, true).await?).await,
            Ask::Resume => reply.send_json(&pause(ports, false).await?).await,
            Ask::Check => {
                let probes = self.0.probes.borrow().clone();
                reply.send_json(&check::all(ports, &probes).await).await
            }
            Ask::Hits => reply.send_json(&hits(config, ports).await?).await,
            Ask::Services => reply.send_json(&services::traffic(config, ports).await?).await,
            Ask::Connections(request) => {
                let told = connections::connections(config, ports, &request).await?;
                reply.send_json(&told).await
            }
        };
        sent.map_err(|unwanted| unwanted.to_string())
    }
}

impl Answers for AgentAnswers {
    fn answer(&self, ask: Ask, reply: Reply) -> BoxFuture<'static, Result<(), String>> {
        let answers = self.clone();
        Box::pin(async move { answers.respond(ask, reply).await })
    }
}

/// Until the agent ends, or is told to go on: a new agent reconciles.
async fn pause(ports: &Ports, paused: bool) -> Result<PauseState, String> {
    let (flows, rows) = (ports.switch().flows(), ports.switch().rows());
    let done = if paused {
        tokio::try_join!(flows.pause(), rows.pause())
    } else {
        tokio::try_join!(flows.resume(), rows.resume())
    };
    done.map_err(|error| error.to_string())?;
    info!(paused, "told by the controller");
    Ok(PauseState { paused })
}

/// How often rules of policies granted something.
async fn hits(config: &Config, ports: &Ports) -> Result<Vec<RuleHits>, String> {
    let count = async {
        let counters = Counters::open(config).await?;
        let hits = counters.rules(ports.switch()).await?;
        counters.close().await;
        Ok(hits)
    };
    count.await.map_err(|error: CountError| Chain(&error).to_string())
}

/// The switch's own control socket.
pub(crate) fn control(config: &Config) -> Result<unixctl::Client, String> {
    let found = unixctl::find_socket(&config.ovs_run_dir, "ovs-vswitchd");
    let path = found.ok().filter(|path| path.exists());
    // As those name it who start it with a path of their own.
    let path = path.unwrap_or_else(|| config.ovs_run_dir.join("ovs-vswitchd.ctl"));
    match path.exists() {
        true => Ok(unixctl::Client::new(path)),
        false => Err(format!("no ovs-vswitchd runs in {}", config.ovs_run_dir.display())),
    }
}
