//! Waits between tries: each about twice as long as the one before, with some chance in it, so that
//! those who failed together do not come back together.

use ring::rand::{SecureRandom, SystemRandom};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The first wait, without chance; and the longest.
const LEAST: Duration = Duration::from_millis(800);
const MOST: Duration = Duration::from_secs(30);
/// After so long without a failure, one is a first one again.
const CALM: Duration = Duration::from_mins(1);

/// How long somebody who fails waits next.
#[derive(Debug)]
pub(crate) struct Waits {
    next: Duration,
    /// When the last wait was over.
    last: Option<Instant>,
}

// === impl Waits ===

impl Default for Waits {
    fn default() -> Self {
        Self { next: LEAST, last: None }
    }
}

impl Waits {
    /// It works: the next failure is a first one.
    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }

    /// Waits after a failure.
    pub(crate) async fn wait(&mut self) {
        let wait = self.next();
        sleep(wait).await;
        self.last = Some(Instant::now());
    }

    /// How long to wait after a failure.
    pub(crate) fn next(&mut self) -> Duration {
        if self.last.is_some_and(|last| last.elapsed() > CALM) {
            self.reset();
        }
        let mut chance = [0; 1];
        // Without chance it is the shortest.
        let _ = SystemRandom::new().fill(&mut chance);
        let wait = self.next.mul_f64(1.0 + f64::from(chance[0]) / 256.0);
        self.next = (self.next * 2).min(MOST);
        wait.min(MOST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_limit_and_begin_anew() {
        let mut waits = Waits::default();
        let mut least = LEAST;
        for _ in 0..10 {
            let wait = waits.next();
            assert!(wait >= least && wait <= (2 * least).min(MOST), "{wait:?} for {least:?}");
            least = (least * 2).min(MOST);
        }
        waits.reset();
        assert!(waits.next() < 2 * LEAST);
    }
}
