//! Keeping up a session with a peer that comes and goes.

use super::backoff::Backoff;
use super::endpoint::Endpoint;
use super::error::ConnectError;
use super::events::Events;
use super::handle::Session;
use super::options::Options;
use tokio::time::{Instant, sleep};
use tracing::debug;

/// Dials again whenever the session has ended. Does nothing by itself: it stops when it is dropped,
/// and the session that it gave away goes on.
#[derive(Debug)]
pub struct Dialer {
    endpoint: Endpoint,
    options: Options,
    backoff: Backoff,
    /// Attempts in a row that gave no lasting session.
    failures: u32,
    last_error: Option<ConnectError>,
    current: Option<(Session, Instant)>,
}

impl Dialer {
    /// For this peer.
    pub fn new(endpoint: Endpoint, options: Options, backoff: Backoff) -> Self {
        Self { endpoint, options, backoff, failures: 0, last_error: None, current: None }
    }

    /// Waits until the last session has ended, then for the next one, as long as it takes.
    pub async fn next(&mut self) -> (Session, Events) {
        self.outlive().await;
        loop {
            if self.failures > 0 {
                sleep(self.backoff.delay(self.failures)).await;
            }
            // Counted before it is tried: a peer that accepts and leaves is not dialled in a
            // circle, and neither is one whose attempt was cancelled.
            self.failures = self.failures.saturating_add(1);
            match Session::connect(&self.endpoint, self.options.clone()).await {
                Ok((session, events)) => {
                    self.last_error = None;
                    self.current = Some((session.clone(), Instant::now()));
                    return (session, events);
                }
                Err(error) => {
                    debug!(endpoint = %self.endpoint, failures = self.failures, %error, "not connected");
                    self.last_error = Some(error);
                }
            }
        }
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
            }
            self.current = None;
        }
    }
}
