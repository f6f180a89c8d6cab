//! One call at a time for one port.

use osier_model::PortKey;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::OwnedMutexGuard;

type Lock = Arc<tokio::sync::Mutex<()>>;

/// The locks of ports that somebody works on.
#[derive(Debug, Default)]
pub(super) struct Locks(Mutex<BTreeMap<PortKey, Lock>>);

/// The right to work on a port, until the last share of it is dropped.
#[derive(Debug, Clone)]
pub(super) struct Locked {
    _held: Arc<Held>,
}

#[derive(Debug)]
struct Held {
    locks: Arc<Locks>,
    key: PortKey,
    guard: Option<OwnedMutexGuard<()>>,
}

impl Locks {
    /// Waits until nobody works on the port.
    pub(super) async fn lock(self: &Arc<Self>, key: &PortKey) -> Locked {
        let lock = {
            let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(locks.entry(key.clone()).or_default())
        };
        let guard = Some(lock.lock_owned().await);
        let held = Held { locks: Arc::clone(self), key: key.clone(), guard };
        Locked { _held: Arc::new(held) }
    }
}

impl Locked {
    /// One more share.
    pub(super) fn share(&self) -> Self {
        self.clone()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut locks = self.locks.0.lock().unwrap_or_else(PoisonError::into_inner);
        self.guard = None;
        // Two: the map's own, and nobody who waits.
        if locks.get(&self.key).is_some_and(|lock| Arc::strong_count(lock) == 1) {
            locks.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_next_waits_and_nothing_is_left() {
        let locks = Arc::new(Locks::default());
        let key = PortKey { device: "a:b".parse().unwrap(), interface: "eth0".parse().unwrap() };
        let first = locks.lock(&key).await;
        let share = first.share();
        drop(first);
        let waiting = tokio::spawn({
            let (locks, key) = (Arc::clone(&locks), key.clone());
            async move { drop(locks.lock(&key).await) }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(share);
        waiting.await.unwrap();
        assert!(locks.0.lock().unwrap().is_empty());
    }
}
