//! The session's task: gets a connection, runs it, and gets the next one. Serves commands all the
//! time.

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, info};

use super::connection::{self, Ended};
use super::core::{Command, Core};
use super::error::SessionError;
use super::listen::Incoming;
use super::remote::{Remote, Stream};
use super::status::State;

/// Dials one remote after the other, for as long as someone holds a handle.
pub(super) async fn dial(
    mut core: Core,
    mut commands: mpsc::Receiver<Command>,
    remotes: Vec<Remote>,
) {
    core.alternatives = remotes.len() > 1;
    let mut attempts = 0;
    let mut failures = 0;
    for remote in remotes.iter().cycle() {
        let patience = core.config.patience;
        core.status.send_modify(|status| status.remote = Some(remote.clone()));
        let tls = core.config.tls.clone();
        let dialled = async {
            timeout(patience, remote.dial(tls.as_ref()))
                .await
                .unwrap_or(Err(SessionError::ConnectTimeout(patience)))
        };
        let Some(stream) = while_serving(&mut core, &mut commands, dialled).await else { break };
        let error = match stream {
            Err(error) => error,
            Ok(stream) => {
                let started = Instant::now();
                match run(&mut core, &mut commands, stream).await {
                    Ended::Abandoned => break,
                    Ended::Error(error) => {
                        // A server that keeps breaking at once is no reason to hurry.
                        if started.elapsed() > core.config.backoff.most {
                            failures = 0;
                        }
                        if core.status.borrow().is_ready() {
                            attempts = 0;
                        }
                        error
                    }
                }
            }
        };
        debug!(%remote, error = %Chain(&error), "no session with the database");
        core.disconnected(error);
        attempts += 1;
        if attempts >= remotes.len() {
            attempts = 0;
            let delay = core.config.backoff.delay(failures);
            failures = failures.saturating_add(1);
            if while_serving(&mut core, &mut commands, sleep(delay)).await.is_none() {
                break;
            }
        }
    }
    core.set_state(State::Ended);
}

/// Runs a connection that was made by someone else, to its end.
pub(super) async fn serve_incoming(
    mut core: Core,
    mut commands: mpsc::Receiver<Command>,
    incoming: Incoming,
) {
    let patience = core.config.patience;
    core.status.send_modify(|status| status.remote = Some(incoming.peer()));
    let established = async {
        timeout(patience, incoming.establish())
            .await
            .unwrap_or(Err(SessionError::ConnectTimeout(patience)))
    };
    match while_serving(&mut core, &mut commands, established).await {
        Some(Ok(stream)) => serve(core, commands, stream).await,
        Some(Err(error)) => {
            core.disconnected(error);
            core.set_state(State::Ended);
        }
        None => core.set_state(State::Ended),
    }
}

/// Runs one connection to its end.
pub(super) async fn serve(mut core: Core, mut commands: mpsc::Receiver<Command>, stream: Stream) {
    if let Ended::Error(error) = run(&mut core, &mut commands, stream).await {
        debug!(error = %Chain(&error), "the session with the database ended");
        core.disconnected(error);
    }
    core.set_state(State::Ended);
}

async fn run(core: &mut Core, commands: &mut mpsc::Receiver<Command>, stream: Stream) -> Ended {
    core.status.send_modify(|status| status.connection += 1);
    info!(database = core.config.database, "connected to the database");
    connection::run(stream, core, commands).await
}

/// Waits for something while serving commands; `None` if nobody holds a handle any more.
async fn while_serving<T>(
    core: &mut Core,
    commands: &mut mpsc::Receiver<Command>,
    work: impl Future<Output = T>,
) -> Option<T> {
    tokio::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return Some(done),
            command = commands.recv() => core.offline(command?),
        }
    }
}

/// An error with its causes, in one line.
struct Chain<'a>(&'a SessionError);

impl std::fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)?;
        let mut source = std::error::Error::source(self.0);
        while let Some(error) = source {
            write!(f, ": {error}")?;
            source = error.source();
        }
        Ok(())
    }
}
