//! The switch, as the rest of the agent sees it: ports come and go, the view changes, and what
//! that means is compiled and brought there.
//!
//! The only place that joins the compiler with the reconcilers. Callers wait for what they asked,
//! and share transactions and bundles with whoever asks at the same time.

use crate::Chain;
use crate::denied::DeniedLately;
use crate::desired::{PREFIX, PodPort};
use crate::metrics::Metrics;
use crate::services::{Flusher, Stale};
use crate::view::{Said, Taken, ViewContent};
use crate::wanted::{Followed, Wanted};
use osier_compiler::{
    Attachment, CLASS, CLASS_MASK, CompileError, Compiled, Compiler, GROUPS, LEARNED, LocalPorts,
    METERS, TUN_METADATA,
};
use osier_model::{Change, Invalid, Node, NodeName, Port, PortKey, View};
use osier_openflow::port_no::PortNo;
use osier_openflow::session::{Backoff, Dialer, Endpoint, Options as SessionOptions};
use osier_ovsdb::unixctl;
use osier_southbound::arrivals::{Arrival, Arrivals};
use osier_southbound::flows::{self, CookieClass, FlowReconciler};
use osier_southbound::rows::{self, RowReconciler};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::{Mutex as StdMutex, PoisonError};
use std::time::{Duration, Instant};
use thiserror::Error;
use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};
use tracing::warn;

/// How long a switch may take to find a wire, before it is asked what is wrong.
const ATTACH_PATIENCE: Duration = Duration::from_secs(2);
/// How often to look whether it did.
const LOOK: Duration = Duration::from_millis(5);

/// What the switch did not do.
#[derive(Debug, Error)]
pub enum SwitchError {
    /// No flows can be made.
    #[error("no flows can be made of it")]
    Compile(#[from] CompileError),
    /// The flows are not on the switch.
    #[error("the flows are not on the switch")]
    Flows(#[from] flows::ChangeError),
    /// The port is not on the switch.
    #[error("the port is not on the switch")]
    Rows(#[from] rows::ChangeError),
    /// The switch gave no number to a port.
    #[error("the switch gave port {0} no number")]
    NoNumber(String),
}

/// The node's switch.
#[derive(Debug)]
pub struct Switch {
    node: NodeName,
    bridge: String,
    wanted: Mutex<Wanted>,
    flows: FlowReconciler,
    rows: RowReconciler,
    arrivals: Arrivals,
    flusher: Flusher,
    denied: DeniedLately,
    metrics: Metrics,
    /// How many groups owners want, of those who want any.
    groups: StdMutex<HashMap<String, usize>>,
}

/// A port that was asked for.
#[derive(Debug)]
pub struct Asked {
    rows: rows::Settling,
    arrival: Arrival,
}

/// Whose rows are ours.
pub fn row_ownership() -> rows::Ownership {
    rows::Ownership::new(PREFIX, "agent")
}

pub(crate) fn flow_ownership() -> flows::Ownership {
    flows::Ownership {
        cookies: CookieClass { value: CLASS, mask: CLASS_MASK },
        learned: Some(CookieClass { value: LEARNED, mask: CLASS_MASK }),
        groups: GROUPS,
        meters: METERS,
        tun_metadata: TUN_METADATA,
    }
}

// === impl Switch ===

impl Switch {
    /// A switch whose fixed ports are known. Nothing of its flows is changed before
    /// [`Self::begin`].
    pub fn new(
        said: Said,
        local: LocalPorts,
        bridge: &str,
        management: &Path,
        rows: RowReconciler,
        metrics: Metrics,
    ) -> Result<Self, SwitchError> {
        let endpoint = Endpoint::Unix(management.to_owned());
        let dialer =
            || Dialer::new(endpoint.clone(), SessionOptions::default(), Backoff::default());
        let node = said.view().node().clone();
        let wanted = Mutex::new(Wanted::new(said, local)?);
        let flows = FlowReconciler::start(dialer(), flow_ownership(), flows::Options::default());
        let arrivals = Arrivals::start(dialer());
        let flusher = Flusher::start(management, metrics.clone());
        let (bridge, denied) = (bridge.to_owned(), DeniedLately::default());
        let groups = StdMutex::default();
        Ok(Self { node, bridge, wanted, flows, rows, arrivals, flusher, denied, metrics, groups })
    }

    /// Takes the ports that live, and makes the switch's flows so. What is so already is not
    /// touched.
    pub async fn begin(
        &self,
        ports: impl IntoIterator<Item = &PodPort>,
    ) -> Result<(), SwitchError> {
        let settling = {
            let mut wanted = self.wanted.lock().await;
            for port in ports {
                wanted.attach(port.object(&self.node), place(port, port.ofport))?;
            }
            let all = wanted.all()?;
            self.send(all).await?
        };
        // They were taken in before it may begin.
        self.flows.resume().await.map_err(flows::ChangeError::from)?;
        Ok(settling.await?)
    }

    /// Hears an update of the view. Its steps are for [`Self::follow`], or all is for
    /// [`Self::recompile`].
    pub async fn hear(&self, update: ViewContent) -> Result<Taken, Invalid> {
        self.wanted.lock().await.hear(update)
    }

    /// Brings steps of the view to the switch.
    pub async fn follow(&self, changes: Vec<Change>) -> Result<(), SwitchError> {
        let (settling, refused, stale) = {
            let mut wanted = self.wanted.lock().await;
            let Followed { compiled, refused, stale, fresh } = wanted.follow(changes);
            self.flusher.keep(fresh).await;
            // What could be compiled is brought there, whatever else could not.
            (self.send(compiled).await?, refused, stale)
        };
        let settled = settling.await;
        // Not before: they would be made anew the old way.
        self.flusher.flush(stale).await;
        refused.map_or(Ok(()), Err)?;
        Ok(settled?)
    }

    /// Has connections forgotten that were led to whom Services no longer have. For when steps were
    /// missed: at the start, and after all was compiled anew.
    pub(crate) async fn forget_left_over(&self, control: &unixctl::Client) {
        let ways: BTreeSet<Stale> = self
            .with_view(|view| view.services().keys().flat_map(|s| Stale::ways(view, s)).collect())
            .await;
        let zones: BTreeSet<u16> = ways.iter().map(Stale::zone).collect();
        for zone in zones {
            match control.connections(Some(zone)).await {
                Ok(found) => self.flusher.flush(Stale::left_over(&found, &ways)).await,
                Err(error) => {
                    warn!(error = %Chain(&error), "connections to former endpoints may live on");
                }
            }
        }
    }

    /// Compiles all anew: what holds for the cluster changed, or a number of a fixed port.
    pub async fn recompile(&self, local: LocalPorts) -> Result<(), SwitchError> {
        let settling = {
            let mut wanted = self.wanted.lock().await;
            let all = wanted.recompile(local)?;
            self.send(all).await?
        };
        Ok(settling.await?)
    }

    /// Brings a port's flows to the switch.
    pub async fn add_flows(&self, port: &PodPort, ofport: u16) -> Result<(), SwitchError> {
        let settling = {
            let mut wanted = self.wanted.lock().await;
            let compiled = wanted.attach(port.object(&self.node), place(port, ofport))?;
            self.send(compiled).await?
        };
        Ok(settling.await?)
    }

    /// Takes a port's flows off the switch.
    pub async fn remove_flows(&self, key: &PortKey) -> Result<(), SwitchError> {
        let settling = {
            let mut wanted = self.wanted.lock().await;
            let compiled = wanted.detach(key)?;
            self.send(compiled).await?
        };
        Ok(settling.await?)
    }

    /// Asks for a port, with its record. Its wire may come later: the switch looks for it when an
    /// interface of the machine changes. That is faster than the other order, in which the switch
    /// first looks at all its ports because there is a wire, and then again because of the row.
    pub async fn add_rows(&self, port: &PodPort) -> Result<Asked, SwitchError> {
        let arrival = self.arrivals.expect(&port.host);
        let transaction = rows::Transaction::new().put(port.owner(), port.rows(&self.bridge));
        let rows = self.rows.transaction(transaction.wait(rows::Wait::Attached)).await?;
        Ok(Asked { rows, arrival })
    }

    /// Waits until a port that was asked for, and whose wire is there, is attached: its number at
    /// the switch. Who tells first is believed, the switch or its database. The switch knows of no
    /// port that is not in the database; but that may be somebody else's of the same name, until the
    /// database has said that it is ours.
    pub async fn attached(&self, port: &PodPort, asked: Asked) -> Result<u16, SwitchError> {
        let Asked { rows, arrival } = asked;
        let recorded = async {
            let applied = match timeout(ATTACH_PATIENCE, rows).await {
                Ok(applied) => applied?,
                // Late, or impossible: to be told which.
                Err(_) => self.rows.put(port.owner(), port.rows(&self.bridge)).await?.await?,
            };
            Ok::<_, SwitchError>(applied.ofport(&port.host))
        };
        let number = tokio::select! {
            number = arrival => {
                let ours = rows::Transaction::new().put(port.owner(), port.rows(&self.bridge));
                self.rows.transaction(ours.wait(rows::Wait::Database)).await?.await?;
                Some(i64::from(number.0))
            }
            recorded = recorded => recorded?,
        };
        let number = number.and_then(|number| u16::try_from(number).ok());
        number.ok_or_else(|| SwitchError::NoNumber(port.host.clone()))
    }

    /// Detaches a port. Its record goes with it.
    pub async fn remove_rows(&self, port: &PodPort) -> Result<(), SwitchError> {
        self.rows.remove(port.owner()).await?.await?;
        Ok(())
    }

    /// Whether the switch has a port, and what it says of it.
    pub async fn port(&self, host: &str) -> Option<rows::InterfaceState> {
        self.rows.interface(host).await.ok().flatten()
    }

    /// The same, when the switch has said something: that may be a moment after it has attached it.
    pub async fn tried(&self, host: &str) -> Option<rows::InterfaceState> {
        let end = Instant::now() + ATTACH_PATIENCE;
        loop {
            let state = self.port(host).await;
            let said =
                |state: &rows::InterfaceState| state.ofport.is_some() || state.error.is_some();
            if state.as_ref().is_none_or(said) || Instant::now() >= end {
                return state;
            }
            sleep(LOOK).await;
        }
    }

    /// Looks at the view.
    pub async fn with_view<T>(&self, look: impl FnOnce(&View) -> T) -> T {
        look(self.wanted.lock().await.view())
    }

    /// Looks at what is compiled.
    pub async fn with_compiler<T>(&self, look: impl FnOnce(&Compiler) -> T) -> T {
        look(self.wanted.lock().await.compiler())
    }

    /// Looks at what the source said, also of ports that are not here.
    pub async fn with_said<T>(&self, look: impl FnOnce(&Said) -> T) -> T {
        look(self.wanted.lock().await.said())
    }

    /// What the view wishes of a port of this node.
    pub async fn wish(&self, key: &PortKey) -> Option<Port> {
        self.wanted.lock().await.wish(key).cloned()
    }

    /// This node, if the view has it.
    pub async fn own_node(&self) -> Option<Node> {
        self.with_view(|view| view.nodes().get(&self.node).cloned()).await
    }

    /// What policies denied on it lately.
    pub(crate) fn denied(&self) -> &DeniedLately {
        &self.denied
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// How its flows are.
    pub fn flows(&self) -> &FlowReconciler {
        &self.flows
    }

    /// How its rows are.
    pub fn rows(&self) -> &RowReconciler {
        &self.rows
    }

    /// Queues plans, in the order in which they were compiled: the compiler is locked meanwhile.
    async fn send(&self, compiled: Vec<Compiled>) -> Result<flows::Settling, SwitchError> {
        // The last plan of an owner is the one that counts.
        let plans: BTreeMap<String, flows::Plan> = compiled
            .into_iter()
            .map(|Compiled { owner, plan }| {
                let osier_compiler::Plan { tlvs, meters, groups, flows } = plan;
                (owner.to_string(), flows::Plan { tlvs, meters, groups, flows })
            })
            .collect();
        self.count_groups(&plans);
        let transaction = plans
            .into_iter()
            .fold(flows::Transaction::new(), |all, (owner, plan)| all.put(owner, plan));
        Ok(self.flows.transaction(transaction).await?)
    }

    fn count_groups(&self, plans: &BTreeMap<String, flows::Plan>) {
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        for (owner, plan) in plans {
            let now = plan.groups.len();
            let before = match now {
                0 => groups.remove(owner),
                now => groups.insert(owner.clone(), now),
            };
            self.metrics.groups_changed(before.unwrap_or_default(), now);
        }
    }
}

fn place(port: &PodPort, ofport: u16) -> Attachment {
    Attachment { ofport: PortNo(ofport.into()), tag: port.tag, mtu: Some(port.mtu) }
}
