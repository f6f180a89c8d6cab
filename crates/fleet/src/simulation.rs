//! Made-up agents in one process: real clients and a real server over memory, without TLS. For
//! scale tests and benchmarks.

use crate::client::{
    Backoff, BoxIo, ClientOptions, ControllerClient, LinkState, Transport, ViewUpdate,
};
use crate::pki::Authority;
use crate::report::{Applied, Report};
use crate::server::{Connection, FleetServer, Peer, ServerOptions};
use crate::token::{JoinRefused, Redemption};
use crate::views::{AgentVersion, Joins, Reports, Views};
use crate::{AuthorityError, NodeConfiguration};
use futures_util::future::BoxFuture;
use osier_model::NodeName;
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::io::DuplexStream;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;

/// What a connection in memory may hold, in bytes each way.
const PIPE: usize = 64 << 10;

/// Made-up agents, and the server that they follow.
#[derive(Debug)]
pub struct Simulation {
    server: FleetServer,
    seen: Arc<Seen>,
    dial: mpsc::Sender<io::Result<Connection<DuplexStream>>>,
    agents: HashMap<NodeName, SimulatedAgent>,
    serving: JoinHandle<()>,
}

/// One of them. It applies whatever comes at once.
#[derive(Debug)]
pub struct SimulatedAgent {
    client: ControllerClient,
    task: JoinHandle<()>,
}

/// What agents said: for who waits.
#[derive(Debug, Default)]
pub struct Seen {
    applied: Mutex<HashMap<NodeName, u64>>,
    changed: watch::Sender<u64>,
}

/// Reaches the server of a simulation.
struct Pipe {
    node: NodeName,
    dial: mpsc::Sender<io::Result<Connection<DuplexStream>>>,
}

/// Nobody joins a simulation.
struct Nobody;

// === impl Simulation ===

impl Simulation {
    /// A server over these views, and no agents yet.
    pub fn start(views: Arc<dyn Views>) -> Result<Self, AuthorityError> {
        let seen = Arc::new(Seen::default());
        let authority = Arc::new(Authority::generate("simulation", SystemTime::now())?);
        let reports = Arc::clone(&seen) as Arc<dyn Reports>;
        // A thousand agents on few cores may all be late.
        let patient = Duration::from_mins(2);
        let options = ServerOptions {
            hello_timeout: patient,
            keep_alive: (patient, patient),
            ..ServerOptions::default()
        };
        let server = FleetServer::new(views, reports, Arc::new(Nobody), authority, options);
        let (dial, dialled) = mpsc::channel(64);
        let running = server.clone();
        let serving = tokio::spawn(async move {
            let incoming = ReceiverStream::new(dialled);
            if let Err(error) = running.serve(incoming, std::future::pending()).await {
                tracing::error!(%error, "the simulated server failed");
            }
        });
        Ok(Self { server, seen, dial, agents: HashMap::new(), serving })
    }

    /// Adds an agent; it follows the view of its node.
    pub async fn add(&mut self, node: NodeName) {
        let patient = Duration::from_mins(2);
        let options = ClientOptions {
            backoff: Backoff { least: Duration::from_millis(50), most: Duration::from_secs(2) },
            keep_alive: (patient, patient),
            ..ClientOptions::new(node.clone())
        };
        let pipe = Arc::new(Pipe { node: node.clone(), dial: self.dial.clone() });
        let (client, updates) = ControllerClient::start(options, pipe).await;
        let task = tokio::spawn(follow(client.clone(), updates));
        self.agents.insert(node, SimulatedAgent { client, task });
    }

    /// Takes an agent away.
    pub fn remove(&mut self, node: &NodeName) {
        if let Some(agent) = self.agents.remove(node) {
            agent.task.abort();
        }
    }

    /// How it is between an agent and the server.
    pub fn state(&self, node: &NodeName) -> Option<LinkState> {
        Some(self.agents.get(node)?.client.state().borrow().clone())
    }

    /// How many agents follow now.
    pub fn followers(&self) -> usize {
        self.server.followers()
    }

    /// What agents said.
    pub fn seen(&self) -> Arc<Seen> {
        Arc::clone(&self.seen)
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        self.serving.abort();
        for agent in self.agents.values() {
            agent.task.abort();
        }
    }
}

async fn follow(client: ControllerClient, mut updates: mpsc::Receiver<ViewUpdate>) {
    while let Some(update) = updates.recv().await {
        client.applied(update.position(), Vec::new());
    }
}

// === impl Seen ===

impl Seen {
    /// Waits until nodes have applied a revision, or a later one.
    pub async fn reached<'a>(&self, nodes: impl IntoIterator<Item = &'a NodeName>, revision: u64) {
        let mut changed = self.changed.subscribe();
        for node in nodes {
            while self.lock().get(node).is_none_or(|applied| *applied < revision) {
                if changed.changed().await.is_err() {
                    return;
                }
            }
        }
    }

    /// What a node has applied.
    pub fn applied_by(&self, node: &NodeName) -> Option<u64> {
        self.lock().get(node).copied()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<NodeName, u64>> {
        self.applied.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reports for Seen {
    fn connected(&self, _: &NodeName, _: &AgentVersion) {}

    fn applied(&self, node: &NodeName, applied: Applied) {
        self.lock().insert(node.clone(), applied.revision);
        self.changed.send_modify(|count| *count += 1);
    }

    fn report(&self, _: &NodeName, _: Report) {}

    fn disconnected(&self, _: &NodeName, _: &str) {}
}

impl Joins for Nobody {
    fn redeem<'a>(
        &'a self,
        by: &'a Redemption,
    ) -> BoxFuture<'a, Result<NodeConfiguration, JoinRefused>> {
        Box::pin(async { Err(JoinRefused::NoToken(by.node.clone())) })
    }
}

impl Transport for Pipe {
    fn connect(&self) -> BoxFuture<'static, io::Result<BoxIo>> {
        let (dial, node) = (self.dial.clone(), Some(self.node.clone()));
        Box::pin(async move {
            let (near, far) = tokio::io::duplex(PIPE);
            let peer = Peer { node, ..Peer::default() };
            let gone = |_| io::Error::from(io::ErrorKind::ConnectionRefused);
            dial.send(Ok(Connection::trusted(far, peer))).await.map_err(gone)?;
            Ok(Box::new(near) as BoxIo)
        })
    }
}
