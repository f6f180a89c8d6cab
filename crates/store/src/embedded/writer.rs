//! The one thread that writes.
//!
//! Transactions that wait together are committed together: one sync of the disk for all of them.
//! Nobody is answered before that, not even who lost against another of the same batch.

use super::file::{ahead, begin_epoch};
use super::format::{HISTORY, META, Meta, OBJECTS, decode_entry, encode_entry, encode_events};
use super::shared::Shared;
use crate::History;
use crate::change::{Changes, Entry};
use crate::error::{CommitError, Conflict, ReplaceError, Unavailable};
use crate::key::Key;
use crate::position::{Position, Revision};
use crate::transaction::{Objects, Transaction, apply};
use bytes::Bytes;
use redb::{Database, ReadableTable, Table};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// The most transactions that are committed together, and bytes of their values.
const BATCH: usize = 1024;
const BATCH_BYTES: usize = 8 << 20;
/// How many revisions of the past are forgotten at least, when there are too many: a shorter
/// history is reached step by step.
const FORGET: usize = 16;

/// What the writer is asked for.
pub(super) enum Request {
    Commit(Pending),
    Replace {
        documents: Vec<(Key, Bytes)>,
        over: bool,
        reply: oneshot::Sender<Result<Position, ReplaceError>>,
    },
    Begin {
        past: Revision,
        reply: oneshot::Sender<Result<Position, Unavailable>>,
    },
}

/// A transaction that waits.
pub(super) struct Pending {
    pub(super) transaction: Transaction,
    pub(super) reply: oneshot::Sender<Result<Position, CommitError>>,
}

pub(super) struct Writer {
    pub(super) shared: Arc<Shared>,
    pub(super) keep: History,
}

/// What becomes of a batch if it is committed.
#[derive(Default)]
struct Batch {
    outcomes: Vec<Result<Position, Conflict>>,
    changes: Vec<Changes>,
}

// === impl Writer ===

impl Writer {
    /// Works until nobody can ask any more.
    pub(super) fn run(&self, mut requests: mpsc::Receiver<Request>) {
        let mut next = requests.blocking_recv();
        while let Some(request) = next.take() {
            match request {
                Request::Commit(first) => {
                    let mut size = first.transaction.size();
                    let mut batch = vec![first];
                    while batch.len() < BATCH && size < BATCH_BYTES {
                        match requests.try_recv() {
                            Ok(Request::Commit(pending)) => {
                                size += pending.transaction.size();
                                batch.push(pending);
                            }
                            Ok(other) => {
                                next = Some(other);
                                break;
                            }
                            Err(_) => break,
                        }
                    }
                    self.commit(batch);
                }
                // Who asked may be gone; what was asked for is done all the same.
                Request::Replace { documents, over, reply } => {
                    drop(reply.send(self.replace(&documents, over)));
                }
                Request::Begin { past, reply } => drop(reply.send(self.begin(past))),
            }
            if next.is_none() {
                next = requests.blocking_recv();
            }
        }
    }

    fn commit(&self, pending: Vec<Pending>) {
        let (transactions, replies): (Vec<_>, Vec<_>) =
            pending.into_iter().map(|p| (p.transaction, p.reply)).unzip();
        let mut batch = Batch::default();
        let result = self.write(|database| self.prepare(database, &transactions, &mut batch));
        let committed = match result {
            Ok(()) => {
                self.shared.log.publish(batch.changes);
                Ok(())
            }
            // An error may have come after the fact. The log knows by now what is in the file.
            Err(_) if batch.is_made(self.shared.log.position()) => Ok(()),
            Err(error) => Err(error),
        };
        match committed {
            Ok(()) => {
                for (reply, outcome) in replies.into_iter().zip(batch.outcomes) {
                    let outcome = outcome.map_err(|c| CommitError::Conflict(Box::new(c)));
                    drop(reply.send(outcome));
                }
            }
            Err(error) => {
                for reply in replies {
                    drop(reply.send(Err(error.clone().into())));
                }
            }
        }
    }

    /// Makes all transactions in one of redb, and commits it.
    fn prepare(
        &self,
        database: &Database,
        transactions: &[Transaction],
        batch: &mut Batch,
    ) -> Result<(), redb::Error> {
        let write = database.begin_write()?;
        {
            let mut table = write.open_table(META)?;
            let mut meta = Meta::read(&table)?;
            let mut objects = Documents(write.open_table(OBJECTS)?);
            let mut history = write.open_table(HISTORY)?;
            for transaction in transactions {
                let next = meta.position.at(meta.position.revision.next());
                let events = match apply(&mut objects, transaction, next.revision)? {
                    Err(conflict) => {
                        batch.outcomes.push(Err(conflict));
                        continue;
                    }
                    Ok(events) => events,
                };
                if !events.is_empty() {
                    let record = encode_events(&events);
                    history.insert(next.revision.0, record.as_slice())?;
                    meta.history_bytes += record.len() as u64;
                    meta.position = next;
                    batch.changes.push(Changes { position: next, events: events.into() });
                }
                batch.outcomes.push(Ok(meta.position));
            }
            if !batch.changes.is_empty() {
                self.forget(&mut history, &mut meta, FORGET + 2 * batch.changes.len())?;
                meta.write(&mut table)?;
            }
        }
        match batch.changes.is_empty() {
            true => Ok(write.abort()?),
            false => Ok(write.commit()?),
        }
    }

    /// Forgets the oldest, as far as there is too much and not more than so many.
    fn forget(
        &self,
        history: &mut Table<'_, u64, &'static [u8]>,
        meta: &mut Meta,
        most: usize,
    ) -> Result<(), redb::Error> {
        for _ in 0..most {
            let kept = meta.position.revision.0 - meta.floor.0;
            if kept <= self.keep.revisions && meta.history_bytes <= self.keep.bytes {
                break;
            }
            let Some((revision, record)) = history.pop_first()? else { break };
            meta.floor = Revision(revision.value());
            meta.history_bytes = meta.history_bytes.saturating_sub(record.value().len() as u64);
        }
        Ok(())
    }

    fn replace(&self, documents: &[(Key, Bytes)], over: bool) -> Result<Position, ReplaceError> {
        let replaced = self.write(|database| {
            let write = database.begin_write()?;
            if let Some((key, _)) = write.open_table(OBJECTS)?.first()?.filter(|_| !over) {
                return Ok(Err(ReplaceError::NotEmpty { key: key.value().to_owned() }));
            }
            let meta = Meta::read(&write.open_table(META)?)?;
            let revision = ahead(meta.position.revision);
            let meta = begin_epoch(&write, meta, revision)?;
            write.delete_table(OBJECTS)?;
            {
                let mut objects = Documents(write.open_table(OBJECTS)?);
                for (key, value) in documents {
                    let value = value.clone();
                    objects.put(key, &Entry { value, created: revision, modified: revision })?;
                }
            }
            write.commit()?;
            Ok(Ok(meta.position))
        })?;
        let position = replaced?;
        self.shared.log.reset(position);
        Ok(position)
    }

    fn begin(&self, past: Revision) -> Result<Position, Unavailable> {
        let position = self.write(|database| {
            let write = database.begin_write()?;
            let meta = Meta::read(&write.open_table(META)?)?;
            let revision = ahead(meta.position.revision.max(past));
            let meta = begin_epoch(&write, meta, revision)?;
            write.commit()?;
            Ok(meta.position)
        })?;
        self.shared.log.reset(position);
        Ok(position)
    }

    /// Writes, and opens the file again if that failed, so that the next one finds it whole.
    fn write<T>(
        &self,
        write: impl FnOnce(&Database) -> Result<T, redb::Error>,
    ) -> Result<T, Unavailable> {
        if !self.shared.is_open() {
            self.shared.reopen()?;
        }
        self.shared.write(write).map_err(|error| {
            let error = self.shared.unavailable(error);
            match self.shared.reopen() {
                // Whether it was made cannot be seen now, so the error must not say that it was
                // not.
                Err(Unavailable::Full { place }) => {
                    Unavailable::Failed { place, source: Arc::new(error) }
                }
                Err(worse) => worse,
                Ok(()) => error,
            }
        })
    }
}

// === impl Batch ===

impl Batch {
    /// Whether it is in the file after all.
    fn is_made(&self, now: Position) -> bool {
        self.changes.last().is_some_and(|last| last.position == now)
    }
}

struct Documents<'a>(Table<'a, &'static str, &'static [u8]>);

// === impl Documents ===

impl Objects for Documents<'_> {
    type Error = redb::StorageError;

    fn get(&self, key: &Key) -> Result<Option<Entry>, redb::StorageError> {
        let found = self.0.get(key.as_str())?;
        found.map(|record| decode_entry(record.value())).transpose()
    }

    fn put(&mut self, key: &Key, entry: &Entry) -> Result<(), redb::StorageError> {
        self.0.insert(key.as_str(), encode_entry(entry).as_slice())?;
        Ok(())
    }

    fn remove(&mut self, key: &Key) -> Result<(), redb::StorageError> {
        self.0.remove(key.as_str())?;
        Ok(())
    }
}
