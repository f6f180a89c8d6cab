//! Keeping up a session with a peer that comes and goes.

use super::backoff::Backoff;
use super::endpoint::Endpoint;
use super::error::ConnectError;
use super::events::Events;
use super::handle::Session;
use super::options::Options;
use std::io::ErrorKind;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use tracing::debug;

/// How often to knock at a socket of this machine where nobody is. That costs a system call, and
/// nobody else comes at the same time: a switch that starts is found at once.
const NEARBY: Duration = Duration::from_millis(10);
/// The longest wait for a peer of this machine that accepts and leaves: there is no crowd to spread.
const NEARBY_MOST: Duration = Duration::from_secs(1);

/// Dials again whenever the session has ended. Does nothing by itself: it stops when it is dropped,
/// and the session that it gave away goes on.
#[derive(Debug)]
pub struct Dialer {
    endpoint: Endpoint,
    options: Options,
    backoff: Backoff,
    /// Attempts in a row that gave no lasting session.
    failures: u32,
    /// When to try next. Kept here, so that who was waiting and comes again does not wait anew.
    due: Option<Instant>,
    last_error: Option<ConnectError>,
    current: Option<(Session, Instant)>,
}

impl Dialer {
    /// For this peer. One of this machine is asked more often than `backoff` says.
    pub fn new(endpoint: Endpoint, options: Options, mut backoff: Backoff) -> Self {
        if matches!(endpoint, Endpoint::Unix(_)) {
            backoff.most = backoff.most.min(NEARBY_MOST);
        }
        Self { endpoint, options, backoff, failures: 0, due: None, last_error: None, current: None }
    }

    /// Waits until the last session has ended, then for the next one, as long as it takes.
    pub async fn next(&mut self) -> (Session, Events) {
        self.outlive().await;
        loop {
            if let Some(due) = self.due {
                sleep_until(due).await;
            }
            // Counted before it is tried: a peer that accepts and leaves is not dialled in a
            // circle, and neither is one whose attempt was cancelled.
            let failures = self.failures;
            self.failures = failures.saturating_add(1);
            self.due = Some(self.later());
            match Session::connect(&self.endpoint, self.options.clone()).await {
                Ok((session, events)) => {
                    self.last_error = None;
                    self.current = Some((session.clone(), Instant::now()));
                    return (session, events);
                }
                Err(error) => {
                    debug!(endpoint = %self.endpoint, failures = self.failures, %error, "not connected");
                    if is_nearby_and_away(&error) {
                        self.failures = failures;
                        self.due = Some(Instant::now() + NEARBY);
                    } else {
                        self.due = Some(self.later());
                    }
                    self.last_error = Some(error);
                }
            }
        }
    }

    fn later(&self) -> Instant {
        Instant::now() + self.backoff.delay(self.failures)
    }

    /// Why the last attempt failed; `None` after one that did not.
    pub fn last_error(&self) -> Option<&ConnectError> {
        self.last_error.as_ref()
    }

    /// Waits for the end of the session; one that lasted lets the next attempt be at once.
    async fn outlive(&mut self) {
        if let Some((session, since)) = &self.current {
            session.closed().await;
            if since.elapsed() >= self.backoff.most {
                self.failures = 0;
                self.due = None;
            }
            self.current = None;
        }
    }
}

/// Whether there is nobody at a socket of this machine.
fn is_nearby_and_away(error: &ConnectError) -> bool {
    let away = |kind| matches!(kind, ErrorKind::NotFound | ErrorKind::ConnectionRefused);
    matches!(error, ConnectError::Socket { endpoint: Endpoint::Unix(_), source } if away(source.kind()))
}
