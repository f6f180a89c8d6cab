//! Locks of the server (RFC 7047 section 4.1.8): asked for once, asked for again after each
//! reconnect, released when the guard goes.

use tokio::sync::{mpsc, watch};

use super::core::Command;
use super::error::RequestError;

/// Whether a lock is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockState {
    /// Another session has it, or we are not connected.
    Waiting,
    /// Ours.
    Held,
}

/// A claim to a lock; dropping it gives the lock back.
#[derive(Debug)]
pub struct Lock {
    pub(super) name: String,
    pub(super) state: watch::Receiver<LockState>,
    pub(super) commands: mpsc::Sender<Command>,
}

impl Lock {
    /// Its name, for [`Operation::Assert`](crate::Operation::Assert).
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is ours now. A transaction that depends on it must assert it all the same.
    pub fn state(&self) -> LockState {
        *self.state.borrow()
    }

    /// Waits until it is ours.
    pub async fn held(&mut self) -> Result<(), RequestError> {
        self.state
            .wait_for(|state| *state == LockState::Held)
            .await
            .map_err(|_| RequestError::Ended)?;
        Ok(())
    }

    /// Waits until it is no longer ours.
    pub async fn lost(&mut self) -> Result<(), RequestError> {
        let waiting = |state: &LockState| *state == LockState::Waiting;
        self.state.wait_for(waiting).await.map_err(|_| RequestError::Ended)?;
        Ok(())
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let unlock = Command::Unlock(std::mem::take(&mut self.name));
        // A full queue must not lose it: a lock left behind would starve the others.
        if let Err(mpsc::error::TrySendError::Full(unlock)) = self.commands.try_send(unlock)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let commands = self.commands.clone();
            runtime.spawn(async move { commands.send(unlock).await });
        }
    }
}
