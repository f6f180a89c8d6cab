//! How a session behaves.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use super::tls::TlsFiles;
use crate::frame::Limits;
use crate::monitor::Monitor;

/// What a session follows, and how patient it is.
#[derive(Clone, Debug)]
pub struct Config {
    /// The database, such as `Open_vSwitch`.
    pub database: String,
    /// The tables and columns to follow.
    pub monitor: Monitor,
    /// Whether only the leader of a cluster will do. Needed to read one's own writes at once.
    pub leader_only: bool,
    /// After this long without a byte an echo is sent; after as long again the connection is given
    /// up. Zero never probes.
    pub probe: Duration,
    /// How long connecting, or the answer to a request of the start-up, may take.
    pub patience: Duration,
    /// How long to wait between attempts.
    pub backoff: Backoff,
    /// What one message of the server may cost.
    pub limits: Limits,
    /// Key, certificate and authority for `ssl:`.
    pub tls: Option<TlsFiles>,
}

/// Waiting times that double from `first` to `most`, each shortened by up to half at random, so that
/// the nodes of a cluster do not return all at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The first.
    pub first: Duration,
    /// The longest.
    pub most: Duration,
}

impl Config {
    /// Follows a database with the usual patience.
    pub fn new(database: impl Into<String>, monitor: Monitor) -> Self {
        Self {
            database: database.into(),
            monitor,
            leader_only: false,
            probe: Duration::from_secs(5),
            patience: Duration::from_secs(30),
            backoff: Backoff::default(),
            limits: Limits::default(),
            tls: None,
        }
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self { first: Duration::from_millis(100), most: Duration::from_secs(8) }
    }
}

impl Backoff {
    /// How long to wait after this many failures in a row.
    pub(super) fn delay(self, failures: u32) -> Duration {
        let doubled = self.first.saturating_mul(1 << failures.min(16)).min(self.most);
        let chance = u32::try_from(RandomState::new().hash_one(failures) % 1024).unwrap_or(0);
        doubled.mul_f64(1.0 - f64::from(chance) / 2048.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_most() {
        let backoff = Backoff { first: Duration::from_millis(100), most: Duration::from_secs(1) };
        for (failures, most) in [(0, 100), (1, 200), (2, 400), (10, 1000), (u32::MAX, 1000)] {
            let delay = backoff.delay(failures);
            assert!(delay <= Duration::from_millis(most), "{failures}: {delay:?}");
            assert!(delay >= Duration::from_millis(most / 2), "{failures}: {delay:?}");
        }
    }
}
