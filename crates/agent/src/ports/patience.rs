//! No waiting for what is known to fail: a database whose disk is full refuses every change, and
//! who waits for it waits in vain.

use super::{PortError, Ports};
use std::time::Duration;
use tokio::time::sleep;

/// How often the database is looked at.
const LOOK: Duration = Duration::from_millis(500);
/// Failures in a row, with no success between them, that are no accident.
const FAILURES: u64 = 3;

impl Ports {
    /// Does work, unless the database fails meanwhile and does not recover.
    pub(super) async fn unless_refused<T>(
        &self,
        work: impl Future<Output = Result<T, PortError>>,
    ) -> Result<T, PortError> {
        let rows = self.0.switch.rows();
        let refused = async {
            let mut last = rows.stats();
            loop {
                sleep(LOOK).await;
                let now = rows.stats();
                if now.transactions != last.transactions {
                    last = now;
                } else if now.failures >= last.failures + FAILURES
                    && let Some(error) = rows.status().last_error
                {
                    return error;
                }
            }
        };
        tokio::select! {
            done = work => done,
            error = refused => Err(PortError::Database(error)),
        }
    }
}
