//! How long to wait before the next try: longer each time, and never all at the same moment.

use ring::rand::{SecureRandom, SystemRandom};
use std::time::Duration;

/// How long to wait between tries.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    /// After the first failure.
    pub least: Duration,
    /// After many.
    pub most: Duration,
}

// === impl Backoff ===

impl Default for Backoff {
    fn default() -> Self {
        Self { least: Duration::from_millis(200), most: Duration::from_secs(15) }
    }
}

impl Backoff {
    /// The wait after so many failures: between half and all of a time that doubles.
    pub(crate) fn wait(self, failures: u32) -> Duration {
        let whole = self.least.saturating_mul(1 << failures.min(16)).min(self.most);
        let mut byte = [0];
        // Without randomness the wait is only less spread.
        let _ = SystemRandom::new().fill(&mut byte);
        whole / 2 + whole * u32::from(byte[0]) / 512
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_and_end() {
        let backoff = Backoff::default();
        for failures in 0..40 {
            let whole = backoff.least.saturating_mul(1 << failures.min(16)).min(backoff.most);
            let wait = backoff.wait(failures);
            assert!(whole / 2 <= wait && wait <= whole, "{failures}: {wait:?}");
        }
    }
}
