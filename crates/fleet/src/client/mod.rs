//! The agent's half: follows the node's view, keeps it on disk, and tells of the node.
//!
//! One task owns the connection and the view; the agent hears [`ViewUpdate`]s and holds a cheap
//! handle. An agent starts from the view on disk, without anybody's help, and goes on with it for
//! as long as there is no controller. What a view means is for the agent to know.

mod asks;
mod attach;
mod backoff;
mod cache;
mod credentials;
pub(crate) mod held;
mod join;
mod newer;
mod session;
mod transport;

pub use asks::{Reply, Unwanted};
pub use backoff::Backoff;
pub use cache::CacheError;
pub use credentials::{Credentials, CredentialsError};
pub use join::{JoinError, Joined, join};
pub use osier_model::ViewContent;
pub use transport::{BoxIo, Controllers, Rejoin, Renewal, TlsTransport, Transport};

use crate::ask::Ask;
use crate::report::{Applied, Fault, Report};
use crate::wire::proto::fleet_client::FleetClient;
use cache::Cache;
use futures_util::future::BoxFuture;
use held::Held;
use osier_model::NodeName;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tonic::transport::Channel;

/// Updates that wait for the agent. The controller's stream waits with them.
const QUEUE: usize = 16;

/// How a client behaves.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// Whose agent this is.
    pub node: NodeName,
    /// Where the view is kept; nowhere for simulated agents.
    pub cache: Option<PathBuf>,
    /// For people: the agent's version.
    pub software: String,
    /// What the agent can do.
    pub features: u64,
    /// How long to wait between tries.
    pub backoff: Backoff,
    /// How often a silent connection is tried, and how long an answer may take.
    pub keep_alive: (Duration, Duration),
}

/// What the agent hears.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewUpdate {
    /// Which history of the model the revision is of.
    pub epoch: u64,
    /// Up to when; to be said with [`ControllerClient::applied`] when it is real.
    pub revision: u64,
    /// What it is.
    pub content: ViewContent,
}

/// How it is between the agent and its controller.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LinkState {
    /// Whether the view is followed now.
    pub connected: bool,
    /// The leader's term: the highest that was seen.
    pub term: u64,
    /// Up to when the view was heard.
    pub revision: u64,
    /// Why it is not followed, in words.
    pub problem: Option<String>,
    /// When the agent's certificate ends.
    pub certificate_expires: Option<std::time::SystemTime>,
    /// Batches that came from controllers, and objects in them.
    pub received: Received,
}

/// How much came from controllers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Received {
    /// Messages.
    pub messages: u64,
    /// Objects in them, gone ones too.
    pub objects: u64,
    /// Views that came whole.
    pub snapshots: u64,
}

/// Answers the controller's questions.
pub trait Answers: Send + Sync + 'static {
    /// Answers a question, to its end; an error says why that is not possible. It is dropped when
    /// nobody wants the answer any more, or it takes too long.
    fn answer(&self, ask: Ask, reply: Reply) -> BoxFuture<'static, Result<(), String>>;
}

/// Answers nothing.
struct Silent;

impl Answers for Silent {
    fn answer(&self, _: Ask, _: Reply) -> BoxFuture<'static, Result<(), String>> {
        Box::pin(std::future::ready(Err("this agent answers no questions".to_owned())))
    }
}

/// A handle on the client's task. The task ends with the last handle, or with the receiver.
#[derive(Debug, Clone)]
pub struct ControllerClient {
    outbox: Arc<watch::Sender<Outbox>>,
    state: watch::Receiver<LinkState>,
    /// The connection in use.
    current: watch::Receiver<Option<FleetClient<Channel>>>,
}

/// What the agent tells: only the last of each counts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outbox {
    pub(crate) applied: Option<Arc<Applied>>,
    pub(crate) report: Option<Arc<Report>>,
}

/// The client's task: what it needs beside its connection.
pub(crate) struct Task {
    pub(crate) options: ClientOptions,
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) held: Held,
    pub(crate) cache: Option<Cache>,
    pub(crate) updates: mpsc::Sender<ViewUpdate>,
    pub(crate) outbox: watch::Receiver<Outbox>,
    pub(crate) state: watch::Sender<LinkState>,
    pub(crate) current: watch::Sender<Option<FleetClient<Channel>>>,
    pub(crate) answers: Arc<dyn Answers>,
}

// === impl ClientOptions ===

impl ClientOptions {
    /// The usual ones.
    pub fn new(node: NodeName) -> Self {
        Self {
            node,
            cache: None,
            software: String::new(),
            features: 0,
            backoff: Backoff::default(),
            keep_alive: (Duration::from_secs(10), Duration::from_secs(10)),
        }
    }
}

// === impl ControllerClient ===

impl ControllerClient {
    /// Starts to follow. If there is a view on disk it is the first update, before any connection.
    /// A view on disk that cannot be used is put aside, and told of in the error's place: see
    /// [`LinkState::problem`].
    pub async fn start(
        options: ClientOptions,
        transport: Arc<dyn Transport>,
    ) -> (Self, mpsc::Receiver<ViewUpdate>) {
        Self::start_answering(options, transport, Arc::new(Silent)).await
    }

    /// The same, with somebody who answers the controller's questions.
    pub async fn start_answering(
        options: ClientOptions,
        transport: Arc<dyn Transport>,
        answers: Arc<dyn Answers>,
    ) -> (Self, mpsc::Receiver<ViewUpdate>) {
        let (updates, receiver) = mpsc::channel(QUEUE);
        let (tell, outbox) = watch::channel(Outbox::default());
        let cache = options.cache.clone().map(Cache::new);
        let mut state = LinkState::default();
        let held = match &cache {
            Some(cache) => cache.load(&options.node).await.unwrap_or_else(|error| {
                tracing::warn!(error = %error, "the view on disk is not used");
                state.problem = Some(error.to_string());
                None
            }),
            None => None,
        };
        let held = held.unwrap_or_default();
        (state.term, state.revision) = (held.term, held.revision);
        let (state, watched) = watch::channel(state);
        let (now, current) = watch::channel(None);
        let task =
            Task { options, transport, held, cache, updates, outbox, state, current: now, answers };
        tokio::spawn(task.run());
        (Self { outbox: Arc::new(tell), state: watched, current }, receiver)
    }

    /// The view up to an update ([`ViewUpdate::position`]) is real, but for the faults. Only the
    /// last one counts; it is told again on each connection.
    pub fn applied(&self, (epoch, revision): (u64, u64), faults: Vec<Fault>) {
        let applied = Arc::new(Applied { epoch, revision, faults });
        self.outbox.send_modify(|outbox| outbox.applied = Some(applied));
    }

    /// How the node is. Only the last report counts; it is told again on each connection.
    pub fn report(&self, report: Report) {
        self.outbox.send_modify(|outbox| outbox.report = Some(Arc::new(report)));
    }

    /// How it is between the agent and its controller.
    pub fn state(&self) -> watch::Receiver<LinkState> {
        self.state.clone()
    }
}

impl ViewUpdate {
    /// What [`ControllerClient::applied`] wants.
    pub fn position(&self) -> (u64, u64) {
        (self.epoch, self.revision)
    }
}
