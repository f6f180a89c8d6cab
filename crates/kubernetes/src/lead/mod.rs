//! Leading: what Kubernetes says becomes the model, and what the model and the nodes say goes back.
//!
//! One task owns all that is known. It first hears everything, fills a store in memory, and only then
//! starts the controller: no agent ever sees half of a cluster. All of it ends with the leader's
//! runtime, so that nothing of an old leader goes on.

mod addresses;
mod claims;
mod news;
mod policies;
mod services;
mod standing;
mod watches;

use crate::announce::Announcer;
use crate::authority::Kept;
use crate::blocks::{Ledger, Rules};
use crate::courtesy::Courtesy;
use crate::custom::CustomSeen;
use crate::error::{KubernetesError, failed};
use crate::mirror::Mirror;
use crate::north::{North, Shared};
use crate::plan;
use crate::problems::{Problems, Whose};
use crate::scribe::{Duty, Scribe};
use crate::standby;
use crate::world::block::BlockSeen;
use crate::world::held::Held;
use crate::world::node::NodeSeen;
use addresses::Addresses;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use news::{News, Pending, Watched};
use osier_controller::config::{self, Config, KubernetesConfig};
use osier_controller::{Controller, Engine, Metrics, NodeStates, kept_authority, kept_pause};
use osier_model::NodeName;
use osier_resource::{FabricSpec, Kind};
use osier_store::{Epoch, History, Memory, Position, Revision, Store, Transaction};
use policies::Policies;
use services::Services;
use standing::Standing;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};
use watches::Watches;

/// What may wait to be heard.
const QUEUE: usize = 512;
/// What is heard before the model is looked at again.
const BATCH: usize = 256;
/// How often is looked whether time has changed something.
const TICK: Duration = Duration::from_secs(1);
/// How often what agents say is looked at, at most; and at least.
const LOOK: Duration = Duration::from_secs(1);
const LOOK_ANYWAY: Duration = Duration::from_secs(10);
/// How often what was refused is tried again, without a reason.
const RETRY: Duration = Duration::from_secs(30);
/// How much of the past is kept for watches of the API.
const HISTORY: History = History { revisions: 10_000, bytes: 16 << 20 };

/// What a leader needs.
pub(crate) struct Setup {
    pub(crate) config: Config,
    pub(crate) kubernetes: KubernetesConfig,
    pub(crate) client: Client,
    /// What the API server wishes of that client.
    pub(crate) courtesy: Courtesy,
    /// By what we lead.
    pub(crate) lease: Whose,
    pub(crate) namespace: String,
    pub(crate) identity: String,
    pub(crate) authority: Kept,
    pub(crate) announcer: Announcer,
    /// Whether this controller is a pod, so that others are known to be pods too.
    pub(crate) is_pod: bool,
    /// How many leaders there were.
    pub(crate) term: u64,
}

/// All that the leader knows.
struct Leader {
    setup: Setup,
    nodes: Held<String, NodeSeen>,
    customs: Held<(Kind, String), CustomSeen>,
    blocks: Held<String, BlockSeen>,
    services: Services,
    policies: Policies,
    watches: Watches,
    shared: Arc<Shared>,
    mirror: Mirror,
    problems: Problems,
    scribe: Scribe,
    addresses: Addresses,
    standing: BTreeMap<String, Standing>,
    /// Statuses that were handed over, until they are seen.
    sent: BTreeMap<(Kind, String), serde_json::Value>,
    states: Option<NodeStates>,
    /// Controllers that agents are told of.
    known_controllers: BTreeSet<std::net::IpAddr>,
    began: Instant,
    /// Whether nodes or blocks are other than they were planned for.
    is_stale: bool,
}

/// Leads until it is told to stop, or something fails.
pub(crate) async fn lead(setup: Setup, stop: oneshot::Receiver<()>) -> Result<(), KubernetesError> {
    let (queue, mut news) = mpsc::channel(QUEUE);
    let mut tasks = JoinSet::new();
    let watched = services::watched(&setup).await?;
    news::watch(&setup.client, watched, &queue, &mut tasks);
    drop(queue);
    // The metrics are the controller's, which is not there yet.
    let mut leader = Leader::new(setup, &mut tasks);
    // Until all is heard, which may take a while, it says that it lives.
    let alive = tokio::spawn(standby::serve(leader.setup.config.api.listen));
    leader.hear_all(watched, &mut news).await?;
    let store = leader.fill().await?;
    alive.abort();
    // The port is free when it has ended.
    let _ = alive.await;
    let north = North::new(
        leader.setup.client.clone(),
        leader.setup.namespace.clone(),
        Arc::clone(&leader.shared),
    );
    let config = leader.setup.config.clone();
    let controller =
        Controller::with_northbound(config, store as Arc<dyn Store>, Arc::new(north)).await?;
    tracing::info!(term = leader.setup.term, api = %controller.api, agents = %controller.fleet,
        resources = controller.resources, "leading");
    let engine = controller.engine().clone();
    leader.states = Some(controller.states().clone());
    leader.problems.counted_by(controller.metrics().clone());
    let (ask, asked) = oneshot::channel::<()>();
    let mut running = tokio::spawn(controller.run(async {
        // Nobody who could ask any more is as good as asked.
        let _ = asked.await;
    }));
    let ended = tokio::select! {
        ended = leader.follow(&engine, &mut news) => Err(ended),
        ended = &mut running => Err(match ended {
            Ok(Err(error)) => error.into(),
            _ => KubernetesError::Ended("the controller"),
        }),
        Some(ended) = tasks.join_next() => {
            Err(KubernetesError::Ended(ended.unwrap_or("a part")))
        }
        _ = stop => Ok(()),
    };
    drop((ask, engine, leader));
    if !running.is_finished() {
        // Its answer would only say that it was told to stop.
        let _ = running.await;
    }
    ended
}

// === impl Leader ===

impl Leader {
    fn new(setup: Setup, tasks: &mut JoinSet<&'static str>) -> Self {
        let client = setup.client.clone();
        let problems = Problems::new(client.clone(), &setup.identity, Metrics::default(), tasks);
        let kubernetes = &setup.kubernetes;
        let rules = Rules {
            cluster: kubernetes.cluster_cidrs.clone(),
            v4: kubernetes.block_masks.v4,
            v6: kubernetes.block_masks.v6,
            rest: Duration::from_secs(kubernetes.block_rest_seconds.0.into()),
        };
        let addresses = Addresses::new(kubernetes.address_source, rules, Ledger::default());
        Self {
            nodes: Held::default(),
            customs: Held::default(),
            blocks: Held::default(),
            services: Services::default(),
            policies: Policies::default(),
            watches: Watches::default(),
            shared: Arc::default(),
            mirror: Mirror::default(),
            problems,
            scribe: Scribe::new(client, tasks),
            addresses,
            standing: BTreeMap::new(),
            sent: BTreeMap::new(),
            states: None,
            known_controllers: BTreeSet::new(),
            began: Instant::now(),
            is_stale: true,
            setup,
        }
    }

    /// Hears everything once.
    async fn hear_all(
        &mut self,
        watched: Watched,
        news: &mut mpsc::Receiver<News>,
    ) -> Result<(), KubernetesError> {
        let mut pending = Pending::all(watched);
        while !pending.is_empty() {
            let told = timeout(TICK, news.recv()).await;
            self.look_at_watches();
            let Ok(told) = told else { continue };
            let told = told.ok_or(KubernetesError::Ended("all watches"))?;
            pending.ended(&told);
            self.hear(told);
        }
        Ok(())
    }

    /// A store with all of the model: what the controller starts from.
    async fn fill(&mut self) -> Result<Arc<Memory>, KubernetesError> {
        let failed = |error: &dyn std::error::Error| KubernetesError::Model(failed(error));
        // No other leader's history is mistaken for this one.
        let nanoseconds = Timestamp::now().as_nanosecond().unsigned_abs();
        let epoch = Epoch(u64::try_from(nanoseconds & u128::from(u64::MAX)).unwrap_or(0));
        let revision = Revision(self.setup.term << 32);
        let store = Arc::new(Memory::starting_at(Position { epoch, revision }, HISTORY));
        let Kept { certificate, key } = self.setup.authority.clone();
        let (at, value) = kept_authority(certificate, key);
        let mut first = Transaction::new().put(at, value);
        for node in self.nodes.values().filter(|node| node.is_paused) {
            if let Some((at, value)) = NodeName::new(&node.name).ok().and_then(|n| kept_pause(&n)) {
                first = first.put(at, value);
            }
        }
        store.commit(first).await.map_err(|error| failed(&error))?;
        for identities in self.kept_identities() {
            store.commit(identities).await.map_err(|error| failed(&error))?;
        }
        let rules = self.setup.config.rules();
        let filling = Arc::clone(&store) as Arc<dyn Store>;
        let started = Engine::start(filling, rules, Metrics::default()).await;
        let started = started.map_err(|error| failed(&error))?;
        self.plan();
        self.mirror.settle(&started.engine).await;
        drop(started.engine);
        // It ends with its last handle, and lets the store go.
        let _ = started.task.await;
        Ok(store)
    }

    /// Follows what is told until it cannot.
    async fn follow(
        &mut self,
        engine: &Engine,
        news: &mut mpsc::Receiver<News>,
    ) -> KubernetesError {
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut states = self.states.clone();
        let (mut look, mut retry) = (Instant::now(), Instant::now() + RETRY);
        let mut batch = Vec::with_capacity(BATCH);
        // What was refused, and what was given, is told first.
        self.tell_all();
        loop {
            let heard = async {
                match states.as_mut() {
                    Some(states) => states.changed().await,
                    None => std::future::pending().await,
                }
                sleep_until(look).await;
            };
            tokio::select! {
                count = news.recv_many(&mut batch, BATCH) => {
                    if count == 0 {
                        return KubernetesError::Ended("all watches");
                    }
                    for told in batch.drain(..) {
                        self.hear(told);
                    }
                }
                () = heard => {
                    look = Instant::now() + LOOK;
                    self.stand();
                }
                _ = tick.tick() => {
                    if Instant::now() >= look + LOOK_ANYWAY {
                        look = Instant::now() + LOOK;
                        self.stand();
                    }
                    self.look_at_watches();
                    self.look_after_blocks().await;
                    self.keep_identities(engine).await;
                    self.look_at_policies(engine);
                    if Instant::now() >= retry {
                        self.mirror.retry();
                        self.retry_services();
                        retry = Instant::now() + RETRY;
                    }
                }
            }
            if std::mem::take(&mut self.is_stale) {
                self.plan();
            }
            if !self.mirror.is_settled() {
                let touched = self.mirror.settle(engine).await;
                self.tell(&touched);
            }
        }
    }

    /// What nodes are to the model.
    fn plan(&mut self) {
        let machines: BTreeSet<_> =
            self.nodes.values().flat_map(|node| node.addresses.iter().copied()).collect();
        let mut cluster = self.setup.kubernetes.cluster_cidrs.clone();
        let is_aggregate = cluster.is_empty();
        let names: Vec<String> = self.nodes.iter().map(|(name, _)| name.clone()).collect();
        for name in &names {
            let Some(node) = self.nodes.get(name) else { continue };
            let blocks = self.addresses.of(node, &self.blocks);
            let planned = plan::node(node, &blocks, &machines);
            let problem = planned.as_ref().err().cloned();
            if let Ok(resource) = planned {
                self.mirror.want(resource);
            }
            // One that was right before stays as it was.
            if is_aggregate
                && let Some(osier_resource::Resource::Node(node)) =
                    self.mirror.wanted(Kind::Node, name)
            {
                cluster.extend(&node.spec.blocks);
            }
            self.node_problem(name, problem);
        }
        if is_aggregate {
            cluster = ipnet::IpNet::aggregate(&cluster);
        }
        let services = self.service_prefixes(&cluster);
        let KubernetesConfig { tunnel, policy, accounting, .. } = self.setup.kubernetes;
        let isolation = self.setup.kubernetes.isolation.clone();
        let service_gateway = self.setup.kubernetes.services == config::Services::KubeProxy;
        let fabric = FabricSpec {
            tunnel,
            cluster,
            services,
            policy,
            isolation,
            accounting,
            service_gateway,
        };
        self.mirror.want(plan::fabric(fabric));
        for resource in plan::pods() {
            self.mirror.want(resource);
        }
        let known: HashMap<String, Vec<_>> =
            self.nodes.values().map(|node| (node.name.clone(), node.addresses.clone())).collect();
        *self.shared.machines.write().unwrap_or_else(PoisonError::into_inner) = known;
        let gone: Vec<String> = self
            .mirror
            .all(Kind::Node)
            .map(|resource| resource.name().to_owned())
            .filter(|name| self.nodes.get(name).is_none())
            .collect();
        for name in gone {
            self.node_gone(&name);
        }
    }

    fn node_gone(&mut self, name: &str) {
        self.mirror.drop(Kind::Node, name);
        self.problems.forget(&Whose::node(name));
        self.standing.remove(name);
        if let (Some(states), Ok(name)) = (&self.states, NodeName::new(name)) {
            states.forget(&name);
        }
        // Ports that its agent asked for will not be taken back by it.
        for ((kind, port), seen) in self.customs.iter() {
            let Ok(osier_resource::Resource::Port(resource)) = &seen.resource else { continue };
            let is_its = *kind == Kind::Port && resource.spec.node.as_str() == name;
            if is_its && resource.metadata.labels.contains_key("osier.dev/attached") {
                self.scribe.owe(Duty::DeletePort { name: port.clone() });
            }
        }
    }
}
