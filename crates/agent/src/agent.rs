//! The agent as a whole: starts its parts in order, and stops.
//!
//! Nothing is changed before all is known: the view, the rows of the database, which pods live.
//! Then wanted things go in first and the reconcilers begin, so that what is right stays as it is.

use crate::Chain;
use crate::adopt::{self, Adopted};
use crate::alone::Alone;
use crate::answers;
use crate::cni_server::{CniServer, ServeError};
use crate::config::Config;
use crate::controller::{Controller, NoController};
use crate::fixed::Fixed;
use crate::follow::Follower;
use crate::gateway::GatewayError;
use crate::health;
use crate::link::{self, LinkError};
use crate::metrics::Metrics;
use crate::netlink::{NamespaceId, name_of_address};
use crate::ports::Ports;
use crate::services::{HealthPorts, Outward};
use crate::switch::{Switch, SwitchError, row_ownership};
use crate::uplink::{MtuError, pod_mtu};
use crate::view::file::ViewFile;
use crate::view::{self, Progress, Said, ViewUpdates};
use osier_compiler::LocalPorts;
use osier_model::{Fabric, Node};
use osier_ovsdb::cache::Cache;
use osier_ovsdb::session::Remote;
use osier_southbound::rows::{self, Replays, Restore, RestoreOptions, RowReconciler, Transaction};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::sync::{oneshot, watch};
use tracing::{info, warn};

/// How long the view and the database may take to be there, before it is said that they are not.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why the agent cannot run.
#[derive(Debug, Error)]
pub enum AgentError {
    /// Which life of the machine this is, is unknown.
    #[error("the machine's boot id cannot be read")]
    BootId(#[source] io::Error),
    /// The pods' MTU is unknown.
    #[error(transparent)]
    Mtu(#[from] MtuError),
    /// The switch.
    #[error("the switch cannot be set up")]
    Switch(#[from] SwitchError),
    /// The gateway.
    #[error(transparent)]
    Gateway(#[from] GatewayError),
    /// The CNI socket.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The page of metrics.
    #[error("metrics cannot be served at {address}")]
    Metrics {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The controller.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The database's session has ended.
    #[error("the session with the switch's database has ended")]
    Database,
}

/// Whom the agent hears of the cluster from.
#[derive(Debug)]
pub struct Upstream {
    /// The view.
    pub view: ViewUpdates,
    /// Who gives addresses of networks that span nodes.
    pub controller: Arc<dyn Controller>,
    /// Who wants to know how far the view is real.
    pub progress: Option<watch::Sender<Progress>>,
    /// Who wants to know of the ports, when the agent serves.
    pub ready: Option<oneshot::Sender<Ports>>,
}

// === impl Upstream ===

impl Upstream {
    /// A view and somebody who gives addresses.
    pub fn new(view: ViewUpdates, controller: Arc<dyn Controller>) -> Self {
        Self { view, controller, progress: None, ready: None }
    }
}

/// Runs until told to stop, with the configuration's controller, or the view of its file. Pods and
/// their traffic stay as they are.
pub async fn run(config: Config, stop: watch::Receiver<bool>) -> Result<(), AgentError> {
    if let Some(controller) = config.controller.clone() {
        // Large: it holds a whole agent.
        return Box::pin(link::run(config, controller, stop)).await;
    }
    let metrics = Metrics::default();
    let (updates, view) = view::channel();
    let refused = metrics.clone();
    tokio::spawn(ViewFile::new(&config.view).watch(updates, move |error| {
        refused.refused_view();
        warn!(error = %Chain(error), "the view was refused; the last good one stays");
    }));
    run_with(config, Upstream::new(view, Arc::new(NoController)), metrics, stop).await
}

/// Runs until told to stop, with a view from anywhere.
pub async fn run_with(
    config: Config,
    mut upstream: Upstream,
    metrics: Metrics,
    mut stop: watch::Receiver<bool>,
) -> Result<(), AgentError> {
    let _alone = Alone::wait(&config.cni_socket).await?;
    let Some((said, node, updates)) = first_view(&config, &mut upstream.view, &mut stop).await
    else {
        return Ok(());
    };
    let fabric = said.view().fabric().clone();
    let mtu = pod_mtu(config.mtu, fabric.tunnel, node.tunnel)?;
    let boot_id = adopt::boot_id().map_err(AgentError::BootId)?;

    let options = rows::Options { paused: true, ..rows::Options::default() };
    let remote = Remote::Unix(config.ovsdb.clone());
    let rows = RowReconciler::connect(vec![remote], row_ownership(), options);
    let Some(adopted) = read_database(&config, &rows, &boot_id, &mut stop).await? else {
        return Ok(());
    };
    info!(living = adopted.living.len(), dead = adopted.dead.len(), mtu, "took over");
    let mut fixed = Fixed::new(&config, &adopted);
    let local = attach_all(&config, &mut fixed, &rows, &adopted, &node, &fabric).await?;

    let management = config.ovs_run_dir.join(format!("{}.mgmt", config.bridge));
    let switch =
        Switch::new(said, local, config.bridge.as_str(), &management, rows, metrics.clone())?;
    switch.begin(&adopted.living).await?;
    let restore = keep_restoring(&config, &switch, &node).await?;

    let Upstream { view, controller, progress, ready } = upstream;
    let ports = Ports::new(
        config.clone(),
        boot_id,
        mtu,
        switch,
        metrics.clone(),
        controller,
        adopted.living,
    );
    ports.bury(adopted.dead);
    metrics.set_ports(ports.count());
    ports.set_blocks(&node.blocks);
    let mut follower = Follower {
        config: config.clone(),
        ports: ports.clone(),
        metrics: metrics.clone(),
        fixed,
        node,
        fabric,
        mtu,
        behind: false,
        unsettled: false,
        progress: progress.unwrap_or_default(),
        updates,
        faults: Vec::new(),
        health: HealthPorts::default(),
        outward: Outward::default(),
    };
    if let Err(error) = ports.set_exceptions().await {
        warn!(error = %Chain(&error), "not all pods leave the cluster as they should");
    }
    follower.begin().await?;
    let server = CniServer::bind(&config.cni_socket, ports.clone(), metrics.clone()).await?;
    serve_metrics(&config, &ports, metrics, &stop).await?;
    follower.tell();
    if let Some(ready) = ready {
        // Who does not want to know any more has gone.
        let _ = ready.send(ports.clone());
    }
    info!(node = %config.node, socket = %config.cni_socket.display(), "ready");
    tokio::select! {
        () = server.serve(stop) => {}
        () = follower.run(view) => {}
        () = answers::serve(&management, ports.switch()) => {}
    }
    drop(restore);
    Ok(())
}

/// Keeps a switch that restarts from forwarding before its flows are back. But not where that would
/// keep the agent away for ever: in a pod it is started by a kubelet that needs the node's network,
/// and if that goes through the same switch, a node that boots would wait for itself.
async fn keep_restoring(
    config: &Config,
    switch: &Switch,
    node: &Node,
) -> Result<Option<Restore>, AgentError> {
    let bridges: Vec<Box<dyn Replays>> = vec![Box::new(switch.flows().clone())];
    let restore = Restore::start(switch.rows(), bridges, RestoreOptions::default());
    let is_pod = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
    let is_lockable = is_pod && carries_the_node(switch, node.tunnel).await;
    if config.flow_restore_wait.unwrap_or(!is_lockable) {
        return Ok(Some(restore));
    }
    info!("a switch that restarts does not wait for its flows: this node's network is its own");
    let cleared = restore.disarm(switch.rows()).await;
    cleared.map_err(|_| AgentError::Database)?;
    Ok(None)
}

/// Whether an address of the node is on an interface of the switch.
async fn carries_the_node(switch: &Switch, address: IpAddr) -> bool {
    let Ok(Some(uplink)) = name_of_address(address) else { return false };
    let Some(snapshot) = switch.rows().session().query(Cache::snapshot).await else { return true };
    snapshot.rows("Interface").iter().any(|row| adopt::text(row, "name") == Some(&uplink))
}

async fn serve_metrics(
    config: &Config,
    ports: &Ports,
    metrics: Metrics,
    stop: &watch::Receiver<bool>,
) -> Result<(), AgentError> {
    if let Some(address) = config.metrics {
        let failed = |source| AgentError::Metrics { address, source };
        let listener = health::bind(address).await.map_err(failed)?;
        tokio::spawn(health::serve(listener, ports.clone(), metrics, stop.clone()));
    }
    Ok(())
}

/// Waits for a view that has this node, and tells how many updates that took.
async fn first_view(
    config: &Config,
    updates: &mut ViewUpdates,
    stop: &mut watch::Receiver<bool>,
) -> Option<(Said, Node, u64)> {
    let mut said = Said::new(config.node.clone());
    let mut count = 0;
    loop {
        tokio::select! {
            Some(update) = updates.recv() => {
                count += 1;
                if let Err(error) = said.take(update) {
                    warn!(error = %Chain(&error), "the view was refused");
                    continue;
                }
            }
            () = tokio::time::sleep(PATIENCE) => {}
            _ = stop.wait_for(|stop| *stop) => return None,
        }
        match said.own_node().cloned() {
            None => warn!(node = %config.node, "waiting for a view that has this node"),
            Some(node) if is_elsewhere(config, &said, &node) => {
                let tunnel = node.tunnel;
                warn!(%tunnel, "no interface has the tunnel's address: waiting for it, or for another");
            }
            Some(node) => return Some((said, node, count)),
        }
    }
}

/// Whether a view from a controller is of the time before this node got another address: what is on
/// disk may be, and what comes next is not. A view in a file is for its author to correct.
fn is_elsewhere(config: &Config, said: &Said, node: &Node) -> bool {
    let mtu = pod_mtu(config.mtu, said.view().fabric().tunnel, node.tunnel);
    config.controller.is_some() && matches!(mtu, Err(MtuError::NoUplink(_)))
}

/// What earlier agents left in the database.
async fn read_database(
    config: &Config,
    rows: &RowReconciler,
    boot_id: &str,
    stop: &mut watch::Receiver<bool>,
) -> Result<Option<Adopted>, AgentError> {
    let session = rows.session().clone();
    loop {
        tokio::select! {
            ready = session.ready() => {
                ready.map_err(|_| AgentError::Database)?;
                break;
            }
            () = tokio::time::sleep(PATIENCE) => {
                warn!(socket = %config.ovsdb.display(), "waiting for the switch's database");
            }
            _ = stop.wait_for(|stop| *stop) => return Ok(None),
        }
    }
    let snapshot = session.query(Cache::snapshot).await.ok_or(AgentError::Database)?;
    let namespace = |path: &str| NamespaceId::at(path).ok();
    Ok(Some(adopt::adopt(
        snapshot.rows("Bridge"),
        snapshot.rows("Interface"),
        &row_ownership(),
        config.bridge.as_str(),
        boot_id,
        namespace,
    )))
}

/// Puts the fixed rows and those of living pods in, lets the reconciler begin, and tells which
/// numbers the fixed ports have.
async fn attach_all(
    config: &Config,
    fixed: &mut Fixed,
    rows: &RowReconciler,
    adopted: &Adopted,
    node: &Node,
    fabric: &Fabric,
) -> Result<LocalPorts, AgentError> {
    let ports = adopted.living.iter().fold(Transaction::new(), |all, port| {
        all.put(port.owner(), port.rows(config.bridge.as_str()))
    });
    let living = rows.transaction(ports).await.map_err(SwitchError::from)?;
    let settling = fixed.put(rows, node, fabric).await?;
    rows.resume().await.map_err(|_| AgentError::Database)?;
    let applied = settling.await.map_err(SwitchError::from)?;
    if let Err(error) = living.await {
        // A pod whose wire is gone: that is for its runtime to see.
        warn!(error = %Chain(&error), "not all ports that were taken over work");
    }
    Ok(fixed.local(&applied, node, fabric.tunnel)?)
}
