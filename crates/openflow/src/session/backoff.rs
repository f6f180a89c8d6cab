//! How long to wait between attempts.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Waiting times that double from `first` to `most`, each shortened by up to half at random, so
/// that a controller's switches do not all return at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The first.
    pub first: Duration,
    /// The longest.
    pub most: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { first: Duration::from_millis(100), most: Duration::from_secs(8) }
    }
}

impl Backoff {
    /// How long to wait after this many failures in a row.
    pub fn delay(self, failures: u32) -> Duration {
        // Each RandomState has its own keys: enough chance to spread, none for secrets.
        self.shortened(failures, RandomState::new().hash_one(failures))
    }

    fn shortened(self, failures: u32, chance: u64) -> Duration {
        let doublings = failures.saturating_sub(1).min(30);
        let whole = self.first.saturating_mul(1 << doublings).min(self.most);
        let part = u32::try_from(chance % 1024).unwrap_or(0);
        whole.saturating_sub(whole / 2 * part / 1024)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_the_most_and_loses_at_most_half() {
        let backoff = Backoff { first: Duration::from_secs(1), most: Duration::from_secs(10) };
        for (failures, whole) in [(0, 1), (1, 1), (2, 2), (4, 8), (5, 10), (u32::MAX, 10)] {
            let whole = Duration::from_secs(whole);
            assert_eq!(backoff.shortened(failures, 0), whole);
            assert!(backoff.shortened(failures, 1023) >= whole / 2);
            assert!(backoff.delay(failures) <= whole);
        }
    }
}
