//! One node's switch: its sessions, and what an agent would do with them.
//!
//! The switch's manager session says which wires there are, the node's view what they mean. Both
//! come to a [`Board`], and what that compiles to goes to the reconciler, which outlives sessions.
//! Without its manager session a switch forwards on, and so it does without the other.

use crate::board::{Board, Outcome};
use crate::claim::{Refusal, key};
use crate::prepare;
use crate::stale::{self, Way};
use crate::wires::{Wires, text};
use crate::{Cluster, SOFTWARE};
use futures_util::future::BoxFuture;
use futures_util::stream::{BoxStream, FuturesOrdered, StreamExt};
use osier_answers::{Reply, advertisements, reply};
use osier_compiler::{
    CLASS, CLASS_MASK, CONTROLLER_ID, Compiled, GROUPS, LEARNED, LocalPorts, METERS,
};
use osier_fleet::{AgentVersion, Applied, Event, Fault, Report, Reports, VERSION, Views};
use osier_model::{Change, Key, Node, NodeName, Object, Tunnel};
use osier_openflow::message::{Message, PacketIn2, PacketOut};
use osier_openflow::port_no::PortNo;
use osier_openflow::session::{Events, Session};
use osier_ovsdb::session::{Event as RowEvent, Session as Manager, Subscription};
use osier_southbound::flows::{self, CookieClass, FlowReconciler};
use osier_southbound::rows::{self, RowReconciler};
use osier_span::Step;
use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{debug, info, warn};

/// Events of a database that may wait.
const EVENTS: usize = 4096;
/// Sessions of bridges that are not known yet.
const WAITING: usize = 4;
/// How long a transaction that prepares a bridge may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often what changed is told.
const TELL: Duration = Duration::from_millis(500);
/// How often routers tell of themselves: many times in the time that it holds.
const ADVERTISE: Duration = Duration::from_mins(10);
/// Packets that wait to be answered.
const QUESTIONS: usize = 256;
/// When connections to former endpoints are forgotten, each after the time before.
const AGAIN: [Duration; 3] = [Duration::ZERO, Duration::from_secs(1), Duration::from_secs(4)];
/// Faults that are told.
const MOST: usize = 20;
/// Who wants the tunnel.
const OWNER: &str = "node";

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

/// The database's side.
struct Rows {
    session: Manager,
    events: Subscription,
    reconciler: RowReconciler,
    /// The tunnel on its way, and for which bridge, node and kind it is.
    tunnel: Option<rows::Settling>,
    asked: Option<(String, Node, Tunnel)>,
}

/// What came from the database's side.
enum RowNews {
    Event(Option<RowEvent>),
    Tunnel(Result<rows::Applied, rows::ChangeError>),
}

/// See the module.
pub(crate) struct Driver {
    node: NodeName,
    context: Arc<Context>,
    wires: Wires,
    rows: Option<Rows>,
    /// The session with the bridge.
    switch: Option<Session>,
    waiting: Vec<(u64, Session, Events)>,
    sessions: mpsc::Sender<(Session, Events)>,
    flows: FlowReconciler,
    /// Packets that the switch asks about.
    questions: mpsc::Receiver<PacketIn2>,
    local: Option<LocalPorts>,
    view: Option<BoxStream<'static, Event>>,
    board: Option<Board>,
    /// Who has something on the switch.
    owners: BTreeSet<String>,
    unsettled: FuturesOrdered<BoxFuture<'static, (u64, Option<String>)>>,
    revision: u64,
    faults: Vec<String>,
    is_connected: bool,
    /// Whether what is reported is another.
    news: bool,
}

fn flow_ownership() -> flows::Ownership {
    flows::Ownership {
        cookies: CookieClass { value: CLASS, mask: CLASS_MASK },
        learned: Some(CookieClass { value: LEARNED, mask: CLASS_MASK }),
        groups: GROUPS,
        meters: METERS,
        tun_metadata: 0..=3,
    }
}

// === impl Driver ===

impl Driver {
    pub(crate) fn new(node: NodeName, context: Arc<Context>) -> Self {
        let (sessions, received) = mpsc::channel(1);
        let (to, questions) = mpsc::channel(QUESTIONS);
        let asked = flows::Questions { controller: CONTROLLER_ID, to };
        let options = flows::Options { questions: Some(asked), ..flows::Options::default() };
        let flows = FlowReconciler::start(received, flow_ownership(), options);
        Self {
            wires: Wires::new(&context.bridge),
            node,
            context,
            rows: None,
            switch: None,
            waiting: Vec::new(),
            sessions,
            flows,
            questions,
            local: None,
            view: None,
            board: None,
            owners: BTreeSet::new(),
            unsettled: FuturesOrdered::new(),
            revision: 0,
            faults: Vec::new(),
            is_connected: false,
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
                news = next_of(&mut self.rows) => self.row(news).await,
                event = next_view(&mut self.view) => match event {
                    Some(event) => self.hear(event).await,
                    None => break,
                },
                Some((revision, fault)) = self.unsettled.next(), if !self.unsettled.is_empty() => {
                    self.settled(revision, fault);
                }
                Some(asked) = self.questions.recv() => self.answer(&asked).await,
                _ = advertise.tick() => self.advertise().await,
                () = closed(self.switch.as_ref()) => {
                    self.switch = None;
                    self.adopt().await;
                }
                _ = tick.tick() => {
                    if self.context.cluster.has_agent(&self.node) {
                        warn!(node = %self.node, "an agent has come: its switch is left to it");
                        break;
                    }
                    self.tell();
                }
            }
            self.say_whether_connected();
        }
        self.context.cluster.known(&self.node, false);
        if let Some(session) = self.switch.take() {
            session.close().await;
        }
    }

    async fn take(&mut self, input: Input) {
        match input {
            Input::Manager(session) => {
                let options = rows::Options::default();
                let reconciler =
                    RowReconciler::start(session.clone(), prepare::ownership(), options);
                let Ok(events) = session.subscribe(EVENTS).await else { return };
                let (tunnel, asked) = (None, None);
                self.rows = Some(Rows { session, events, reconciler, tunnel, asked });
            }
            Input::OpenFlow(id, session, events) => {
                if self.waiting.len() >= WAITING {
                    self.waiting.remove(0).1.close().await;
                }
                self.waiting.push((id, session, events));
                self.adopt().await;
            }
        }
    }

    /// Hands the bridge's newest session to the reconciler.
    async fn adopt(&mut self) {
        let bridge = self.wires.bridge().and_then(|row| prepare::datapath_id(row));
        self.waiting.retain(|(_, session, _)| session.close_reason().is_none());
        let Some(at) = self.waiting.iter().rposition(|(id, ..)| Some(*id) == bridge) else {
            return;
        };
        let (_, session, events) = self.waiting.remove(at);
        if let Some(old) = self.switch.replace(session.clone()) {
            old.close().await;
        }
        // It has ended only if this one has.
        let _ = self.sessions.send((session, events)).await;
    }

    async fn row(&mut self, news: RowNews) {
        let mut is_whole = false;
        let touched = match news {
            RowNews::Event(Some(RowEvent::Snapshot { snapshot, .. })) => {
                is_whole = true;
                self.wires.take(&snapshot)
            }
            RowNews::Event(Some(RowEvent::Changes(changes))) => self.wires.follow(&changes.rows),
            RowNews::Event(Some(RowEvent::Resumed)) => return self.say_known(),
            RowNews::Event(Some(RowEvent::Disconnected)) => {
                self.context.cluster.known(&self.node, false);
                return;
            }
            RowNews::Event(None) => {
                info!(node = %self.node, "the switch's database is away");
                self.context.cluster.known(&self.node, false);
                self.rows = None;
                return;
            }
            RowNews::Tunnel(Ok(applied)) => return self.has_tunnel(&applied),
            RowNews::Tunnel(Err(error)) => {
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
        let is_ready = self.rows.as_ref().is_some_and(|rows| rows.session.status().is_ready());
        if self.board.is_some() && is_ready {
            self.context.cluster.known(&self.node, true);
        }
    }

    /// Makes the bridge fit, if it is not, and asks for the tunnel.
    async fn prepare(&mut self) {
        let (Some(rows), Some(bridge)) = (&mut self.rows, self.wires.bridge()) else { return };
        if let Some(transaction) = prepare::transaction(bridge)
            && let Err(error) = rows.session.transact(&transaction, PATIENCE).await
        {
            return warn!(node = %self.node, %error, "the bridge is not as it has to be");
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
        let (Some(node), Some(name)) = (node, text(bridge, "name")) else { return };
        let asked = Some((name.to_owned(), node.clone(), tunnel));
        if rows.asked == asked {
            return;
        }
        let put = rows.reconciler.put(OWNER, prepare::plan(name, &node, tunnel)).await;
        if let (Ok(settling), Ok(())) = (put, rows.reconciler.resume().await) {
            rows.tunnel = Some(settling);
            rows.asked = asked;
        } else {
            warn!(node = %self.node, "the switch's database is away");
        }
    }

    fn has_tunnel(&mut self, applied: &rows::Applied) {
        let number = applied.ofport(prepare::TUNNEL).and_then(|number| u32::try_from(number).ok());
        let Some(tunnel) = number.map(PortNo) else { return };
        let local = LocalPorts {
            gateway: PortNo::LOCAL,
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
                self.forget_owners(&whole).await;
                self.bring(whole).await;
                self.say_known();
                // What is wanted is said: the rest may go.
                let _ = self.flows.resume().await;
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
                self.forget(before.difference(&now).copied().collect());
                if is_moved {
                    self.prepare().await;
                }
            }
        }
    }

    /// Owners that are no more want nothing.
    async fn forget_owners(&mut self, whole: &Outcome) {
        let owners: BTreeSet<String> =
            whole.compiled.iter().map(|compiled| compiled.owner.to_string()).collect();
        let gone: Vec<String> = self.owners.difference(&owners).cloned().collect();
        let transaction =
            gone.iter().fold(flows::Transaction::new(), |all, owner| all.remove(owner.as_str()));
        self.owners.retain(|owner| owners.contains(owner));
        if !gone.is_empty() {
            // The next one tells whether that is done.
            drop(self.flows.transaction(transaction).await);
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
        let plans: BTreeMap<String, flows::Plan> = compiled
            .into_iter()
            .map(|Compiled { owner, plan }| {
                let osier_compiler::Plan { tlvs, meters, groups, flows } = plan;
                (owner.to_string(), flows::Plan { tlvs, meters, groups, flows })
            })
            .collect();
        let mut transaction = flows::Transaction::new();
        for (owner, plan) in plans {
            match plan == flows::Plan::default() {
                true => self.owners.remove(&owner),
                false => self.owners.insert(owner.clone()),
            };
            transaction = transaction.put(owner, plan);
        }
        let (revision, settling) = (self.revision, self.flows.transaction(transaction).await);
        self.unsettled.push_back(Box::pin(async move {
            let settled = match settling {
                Ok(settling) => settling.await,
                Err(error) => Err(error),
            };
            (revision, settled.err().map(|error| error.to_string()))
        }));
    }

    /// Has connections forgotten, when what led them is off the switch, and again when its datapath has
    /// looked at what it caches. Not waited for.
    fn forget(&self, ways: Vec<Way>) {
        let Some(session) = self.switch.clone().filter(|_| !ways.is_empty()) else { return };
        let flows = self.flows.clone();
        tokio::spawn(async move {
            // It has ended only if the node's task has.
            let _ = flows.settled().await;
            for pause in AGAIN {
                tokio::time::sleep(pause).await;
                let messages: Vec<Message> = ways.iter().flat_map(|way| way.messages()).collect();
                if let Err(error) = session.batch(messages).await {
                    return debug!(%error, "connections to former endpoints may live on");
                }
            }
        });
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
        self.send(packet.into_iter().collect()).await;
    }

    /// Routers tell of themselves.
    async fn advertise(&mut self) {
        let Some(board) = &self.board else { return };
        let packets = advertisements(board.compiler());
        self.send(packets).await;
    }

    async fn send(&mut self, packets: Vec<PacketOut>) {
        let Some(session) = &self.switch else { return };
        for packet in packets {
            if session.send(&Message::PacketOut(packet)).await.is_err() {
                // It has ended, and that is heard elsewhere.
                return;
            }
        }
    }

    fn settled(&mut self, revision: u64, fault: Option<String>) {
        let faults = self.faults.iter().cloned().chain(fault);
        let faults = faults.map(|text| Fault { key: None, text }).collect();
        let epoch = self.context.views.epoch();
        self.context.reports.applied(&self.node, Applied { epoch, revision, faults });
    }

    fn say_whether_connected(&mut self) {
        let is = self.rows.is_some() && self.switch.is_some() && self.board.is_some();
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

async fn next_of(rows: &mut Option<Rows>) -> RowNews {
    let Some(rows) = rows else { return pending().await };
    let tunnel = async {
        match &mut rows.tunnel {
            Some(settling) => settling.await,
            None => pending().await,
        }
    };
    tokio::select! {
        event = rows.events.next() => RowNews::Event(event),
        applied = tunnel => {
            rows.tunnel = None;
            RowNews::Tunnel(applied)
        }
    }
}

async fn next_view(view: &mut Option<BoxStream<'static, Event>>) -> Option<Event> {
    match view {
        Some(view) => view.next().await,
        None => pending().await,
    }
}

async fn closed(session: Option<&Session>) {
    match session {
        Some(session) => drop(session.closed().await),
        None => pending().await,
    }
}
