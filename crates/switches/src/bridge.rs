//! OpenFlow's side of a switch: the sessions of its bridge, of which one is used, and what each owner
//! has there. The reconciler outlives sessions.

use crate::stale::Way;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesOrdered, StreamExt};
use osier_compiler::{
    CLASS, CLASS_MASK, CONTROLLER_ID, Compiled, GROUPS, LEARNED, METERS, TUN_METADATA,
};
use osier_openflow::flow::{Flow, FlowMod};
use osier_openflow::message::{FlowRemoved, Message, PacketIn2, PacketOut};
use osier_openflow::session::{Events, Session};
use osier_southbound::flows::{self, CookieClass, FlowReconciler, Plan, Transaction};
use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::time::Duration;
use tokio::sync::mpsc;
use tracing::debug;

/// Sessions of bridges that are not known yet.
const WAITING: usize = 4;
/// Packets that wait to be answered.
const QUESTIONS: usize = 256;
/// Flows that ended and wait to be looked at: many clients may have come at the same time.
const ENDED: usize = 4096;
/// When connections to former endpoints are forgotten, each after the time before.
const AGAIN: [Duration; 3] = [Duration::ZERO, Duration::from_secs(1), Duration::from_secs(4)];

/// What happened there.
pub(crate) enum News {
    /// The session is over.
    Closed,
    /// A revision is on the switch, or something of it cannot be.
    Settled(u64, Option<String>),
    /// It asks about a packet.
    Asked(Box<PacketIn2>),
    /// A flow has ended by itself.
    Ended(Box<FlowRemoved>),
}

/// See the module.
pub(crate) struct Bridge {
    /// The session that is used.
    session: Option<Session>,
    waiting: Vec<(u64, Session, Events)>,
    sessions: mpsc::Sender<(Session, Events)>,
    flows: FlowReconciler,
    questions: mpsc::Receiver<PacketIn2>,
    ended: mpsc::Receiver<FlowRemoved>,
    /// Who has something on the switch.
    owners: BTreeSet<String>,
    unsettled: FuturesOrdered<BoxFuture<'static, (u64, Option<String>)>>,
}

fn ownership() -> flows::Ownership {
    flows::Ownership {
        cookies: CookieClass { value: CLASS, mask: CLASS_MASK },
        learned: Some(CookieClass { value: LEARNED, mask: CLASS_MASK }),
        groups: GROUPS,
        meters: METERS,
        tun_metadata: TUN_METADATA,
    }
}

// === impl Bridge ===

impl Bridge {
    pub(crate) fn new() -> Self {
        let (sessions, received) = mpsc::channel(1);
        let (to, questions) = mpsc::channel(QUESTIONS);
        let (told, ended) = mpsc::channel(ENDED);
        let asked = flows::Questions { controller: CONTROLLER_ID, to, ended: told };
        let options = flows::Options { questions: Some(asked), ..flows::Options::default() };
        let flows = FlowReconciler::start(received, ownership(), options);
        Self {
            session: None,
            waiting: Vec::new(),
            sessions,
            flows,
            questions,
            ended,
            owners: BTreeSet::new(),
            unsettled: FuturesOrdered::new(),
        }
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.session.is_some()
    }

    /// Keeps a session with a bridge of this number until it is known whether it is the one.
    pub(crate) async fn offer(&mut self, id: u64, session: Session, events: Events) {
        if self.waiting.len() >= WAITING {
            self.waiting.remove(0).1.close().await;
        }
        self.waiting.push((id, session, events));
    }

    /// Whether there is a session with the bridge of this number that is not used yet.
    pub(crate) fn has_newer(&mut self, id: u64) -> bool {
        self.waiting.retain(|(_, session, _)| session.close_reason().is_none());
        self.waiting.iter().any(|(waits, ..)| *waits == id)
    }

    /// Uses the newest session with the bridge of this number from now on.
    pub(crate) async fn adopt(&mut self, id: u64) {
        let Some(at) = self.waiting.iter().rposition(|(waits, ..)| *waits == id) else { return };
        let (_, session, events) = self.waiting.remove(at);
        if let Some(old) = self.session.replace(session.clone()) {
            old.close().await;
        }
        // It has ended only if this one has.
        let _ = self.sessions.send((session, events)).await;
    }

    /// Uses no session any more.
    pub(crate) async fn leave(&mut self) {
        if let Some(session) = self.session.take() {
            session.close().await;
        }
    }

    /// Owners that are not among these want nothing any more.
    pub(crate) async fn keep_only(&mut self, compiled: &[Compiled]) {
        let owners: BTreeSet<String> =
            compiled.iter().map(|compiled| compiled.owner.to_string()).collect();
        let gone: Vec<String> = self.owners.difference(&owners).cloned().collect();
        let transaction =
            gone.iter().fold(Transaction::new(), |all, owner| all.remove(owner.as_str()));
        self.owners.retain(|owner| owners.contains(owner));
        if !gone.is_empty() {
            // The next one tells whether that is done.
            drop(self.flows.transaction(transaction).await);
        }
    }

    /// What owners want as of a revision; the last of an owner counts.
    pub(crate) async fn want(&mut self, revision: u64, compiled: Vec<Compiled>) {
        let plans: BTreeMap<String, Plan> = compiled
            .into_iter()
            .map(|Compiled { owner, plan }| {
                let osier_compiler::Plan { tlvs, meters, groups, flows } = plan;
                (owner.to_string(), Plan { tlvs, meters, groups, flows })
            })
            .collect();
        let mut transaction = Transaction::new();
        for (owner, plan) in plans {
            match plan == Plan::default() {
                true => self.owners.remove(&owner),
                false => self.owners.insert(owner.clone()),
            };
            transaction = transaction.put(owner, plan);
        }
        let settling = self.flows.transaction(transaction).await;
        self.unsettled.push_back(Box::pin(async move {
            let settled = match settling {
                Ok(settling) => settling.await,
                Err(error) => Err(error),
            };
            (revision, settled.err().map(|error| error.to_string()))
        }));
    }

    /// All that is wanted is said: the rest may go.
    pub(crate) async fn resume(&mut self) {
        // It has ended only if the node's task has.
        let _ = self.flows.resume().await;
    }

    /// What happens next.
    pub(crate) async fn next(&mut self) -> News {
        let Self { session, unsettled, questions, ended, .. } = self;
        let closed = async {
            match session {
                Some(session) => drop(session.closed().await),
                None => pending().await,
            }
        };
        tokio::select! {
            () = closed => News::Closed,
            Some(packet) = questions.recv() => News::Asked(Box::new(packet)),
            Some(removed) = ended.recv() => News::Ended(Box::new(removed)),
            Some((revision, fault)) = unsettled.next(), if !unsettled.is_empty() => {
                News::Settled(revision, fault)
            }
        }
    }

    /// Sends packets through the switch.
    pub(crate) async fn send(&mut self, packets: Vec<PacketOut>) {
        self.say(packets.into_iter().map(Message::PacketOut)).await;
    }

    /// Has the switch keep a flow that nobody wants of it for ever.
    pub(crate) async fn add(&mut self, flow: Flow) {
        self.say([Message::FlowMod(FlowMod::add(flow))]).await;
    }

    async fn say(&mut self, messages: impl IntoIterator<Item = Message>) {
        let Some(session) = &self.session else { return };
        for message in messages {
            if session.send(&message).await.is_err() {
                // It has ended, and that is heard elsewhere.
                return;
            }
        }
    }

    /// Has connections forgotten, when what led them is off the switch, and again when its datapath has
    /// looked at what it caches. Not waited for.
    pub(crate) fn forget(&self, ways: Vec<Way>) {
        let Some(session) = self.session.clone().filter(|_| !ways.is_empty()) else { return };
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
}
