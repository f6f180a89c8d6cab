//! One node's switch: its sessions, and what an agent would do with them.
//!
//! The switch's manager session says which wires there are, the node's view what they mean. Both
//! come to a [`Board`], and what that compiles to goes to the reconciler, which outlives sessions.
//! Without its manager session a switch forwards on, and so it does without the other.

use crate::board::{Board, Outcome};
use crate::bridge::{Bridge, News as BridgeNews};
use crate::claim::{Refusal, key};
use crate::database::{Database, HoldError, News};
use crate::prepare;
use crate::stale::{self, Way};
use crate::wires::Wires;
use crate::{Cluster, SOFTWARE};
use futures_util::stream::{BoxStream, StreamExt};
use osier_answers::{Reply, advertisements, reply};
use osier_compiler::LocalPorts;
use osier_fleet::{AgentVersion, Applied, Event, Fault, Report, Reports, VERSION, Views};
use osier_model::{Change, Key, Node, NodeName, Object, Tunnel};
use osier_openflow::message::{FlowRemoved, PacketIn2};
use osier_openflow::port_no::PortNo;
use osier_openflow::session::{Events, Session};
use osier_ovsdb::session::{Event as RowEvent, Session as Manager};
use osier_southbound::rows;
use osier_span::Step;
use std::collections::BTreeMap;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{info, warn};

/// How often what changed is told.
const TELL: Duration = Duration::from_millis(500);
/// How often routers tell of themselves: many times in the time that it holds.
const ADVERTISE: Duration = Duration::from_mins(10);
/// Faults that are told.
const MOST: usize = 20;

/// What a node's switch gets from outside.
pub(crate) enum Input {
    /// A session with its database.
    Manager(Manager),
    /// A session with a bridge of this number.
    OpenFlow(u64, Session, Events),
}

/// What all nodes share.
pub(crate) struct Context {
    pub(crate) views: Arc<dyn Views>,
    pub(crate) reports: Arc<dyn Reports>,
    pub(crate) cluster: Arc<dyn Cluster>,
    pub(crate) bridge: String,
}

/// See the module.
pub(crate) struct Driver {
    node: NodeName,
    context: Arc<Context>,
    wires: Wires,
    database: Option<Database>,
    bridge: Bridge,
    local: Option<LocalPorts>,
    view: Option<BoxStream<'static, Event>>,
    board: Option<Board>,
    revision: u64,
    faults: Vec<String>,
    is_connected: bool,
    /// The later term by which we are deposed.
    deposed: Option<u64>,
    /// Whether what is reported is another.
    news: bool,
}

// === impl Driver ===

impl Driver {
    pub(crate) fn new(node: NodeName, context: Arc<Context>) -> Self {
        Self {
            wires: Wires::new(&context.bridge),
            node,
            context,
            database: None,
            bridge: Bridge::new(),
            local: None,
            view: None,
            board: None,
            revision: 0,
            faults: Vec::new(),
            is_connected: false,
            deposed: None,
            news: false,
        }
    }

    /// Until the node is gone, has an agent, or nobody lets switches in any more.
    pub(crate) async fn run(mut self, mut inputs: mpsc::Receiver<Input>) {
        let mut tick = interval(TELL);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut advertise = interval(ADVERTISE);
        advertise.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                input = inputs.recv() => match input {
                    Some(input) => self.take(input).await,
                    None => break,
                },
                news = Database::next(&mut self.database) => self.row(news).await,
                event = next_view(&mut self.view) => match event {
                    Some(event) => self.hear(event).await,
                    None => break,
                },
                news = self.bridge.next() => match news {
                    BridgeNews::Settled(revision, fault) => self.settled(revision, fault),
                    BridgeNews::Asked(packet) => self.answer(&packet).await,
                    BridgeNews::Ended(removed) => self.prolong(&removed).await,
                    BridgeNews::Closed => {
                        self.bridge.leave().await;
                        self.adopt().await;
                    }
                },
                _ = advertise.tick() => self.advertise().await,
                _ = tick.tick() => {
                    if self.context.cluster.has_agent(&self.node) {
                        warn!(node = %self.node, "an agent has come: its switch is left to it");
                        break;
                    }
                    self.adopt().await;
                    self.tell();
                }
            }
            self.say_whether_connected();
        }
        self.context.cluster.known(&self.node, false);
        self.bridge.leave().await;
    }

    async fn take(&mut self, input: Input) {
        match input {
            Input::Manager(session) => {
                self.database = Database::open(session, self.context.views.term()).await;
            }
            Input::OpenFlow(id, session, events) => {
                self.bridge.offer(id, session, events).await;
                self.adopt().await;
            }
        }
    }

    /// Uses the bridge's newest session, if the switch is ours. A switch that starts anew remembers no
    /// generation, but its database remembers the term.
    async fn adopt(&mut self) {
        let id = self.wires.bridge().and_then(|row| prepare::datapath_id(row));
        let Some(id) = id.filter(|id| self.bridge.has_newer(*id)) else { return };
        if let Some(database) = &self.database
            && database.is_held(&self.wires).await
        {
            self.bridge.adopt(id).await;
        }
    }

    async fn row(&mut self, news: News) {
        let mut is_whole = false;
        let touched = match news {
            News::Event(Some(RowEvent::Snapshot { snapshot, .. })) => {
                is_whole = true;
                self.wires.take(&snapshot)
            }
            News::Event(Some(RowEvent::Changes(changes))) => self.wires.follow(&changes.rows),
            News::Event(Some(RowEvent::Resumed)) => return self.say_known(),
            News::Event(Some(RowEvent::Disconnected)) => {
                self.context.cluster.known(&self.node, false);
                return;
            }
            News::Event(None) => {
                info!(node = %self.node, "the switch's database is away");
                self.context.cluster.known(&self.node, false);
                self.database = None;
                return;
            }
            News::Tunnel(Ok(applied)) => return self.has_tunnel(&applied),
            News::Tunnel(Err(error)) => {
                warn!(node = %self.node, %error, "the switch has no tunnel");
                self.faults.push(error.to_string());
                return;
            }
        };
        if let Some(board) = &mut self.board {
            let outcome = board.rewire(touched, &self.wires);
            self.bring(outcome).await;
        }
        if is_whole {
            self.say_known();
        }
        self.prepare().await;
        self.adopt().await;
    }

    /// All that the switch has was told, once it is known what that means.
    fn say_known(&self) {
        let is_ready = self.database.as_ref().is_some_and(Database::is_ready);
        if self.board.is_some() && is_ready {
            self.context.cluster.known(&self.node, true);
        }
    }

    /// Takes the switch over, makes its bridge fit, and asks for the tunnel.
    async fn prepare(&mut self) {
        let Some(database) = &self.database else { return };
        match database.hold(&self.wires).await {
            Ok(true) => self.deposed = None,
            Ok(false) => return,
            Err(HoldError::Deposed { found, term }) => return self.step_back(found, term).await,
            Err(HoldError::Refused(error)) => {
                return warn!(node = %self.node, %error, "the bridge is not as it has to be");
            }
        }
        let (node, tunnel) = match &self.board {
            Some(board) => {
                (board.view().nodes().get(&self.node).cloned(), board.view().fabric().tunnel)
            }
            None => match first_look(self.context.views.as_ref(), &self.node).await {
                Some((node, tunnel)) => (Some(node), tunnel),
                None => return,
            },
        };
        let (Some(database), Some(node)) = (&mut self.database, node) else { return };
        if !database.ask_tunnel(&self.wires, node, tunnel).await {
            warn!(node = %self.node, "the switch's database is away");
        }
    }

    /// A later controller drives the switch.
    async fn step_back(&mut self, found: u64, term: u64) {
        self.bridge.leave().await;
        if self.deposed.replace(found) != Some(found) {
            let why = HoldError::Deposed { found, term }.to_string();
            self.context.cluster.refused(Some(&self.node), &why);
        }
    }

    fn has_tunnel(&mut self, applied: &rows::Applied) {
        let number = applied.ofport(prepare::TUNNEL).and_then(|number| u32::try_from(number).ok());
        let Some(tunnel) = number.map(PortNo) else { return };
        let local = LocalPorts {
            gateway: PortNo::LOCAL,
            service_gateway: None,
            tunnel,
            // Pods of COE's plugin have 1400.
            tunnel_mtu: None,
            connection_rate: None,
        };
        if self.local.replace(local) != Some(local) || self.view.is_none() {
            // From nothing: the numbers are others.
            self.view = self.context.views.follow(&self.node, None).ok();
        }
    }

    async fn hear(&mut self, event: Event) {
        let Some(local) = self.local else { return };
        match event {
            Event::Snapshot { revision, fabric, objects, .. } => {
                self.revision = revision;
                self.faults.clear();
                let mut board = Board::new(self.node.clone(), (*fabric).clone(), local);
                let mut objects: Vec<Object> =
                    objects.iter().map(|shared| shared.object().clone()).collect();
                objects.sort_by_key(Object::key);
                let changes = objects.into_iter().map(Change::Put).collect();
                let heard = board.hear(changes, &self.wires);
                let wired = board.rewire(self.wires.all(), &self.wires);
                let all = board.all();
                let faults = [heard.faults, wired.faults, all.faults].concat();
                let whole = Outcome { compiled: all.compiled, faults, ..wired };
                self.board = Some(board);
                self.bridge.keep_only(&whole.compiled).await;
                self.bring(whole).await;
                self.say_known();
                self.bridge.resume().await;
            }
            Event::Update { revision, steps, .. } => {
                self.revision = revision;
                let Some(board) = &mut self.board else { return };
                let changes = net(steps);
                let services = stale::services_of(&changes);
                let before = Way::all(board.view(), &services);
                let is_moved = changes.iter().any(|c| is_node(c, &self.node));
                let outcome = board.hear(changes, &self.wires);
                let now = Way::all(board.view(), &services);
                self.bring(outcome).await;
                self.bridge.forget(before.difference(&now).copied().collect());
                if is_moved {
                    self.prepare().await;
                }
            }
        }
    }

    /// Brings what a change came to where it belongs.
    async fn bring(&mut self, outcome: Outcome) {
        let Outcome { compiled, faults, attached, detached, refused } = outcome;
        let cluster = &self.context.cluster;
        for key in &detached {
            cluster.detached(&self.node, key);
        }
        for (key, mac) in &attached {
            cluster.attached(&self.node, key, *mac);
        }
        for (wire, why) in refused {
            if let Some(said) = self.is_trespass(&why) {
                cluster.refused(Some(&self.node), &format!("{wire}: {said}"));
            }
        }
        self.faults.extend(faults);
        self.faults.truncate(MOST);
        self.news = true;
        self.bridge.want(self.revision, compiled).await;
    }

    /// Why a wire claims what it may not. One that nobody has told of yet waits only, unless it is
    /// a port that this node need not know of.
    fn is_trespass(&self, why: &Refusal) -> Option<String> {
        let Refusal::Unknown(id) = why else { return Some(why.to_string()) };
        let port = key(id)?;
        let node = self.context.cluster.place_of(&port).filter(|node| *node != self.node)?;
        Some(Refusal::Elsewhere { port, node }.to_string())
    }

    /// Answers what the switch asks, as an agent would.
    async fn answer(&mut self, asked: &PacketIn2) {
        let Some(board) = &self.board else { return };
        let Reply { packet, lease } = reply(board.compiler(), asked);
        if let Some((family, event)) = lease {
            self.context.cluster.leased(family, event);
        }
        self.bridge.send(packet.into_iter().collect()).await;
    }

    /// Gives a client of a Service the rest of its time, as an agent would.
    async fn prolong(&mut self, removed: &FlowRemoved) {
        let Some(board) = &self.board else { return };
        if let Some(flow) = board.compiler().prolonged(removed) {
            self.bridge.add(flow).await;
        }
    }

    /// Routers tell of themselves.
    async fn advertise(&mut self) {
        let Some(board) = &self.board else { return };
        self.bridge.send(advertisements(board.compiler())).await;
    }

    fn settled(&mut self, revision: u64, fault: Option<String>) {
        let faults = self.faults.iter().cloned().chain(fault);
        let faults = faults.map(|text| Fault { key: None, text }).collect();
        let epoch = self.context.views.epoch();
        self.context.reports.applied(&self.node, Applied { epoch, revision, faults });
    }

    fn say_whether_connected(&mut self) {
        let is = self.database.is_some() && self.bridge.is_connected() && self.board.is_some();
        if is == self.is_connected {
            return;
        }
        self.is_connected = is;
        self.news = true;
        if is {
            let agent = AgentVersion {
                version: VERSION,
                features: 0,
                software: SOFTWARE.to_owned(),
                position: None,
            };
            info!(node = %self.node, "its switch is driven");
            self.context.reports.connected(&self.node, &agent);
        } else {
            self.context.reports.disconnected(&self.node, "its switch is away");
        }
    }

    fn tell(&mut self) {
        let Some(board) = self.board.as_ref().filter(|_| self.is_connected) else { return };
        if !std::mem::take(&mut self.news) {
            return;
        }
        let problems = board.refusals().map(|(wire, why)| {
            let said = self.is_trespass(why).unwrap_or_else(|| why.to_string());
            (format!("wire {wire}"), said)
        });
        let problems = problems.take(MOST).collect();
        let ports = board.attached().cloned().collect();
        let versions = self.wires.version().map(|version| ("ovs".to_owned(), version.to_owned()));
        let report = Report {
            ports,
            problems,
            versions: versions.into_iter().collect(),
            ..Report::default()
        };
        self.context.reports.report(&self.node, report);
    }
}

/// The node itself, and the kind of tunnels, before its view is followed.
async fn first_look(views: &dyn Views, node: &NodeName) -> Option<(Node, Tunnel)> {
    match views.follow(node, None).ok()?.next().await? {
        Event::Snapshot { fabric, objects, .. } => {
            let found = objects.iter().find_map(|shared| match shared.object() {
                Object::Node(found) if found.name == *node => Some(found.clone()),
                _ => None,
            });
            Some((found?, fabric.tunnel))
        }
        Event::Update { .. } => None,
    }
}

/// What steps come to: each object once.
fn net(steps: Vec<Step>) -> Vec<Change> {
    let mut objects: BTreeMap<Key, Step> = BTreeMap::new();
    for step in steps {
        let Some(key) = step.key() else { continue };
        match objects.get_mut(&key) {
            Some(first) => first.now = step.now,
            None => drop(objects.insert(key, step)),
        }
    }
    let both = objects.into_values().map(|Step { was, now }| {
        (was.map(|was| was.object().clone()), now.map(|now| now.object().clone()))
    });
    osier_span::changes(both)
}

fn is_node(change: &Change, name: &NodeName) -> bool {
    matches!(change, Change::Put(Object::Node(node)) if node.name == *name)
}

async fn next_view(view: &mut Option<BoxStream<'static, Event>>) -> Option<Event> {
    match view {
        Some(view) => view.next().await,
        None => pending().await,
    }
}
