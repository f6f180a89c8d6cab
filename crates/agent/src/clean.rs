//! What an agent made, taken away: for a node that Osier leaves for good.
//!
//! Nothing is wanted any more, and the same reconcilers that make a switch equal to what is wanted
//! take all of ours off it. Every step is tried, whatever became of the others, and what is not
//! there counts as removed: it may be repeated. Pods that are still attached lose their network.

use crate::adopt;
use crate::alone::Alone;
use crate::config::Config;
use crate::desired::{PREFIX, PodPort};
use crate::gateway::{self, GatewayError};
use crate::netlink;
use crate::switch::{flow_ownership, row_ownership};
use crate::{cni_server, forward};
use osier_openflow::session::{Backoff, Dialer, Endpoint, Options as SessionOptions};
use osier_ovsdb::cache::Cache;
use osier_ovsdb::session::Remote;
use osier_ovsdb::{Atom, Row, Value};
use osier_southbound::flows::{self, FlowReconciler};
use osier_southbound::rows::{self, Restore, RestoreOptions, RowReconciler};
use std::path::Path;
use std::time::Duration;
use thiserror::Error;
use tokio::time::timeout;

/// How long the switch and its database may take for each step.
const PATIENCE: Duration = Duration::from_secs(20);

/// Why a node is not clean.
#[derive(Debug, Error)]
pub enum CleanError {
    /// An agent works here, and would make everything anew.
    #[error("an agent runs here: stop it first")]
    Agent(#[source] cni_server::ServeError),
    /// The database does not answer.
    #[error("the switch's database does not answer at {0}")]
    Database(String),
    /// Rows of ours are still there.
    #[error("ports of ours are still in the switch's database")]
    Rows(#[source] rows::ChangeError),
    /// Flows of ours are still there.
    #[error("flows of ours are still on the switch: it does not answer")]
    Flows,
    /// Wires of pods are still there.
    #[error("wires of pods are still there")]
    Wires(#[source] netlink::NetlinkError),
    /// Our rules of routing are still there.
    #[error("rules of routing are still there")]
    Rules(#[source] netlink::NetlinkError),
    /// Our nftables table is still there.
    #[error("the nftables table is still there")]
    Table(#[source] GatewayError),
    /// The switch would wait for flows that nobody brings.
    #[error("flow-restore-wait is still set: the switch would wait for flows at its next start")]
    Restore,
}

/// What was removed from a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Ports of pods, with their wires.
    pub ports: usize,
    /// Bridges of somebody else, which stay, without flows of ours.
    pub foreign: Vec<String>,
}

/// Nobody else may be the agent while a node is cleaned.
pub async fn alone(config: &Config) -> Result<impl Sized, CleanError> {
    Alone::wait(&config.cni_socket).await.map_err(CleanError::Agent)
}

/// Takes everything of ours off the switch.
pub async fn switch(config: &Config) -> Result<Cleaned, CleanError> {
    let options = rows::Options { paused: true, ..rows::Options::default() };
    let remote = Remote::Unix(config.ovsdb.clone());
    let rows = RowReconciler::connect(vec![remote], row_ownership(), options);
    let silent = || CleanError::Database(config.ovsdb.display().to_string());
    let ready = timeout(PATIENCE, rows.session().ready()).await;
    ready.map_err(|_| silent())?.map_err(|_| silent())?;
    let snapshot = rows.session().query(Cache::snapshot).await.ok_or_else(silent)?;
    let (bridges, interfaces) = (snapshot.rows("Bridge"), snapshot.rows("Interface"));
    // Whether pods live makes no difference now, nor which bridge the configuration names.
    let found = adopt::adopt(bridges, interfaces, &row_ownership(), "", "", |_| None);
    let foreign = bridges.iter().filter(|bridge| !row_ownership().marks(bridge));
    let foreign: Vec<&str> = foreign.filter_map(|bridge| adopt::text(bridge, "name")).collect();
    for bridge in &foreign {
        flows(&config.ovs_run_dir.join(format!("{bridge}.mgmt"))).await?;
    }
    rows.resume().await.map_err(|_| silent())?;
    let gone = rows.transaction(rows::Transaction::new()).await.map_err(CleanError::Rows)?;
    timeout(PATIENCE, gone).await.map_err(|_| silent())?.map_err(CleanError::Rows)?;
    timeout(PATIENCE, rows.wait_synced()).await.map_err(|_| silent())?.map_err(|_| silent())?;
    // Set by somebody else it is left to them.
    if snapshot.rows("Open_vSwitch").iter().any(|root| has_mark(root)) {
        let restore = Restore::start(&rows, Vec::new(), RestoreOptions::default());
        restore.disarm(&rows).await.map_err(|_| CleanError::Restore)?;
    }
    let names = found.dead.iter().map(|port: &PodPort| port.host.as_str());
    for wire in names.chain(found.unreadable.iter().map(String::as_str)) {
        netlink::delete_own_link(wire).map_err(CleanError::Wires)?;
    }
    let ports = found.dead.len() + found.unreadable.len();
    Ok(Cleaned { ports, foreign: foreign.into_iter().map(str::to_owned).collect() })
}

/// Whether the switch's own row has something of ours: then `flow-restore-wait` is ours, too.
fn has_mark(root: &Row) -> bool {
    let pairs = root.get("external_ids").map(Value::pairs).unwrap_or_default();
    pairs.iter().any(|(key, _)| matches!(key, Atom::String(key) if key.starts_with(PREFIX)))
}

/// Only where the bridge stays: with one of ours they go by themselves.
async fn flows(management: &Path) -> Result<(), CleanError> {
    let endpoint = Endpoint::Unix(management.to_owned());
    let dialer = Dialer::new(endpoint, SessionOptions::default(), Backoff::default());
    let flows = FlowReconciler::start(dialer, flow_ownership(), flows::Options::default());
    let clean = async {
        flows.resume().await.ok()?;
        flows.wait_synced().await.ok()
    };
    timeout(PATIENCE, clean).await.ok().flatten().ok_or(CleanError::Flows)
}

/// Removes our nftables table, and our rules from iptables.
pub async fn firewall() -> Result<(), CleanError> {
    forward::refuse_forwarding().await;
    netlink::remove_detour(gateway::SERVICES).map_err(CleanError::Rules)?;
    // Added first, so that one that is not there is no error.
    let script = "add table inet osier\ndelete table inet osier\n";
    gateway::apply_nft(script).await.map_err(CleanError::Table)
}
