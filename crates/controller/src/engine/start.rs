//! The start: everything is read from the store, page by page, and the model is rebuilt.

use super::allocate::{AllocationRules, Allocator};
use super::identities::said_of_node;
use super::prepare::pools_of;
use super::settling::Settling;
use super::{Engine, QUEUE, State};
use crate::metrics::Metrics;
use osier_fleet::Hub;
use osier_model::{Change, Fabric, Saying};
use osier_resource::{Fault, Kind, Modelled, Resource};
use osier_span::{Cluster, Refused, Roster};
use osier_store::{CommitError, Key, ListError, Query, Store, Transaction, Unavailable};
use serde_json::Value;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thiserror::Error;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Where each start is recorded. The revision of that record is the controller's term: it grows with
/// each start, and a store that was restored leaps ahead of all that was before.
const START: &str = "controller/start";

/// Why the engine cannot start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The store cannot be read.
    #[error("the store cannot be read")]
    List(#[from] ListError),
    /// The start cannot be recorded.
    #[error("the start cannot be recorded")]
    Record(#[from] CommitError),
    /// A document that is no resource.
    #[error("{key} in the store is no resource: {fault}")]
    Damaged {
        /// Which.
        key: String,
        /// Why.
        fault: Fault,
    },
    /// Resources that contradict each other.
    #[error("the stored model contradicts itself")]
    Refused(#[from] Refused),
}

/// An engine that has started.
pub struct Started {
    /// The engine.
    pub engine: Engine,
    /// Its task: ends with the last handle, or when the store can no longer be trusted.
    pub task: JoinHandle<Result<(), Unavailable>>,
    /// The controller's term.
    pub term: u64,
    /// How many resources there are.
    pub resources: usize,
    /// How long it took.
    pub took: Duration,
}

impl Engine {
    /// Reads the store, and begins.
    pub async fn start(
        store: Arc<dyn Store>,
        rules: AllocationRules,
        metrics: Metrics,
    ) -> Result<Started, StartError> {
        let begun = Instant::now();
        let key = Key::new(START).expect("it is short and plain");
        let epoch = store.position().await.map_err(CommitError::from)?.epoch.to_string();
        let last = store.get(&key).await.map_err(CommitError::from)?;
        let last = last.and_then(|entry| serde_json::from_slice::<Value>(&entry.value).ok());
        let is_restored =
            last.is_some_and(|last| last["epoch"].is_string() && last["epoch"] != epoch);
        let record = serde_json::json!({
            "startedAt": super::now(),
            "version": env!("CARGO_PKG_VERSION"),
            "epoch": epoch,
        });
        let position = store.commit(Transaction::new().put(key, record.to_string())).await?;
        let term = position.revision.0;
        // Its allocator is filled before there is a model: with an empty one.
        let empty = Hub::new(Cluster::default(), term, position.epoch.0, term);
        let mut state = State {
            store: Arc::clone(&store),
            hub: empty,
            allocator: Allocator::new(rules),
            fabric: Fabric::default(),
            settling: Settling::default(),
            roster: Roster::default(),
            entropy: ring::rand::SystemRandom::new(),
            metrics,
        };
        state.recall_identities().await?;
        let (mut changes, mut sayings, resources) = state.read().await?;
        sayings.push(Saying::Apart(state.fabric.isolation.clone()));
        sayings.extend(changes.iter().filter_map(said_of_node));
        let resolved = state.resolve(sayings).await;
        changes.extend(resolved.map_err(CommitError::from)?);
        let mut cluster = Cluster::new(state.fabric.clone())?;
        cluster.apply(changes)?;
        state.hub = Hub::new(cluster, term, position.epoch.0, position.revision.0);
        let blocks = state.all_blocks();
        state.allocator.set_cluster(&state.fabric.cluster, &blocks);
        state.allocator.settle();
        if is_restored {
            tracing::warn!("the store was restored: what its nodes use is asked of them");
            state.settling = Settling::begin(state.hub.node_names(), rules.cool_down);
        }
        let (requests, receiver) = mpsc::channel(QUEUE);
        let settling = state.settling.matters();
        let engine = Self { requests, store, hub: state.hub.clone(), settling };
        let task = tokio::spawn(state.run(receiver));
        Ok(Started { engine, task, term, resources, took: begun.elapsed() })
    }
}

impl State {
    /// All that is stored, in an order in which nothing comes before what it refers to.
    async fn read(&mut self) -> Result<(Vec<Change>, Vec<Saying>, usize), StartError> {
        let (mut changes, mut sayings, mut count) = (Vec::new(), Vec::new(), 0);
        for kind in Kind::ALL {
            let mut query = Query::under(kind.prefix());
            loop {
                let page = self.store.list(query.clone()).await?;
                for (key, entry) in &page.entries {
                    let damaged = |fault| StartError::Damaged { key: key.to_string(), fault };
                    let read = Resource::from_stored(&entry.value, entry.modified.0);
                    let resource = read.map_err(damaged)?;
                    changes.extend(self.recall(&resource, &mut sayings).map_err(damaged)?);
                    count += 1;
                }
                self.allocator.settle();
                if !page.more {
                    break;
                }
                query = query.behind(&page);
            }
        }
        Ok((changes, sayings, count))
    }

    fn recall(
        &mut self,
        resource: &Resource,
        sayings: &mut Vec<Saying>,
    ) -> Result<Option<Change>, Fault> {
        let said =
            |e: osier_resource::ConvertError| Fault { field: String::new(), said: e.to_string() };
        let pools = pools_of(Some(resource));
        match resource.to_model().map_err(said)? {
            Modelled::Fabric(fabric) => {
                self.allocator.set_services(&fabric.services);
                self.fabric = fabric;
            }
            Modelled::Pool(pool) => self.allocator.set_pool(&pool.name, Some(&pool)),
            Modelled::Stated(statement) => sayings.push(Saying::Put(statement)),
            Modelled::Object(object) => {
                self.note(&object, pools);
                return Ok(Some(Change::Put(object)));
            }
        }
        Ok(None)
    }
}
