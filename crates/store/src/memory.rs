//! A store in memory: all that the embedded one does, but last. For tests and simulations, and for a
//! controller whose truth is kept elsewhere.

use crate::History;
use crate::change::{Changes, Entry};
use crate::error::{CommitError, ListError, ReplaceError, Unavailable, WatchError};
use crate::key::Key;
use crate::listing::{self, Before};
use crate::log::{Cursor, Gone, Log, Source, Tail};
use crate::position::{Epoch, Position, Revision};
use crate::store::{Page, Query, Reply, Store, Watch};
use crate::transaction::{Objects, Transaction, apply, check_documents};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A store in memory.
pub struct Memory(Arc<State>);

struct State {
    objects: Mutex<Documents>,
    /// Written only while the documents are locked, so both always fit together.
    log: Log,
}

#[derive(Default)]
struct Documents(BTreeMap<Key, Entry>);

// === impl Memory ===

impl Memory {
    /// An empty store.
    pub fn new(epoch: Epoch, history: History) -> Self {
        Self::starting_at(Position { epoch, revision: Revision(0) }, history)
    }

    /// An empty store that counts on from a position.
    pub fn starting_at(position: Position, history: History) -> Self {
        let objects = Mutex::default();
        Self(Arc::new(State { objects, log: Log::new(position, history) }))
    }

    /// One that holds documents already, and knows nothing of before the position: for a store whose
    /// truth is elsewhere.
    pub fn holding(
        position: Position,
        documents: impl IntoIterator<Item = (Key, Entry)>,
        history: History,
    ) -> Self {
        let store = Self::starting_at(position, history);
        store.0.lock().0.extend(documents);
        store
    }

    fn commit_now(&self, transaction: &Transaction) -> Result<Position, CommitError> {
        transaction.validate()?;
        let mut objects = self.0.lock();
        let position = self.0.log.position();
        let next = position.at(position.revision.next());
        let Ok(applied) = apply(&mut *objects, transaction, next.revision);
        let events = applied.map_err(|conflict| CommitError::Conflict(Box::new(conflict)))?;
        if events.is_empty() {
            return Ok(position);
        }
        self.0.log.publish(vec![Changes { position: next, events: events.into() }]);
        Ok(next)
    }

    fn list_now(&self, query: &Query) -> Result<Page, ListError> {
        let objects = self.0.lock();
        let now = self.0.log.position();
        let position = query.at.unwrap_or(now);
        let before = self.0.before(query, position)?;
        let current = objects
            .0
            .range::<str, _>((Bound::Included(query.start()), Bound::Unbounded))
            .take_while(|(key, _)| key.as_str().starts_with(&query.prefix))
            .filter(|(key, _)| query.takes(key.as_str()))
            .map(|(key, entry)| Ok::<_, Infallible>((key.clone(), entry.clone())));
        let Ok(page) = listing::page(query, position, current, before);
        Ok(page)
    }

    fn replace_now(
        &self,
        documents: &[(Key, Bytes)],
        over: bool,
    ) -> Result<Position, ReplaceError> {
        let mut objects = self.0.lock();
        if let Some((key, _)) = objects.0.first_key_value().filter(|_| !over) {
            return Err(ReplaceError::NotEmpty { key: key.to_string() });
        }
        check_documents(documents)?;
        let position = self.0.log.position();
        let revision = position.revision.leap();
        objects.0.clear();
        for (key, value) in documents {
            let entry = Entry { value: value.clone(), created: revision, modified: revision };
            objects.0.insert(key.clone(), entry);
        }
        Ok(self.0.begin(revision))
    }
}

impl Store for Memory {
    fn position(&self) -> Reply<'_, Result<Position, Unavailable>> {
        Box::pin(async { Ok(self.0.log.position()) })
    }

    fn get<'a>(&'a self, key: &'a Key) -> Reply<'a, Result<Option<Entry>, Unavailable>> {
        Box::pin(async { Ok(self.0.lock().0.get(key).cloned()) })
    }

    fn list(&self, query: Query) -> Reply<'_, Result<Page, ListError>> {
        Box::pin(async move { self.list_now(&query) })
    }

    fn commit(&self, transaction: Transaction) -> Reply<'_, Result<Position, CommitError>> {
        Box::pin(async move { self.commit_now(&transaction) })
    }

    fn watch(
        &self,
        watcher: &str,
        prefix: &str,
        after: Position,
    ) -> Reply<'_, Result<Box<dyn Watch>, WatchError>> {
        let source: Arc<dyn Source> = Arc::clone(&self.0) as Arc<dyn Source>;
        Box::pin(Cursor::begin(source, watcher.to_owned(), prefix.to_owned(), after))
    }

    fn replace(
        &self,
        documents: Vec<(Key, Bytes)>,
        over: bool,
    ) -> Reply<'_, Result<Position, ReplaceError>> {
        Box::pin(async move { self.replace_now(&documents, over) })
    }

    fn begin_epoch(&self, past: Revision) -> Reply<'_, Result<Position, Unavailable>> {
        Box::pin(async move {
            let _objects = self.0.lock();
            let revision = self.0.log.position().revision.max(past).leap();
            Ok(self.0.begin(revision))
        })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.0.log.close();
    }
}

// === impl State ===

impl State {
    fn lock(&self) -> MutexGuard<'_, Documents> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Epochs count here: a store in memory has no other life to be mistaken for.
    fn begin(&self, revision: Revision) -> Position {
        let epoch = Epoch(self.log.position().epoch.0.wrapping_add(1));
        let position = Position { epoch, revision };
        self.log.reset(position);
        position
    }

    /// How documents were at a position.
    fn before(&self, query: &Query, at: Position) -> Result<Before, ListError> {
        let mut before = Before::new();
        let mut from = at;
        loop {
            match self.log.after(from) {
                Tail::Nothing => return Ok(before),
                Tail::Changes(changes) => {
                    let Some(last) = changes.last() else { return Ok(before) };
                    from = last.position;
                    for (key, was) in listing::before(query, changes.iter()) {
                        before.entry(key).or_insert(was);
                    }
                }
                Tail::Older { floor } => {
                    return Err(ListError::Compacted { asked: at.revision, oldest: floor });
                }
                Tail::Restored(now) | Tail::Ahead(now) => {
                    return Err(ListError::Unknown { asked: at, now });
                }
                Tail::Closed => return Err(Unavailable::Closed.into()),
            }
        }
    }
}

impl Source for State {
    fn log(&self) -> &Log {
        &self.log
    }

    fn past(self: Arc<Self>, after: Position) -> Reply<'static, Result<Vec<Changes>, Gone>> {
        // The log is all there is; if it moved on meanwhile, where it begins is what counts.
        let floor = match self.log.after(after) {
            Tail::Older { floor } => floor,
            _ => self.log.position().revision,
        };
        Box::pin(async move { Err(Gone::Compacted(floor)) })
    }
}

// === impl Documents ===

impl Objects for Documents {
    type Error = Infallible;

    fn get(&self, key: &Key) -> Result<Option<Entry>, Infallible> {
        Ok(self.0.get(key).cloned())
    }

    fn put(&mut self, key: &Key, entry: &Entry) -> Result<(), Infallible> {
        self.0.insert(key.clone(), entry.clone());
        Ok(())
    }

    fn remove(&mut self, key: &Key) -> Result<(), Infallible> {
        self.0.remove(key);
        Ok(())
    }
}
