//! The agent and its controller: joins, follows its view, tells of itself, asks for addresses.
//!
//! Nothing here is needed for pods to talk. An agent that has joined starts from the view on its
//! disk, and goes on with it for as long as the controller is away; only addresses of networks
//! that span nodes wait for it. What a view means is for the rest of the agent to know.

mod conflist;
mod granting;
mod identity;
mod journal;
mod probe;
mod report;

pub use identity::LinkError;
pub(crate) use probe::{Heard, echo};

use crate::agent::{AgentError, Upstream, run_with};
use crate::asks::AgentAnswers;
use crate::config::{Config, ControllerConfig, Mtu};
use crate::metrics::Metrics;
use crate::view::{self, Progress, ViewContent};
use granting::Grants;
use journal::Journal;
use osier_fleet::client::{Backoff, ClientOptions, ControllerClient};
use osier_fleet::{Fault, client};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tracing::info;

/// Runs an agent with a controller until told to stop.
pub(crate) async fn run(
    mut config: Config,
    controller: ControllerConfig,
    mut stop: watch::Receiver<bool>,
) -> Result<(), AgentError> {
    let Some(identity) = identity::obtain(&config, &controller, &mut stop).await? else {
        return Ok(());
    };
    if let (Mtu::Auto, Some(mtu)) = (config.mtu, identity.mtu) {
        config.mtu = Mtu::Fixed(mtu);
    }
    let journal = Journal::open(&config.state_dir.join("granted.json"));
    let journal = journal.map_err(LinkError::Journal)?;
    let (metrics, probes) = (Metrics::default(), watch::Sender::default());
    let answers = AgentAnswers::new(config.clone(), metrics.clone(), probes.subscribe());
    let options = ClientOptions {
        cache: Some(config.state_dir.join("view.cache")),
        software: env!("CARGO_PKG_VERSION").to_owned(),
        // A cut is noticed, and mended, within seconds.
        keep_alive: (Duration::from_secs(5), Duration::from_secs(5)),
        backoff: Backoff { most: Duration::from_secs(5), ..Backoff::default() },
        ..ClientOptions::new(config.node.clone())
    };
    let transport = Arc::new(identity.transport);
    let (client, told) =
        ControllerClient::start_answering(options, transport, Arc::new(answers.clone())).await;
    info!(controller = ?controller.addresses, "following the controller");

    let grants = Arc::new(Grants::new(client.clone(), config.node.clone(), journal));
    let (updates, view) = view::channel();
    let (progress, heard) = watch::channel(Progress::default());
    let (ready, started) = oneshot::channel();
    let upstream = Upstream {
        view,
        controller: Arc::clone(&grants) as _,
        progress: Some(progress),
        ready: Some(ready),
    };
    let tend = async {
        let Ok(ports) = started.await else { return std::future::pending().await };
        answers.begin(ports.clone());
        grants.settle(&ports);
        tokio::join!(
            report::run(&config, &ports, &client, &grants, probes.subscribe()),
            probe::run(ports.switch(), &probes),
            conflist::keep(&config, &ports),
            grants.run(),
        );
    };
    tokio::select! {
        ended = run_with(config.clone(), upstream, metrics, stop) => ended,
        () = relay(told, updates, heard, &client, &grants) => Ok(()),
        () = tend => Ok(()),
    }
}

/// Passes the view on, and tells the controller up to where it is real.
async fn relay(
    mut told: mpsc::Receiver<client::ViewUpdate>,
    updates: mpsc::Sender<ViewContent>,
    mut heard: watch::Receiver<Progress>,
    client: &ControllerClient,
    grants: &Grants,
) {
    let mut waiting: VecDeque<(u64, u64)> = VecDeque::new();
    let mut done = 0;
    loop {
        tokio::select! {
            update = told.recv() => {
                let Some(update) = update else { return };
                waiting.push_back(update.position());
                if updates.send(update.content).await.is_err() {
                    return std::future::pending().await;
                }
            }
            Ok(()) = heard.changed() => {
                let progress = heard.borrow_and_update().clone();
                let count = usize::try_from(progress.updates - done).unwrap_or(usize::MAX);
                done = progress.updates;
                let reached = waiting.drain(..count.min(waiting.len())).next_back();
                if let Some((epoch, revision)) = reached {
                    let fault = |text: &String| Fault { key: None, text: text.clone() };
                    client.applied((epoch, revision), progress.faults.iter().map(fault).collect());
                    grants.heard(epoch, revision);
                }
            }
        }
    }
}
