//! What a store does, whoever keeps the bytes.
//!
//! Eight methods at most, in our own types: the embedded file, memory, and later etcd fill it.
//! Futures are boxed so that it can be an `Arc<dyn Store>`; a box costs nothing beside a commit.

use crate::change::{Changes, Entry};
use crate::error::{CommitError, ListError, ReplaceError, Unavailable, WatchError};
use crate::key::Key;
use crate::position::{Position, Revision};
use crate::transaction::Transaction;
use bytes::Bytes;
use std::pin::Pin;

/// An answer to come.
pub type Reply<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Documents under keys, with revisions.
pub trait Store: Send + Sync {
    /// Where the store stands: the last transaction that was committed.
    fn position(&self) -> Reply<'_, Result<Position, Unavailable>>;

    /// One document.
    fn get<'a>(&'a self, key: &'a Key) -> Reply<'a, Result<Option<Entry>, Unavailable>>;

    /// Documents in the order of their keys, a page at a time.
    fn list(&self, query: Query) -> Reply<'_, Result<Page, ListError>>;

    /// Makes a transaction, if its conditions hold. When it answers with a position, the
    /// transaction is safe from any crash. One that changes nothing uses no revision.
    fn commit(&self, transaction: Transaction) -> Reply<'_, Result<Position, CommitError>>;

    /// What is committed after a position to keys with a prefix, from now on and without gaps.
    /// The name stands in errors and tells who is slow.
    fn watch(
        &self,
        watcher: &str,
        prefix: &str,
        after: Position,
    ) -> Reply<'_, Result<Box<dyn Watch>, WatchError>>;

    /// Replaces all documents, and begins a new epoch. Unless `over` is set, refuses to do it when
    /// there are any. Watches end with [`WatchError::Restored`].
    fn replace(
        &self,
        documents: Vec<(Key, Bytes)>,
        over: bool,
    ) -> Reply<'_, Result<Position, ReplaceError>>;

    /// Begins a new epoch past a revision and keeps the documents: for when someone has seen a
    /// revision that this store does not know ([`WatchError::Ahead`]), so it lost some.
    fn begin_epoch(&self, past: Revision) -> Reply<'_, Result<Position, Unavailable>>;
}

/// A watch. Dropping it ends it.
pub trait Watch: Send {
    /// The next changes, in order, each transaction whole. Waits for them; may be dropped while it
    /// waits, and nothing is lost. After an error there is nothing more.
    fn next(&mut self) -> Reply<'_, Result<Changes, WatchError>>;
}

/// Which documents to list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// What their keys begin with.
    pub prefix: String,
    /// Only those behind this key: where the last page ended.
    pub after: Option<Key>,
    /// How many at most; a page may have fewer, for large documents.
    pub limit: usize,
    /// As they were then: where the first page was read, so that all pages fit together.
    pub at: Option<Position>,
}

/// A page of documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Where the store stood when it was so: where to watch from.
    pub position: Position,
    /// The documents.
    pub entries: Vec<(Key, Entry)>,
    /// Whether there are more behind the last one.
    pub more: bool,
}

/// All documents with a prefix, as they were at one moment, on one page. When the past is cut off
/// while the pages are read, begins anew.
pub async fn list_all(store: &dyn Store, prefix: &str) -> Result<Page, ListError> {
    'anew: loop {
        let mut query = Query::under(prefix);
        let mut all = store.list(query.clone()).await?;
        while all.more {
            query = query.behind(&all);
            match store.list(query.clone()).await {
                Ok(page) => {
                    all.entries.extend(page.entries);
                    all.more = page.more;
                }
                Err(ListError::Compacted { .. } | ListError::Unknown { .. }) => continue 'anew,
                Err(error) => return Err(error),
            }
        }
        return Ok(all);
    }
}

// === impl Query ===

impl Query {
    /// All with a prefix, as they are now, the first page.
    pub fn under(prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into(), after: None, limit: 1000, at: None }
    }

    /// With another size of pages.
    #[must_use]
    pub fn limit(self, limit: usize) -> Self {
        Self { limit, ..self }
    }

    /// For the page behind this one, as things were when it was read.
    #[must_use]
    pub fn behind(self, page: &Page) -> Self {
        let last = page.entries.last().map(|(key, _)| key.clone());
        Self { after: last.or(self.after), at: Some(page.position), ..self }
    }

    /// Whether a key is one that is asked for.
    pub(crate) fn takes(&self, key: &str) -> bool {
        key.starts_with(&self.prefix) && self.after.as_ref().is_none_or(|a| a.as_str() < key)
    }

    /// Where to look first.
    pub(crate) fn start(&self) -> &str {
        match &self.after {
            Some(after) if after.as_str() > self.prefix.as_str() => after.as_str(),
            _ => &self.prefix,
        }
    }
}
