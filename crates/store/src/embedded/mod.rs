//! A store in one file.
//!
//! redb keeps the bytes; here are the revisions on top. One thread writes
//! ([`writer`]), readers read beside it what was committed last ([`shared`]). Needs a tokio runtime
//! for reading; opening blocks, and belongs to the start of a program.

mod backup;
mod file;
mod format;
mod shared;
mod writer;

pub use backup::BackupError;
pub use file::OpenError;

use crate::History;
use crate::change::Entry;
use crate::error::{CommitError, ListError, ReplaceError, Unavailable, WatchError};
use crate::key::Key;
use crate::log::{Cursor, Log, Source};
use crate::position::{Position, Revision};
use crate::store::{Page, Query, Reply, Store, Watch};
use crate::transaction::{Transaction, check_documents};
use bytes::Bytes;
use file::Opening;
use redb::Database;
use shared::Shared;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::sync::{mpsc, oneshot};
use writer::{Pending, Request, Writer};

/// How much of the past stays in memory, where watches mostly read.
const RECENT: History = History { revisions: 4096, bytes: 16 << 20 };

/// A store in one file.
pub struct Embedded {
    shared: Arc<Shared>,
    /// None only while it is dropped.
    requests: Option<mpsc::Sender<Request>>,
    writer: Option<JoinHandle<()>>,
}

/// How a store is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// How much of the past is kept.
    pub history: History,
    /// Bytes of the file that are kept in memory at most.
    pub cache: usize,
    /// Transactions that may wait to be committed; who brings one more waits himself.
    pub queue: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { history: History::default(), cache: 32 << 20, queue: 4096 }
    }
}

// === impl Embedded ===

impl Embedded {
    /// Opens a store, or makes it. Blocks; takes time in proportion to the file after a crash.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self, OpenError> {
        let (path, opening) = (path.as_ref(), Opening::new(options.cache));
        let (database, meta) = opening.open_or_create(path)?;
        Ok(Self::start(path, options, opening, database, meta.position))
    }

    fn start(
        path: &Path,
        options: Options,
        opening: Opening,
        database: Database,
        position: Position,
    ) -> Self {
        let keep = options.history;
        let recent = History {
            revisions: RECENT.revisions.min(keep.revisions),
            bytes: RECENT.bytes.min(keep.bytes),
        };
        let log = Log::new(position, recent);
        let shared = Arc::new(Shared::new(path.to_owned(), log, opening, database));
        let (requests, receiver) = mpsc::channel(options.queue.max(1));
        let writer = Writer { shared: Arc::clone(&shared), keep };
        let writer = std::thread::spawn(move || writer.run(receiver));
        Self { shared, requests: Some(requests), writer: Some(writer) }
    }

    /// Copies the store as it is at one moment to a file that must not exist. Nobody waits for it.
    /// A store opened from the copy begins a new epoch.
    pub async fn backup(&self, path: impl AsRef<Path>) -> Result<Position, BackupError> {
        let path = path.as_ref().to_owned();
        let closed = |_| BackupError::Copy(Unavailable::Closed);
        self.blocking(move |shared| backup::backup(shared, &path)).await.map_err(closed)?
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Shared) -> T + Send + 'static,
    ) -> Result<T, Unavailable> {
        let shared = Arc::clone(&self.shared);
        let done = tokio::task::spawn_blocking(move || work(&shared));
        done.await.map_err(|_| Unavailable::Closed)
    }

    async fn ask<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<T>) -> Request,
    ) -> Result<T, Unavailable> {
        let (reply, answer) = oneshot::channel();
        let requests = self.requests.as_ref().ok_or(Unavailable::Closed)?;
        requests.send(request(reply)).await.map_err(|_| Unavailable::Closed)?;
        answer.await.map_err(|_| Unavailable::Closed)
    }
}

impl Store for Embedded {
    fn position(&self) -> Reply<'_, Result<Position, Unavailable>> {
        Box::pin(async { Ok(self.shared.log.position()) })
    }

    fn get<'a>(&'a self, key: &'a Key) -> Reply<'a, Result<Option<Entry>, Unavailable>> {
        let key = key.clone();
        Box::pin(async move { self.blocking(move |shared| shared.get(&key)).await? })
    }

    fn list(&self, query: Query) -> Reply<'_, Result<Page, ListError>> {
        Box::pin(async move { self.blocking(move |shared| shared.list(&query)).await? })
    }

    fn commit(&self, transaction: Transaction) -> Reply<'_, Result<Position, CommitError>> {
        Box::pin(async move {
            transaction.validate()?;
            self.ask(|reply| Request::Commit(Pending { transaction, reply })).await?
        })
    }

    fn watch(
        &self,
        watcher: &str,
        prefix: &str,
        after: Position,
    ) -> Reply<'_, Result<Box<dyn Watch>, WatchError>> {
        let source: Arc<dyn Source> = Arc::clone(&self.shared) as Arc<dyn Source>;
        Box::pin(Cursor::begin(source, watcher.to_owned(), prefix.to_owned(), after))
    }

    fn replace(
        &self,
        documents: Vec<(Key, Bytes)>,
        over: bool,
    ) -> Reply<'_, Result<Position, ReplaceError>> {
        Box::pin(async move {
            check_documents(&documents)?;
            self.ask(|reply| Request::Replace { documents, over, reply }).await?
        })
    }

    fn begin_epoch(&self, past: Revision) -> Reply<'_, Result<Position, Unavailable>> {
        Box::pin(async move { self.ask(|reply| Request::Begin { past, reply }).await? })
    }
}

impl Drop for Embedded {
    /// Waits for what is being committed, then lets the file go, so that it can be opened again.
    fn drop(&mut self) {
        self.requests = None;
        if let Some(writer) = self.writer.take() {
            drop(writer.join());
        }
        self.shared.close();
    }
}
