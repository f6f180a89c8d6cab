//! The engine: one task through which every change of the model goes.
//!
//! Writes that wait together are prepared one after the other, each against the model with those
//! before it; then all of them are stored in one transaction, and only then the model and the nodes
//! hear of them. What is refused, or cannot be stored, leaves nothing behind.
//!
//! Whoever reads asks the store itself; how requests come in, and who may send them, is the API's.

mod allocate;
mod apart;
mod asked;
mod blocks;
mod identities;
mod prepare;
mod settling;
mod staging;
mod start;
mod write;

pub use allocate::{AllocationRules, Exhausted};
pub(crate) use asked::ATTACHED;
pub use identities::{IDENTITIES, kept_identity};
pub(crate) use prepare::{PAUSES, key, token_key};
pub use start::{StartError, Started};
pub use write::{Effect, Operation, Outcome, Write, WriteError, Written};

use crate::metrics::Metrics;
use allocate::Allocator;
use identities::said_of_node;
use osier_fleet::Hub;
use osier_model::{Fabric, NodeName, PoolName, Port, Saying};
use osier_span::Roster;
use osier_store::{CommitError, Position, Store, Unavailable};
use settling::Settling;
use staging::Staging;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::sync::{mpsc, oneshot};

/// Writes that may wait; who brings one more waits himself.
const QUEUE: usize = 1024;
/// Writes, documents and bytes after which a round takes no more: each write is checked together with
/// those before it.
const ROUND: (usize, usize, usize) = (64, 256, 4 << 20);

/// A handle on the engine's task.
#[derive(Clone)]
pub struct Engine {
    requests: mpsc::Sender<Request>,
    store: Arc<dyn Store>,
    hub: Hub,
    /// Whether it matters what nodes tell of their ports.
    settling: Arc<AtomicBool>,
}

/// Tells the engine what nodes say of their ports: after a restore the store may not know of all.
#[derive(Clone)]
pub(crate) struct Teller {
    requests: mpsc::WeakSender<Request>,
    settling: Arc<AtomicBool>,
}

enum Request {
    Write(Write, oneshot::Sender<Result<Written, WriteError>>),
    PoolsUsed(Vec<PoolName>, oneshot::Sender<Vec<Option<usize>>>),
    Fabric(oneshot::Sender<Fabric>),
    Told(NodeName, Vec<Port>),
}

/// A write that was prepared, and who waits for it.
type Waiting = (Vec<Outcome>, oneshot::Sender<Result<Written, WriteError>>);

/// What the task owns.
struct State {
    store: Arc<dyn Store>,
    hub: Hub,
    allocator: Allocator,
    fabric: Fabric,
    settling: Settling,
    /// What labels and selectors come to.
    roster: Roster,
    entropy: ring::rand::SystemRandom,
    metrics: Metrics,
}

// === impl Engine ===

impl Engine {
    /// Makes a write, all of it or nothing. When it answers, it is stored.
    pub async fn write(&self, write: Write) -> Result<Written, WriteError> {
        self.ask(|reply| Request::Write(write, reply)).await.ok_or(WriteError::Stopping)?
    }

    /// How many addresses of each pool are in use.
    pub async fn pools_used(&self, pools: Vec<PoolName>) -> Vec<Option<usize>> {
        self.ask(|reply| Request::PoolsUsed(pools, reply)).await.unwrap_or_default()
    }

    /// What holds for the whole cluster.
    pub async fn fabric(&self) -> Fabric {
        self.ask(Request::Fabric).await.unwrap_or_default()
    }

    /// For who hears what nodes tell. It keeps no engine alive.
    pub(crate) fn teller(&self) -> Teller {
        Teller { requests: self.requests.downgrade(), settling: Arc::clone(&self.settling) }
    }

    /// The store, for who reads.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The model, and who follows it.
    pub fn hub(&self) -> &Hub {
        &self.hub
    }

    async fn ask<T>(&self, request: impl FnOnce(oneshot::Sender<T>) -> Request) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.requests.send(request(reply)).await.ok()?;
        answer.await.ok()
    }
}

// === impl Teller ===

impl Teller {
    pub(crate) fn told(&self, node: &NodeName, ports: &[Port]) {
        if self.settling.load(Ordering::Relaxed)
            && let Some(requests) = self.requests.upgrade()
        {
            let told = Request::Told(node.clone(), ports.to_vec());
            // Nobody who tells has to wait; an engine that has ended needs to know nothing.
            tokio::spawn(async move { drop(requests.send(told).await) });
        }
    }
}

// === impl State ===

impl State {
    /// Until the last handle is gone, or the store can no longer be trusted.
    async fn run(mut self, mut requests: mpsc::Receiver<Request>) -> Result<(), Unavailable> {
        let mut waiting: VecDeque<(Write, oneshot::Sender<_>)> = VecDeque::new();
        let mut buffer = Vec::with_capacity(ROUND.0);
        loop {
            if waiting.is_empty() {
                if requests.recv_many(&mut buffer, ROUND.0).await == 0 {
                    return Ok(());
                }
            } else {
                while buffer.len() < ROUND.0
                    && let Ok(request) = requests.try_recv()
                {
                    buffer.push(request);
                }
            }
            for request in buffer.drain(..) {
                match request {
                    Request::Write(write, reply) => waiting.push_back((write, reply)),
                    // Whoever asked may be gone.
                    Request::PoolsUsed(pools, reply) => {
                        let used = pools.iter().map(|pool| self.allocator.used(pool));
                        let _ = reply.send(used.collect());
                    }
                    Request::Fabric(reply) => drop(reply.send(self.fabric.clone())),
                    Request::Told(node, ports) => self.learn_of(&node, &ports),
                }
            }
            self.round(&mut waiting).await?;
        }
    }

    /// Makes what fits in one transaction; the rest waits for the next.
    async fn round(
        &mut self,
        waiting: &mut VecDeque<(Write, oneshot::Sender<Result<Written, WriteError>>)>,
    ) -> Result<(), Unavailable> {
        let (mut round, mut prepared) = (Staging::default(), Vec::<Waiting>::new());
        let mut later = VecDeque::new();
        let begin = self.allocator.mark();
        while let Some((write, reply)) = waiting.pop_front() {
            // Who waits no longer wants nothing any more.
            if reply.is_closed() {
                continue;
            }
            let (documents, bytes) = round.size();
            let is_full = prepared.len() >= ROUND.0 || documents >= ROUND.1 || bytes >= ROUND.2;
            let subjects = write.operations.iter().map(Operation::subject);
            // A version is known only when it is stored.
            if is_full || subjects.into_iter().any(|(key, _)| round.touches(&key)) {
                later.push_back((write, reply));
                continue;
            }
            let mark = self.allocator.mark();
            match self.prepare(&round, &write).await {
                Ok((draft, outcomes)) if write.dry_run => {
                    drop(draft);
                    self.allocator.rollback(mark);
                    let position = self.store.position().await;
                    let written = position.map(|position| Written { position, outcomes });
                    let _ = reply.send(written.map_err(WriteError::Store));
                }
                Ok((draft, outcomes)) => {
                    round.absorb(draft);
                    prepared.push((outcomes, reply));
                }
                Err(error) => {
                    self.allocator.rollback(mark);
                    let _ = reply.send(Err(error));
                }
            }
        }
        *waiting = later;
        let committed = self.commit(&round).await?;
        match committed {
            Ok(position) => self.publish(round, prepared, position).await,
            Err(error) => {
                self.allocator.rollback(begin);
                for (_, reply) in prepared {
                    let _ = reply.send(Err(WriteError::Store(error.clone())));
                }
                Ok(())
            }
        }
    }

    /// Stores a round. The outer error means that nobody knows whether it is stored.
    async fn commit(&self, round: &Staging) -> Result<Result<Position, Unavailable>, Unavailable> {
        if round.is_empty() {
            return Ok(self.store.position().await);
        }
        let begun = std::time::Instant::now();
        let committed = self.store.commit(round.transaction()).await;
        self.metrics.committed(begun.elapsed());
        match committed {
            Ok(position) => Ok(Ok(position)),
            Err(CommitError::Unavailable(full @ Unavailable::Full { .. })) => Ok(Err(full)),
            Err(CommitError::Unavailable(error)) => self.verify(round, error).await,
            Err(CommitError::Conflict(conflict)) => {
                // Only we write: someone else has changed the file under us.
                tracing::error!(%conflict, "the store is not as it was left");
                Err(Unavailable::Closed)
            }
            Err(CommitError::Invalid(error)) => {
                tracing::error!(%error, "a round does not fit in a transaction");
                Ok(Err(Unavailable::Closed))
            }
        }
    }

    /// A commit failed on its way: looks whether it was made.
    async fn verify(
        &self,
        round: &Staging,
        error: Unavailable,
    ) -> Result<Result<Position, Unavailable>, Unavailable> {
        let Some((key, value, base)) = round.witness() else { return Ok(Err(error)) };
        let entry = self.store.get(key).await?;
        let now = entry.as_ref().map(|entry| entry.modified);
        let is_made = entry.as_ref().map(|entry| &entry.value) == value && now != base;
        match is_made {
            true => Ok(Ok(self.store.position().await?)),
            false => Ok(Err(error)),
        }
    }

    /// A round is stored: the model is so now, nodes hear of it, and callers get their answers.
    async fn publish(
        &mut self,
        mut round: Staging,
        prepared: Vec<Waiting>,
        position: Position,
    ) -> Result<(), Unavailable> {
        self.allocator.settle();
        let revision = position.revision.0;
        if let Some(fabric) = &round.fabric {
            round.sayings.push(Saying::Apart(fabric.isolation.clone()));
        }
        round.sayings.extend(round.changes.iter().filter_map(said_of_node));
        round.changes.extend(self.resolve(round.sayings).await?);
        let applied = match round.fabric {
            Some(fabric) => {
                self.fabric = fabric.clone();
                self.hub.apply_with_fabric(revision, fabric, round.changes)
            }
            None if round.changes.is_empty() => Ok(()),
            None => self.hub.apply(revision, round.changes).map(drop),
        };
        if let Err(refused) = applied {
            // It was checked against the same model. A restart reads what is stored.
            tracing::error!(error = %refused, "a stored change does not fit the model");
            return Err(Unavailable::Closed);
        }
        self.metrics.round(prepared.len(), revision);
        for (mut outcomes, reply) in prepared {
            for outcome in &mut outcomes {
                let is_new = matches!(outcome.effect, Effect::Created | Effect::Configured);
                if let Some(resource) = outcome.resource.as_mut().filter(|_| is_new) {
                    resource.metadata_mut().resource_version = Some(revision.to_string());
                }
            }
            let _ = reply.send(Ok(Written { position, outcomes }));
        }
        Ok(())
    }
}

/// The time, as resources tell it.
pub(crate) fn now() -> String {
    // A year of five digits would fail.
    OffsetDateTime::now_utc()
        .replace_nanosecond(0)
        .ok()
        .and_then(|t| t.format(&Rfc3339).ok())
        .unwrap_or_default()
}

/// Random bytes as a UUID of version 4.
pub(crate) fn uuid(mut bytes: [u8; 16]) -> String {
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let n = u128::from_be_bytes(bytes);
    let part =
        |shift: u32, digits: usize| format!("{:0digits$x}", n >> shift & ((1 << (4 * digits)) - 1));
    [part(96, 8), part(80, 4), part(64, 4), part(48, 4), part(0, 12)].join("-")
}
