//! What switches without an agent say of the model's ports: kept in memory, and what of it lasts is
//! recorded.
//!
//! A switch knows a port's Ethernet address, which no client of COE does: the model takes it from there,
//! for other nodes and for whoever starts next. A port with such an address was on a switch once. If it is
//! there no more, while that switch is known, its pod is over, though nobody told of it.

use crate::engine::{Engine, Operation, Write, WriteError};
use crate::metrics::Metrics;
use crate::nodes::Nodes;
use crate::restconf::Restconf;
use osier_fleet::Hub;
use osier_model::{Key, Mac, NodeName, Object, Port, PortKey};
use osier_resource::Kind;
use osier_switches::{Cluster, Family, LeaseEvent};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};

/// How often is looked for what is over.
const LOOK: Duration = Duration::from_millis(500);
/// How often the same is told of who is refused, and of how many that is remembered.
const AGAIN: Duration = Duration::from_mins(1);
const REMEMBERED: usize = 1024;

/// What is known of switches.
pub(crate) struct Sightings {
    hub: Hub,
    nodes: Nodes,
    metrics: Metrics,
    state: Mutex<State>,
    news: Notify,
}

#[derive(Default)]
struct State {
    nodes: HashMap<NodeName, Switch>,
    /// Ethernet addresses that are to be recorded.
    found: BTreeMap<PortKey, Mac>,
    /// Whom was told of, and when.
    refused: HashMap<String, Instant>,
}

/// What a switch has.
#[derive(Default)]
struct Switch {
    is_known: bool,
    ports: BTreeSet<PortKey>,
    /// Since when ports are gone.
    gone: BTreeMap<PortKey, Instant>,
}

/// Records what lasts.
pub(crate) struct Recorder {
    pub(crate) engine: Engine,
    pub(crate) sightings: Arc<Sightings>,
    /// Whose pods age, and how long they may be gone.
    pub(crate) ageing: Option<(Arc<Restconf>, Duration)>,
}

// === impl Sightings ===

impl Sightings {
    pub(crate) fn new(engine: &Engine, nodes: &Nodes, metrics: Metrics) -> Self {
        let (hub, nodes) = (engine.hub().clone(), nodes.clone());
        Self { hub, nodes, metrics, state: Mutex::default(), news: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ports of a node that were on a switch once: their Ethernet address is none that we gave.
    fn seen_once(&self, node: &NodeName) -> Vec<PortKey> {
        let view = self.hub.view_of(node);
        let objects = view.iter().flat_map(|view| &view.objects);
        let ports = objects.filter_map(|shared| match shared.object() {
            Object::Port(port) if port.node == *node => Some(port),
            _ => None,
        });
        let is_given = |port: &&Port| port.addresses.iter().any(|a| Mac::of(*a) == port.mac);
        ports.filter(|port| !is_given(port)).map(|port| port.key.clone()).collect()
    }

    /// Ports that have been gone for so long, and are still of the node that they are gone from.
    fn over(&self, age: Duration) -> BTreeSet<PortKey> {
        let mut over = Vec::new();
        for (node, switch) in self.lock().nodes.iter_mut().filter(|(_, switch)| switch.is_known) {
            let is_over = |_: &PortKey, since: &mut Instant| since.elapsed() >= age;
            let ports = switch.gone.extract_if(.., is_over);
            over.extend(ports.map(|(port, _)| (node.clone(), port)));
        }
        let is_there =
            |(node, port): &(NodeName, PortKey)| self.place_of(port).as_ref() == Some(node);
        over.into_iter().filter(is_there).map(|(_, port)| port).collect()
    }
}

impl Cluster for Sightings {
    fn node_at(&self, address: IpAddr) -> Option<NodeName> {
        let names = self.hub.node_names();
        names.into_iter().find(|name| {
            let node = self.hub.get(&Key::Node(name.clone()));
            node.is_some_and(|shared| match shared.object() {
                Object::Node(node) => node.tunnel == address || node.addresses.contains(&address),
                _ => false,
            })
        })
    }

    fn has_agent(&self, node: &NodeName) -> bool {
        self.nodes.has_agent(node)
    }

    fn place_of(&self, port: &PortKey) -> Option<NodeName> {
        match self.hub.get(&Key::Port(port.clone()))?.object() {
            Object::Port(port) => Some(port.node.clone()),
            _ => None,
        }
    }

    fn attached(&self, node: &NodeName, port: &PortKey, mac: Option<Mac>) {
        let known = self.hub.get(&Key::Port(port.clone()));
        let is_new = known.is_none_or(|shared| match shared.object() {
            Object::Port(port) => mac.is_some_and(|mac| mac != port.mac),
            _ => false,
        });
        let mut state = self.lock();
        let switch = state.nodes.entry(node.clone()).or_default();
        switch.gone.remove(port);
        switch.ports.insert(port.clone());
        if let Some(mac) = mac.filter(|mac| is_new && mac.is_unicast()) {
            state.found.insert(port.clone(), mac);
            self.news.notify_one();
        }
    }

    fn detached(&self, node: &NodeName, port: &PortKey) {
        let mut state = self.lock();
        let switch = state.nodes.entry(node.clone()).or_default();
        if switch.ports.remove(port) {
            switch.gone.insert(port.clone(), Instant::now());
        }
    }

    fn known(&self, node: &NodeName, is_known: bool) {
        let seen = if is_known { self.seen_once(node) } else { Vec::new() };
        let mut state = self.lock();
        let switch = state.nodes.entry(node.clone()).or_default();
        switch.is_known = is_known;
        let now = Instant::now();
        for port in seen.into_iter().filter(|port| !switch.ports.contains(port)) {
            switch.gone.entry(port).or_insert(now);
        }
        // While it is away nobody ages.
        if !is_known {
            switch.gone.clear();
        }
    }

    fn leased(&self, family: Family, event: LeaseEvent) {
        self.metrics.switch_leased(family.name(), event.name());
    }

    fn refused(&self, node: Option<&NodeName>, why: &str) {
        self.metrics.switch_refused();
        let mut state = self.lock();
        let now = Instant::now();
        if state.refused.len() >= REMEMBERED {
            state.refused.retain(|_, told| told.elapsed() < AGAIN);
        }
        let is_old = state.refused.get(why).is_some_and(|told| told.elapsed() < AGAIN);
        if !is_old && state.refused.len() < REMEMBERED {
            state.refused.insert(why.to_owned(), now);
            let node = node.map_or("-", NodeName::as_str);
            tracing::warn!(node, reason = why, "refused");
        }
    }
}

// === impl Recorder ===

impl Recorder {
    /// Until the controller stops.
    pub(crate) async fn run(self, mut stopping: watch::Receiver<bool>) {
        loop {
            tokio::select! {
                () = self.sightings.news.notified() => self.record().await,
                () = tokio::time::sleep(LOOK) => self.age().await,
                () = stopped(&mut stopping) => return,
            }
        }
    }

    /// Records Ethernet addresses, all that have come together in one write.
    async fn record(&self) {
        let found = std::mem::take(&mut self.sightings.lock().found);
        let operations: Vec<Operation> =
            found.iter().map(|(port, mac)| patch(port, *mac)).collect();
        let write = Write { operations, dry_run: false };
        match self.engine.write(write).await {
            Ok(_) | Err(WriteError::Stopping) => {}
            // One of them is gone, perhaps: the others need not wait for it.
            Err(_) => {
                for (port, mac) in found {
                    if let Err(error) = self.engine.write(Write::one(patch(&port, mac))).await {
                        tracing::warn!(%port, %error, "its Ethernet address is not recorded");
                    }
                }
            }
        }
    }

    async fn age(&self) {
        let Some((restconf, age)) = &self.ageing else { return };
        let over = self.sightings.over(*age);
        if !over.is_empty() {
            restconf.age(&over).await;
        }
    }
}

async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // Nobody who could say it any more is as good as said.
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

fn patch(port: &PortKey, mac: Mac) -> Operation {
    let patch = json!({"spec": {"mac": mac.to_string()}});
    Operation::Patch { kind: Kind::Port, name: port.to_string(), patch }
}
