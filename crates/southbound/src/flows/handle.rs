//! The handle of a reconciler.

use super::driver::{Command, Driver, Options, SessionSource};
use super::error::{ChangeError, Closed, Trouble};
use super::owner::{Owner, Plan, Transaction};
use super::ownership::Ownership;
use super::status::{Stats, Status};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::{mpsc, oneshot, watch};

/// Makes one switch equal to what its owners want, and keeps it so: a cheap handle of the task
/// that does it. When the last handle goes the task ends, and leaves the switch as it is.
#[derive(Debug, Clone)]
pub struct FlowReconciler {
    commands: mpsc::Sender<Command>,
    ownership: Arc<Ownership>,
    status: watch::Receiver<Status>,
    stats: watch::Receiver<Stats>,
    replayed: watch::Receiver<u64>,
}

/// A change on its way to the switch. Resolves when the switch has it, or with the reason why not;
/// also if that takes several connections. Whoever does not care may drop it.
#[derive(Debug)]
#[must_use = "it tells whether the change reached the switch"]
pub struct Settling(oneshot::Receiver<Result<(), ChangeError>>);

// === impl Settling ===

impl Future for Settling {
    type Output = Result<(), ChangeError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0)
            .poll(cx)
            .map(|reply| reply.unwrap_or(Err(ChangeError::Closed(Closed))))
    }
}

// === impl FlowReconciler ===

impl FlowReconciler {
    /// Starts to reconcile the switch to which `sessions` lead. Unless [`Options::paused`] says
    /// otherwise, nothing happens before [`Self::resume`]: put the first plans in before.
    pub fn start<S: SessionSource>(sessions: S, ownership: Ownership, options: Options) -> Self {
        let (commands, received) = mpsc::channel(options.queue.max(1));
        let (status_sender, status) = watch::channel(Status::default());
        let (stats_sender, stats) = watch::channel(Stats::default());
        let (replayed_sender, replayed) = watch::channel(0);
        let driver = Driver::new(
            ownership.clone(),
            options,
            received,
            status_sender,
            stats_sender,
            replayed_sender,
        );
        tokio::spawn(driver.run(sessions));
        Self { commands, ownership: Arc::new(ownership), status, stats, replayed }
    }

    /// The owner wants this from now on, and nothing else. Returns when that is queued.
    pub async fn put(&self, owner: impl Into<Owner>, plan: Plan) -> Result<Settling, ChangeError> {
        self.transaction(Transaction::new().put(owner, plan)).await
    }

    /// The owner wants nothing any more. Returns when that is queued.
    pub async fn remove(&self, owner: impl Into<Owner>) -> Result<Settling, ChangeError> {
        self.transaction(Transaction::new().remove(owner)).await
    }

    /// Several plans at once: all are accepted or none, and they go in one bundle.
    pub async fn transaction(&self, transaction: Transaction) -> Result<Settling, ChangeError> {
        // What can be known to be wrong is known at once.
        transaction.plans.iter().try_for_each(|(owner, plan)| self.ownership.check(owner, plan))?;
        let (reply, settling) = oneshot::channel();
        self.send(Command::Transact(transaction, reply)).await?;
        Ok(Settling(settling))
    }

    /// Waits until all that was queued before is on the switch, or is refused.
    pub async fn settled(&self) -> Result<(), Closed> {
        let (reply, settling) = oneshot::channel();
        self.send(Command::Settle(reply)).await?;
        Settling(settling).await.map_err(|_| Closed)
    }

    /// Sends nothing any more. Returns when nothing is on its way.
    pub async fn pause(&self) -> Result<(), Closed> {
        self.set_paused(true).await
    }

    /// Reads the switch again and puts right what differs.
    pub async fn resume(&self) -> Result<(), Closed> {
        self.set_paused(false).await
    }

    /// Reads the switch now, as after a reconnect.
    pub async fn resync(&self) -> Result<(), Closed> {
        self.send(Command::Resync).await
    }

    /// What is wanted and is not on the switch.
    pub async fn troubles(&self) -> Result<Vec<Arc<Trouble>>, Closed> {
        let (reply, troubles) = oneshot::channel();
        self.send(Command::Troubles(reply)).await?;
        troubles.await.map_err(|_| Closed)
    }

    /// How it is now.
    pub fn status(&self) -> Status {
        self.status.borrow().clone()
    }

    /// What it did so far.
    pub fn stats(&self) -> Stats {
        *self.stats.borrow()
    }

    /// Waits until the switch is as wanted, but for troubles.
    pub async fn wait_synced(&self) -> Result<(), Closed> {
        let mut status = self.status.clone();
        let synced = status.wait_for(|status| status.in_sync).await;
        synced.map(drop).map_err(|_| Closed)
    }

    /// The number of the last connection on which all that is wanted was brought to the switch.
    /// From then on it may forward by what it has (`flow-restore-wait`).
    pub fn replayed(&self) -> watch::Receiver<u64> {
        self.replayed.clone()
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
