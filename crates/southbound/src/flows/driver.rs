//! The task that owns a switch: takes plans, holds a session, and reconciles.
//!
//! One round is *read what is in doubt, send what differs, tell who waits*. What comes while a
//! round is under way waits in bounded queues and shares the next bundle.

use super::apply::SyncError;
use super::desired::Desired;
use super::drift::Fights;
use super::error::Trouble;
use super::owner::Transaction;
use super::ownership::Ownership;
use super::status::{Stats, Status};
use super::tickets::{Reply, Tickets};
use osier_openflow::message::{FlowRemoved, PacketIn2};
use osier_openflow::session::{Dialer, Events, Session};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout_at};
use tracing::{debug, info, warn};

/// How a reconciler behaves.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whether it starts paused, as is the default: what is on the switch and not wanted is
    /// deleted, so the first plans must be in before it may begin.
    pub paused: bool,
    /// Changes that wait to be taken; who brings more waits, too.
    pub queue: usize,
    /// How often to look at what no switch tells of by itself: TLV maps.
    pub poll: Duration,
    /// How often to read all of the switch without a reason.
    pub audit: Option<Duration>,
    /// How long to gather news of one change of somebody else's before putting it right.
    pub gather: Duration,
    /// Who answers what the switch tells a controller, if that is to come over this session.
    pub questions: Option<Questions>,
}

/// What a switch tells a controller and nobody asked for. What nobody takes in time is lost.
#[derive(Debug, Clone)]
pub struct Questions {
    /// The number of the controller that flows send packets to.
    pub controller: u16,
    /// Where those packets go.
    pub to: mpsc::Sender<PacketIn2>,
    /// Where it is told that a flow, which asked for that, has ended by itself. Apart from packets: a
    /// flood of those takes nothing from here.
    pub ended: mpsc::Sender<FlowRemoved>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            paused: true,
            queue: 1024,
            poll: Duration::from_millis(500),
            audit: Some(Duration::from_mins(10)),
            gather: Duration::from_millis(2),
            questions: None,
        }
    }
}

/// Where sessions with the switch come from.
pub trait SessionSource: Send + 'static {
    /// Waits for the next session; `None` if there will be none.
    fn next(&mut self) -> impl Future<Output = Option<(Session, Events)>> + Send;
}

/// What a handle asks.
#[derive(Debug)]
pub(super) enum Command {
    Transact(Transaction, Reply),
    Settle(Reply),
    Pause(bool, oneshot::Sender<()>),
    Resync,
    Troubles(oneshot::Sender<Vec<Arc<Trouble>>>),
}

/// What of the switch is in doubt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Doubt {
    pub(super) all: bool,
    pub(super) groups: bool,
    pub(super) meters: bool,
    pub(super) tlvs: bool,
}

#[derive(Debug)]
pub(super) struct Driver {
    pub(super) desired: Desired,
    pub(super) options: Options,
    pub(super) doubt: Doubt,
    pub(super) fights: Fights,
    /// Whether the switch tells of others' changes of groups and meters.
    pub(super) forwards: bool,
    commands: mpsc::Receiver<Command>,
    tickets: Tickets,
    paused: bool,
    status: watch::Sender<Status>,
    stats: watch::Sender<Stats>,
    replayed: watch::Sender<u64>,
}

// === impl SessionSource ===

impl SessionSource for Dialer {
    async fn next(&mut self) -> Option<(Session, Events)> {
        Some(Self::next(self).await)
    }
}

/// For switches that dial in.
impl SessionSource for mpsc::Receiver<(Session, Events)> {
    async fn next(&mut self) -> Option<(Session, Events)> {
        self.recv().await
    }
}

// === impl Driver ===

impl Driver {
    pub(super) fn new(
        ownership: Ownership,
        options: Options,
        commands: mpsc::Receiver<Command>,
        status: watch::Sender<Status>,
        stats: watch::Sender<Stats>,
        replayed: watch::Sender<u64>,
    ) -> Self {
        let paused = options.paused;
        status.send_modify(|status| status.paused = paused);
        Self {
            desired: Desired::new(ownership),
            options,
            doubt: Doubt::default(),
            fights: Fights::default(),
            forwards: false,
            commands,
            tickets: Tickets::default(),
            paused,
            status,
            stats,
            replayed,
        }
    }

    /// Works until the last handle is gone.
    pub(super) async fn run(mut self, mut sessions: impl SessionSource) {
        loop {
            let mut dialling = pin!(sessions.next());
            // Not begun anew for each command: in a burst of them it would never end.
            let next = loop {
                tokio::select! {
                    next = &mut dialling => break next,
                    command = self.commands.recv() => match command {
                        Some(command) => self.command(command),
                        None => return,
                    },
                }
            };
            let Some((session, events)) = next else { return };
            self.status.send_modify(|status| {
                status.connection += 1;
                status.connected = true;
            });
            info!(peer = session.peer(), connection = self.connection(), "connected");
            let Err(error) = self.serve(&session, events).await else { return };
            session.close().await;
            warn!(peer = session.peer(), error = %Chain(&error), "disconnected");
            self.status.send_modify(|status| {
                status.connected = false;
                status.in_sync = false;
                status.last_error = Some(Arc::new(error));
            });
        }
    }

    /// Reconciles over one session. Ends well only when the last handle is gone.
    async fn serve(&mut self, session: &Session, mut events: Events) -> Result<(), SyncError> {
        self.subscribe(session).await?;
        self.doubt.all = true;
        let mut poll = interval(self.options.poll.max(Duration::from_millis(1)));
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut audited = Instant::now();
        loop {
            if !self.paused {
                self.round(session).await?;
            }
            tokio::select! {
                command = self.commands.recv() => match command {
                    Some(command) => self.command(command),
                    None => return Ok(()),
                },
                event = events.recv() => match event {
                    Some(event) => if self.event(event) { self.gather(&mut events).await; },
                    None => return Err(SyncError::Session(session.closed().await)),
                },
                _ = poll.tick() => {
                    self.doubt.tlvs = true;
                    self.doubt.groups |= !self.forwards;
                    self.doubt.meters |= !self.forwards;
                    if self.options.audit.is_some_and(|audit| audited.elapsed() >= audit) {
                        audited = Instant::now();
                        self.doubt.all = true;
                    }
                }
            }
            while let Ok(command) = self.commands.try_recv() {
                self.command(command);
            }
        }
    }

    /// Makes the switch equal, and says so.
    async fn round(&mut self, session: &Session) -> Result<(), SyncError> {
        self.read(session).await?;
        self.flush(session).await?;
        self.tickets.settle(&self.desired);
        let troubles = self.desired.conflicts.len() + self.desired.refused.len();
        self.status.send_if_modified(|status| {
            let changed = !status.in_sync || status.troubles != troubles;
            status.in_sync = true;
            status.troubles = troubles;
            changed
        });
        let connection = self.connection();
        self.replayed.send_if_modified(|last| std::mem::replace(last, connection) != connection);
        Ok(())
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Transact(transaction, reply) => match self.desired.take(transaction) {
                Ok(owners) => self.tickets.add(owners, reply),
                Err(error) => {
                    let _ = reply.send(Err(error.into()));
                }
            },
            Command::Settle(reply) => self.tickets.add(Vec::new(), reply),
            Command::Pause(paused, done) => {
                if self.paused != paused {
                    info!(paused, "operator");
                    self.doubt.all = true;
                    self.status.send_modify(|status| {
                        status.paused = paused;
                        status.in_sync = false;
                    });
                }
                self.paused = paused;
                let _ = done.send(());
            }
            Command::Resync => {
                self.doubt.all = true;
                self.status.send_modify(|status| status.in_sync = false);
            }
            Command::Troubles(reply) => {
                let _ = reply.send(self.desired.troubles().cloned().collect());
            }
        }
    }

    /// Takes the events that come together with the last one, so that they are put right together.
    async fn gather(&mut self, events: &mut Events) {
        let deadline = Instant::now() + self.options.gather;
        while let Ok(Some(event)) = timeout_at(deadline, events.recv()).await {
            self.event(event);
        }
        debug!("somebody else changed the switch");
    }

    fn connection(&self) -> u64 {
        self.status.borrow().connection
    }

    pub(super) fn count(&self, count: impl FnOnce(&mut Stats)) {
        self.stats.send_modify(count);
    }
}

/// An error with its causes.
pub(super) struct Chain<'a>(pub(super) &'a dyn std::error::Error);

impl std::fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}
