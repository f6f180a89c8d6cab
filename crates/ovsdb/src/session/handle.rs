//! The handle of a session: what its users call.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::time::{Instant, timeout_at};

use super::config::Config;
use super::core::{Answer, Command, Core};
use super::error::{RequestError, TransactError};
use super::listen::Incoming;
use super::lock::{Lock, LockState};
use super::remote::{Duplex, Remote};
use super::status::{State, Status};
use super::subscribe::{self, Subscription};
use super::supervisor;
use crate::cache::Cache;
use crate::error::{Outcome, OutcomeError, outcomes};
use crate::op::{Condition, Transaction};
use crate::row::Name;

/// Commands that may wait for the task.
const COMMANDS: usize = 64;

/// Requests that may wait for an answer; more wait for their turn.
const OUTSTANDING: usize = 1024;

/// A handle to a session; clones share it. The session ends when the last handle, subscription and
/// lock is gone.
#[derive(Clone, Debug)]
pub struct Session {
    commands: mpsc::Sender<Command>,
    status: watch::Receiver<Status>,
    ids: Arc<AtomicU64>,
    database: Arc<str>,
    turns: Arc<Semaphore>,
}

impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Command")
    }
}

impl Session {
    /// Dials a server, or the fit one of several, again and again. Needs a tokio runtime.
    pub fn connect(remotes: Vec<Remote>, config: Config) -> Self {
        let (session, core, commands) = Self::new(config);
        tokio::spawn(supervisor::dial(core, commands, remotes));
        session
    }

    /// Runs over a connection that a [`Listener`](super::Listener) accepted, until it closes.
    pub fn accept(incoming: Incoming, config: Config) -> Self {
        let (session, core, commands) = Self::new(config);
        tokio::spawn(supervisor::serve_incoming(core, commands, incoming));
        session
    }

    /// Runs over any connection, until it closes.
    pub fn over(stream: impl Duplex + 'static, config: Config) -> Self {
        let (session, core, commands) = Self::new(config);
        tokio::spawn(supervisor::serve(core, commands, Box::new(stream)));
        session
    }

    fn new(config: Config) -> (Self, Core, mpsc::Receiver<Command>) {
        let (commands, receiver) = mpsc::channel(COMMANDS);
        let (sender, status) = watch::channel(Status::default());
        let ids = Arc::new(AtomicU64::new(1));
        let database = Arc::from(config.database.as_str());
        let core = Core::new(config, Arc::clone(&ids), sender);
        let turns = Arc::new(Semaphore::new(OUTSTANDING));
        (Self { commands, status, ids, database, turns }, core, receiver)
    }

    /// Where the session stands now.
    pub fn status(&self) -> Status {
        self.status.borrow().clone()
    }

    /// To wait for changes of the status.
    pub fn watch(&self) -> watch::Receiver<Status> {
        self.status.clone()
    }

    /// Waits until the session follows the database; `Err` if it has ended.
    pub async fn ready(&self) -> Result<(), RequestError> {
        let mut status = self.status.clone();
        let settled = |status: &Status| matches!(status.state, State::Ready | State::Ended);
        let settled = status.wait_for(settled).await.map_err(|_| RequestError::Ended)?;
        if settled.is_ready() { Ok(()) } else { Err(RequestError::Ended) }
    }

    /// Runs a transaction. When it returns, the cache and the subscribers' queues have its changes,
    /// as the server sends them first. Waits for a fit server, and for the answer, `patience` in all.
    pub async fn transact(
        &self,
        transaction: &Transaction,
        patience: Duration,
    ) -> Result<Vec<Outcome>, TransactError> {
        let deadline = Instant::now() + patience;
        let what = || transaction.purpose().to_owned();
        let failed = |source| TransactError::Request { what: what(), source };
        loop {
            match timeout_at(deadline, self.ready()).await {
                Ok(ready) => ready.map_err(failed)?,
                Err(_) => {
                    return Err(TransactError::NotConnected { what: what(), waited: patience });
                }
            }
            let params = transaction.params(&self.database);
            match timeout_at(deadline, self.request("transact", params)).await {
                Ok(Ok(json)) => return self.outcome(transaction, &json),
                // Nothing was sent: there is time to try again.
                Ok(Err(RequestError::NotConnected)) => tokio::task::yield_now().await,
                Ok(Err(source)) => return Err(failed(source)),
                Err(_) => {
                    let operations = transaction.operations();
                    return Err(TransactError::NoAnswer {
                        what: what(),
                        waited: patience,
                        operations: operations.len(),
                        first: operations.first().map(ToString::to_string).unwrap_or_default(),
                    });
                }
            }
        }
    }

    fn outcome(
        &self,
        transaction: &Transaction,
        json: &RawValue,
    ) -> Result<Vec<Outcome>, TransactError> {
        let schema = self.status.borrow().schema.clone();
        let what = transaction.purpose().to_owned();
        outcomes(json.get().as_bytes(), transaction, schema.as_deref()).map_err(|error| match error
        {
            OutcomeError::Failed(source) => TransactError::Failed { what, source },
            source => TransactError::Malformed { what, source },
        })
    }

    /// Sends any request, such as `list_dbs`; the answer is raw JSON. Dropping the future cancels it.
    pub async fn request(
        &self,
        method: &'static str,
        params: Vec<u8>,
    ) -> Result<Box<RawValue>, RequestError> {
        let _turn = self.turns.acquire().await.map_err(|_| RequestError::Ended)?;
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let mut cancel = CancelOnDrop { id, commands: &self.commands, armed: true };
        let answer = self.ask(|answer| Command::Request { id, method, params, answer }).await;
        cancel.armed = false;
        answer
    }

    /// Changes which rows of a table are followed. When it returns, the cache has those rows.
    pub async fn set_conditions(
        &self,
        table: impl Into<Name>,
        conditions: Vec<Condition>,
    ) -> Result<(), RequestError> {
        let table = table.into();
        self.ask(|answer| Command::Conditions { table, conditions, answer }).await?;
        Ok(())
    }

    /// Asks the cache, in the session's task: keep it short. `None` if no rows have come yet.
    pub async fn query<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Cache) -> T + Send + 'static,
    ) -> Option<T> {
        let (sender, receiver) = oneshot::channel();
        let query = Command::Query(Box::new(move |cache: Option<&Cache>| {
            let _ = sender.send(cache.map(question));
        }));
        self.commands.send(query).await.ok()?;
        receiver.await.ok().flatten()
    }

    /// Follows changes: a snapshot, then changes in order. At most `queue` events wait; whoever
    /// falls behind gets a new snapshot instead of the changes it missed.
    pub async fn subscribe(&self, queue: usize) -> Result<Subscription, RequestError> {
        let (subscriber, subscription) = subscribe::channel(queue, self.commands.clone());
        let sent = self.commands.send(Command::Subscribe(subscriber)).await;
        sent.map_err(|_| RequestError::Ended)?;
        Ok(subscription)
    }

    /// Claims a lock of the server; `steal` takes it from whoever has it.
    pub async fn lock(&self, name: impl Into<String>, steal: bool) -> Result<Lock, RequestError> {
        let name = name.into();
        let (sender, state) = watch::channel(LockState::Waiting);
        let claim = Command::Lock { name: name.clone(), steal, state: sender };
        self.commands.send(claim).await.map_err(|_| RequestError::Ended)?;
        Ok(Lock { name, state, commands: self.commands.clone() })
    }

    async fn ask(
        &self,
        command: impl FnOnce(Answer) -> Command,
    ) -> Result<Box<RawValue>, RequestError> {
        let (answer, receiver) = oneshot::channel();
        self.commands.send(command(answer)).await.map_err(|_| RequestError::Ended)?;
        receiver.await.map_err(|_| RequestError::Ended)?
    }
}

/// Tells the task, and through it the server, that nobody waits for an answer any more.
struct CancelOnDrop<'a> {
    id: u64,
    commands: &'a mpsc::Sender<Command>,
    armed: bool,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if self.armed {
            // If the queue is full, the request is forgotten later, when there are too many.
            let _ = self.commands.try_send(Command::Cancel(self.id));
        }
    }
}
