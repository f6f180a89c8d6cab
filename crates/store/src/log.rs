//! The recent past in memory, and the cursors that read it.
//!
//! A watch has no queue: it is a place in the one log. So a slow reader costs nothing and holds up
//! nobody; when the log no longer reaches back to its place, and neither does what the backend
//! keeps, it is told so.

use crate::History;
use crate::change::Changes;
use crate::error::{Unavailable, WatchError};
use crate::position::{Position, Revision};
use crate::store::{Reply, Watch};
use std::collections::VecDeque;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::sync::watch;

/// Revisions that a watch takes from the log at once.
const CHUNK: usize = 128;
/// Revisions without anything to tell after which a watch tells how far it is.
const QUIET: usize = 64;

/// What was committed lately.
pub(crate) struct Log {
    state: RwLock<State>,
    head: watch::Sender<Revision>,
    keep: History,
}

struct State {
    position: Position,
    /// All that came after this is here.
    floor: Revision,
    recent: VecDeque<Changes>,
    bytes: u64,
    closed: bool,
}

/// What comes after a position.
pub(crate) enum Tail {
    /// Some of it.
    Changes(Vec<Changes>),
    /// Nothing yet.
    Nothing,
    /// More than the log has.
    Older {
        /// What it has begins after this.
        floor: Revision,
    },
    /// Nothing can: it is of another epoch.
    Restored(Position),
    /// Nothing can: it is in the future.
    Ahead(Position),
    /// Nothing will.
    Closed,
}

// === impl Log ===

impl Log {
    pub(crate) fn new(position: Position, keep: History) -> Self {
        let state = State {
            position,
            floor: position.revision,
            recent: VecDeque::new(),
            bytes: 0,
            closed: false,
        };
        let (head, _) = watch::channel(position.revision);
        Self { state: RwLock::new(state), head, keep }
    }

    pub(crate) fn position(&self) -> Position {
        self.read().position
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.read().closed
    }

    /// All changes are in the order of their revisions, and behind those of before.
    pub(crate) fn publish(&self, changes: Vec<Changes>) {
        let mut state = self.write();
        for changes in changes {
            state.position = changes.position;
            state.bytes += changes.size() as u64;
            state.recent.push_back(changes);
        }
        while state.recent.len() as u64 > self.keep.revisions || state.bytes > self.keep.bytes {
            let Some(oldest) = state.recent.pop_front() else { break };
            state.bytes -= oldest.size() as u64;
            state.floor = oldest.position.revision;
        }
        self.wake(&state);
    }

    /// Begins anew after a position.
    pub(crate) fn reset(&self, position: Position) {
        let mut state = self.write();
        state.position = position;
        state.floor = position.revision;
        state.recent.clear();
        state.bytes = 0;
        self.wake(&state);
    }

    pub(crate) fn close(&self) {
        let mut state = self.write();
        state.closed = true;
        self.wake(&state);
    }

    pub(crate) fn after(&self, position: Position) -> Tail {
        let state = self.read();
        if state.closed {
            return Tail::Closed;
        }
        if state.position.epoch != position.epoch {
            return Tail::Restored(state.position);
        }
        let at = position.revision;
        if at > state.position.revision {
            return Tail::Ahead(state.position);
        }
        if at < state.floor {
            return Tail::Older { floor: state.floor };
        }
        let from = state.recent.partition_point(|c| c.position.revision <= at);
        match state.recent.range(from..).take(CHUNK).cloned().collect::<Vec<_>>() {
            changes if changes.is_empty() => Tail::Nothing,
            changes => Tail::Changes(changes),
        }
    }

    fn wake(&self, state: &State) {
        self.head.send_replace(state.position.revision);
    }

    // A panic elsewhere leaves the state whole: each change of it is made in one go.
    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where a cursor reads.
pub(crate) trait Source: Send + Sync + 'static {
    fn log(&self) -> &Log;

    /// What came after a position, as far as the log was told of it, from where the log does not
    /// reach; at least one, or why not.
    fn past(self: Arc<Self>, after: Position) -> Reply<'static, Result<Vec<Changes>, Gone>>;
}

/// Why there is no past.
pub(crate) enum Gone {
    /// Only what came after this is kept.
    Compacted(Revision),
    Unavailable(Unavailable),
}

/// A watch: a place in the log.
pub(crate) struct Cursor {
    watcher: String,
    prefix: String,
    at: Position,
    source: Arc<dyn Source>,
    head: watch::Receiver<Revision>,
    pending: VecDeque<Changes>,
    quiet: usize,
}

// === impl Cursor ===

impl Cursor {
    pub(crate) async fn begin(
        source: Arc<dyn Source>,
        watcher: String,
        prefix: String,
        after: Position,
    ) -> Result<Box<dyn Watch>, WatchError> {
        let head = source.log().head.subscribe();
        let mut cursor =
            Self { watcher, prefix, at: after, source, head, pending: VecDeque::new(), quiet: 0 };
        match cursor.fill().await {
            Ok(_) => Ok(Box::new(cursor)),
            Err(WatchError::Lagged { at, oldest, .. }) => {
                Err(WatchError::Compacted { asked: at, oldest })
            }
            Err(error) => Err(error),
        }
    }

    /// Takes what there is; says whether there was anything.
    async fn fill(&mut self) -> Result<bool, WatchError> {
        self.head.borrow_and_update();
        match self.source.log().after(self.at) {
            Tail::Changes(changes) => self.pending.extend(changes),
            Tail::Nothing => return Ok(false),
            Tail::Older { .. } => match Arc::clone(&self.source).past(self.at).await {
                Ok(changes) => self.pending.extend(changes),
                Err(Gone::Unavailable(error)) => return Err(error.into()),
                Err(Gone::Compacted(oldest)) => {
                    let (watcher, at) = (self.watcher.clone(), self.at.revision);
                    return Err(WatchError::Lagged { watcher, at, oldest });
                }
            },
            Tail::Restored(now) => {
                return Err(WatchError::Restored { was: self.at.epoch, now });
            }
            Tail::Ahead(now) => {
                return Err(WatchError::Ahead { asked: self.at.revision, now });
            }
            Tail::Closed => return Err(Unavailable::Closed.into()),
        }
        Ok(true)
    }

    /// Goes over what was taken, up to something to tell.
    fn tell(&mut self) -> Option<Changes> {
        while let Some(changes) = self.pending.pop_front() {
            let changes = changes.under(&self.prefix);
            self.at = changes.position;
            self.quiet += 1;
            if !changes.events.is_empty() || self.quiet >= QUIET {
                self.quiet = 0;
                return Some(changes);
            }
        }
        None
    }
}

impl Watch for Cursor {
    fn next(&mut self) -> Reply<'_, Result<Changes, WatchError>> {
        Box::pin(async move {
            loop {
                if let Some(changes) = self.tell() {
                    return Ok(changes);
                }
                // The log lives as long as the source, so there is always someone to wake us.
                if !self.fill().await? && self.head.changed().await.is_err() {
                    return Err(Unavailable::Closed.into());
                }
            }
        })
    }
}
