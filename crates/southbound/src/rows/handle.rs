//! The handle of a reconciler.

use super::driver::{Channels, Command, Driver, Options};
use super::error::{ChangeError, Trouble};
use super::mirror::monitor;
use super::ownership::Ownership;
use super::plan::{Owner, Plan, Transaction};
use super::status::{Root, Stats, Status};
use super::tickets::{Applied, InterfaceState};
use crate::flows::Closed;
use osier_ovsdb::session::{Config, Remote, Session};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::{mpsc, oneshot, watch};

/// Makes one database equal to what its owners want, and keeps it so: a cheap handle of the task
/// that does it. When the last handle goes the task ends, and leaves the database as it is.
#[derive(Debug, Clone)]
pub struct RowReconciler {
    commands: mpsc::Sender<Command>,
    ownership: Arc<Ownership>,
    session: Session,
    status: watch::Receiver<Status>,
    stats: watch::Receiver<Stats>,
    root: watch::Receiver<Root>,
}

/// A change on its way. Resolves when it is done, or with the reason why not; also if that takes
/// several connections. Whoever does not care may drop it.
#[derive(Debug)]
#[must_use = "it tells whether the change was done"]
pub struct Settling(oneshot::Receiver<Result<Applied, ChangeError>>);

// === impl Settling ===

impl Future for Settling {
    type Output = Result<Applied, ChangeError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0)
            .poll(cx)
            .map(|reply| reply.unwrap_or(Err(ChangeError::Closed(Closed))))
    }
}

// === impl RowReconciler ===

impl RowReconciler {
    /// Starts to reconcile the `Open_vSwitch` database at these addresses.
    pub fn connect(remotes: Vec<Remote>, ownership: Ownership, options: Options) -> Self {
        let config = Config::new("Open_vSwitch", monitor());
        Self::start(Session::connect(remotes, config), ownership, options)
    }

    /// Starts to reconcile the database of a session, which must follow at least [`monitor`].
    pub fn start(session: Session, ownership: Ownership, options: Options) -> Self {
        let (commands, received) = mpsc::channel(options.queue.max(1));
        let (status_sender, status) = watch::channel(Status::default());
        let (stats_sender, stats) = watch::channel(Stats::default());
        let (root_sender, root) = watch::channel(Root::default());
        let channels = Channels {
            commands: received,
            status: status_sender,
            stats: stats_sender,
            root: root_sender,
        };
        let driver = Driver::new(session.clone(), ownership.clone(), options, channels);
        tokio::spawn(driver.run());
        Self { commands, ownership: Arc::new(ownership), session, status, stats, root }
    }

    /// The owner wants this from now on, and nothing else. Returns when that is queued.
    pub async fn put(&self, owner: impl Into<Owner>, plan: Plan) -> Result<Settling, ChangeError> {
        self.transaction(Transaction::new().put(owner, plan)).await
    }

    /// The owner wants nothing any more. Returns when that is queued.
    pub async fn remove(&self, owner: impl Into<Owner>) -> Result<Settling, ChangeError> {
        self.transaction(Transaction::new().remove(owner)).await
    }

    /// Several plans at once: all are accepted or none, and they go in one transaction.
    pub async fn transaction(&self, transaction: Transaction) -> Result<Settling, ChangeError> {
        let (reply, settling) = oneshot::channel();
        self.send(Command::Transact(transaction, reply)).await?;
        Ok(Settling(settling))
    }

    /// Waits until all that was queued before is in the database, or is in trouble.
    pub async fn settled(&self) -> Result<(), Closed> {
        let (reply, settling) = oneshot::channel();
        self.send(Command::Settle(reply)).await?;
        match Settling(settling).await {
            Err(ChangeError::Closed(closed)) => Err(closed),
            _ => Ok(()),
        }
    }

    /// Sends nothing any more. Returns when nothing is on its way.
    pub async fn pause(&self) -> Result<(), Closed> {
        self.set_paused(true).await
    }

    /// Goes on.
    pub async fn resume(&self) -> Result<(), Closed> {
        self.set_paused(false).await
    }

    /// Compares all again, as after a reconnect.
    pub async fn resync(&self) -> Result<(), Closed> {
        self.send(Command::Resync).await
    }

    /// What is wanted and is not so.
    pub async fn troubles(&self) -> Result<Vec<Arc<Trouble>>, Closed> {
        let (reply, troubles) = oneshot::channel();
        self.send(Command::Troubles(reply)).await?;
        troubles.await.map_err(|_| Closed)
    }

    /// An interface of anybody, as the switch has it now.
    pub async fn interface(&self, name: &str) -> Result<Option<InterfaceState>, Closed> {
        let (reply, state) = oneshot::channel();
        self.send(Command::Interface(name.to_owned(), reply)).await?;
        state.await.map_err(|_| Closed)
    }

    /// How it is now.
    pub fn status(&self) -> Status {
        self.status.borrow().clone()
    }

    /// What it did so far.
    pub fn stats(&self) -> Stats {
        *self.stats.borrow()
    }

    /// Waits until the database is as wanted, but for troubles.
    pub async fn wait_synced(&self) -> Result<(), Closed> {
        let mut status = self.status.clone();
        let synced = status.wait_for(|status| status.in_sync).await;
        synced.map(drop).map_err(|_| Closed)
    }

    /// The session with the database.
    pub fn session(&self) -> &Session {
        &self.session
    }

    pub(super) fn ownership(&self) -> &Ownership {
        &self.ownership
    }

    pub(super) fn root(&self) -> watch::Receiver<Root> {
        self.root.clone()
    }

    async fn set_paused(&self, paused: bool) -> Result<(), Closed> {
        let (reply, done) = oneshot::channel();
        self.send(Command::Pause(paused, reply)).await?;
        done.await.map_err(|_| Closed)
    }

    async fn send(&self, command: Command) -> Result<(), Closed> {
        self.commands.send(command).await.map_err(|_| Closed)
    }
}
