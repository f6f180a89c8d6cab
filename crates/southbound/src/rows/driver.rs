//! The task that owns a database's rows: takes plans, follows the rows, and sends what differs.
//!
//! One transaction is on its way at a time; what comes meanwhile shares the next one. Events of a
//! transaction are taken before its answer, so that what it did is seen before more is done.

use super::desired::Desired;
use super::diff::Batch;
use super::error::Trouble;
use super::fight::Fights;
use super::item::Key;
use super::ownership::{Ownership, text};
use super::plan::{Transaction, Wait};
use super::status::{Root, Stats, Status};
use super::tickets::{InterfaceState, Reply, Tickets};
use osier_ovsdb::Operation;
use osier_ovsdb::error::{ErrorKind, OperationError, Outcome};
use osier_ovsdb::session::{Event, Session, Subscription, TransactError};
use std::collections::BTreeSet;
use std::future::{Future, pending, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};
use tracing::{debug, info, warn};

/// The key of `other_config` that makes `ovs-vswitchd` wait for flows when it starts.
pub(super) const FLOW_RESTORE_WAIT: &str = "flow-restore-wait";

/// How a reconciler behaves.
#[derive(Debug, Clone)]
pub struct Options {
    /// Changes that wait to be taken; who brings more waits, too.
    pub queue: usize,
    /// What changes wait for, if they do not say.
    pub wait: Wait,
    /// How long a transaction may take.
    pub patience: Duration,
    /// How many places one transaction may change.
    pub batch: usize,
    /// Whether to begin paused, and change nothing before `resume`: rows of an earlier process are
    /// not unwanted because nobody has said yet that they are wanted.
    pub paused: bool,
    /// What every transaction begins with: if one of these fails, nothing of it is done.
    pub guards: Vec<Operation>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            queue: 1024,
            wait: Wait::default(),
            patience: Duration::from_secs(30),
            batch: 50_000,
            paused: true,
            guards: Vec::new(),
        }
    }
}

/// What a handle asks.
#[derive(Debug)]
pub(super) enum Command {
    Transact(Transaction, Reply),
    Settle(Reply),
    Pause(bool, oneshot::Sender<()>),
    Resync,
    Troubles(oneshot::Sender<Vec<Arc<Trouble>>>),
    Interface(String, oneshot::Sender<Option<InterfaceState>>),
}

/// Events that may wait to be taken. Who falls behind gets all rows anew.
const EVENTS: usize = 4096;
/// Events and commands taken before the next transaction is made.
const GATHER: usize = 4096;
const FIRST_RETRY: Duration = Duration::from_millis(20);
const LONGEST_RETRY: Duration = Duration::from_secs(5);

type Answer = Result<Vec<Outcome>, TransactError>;

/// A transaction on its way.
struct Flight {
    batch: Batch,
    places: BTreeSet<Key>,
    answer: Pin<Box<dyn Future<Output = Answer> + Send>>,
}

/// The ends of a handle's channels.
pub(super) struct Channels {
    pub(super) commands: mpsc::Receiver<Command>,
    pub(super) status: watch::Sender<Status>,
    pub(super) stats: watch::Sender<Stats>,
    pub(super) root: watch::Sender<Root>,
}

pub(super) struct Driver {
    session: Session,
    desired: Desired,
    options: Options,
    channels: Channels,
    tickets: Tickets,
    fights: Fights,
    flight: Option<Flight>,
    /// Who waits until nothing is on its way.
    pausers: Vec<oneshot::Sender<()>>,
    paused: bool,
    connected: bool,
    /// How many places the next transaction may change; small while looking for a bad one.
    most: usize,
    failures: u32,
    retry_at: Option<Instant>,
}

impl Driver {
    pub(super) fn new(
        session: Session,
        ownership: Ownership,
        options: Options,
        channels: Channels,
    ) -> Self {
        Self {
            session,
            desired: Desired::new(ownership),
            paused: options.paused,
            most: options.batch.max(1),
            options,
            channels,
            tickets: Tickets::default(),
            fights: Fights::default(),
            flight: None,
            pausers: Vec::new(),
            connected: false,
            failures: 0,
            retry_at: None,
        }
    }

    /// Works until the last handle is gone, or the session has ended.
    pub(super) async fn run(mut self) {
        let Ok(mut events) = self.session.subscribe(EVENTS).await else { return };
        while self.step(&mut events).await.is_some() {
            self.launch();
            self.report();
        }
    }

    /// Waits for something and takes all that has come with it; `None` at the end.
    async fn step(&mut self, events: &mut Subscription) -> Option<()> {
        let wake = self.wake();
        let flight = async {
            match &mut self.flight {
                Some(flight) => (&mut flight.answer).await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            event = events.next() => self.event(event?),
            command = self.channels.commands.recv() => self.command(command?),
            answer = flight => self.landed(answer),
            () = async { match wake { Some(at) => sleep_until(at).await, None => pending().await } } => {}
        }
        for _ in 0..GATHER {
            tokio::select! {
                biased;
                event = events.next() => self.event(event?),
                () = ready(()) => break,
            }
        }
        for _ in 0..GATHER {
            let Ok(command) = self.channels.commands.try_recv() else { break };
            self.command(command);
        }
        Some(())
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Snapshot { reason, snapshot } => {
                debug!(?reason, rows = snapshot.len(), "comparing the whole database");
                self.desired.compare(&snapshot);
                self.tickets.start_over();
                self.count(|stats| stats.resyncs += 1);
                self.connect();
            }
            Event::Changes(changes) => self.desired.follow(&changes.rows),
            Event::Disconnected => self.connected = false,
            Event::Resumed => self.connect(),
        }
    }

    fn connect(&mut self) {
        self.connected = true;
        self.failures = 0;
        self.retry_at = None;
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Transact(transaction, reply) => {
                let wait = transaction.wait.unwrap_or(self.options.wait);
                match self.desired.transact(transaction) {
                    Ok(places) => {
                        for key in &places {
                            self.fights.forgive(key);
                        }
                        self.tickets.add(places, wait, reply);
                    }
                    Err(error) => drop(reply.send(Err(error.into()))),
                }
            }
            Command::Settle(reply) => {
                let flying = self.flight.iter().flat_map(|flight| flight.places.iter().cloned());
                let places = self.desired.marked.keys().cloned().chain(flying).collect();
                self.tickets.add(places, Wait::Database, reply);
            }
            Command::Pause(paused, done) => {
                if self.paused != paused {
                    info!(paused, "operator");
                }
                self.paused = paused;
                self.pausers.push(done);
            }
            Command::Resync => {
                self.desired.compare_again();
                self.count(|stats| stats.resyncs += 1);
            }
            Command::Troubles(reply) => {
                let _ = reply.send(self.desired.troubles().cloned().collect());
            }
            Command::Interface(name, reply) => {
                let _ = reply.send(self.desired.interface(&name));
            }
        }
    }

    /// Sends what differs, if it can be sent now.
    fn launch(&mut self) {
        let now = Instant::now();
        if self.retry_at.is_some_and(|at| at <= now) {
            self.retry_at = None;
        }
        let may = self.connected && !self.paused && self.retry_at.is_none();
        if !may || self.flight.is_some() || self.desired.is_settled() {
            return;
        }
        let fights = &self.fights;
        let Some(batch) = self.desired.batch(self.most, |key| fights.allows(key, now)) else {
            return;
        };
        let batch = batch.guarded(&self.options.guards);
        let (session, patience) = (self.session.clone(), self.options.patience);
        let transaction = batch.transaction.clone();
        let answer = async move { session.transact(&transaction, patience).await };
        let places = batch.places.iter().map(|place| place.key.clone()).collect();
        self.flight = Some(Flight { batch, places, answer: Box::pin(answer) });
    }

    fn landed(&mut self, answer: Answer) {
        let Some(Flight { batch, .. }) = self.flight.take() else { return };
        match answer {
            // The switch's own row is always changed, and last: else it is another one by now.
            Ok(outcomes) if outcomes.last() != Some(&Outcome::Count(0)) => self.done(&batch),
            Ok(_) => {
                self.desired.undone(batch);
                self.retry();
            }
            Err(error) => {
                self.count(|stats| stats.failures += 1);
                if let Some(refusal) = error.operation().filter(|error| !is_passing(error)) {
                    self.refused(batch, refusal);
                } else {
                    debug!(error = %error, "a transaction failed");
                    self.desired.undone(batch);
                    self.retry();
                }
                self.channels
                    .status
                    .send_modify(|status| status.last_error = Some(Arc::new(error)));
            }
        }
    }

    fn done(&mut self, batch: &Batch) {
        self.failures = 0;
        self.most = self.most.saturating_mul(2).min(self.options.batch.max(1));
        let now = Instant::now();
        let repairs = batch.places.iter().filter(|place| place.repair);
        let (mut repaired, mut fights) = (0, 0);
        for place in repairs {
            repaired += 1;
            fights += u64::from(self.fights.repaired(&place.key, now));
        }
        self.count(|stats| {
            stats.transactions += 1;
            stats.inserted += batch.effects.inserted;
            stats.updated += batch.effects.updated;
            stats.deleted += batch.effects.deleted;
            stats.drift_repaired += repaired;
            stats.fights += fights;
        });
    }

    /// The database will not have something of it: the rest goes without that, once it is found.
    fn refused(&mut self, batch: Batch, error: &OperationError) {
        let origin = error.operation.and_then(|index| batch.origins.get(index).cloned()).flatten();
        let only = match &batch.places[..] {
            [place] => Some(place.key.clone()),
            _ => None,
        };
        let count = batch.places.len();
        self.desired.undone(batch);
        match origin.or(only) {
            Some(key) => {
                warn!(place = %key, owner = %self.desired.owner(&key), %error, "refused");
                self.desired.refuse(&key, error);
                self.count(|stats| stats.refused += 1);
            }
            None => self.most = (count / 2).max(1),
        }
    }

    fn retry(&mut self) {
        let delay = FIRST_RETRY.saturating_mul(1 << self.failures.min(10)).min(LONGEST_RETRY);
        self.failures = self.failures.saturating_add(1);
        self.retry_at = Some(Instant::now() + delay);
    }

    /// When to look again without being told.
    fn wake(&self) -> Option<Instant> {
        let fights = self.fights.next(Instant::now());
        self.retry_at.into_iter().chain(fights).min()
    }

    /// Tells those who wait.
    fn report(&mut self) {
        let none = BTreeSet::new();
        let flying = self.flight.as_ref().map_or(&none, |flight| &flight.places);
        self.tickets.settle(&self.desired, flying);
        if self.flight.is_none() {
            for done in self.pausers.drain(..) {
                let _ = done.send(());
            }
        }
        let (connected, paused) = (self.connected, self.paused);
        let in_sync = connected && self.flight.is_none() && self.desired.is_settled();
        let troubles = self.desired.troubles.len();
        self.channels.status.send_if_modified(|status| {
            let now = (connected, paused, in_sync, troubles);
            let before = (status.connected, status.paused, status.in_sync, status.troubles);
            (status.connected, status.paused, status.in_sync, status.troubles) = now;
            now != before
        });
        let root = self.root();
        self.channels.root.send_if_modified(|last| {
            *last != root && {
                *last = root;
                true
            }
        });
    }

    fn root(&self) -> Root {
        let Some(root) = self.desired.mirror.root.as_deref() else { return Root::default() };
        let setting = |column: &str, key: &str| root.get(column)?.get(&key.into()).and_then(text);
        let (next_cfg, cur_cfg) = self.desired.mirror.configurations().unwrap_or_default();
        Root {
            known: self.connected,
            flow_restore_wait: setting("other_config", FLOW_RESTORE_WAIT).map(str::to_owned),
            restore_mark: setting("external_ids", &restore_mark(&self.desired.ownership)).is_some(),
            next_cfg,
            cur_cfg,
        }
    }

    fn count(&self, count: impl FnOnce(&mut Stats)) {
        self.channels.stats.send_modify(count);
    }
}

/// The key of `external_ids` that says that flow-restore-wait is ours.
pub(super) fn restore_mark(ownership: &Ownership) -> String {
    format!("{}restore", ownership.prefix())
}

/// Whether the same may well succeed when tried again.
fn is_passing(error: &OperationError) -> bool {
    matches!(
        error.kind,
        ErrorKind::TimedOut
            | ErrorKind::NotOwner
            | ErrorKind::Aborted
            | ErrorKind::Canceled
            | ErrorKind::ResourcesExhausted
            | ErrorKind::IoError
            | ErrorKind::UnknownDatabase
            | ErrorKind::ClusterError
    )
}
