//! The hub: the cluster, and for each node that has ever asked a short history of its view.
//!
//! That history is also the node's queue. A follower keeps only its place in it and reads as fast
//! as it can; one that falls behind the history starts again from a snapshot. So a slow node costs
//! nobody anything, and a node that comes back soon gets only what it missed.

use crate::views::{Event, UnknownNode, Views};
use crate::wire::{Digest, Position, fabric_bytes, payload};
use futures_util::stream::{BoxStream, StreamExt, unfold};
use osier_model::{
    Change, EndpointState, Endpoints, Fabric, Judgement, Key, NetworkName, NodeName, PolicyName,
    ServiceName, Talk,
};
use osier_span::{Cluster, Deltas, NodeView, Refused, Shared, Step};
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// How much a node's history may hold.
#[derive(Debug, Clone, Copy)]
pub struct HistoryLimits {
    /// Changes.
    pub batches: usize,
    /// Objects in them.
    pub steps: usize,
}

/// The cluster, and the histories of the nodes' views. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Hub {
    state: Arc<Mutex<State>>,
    term: u64,
    epoch: u64,
}

#[derive(Debug)]
struct State {
    cluster: Cluster,
    fabric: Arc<Fabric>,
    revision: u64,
    limits: HistoryLimits,
    feeds: HashMap<NodeName, Feed>,
}

/// What happened in one node's view.
#[derive(Debug)]
struct Feed {
    /// The history goes back to here, and the view was this then.
    base: (u64, Digest),
    entries: VecDeque<Entry>,
    steps: usize,
    latest: watch::Sender<u64>,
}

#[derive(Debug)]
struct Entry {
    revision: u64,
    steps: Arc<[Step]>,
    /// Of the view after it.
    digest: Digest,
}

/// How a follower goes on.
enum Next {
    Event(Event),
    Wait(watch::Receiver<u64>),
    Gone,
}

// === impl HistoryLimits ===

impl Default for HistoryLimits {
    fn default() -> Self {
        Self { batches: 512, steps: 4096 }
    }
}

// === impl Hub ===

impl Hub {
    /// A hub over a cluster that is at a revision. `term` is the leader's, `epoch` the history's
    /// that revisions are of: another after the model was restored from a backup.
    pub fn new(cluster: Cluster, term: u64, epoch: u64, revision: u64) -> Self {
        Self::with_limits(cluster, term, epoch, revision, HistoryLimits::default())
    }

    /// The same, with limits of its own.
    pub fn with_limits(
        cluster: Cluster,
        term: u64,
        epoch: u64,
        revision: u64,
        limits: HistoryLimits,
    ) -> Self {
        let fabric = Arc::new(cluster.fabric().clone());
        let state = State { cluster, fabric, revision, limits, feeds: HashMap::new() };
        Self { state: Arc::new(Mutex::new(state)), term, epoch }
    }

    /// Makes changes of the model, all or none; `revision` is that after them, and higher than any
    /// before. Followers hear of it.
    pub fn apply(&self, revision: u64, changes: Vec<Change>) -> Result<Deltas, Refused> {
        let mut state = self.lock();
        let deltas = state.cluster.apply(changes)?;
        state.revision = revision;
        let limits = state.limits;
        for name in &deltas.removed {
            // Followers see that the sender is gone.
            state.feeds.remove(name);
        }
        for delta in &deltas.changed {
            if let Some(feed) = state.feeds.get_mut(&delta.node) {
                feed.push(revision, delta.steps.as_slice().into(), limits);
            }
        }
        Ok(deltas)
    }

    /// Changes what holds for the whole cluster. Every node gets its view anew.
    pub fn set_fabric(&self, revision: u64, fabric: Fabric) -> Result<(), Refused> {
        let mut state = self.lock();
        state.cluster.set_fabric(fabric.clone())?;
        state.begin_anew(revision, fabric);
        Ok(())
    }

    /// Changes what holds for the whole cluster, and the model with it, all or none. Every node
    /// gets its view anew.
    pub fn apply_with_fabric(
        &self,
        revision: u64,
        fabric: Fabric,
        changes: Vec<Change>,
    ) -> Result<(), Refused> {
        let mut state = self.lock();
        let before = state.cluster.fabric().clone();
        state.cluster.set_fabric(fabric.clone())?;
        let deltas = match state.cluster.apply(changes) {
            Ok(deltas) => deltas,
            Err(refused) => {
                state.cluster.set_fabric(before)?;
                return Err(refused);
            }
        };
        for name in &deltas.removed {
            state.feeds.remove(name);
        }
        state.begin_anew(revision, fabric);
        Ok(())
    }

    /// Whether changes could be made now, all of them.
    pub fn check(&self, changes: Vec<Change>) -> Result<(), Refused> {
        self.lock().cluster.check(changes)
    }

    /// Who has an address in a network.
    pub fn holder(&self, network: &NetworkName, address: IpAddr) -> Option<Key> {
        self.lock().cluster.holder(network, address)
    }

    /// Whether a Service answers at an address.
    pub fn is_service_address(&self, address: IpAddr) -> bool {
        self.lock().cluster.is_service_address(address)
    }

    /// How many endpoints of a Service are ready, and how many it has: of the family that has more.
    pub fn endpoints_of(&self, service: &ServiceName) -> (usize, usize) {
        let state = self.lock();
        let mut families = [(0, 0); 2];
        for endpoint in state.cluster.endpoints_of(service).flat_map(|slice| &slice.endpoints) {
            let (ready, all) = &mut families[usize::from(endpoint.address.is_ipv6())];
            *ready += usize::from(endpoint.state == EndpointState::Ready);
            *all += 1;
        }
        families.into_iter().max_by_key(|(ready, all)| (*all, *ready)).unwrap_or_default()
    }

    /// The endpoints of a Service.
    pub fn slices_of(&self, service: &ServiceName) -> Vec<Endpoints> {
        self.lock().cluster.endpoints_of(service).cloned().collect()
    }

    /// What policies say of a connection.
    pub fn judge(&self, talk: &Talk) -> Judgement {
        self.lock().cluster.judge(talk)
    }

    /// How many workloads a policy is about.
    pub fn subjects_of(&self, policy: &PolicyName) -> Option<usize> {
        self.lock().cluster.subjects_of(policy)
    }

    /// The nodes' names.
    pub fn node_names(&self) -> Vec<NodeName> {
        self.lock().cluster.node_names().cloned().collect()
    }

    /// The revision of the last change.
    pub fn revision(&self) -> u64 {
        self.lock().revision
    }

    /// An object of the model.
    pub fn get(&self, key: &Key) -> Option<Arc<Shared>> {
        self.lock().cluster.get(key).cloned()
    }

    /// What a node must know now.
    pub fn view_of(&self, node: &NodeName) -> Option<NodeView> {
        self.lock().cluster.view_of(node)
    }

    /// Where a node is when it has heard everything; nothing if it never asked. A node that has
    /// applied this revision, or a later one, has converged.
    pub fn wanted(&self, node: &NodeName) -> Option<Position> {
        let state = self.lock();
        let (revision, digest) = state.feeds.get(node)?.end();
        Some(Position { epoch: self.epoch, revision, digest })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic between two statements here leaves nothing half done that is not a defect itself.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where a follower starts: nowhere if it needs a snapshot.
    fn start(&self, node: &NodeName, from: Option<Position>) -> Result<Option<u64>, UnknownNode> {
        let mut state = self.lock();
        let revision = state.revision;
        if !state.feeds.contains_key(node) {
            let view = state.cluster.view_of(node).ok_or_else(|| UnknownNode(node.clone()))?;
            let base = (revision, digest_of(&view));
            let (entries, latest) = (VecDeque::new(), watch::Sender::new(revision));
            state.feeds.insert(node.clone(), Feed { base, entries, steps: 0, latest });
        }
        let feed = &state.feeds[node];
        Ok(from.and_then(|from| feed.place_of(from, from.epoch == self.epoch)))
    }

    fn next(&self, node: &NodeName, cursor: &mut Option<u64>) -> Next {
        let state = self.lock();
        let Some(feed) = state.feeds.get(node) else { return Next::Gone };
        match *cursor {
            Some(at) if at >= feed.base.0 => {
                let first = feed.entries.partition_point(|entry| entry.revision <= at);
                let Some(last) = feed.entries.back().filter(|_| first < feed.entries.len()) else {
                    return Next::Wait(feed.latest.subscribe());
                };
                let entries = feed.entries.range(first..);
                let steps = entries.flat_map(|entry| entry.steps.iter().cloned()).collect();
                *cursor = Some(last.revision);
                let (revision, digest) = (last.revision, last.digest);
                Next::Event(Event::Update { revision, steps, digest })
            }
            _ => {
                let Some(view) = state.cluster.view_of(node) else { return Next::Gone };
                let (revision, fabric) = (state.revision, Arc::clone(&state.fabric));
                *cursor = Some(revision);
                let digest = feed.end().1;
                Next::Event(Event::Snapshot { revision, fabric, objects: view.objects, digest })
            }
        }
    }
}

impl Views for Hub {
    fn term(&self) -> u64 {
        self.term
    }

    fn epoch(&self) -> u64 {
        self.epoch
    }

    fn follow(
        &self,
        node: &NodeName,
        from: Option<Position>,
    ) -> Result<BoxStream<'static, Event>, UnknownNode> {
        let cursor = self.start(node, from)?;
        // Who has everything still learns at which revision that is.
        let greeting = cursor.zip(from).and_then(|(revision, from)| {
            let digest = self.wanted(node)?.digest;
            let steps = Vec::new();
            (from.digest == digest).then_some(Event::Update { revision, steps, digest })
        });
        let follower = (self.clone(), node.clone(), cursor);
        let events = unfold(follower, |(hub, node, mut cursor)| async move {
            loop {
                match hub.next(&node, &mut cursor) {
                    Next::Event(event) => return Some((event, (hub, node, cursor))),
                    // It was made with the look, under the same lock: nothing slips between.
                    Next::Wait(mut latest) => latest.changed().await.ok()?,
                    Next::Gone => return None,
                }
            }
        });
        Ok(futures_util::stream::iter(greeting).chain(events).boxed())
    }
}

// === impl State ===

impl State {
    /// Every node's history starts again: what holds for the whole cluster is another.
    fn begin_anew(&mut self, revision: u64, fabric: Fabric) {
        self.fabric = Arc::new(fabric);
        self.revision = revision;
        let nodes: Vec<NodeName> = self.feeds.keys().cloned().collect();
        for node in nodes {
            let digest = self.cluster.view_of(&node).map(|view| digest_of(&view));
            if let (Some(feed), Some(digest)) = (self.feeds.get_mut(&node), digest) {
                feed.entries.clear();
                feed.steps = 0;
                feed.base = (revision, digest);
                feed.latest.send_replace(revision);
            }
        }
    }
}

// === impl Feed ===

impl Feed {
    /// Where who has heard everything is.
    fn end(&self) -> (u64, Digest) {
        self.entries.back().map_or(self.base, |entry| (entry.revision, entry.digest))
    }

    fn push(&mut self, revision: u64, steps: Arc<[Step]>, limits: HistoryLimits) {
        let mut digest = self.end().1;
        for shared in steps.iter().flat_map(|step| step.was.iter().chain(&step.now)) {
            digest.toggle(Digest(payload(shared).digest));
        }
        self.steps += steps.len();
        self.entries.push_back(Entry { revision, steps, digest });
        while self.entries.len() > limits.batches || self.steps > limits.steps {
            let Some(first) = self.entries.pop_front() else { break };
            self.steps -= first.steps.len();
            self.base = (first.revision, first.digest);
        }
        self.latest.send_replace(revision);
    }

    /// From where a node that is at a position can go on, if the history has what it misses.
    fn place_of(&self, from: Position, same_epoch: bool) -> Option<u64> {
        let (end, digest) = self.end();
        if from.digest == digest {
            return Some(end);
        }
        let before = self.entries.iter().rev().find(|entry| entry.revision <= from.revision);
        let (_, digest) = before.map_or(self.base, |entry| (entry.revision, entry.digest));
        let known = (self.base.0..=end).contains(&from.revision) && digest == from.digest;
        (same_epoch && known).then_some(from.revision)
    }
}

fn digest_of(view: &NodeView) -> Digest {
    let mut digest = Digest::of(&fabric_bytes(&view.fabric));
    for shared in &view.objects {
        digest.toggle(Digest(payload(shared).digest));
    }
    digest
}
