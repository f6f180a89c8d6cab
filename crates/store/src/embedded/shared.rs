//! The open file, shared by the writer and all readers.
//!
//! After a failed write redb refuses everything until the file is opened again. The writer does
//! that at once; readers that come in between wait for it, so that a full disk stops writing only.

use super::file::Opening;
use super::format::{HISTORY, META, Meta, OBJECTS, decode_changes, decode_entry, decode_key};
use crate::change::{Changes, Entry};
use crate::error::{ListError, Unavailable};
use crate::key::Key;
use crate::listing::{self, Before};
use crate::log::{Gone, Log, Source};
use crate::position::Position;
use crate::store::{Page, Query, Reply};
use redb::{Database, ReadTransaction, ReadableDatabase};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};
use std::time::Duration;

/// Revisions that are read from the file at once.
const CHUNK: usize = 128;
/// How long a reader waits for the file to be opened again.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) struct Shared {
    pub(super) path: PathBuf,
    pub(super) log: Log,
    opening: Opening,
    /// None: it could not be opened again, or is closed.
    database: RwLock<Option<Database>>,
    /// How often it was tried to open the file again.
    openings: Mutex<u64>,
    opened: Condvar,
}

// === impl Shared ===

impl Shared {
    pub(super) fn new(path: PathBuf, log: Log, opening: Opening, database: Database) -> Self {
        Self {
            path,
            log,
            opening,
            database: RwLock::new(Some(database)),
            openings: Mutex::new(0),
            opened: Condvar::new(),
        }
    }

    /// Uses the file. Blocks.
    pub(super) fn with<T>(
        &self,
        mut use_it: impl FnMut(&Database) -> Result<T, redb::Error>,
    ) -> Result<T, Unavailable> {
        loop {
            let seen = *self.openings.lock().unwrap_or_else(PoisonError::into_inner);
            let error = match &*self.database.read().unwrap_or_else(PoisonError::into_inner) {
                Some(database) => match use_it(database) {
                    Ok(value) => return Ok(value),
                    Err(error) => error,
                },
                None => redb::Error::DatabaseClosed,
            };
            let again = matches!(error, redb::Error::PreviousIo);
            if !again || !self.wait_for_opening(seen) {
                return Err(self.unavailable(error));
            }
        }
    }

    /// Reads what was committed. Blocks.
    pub(super) fn read<T>(
        &self,
        mut read: impl FnMut(&ReadTransaction) -> Result<T, redb::Error>,
    ) -> Result<T, Unavailable> {
        self.with(|database| read(&database.begin_read()?))
    }

    /// Uses the file once, for the writer, who opens it again himself if that fails.
    pub(super) fn write<T>(
        &self,
        write: impl FnOnce(&Database) -> Result<T, redb::Error>,
    ) -> Result<T, redb::Error> {
        match &*self.database.read().unwrap_or_else(PoisonError::into_inner) {
            Some(database) => write(database),
            None => Err(redb::Error::DatabaseClosed),
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.database.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Opens the file again, and tells the log what it has missed.
    pub(super) fn reopen(&self) -> Result<(), Unavailable> {
        let result = {
            let mut slot = self.database.write().unwrap_or_else(PoisonError::into_inner);
            *slot = None;
            self.opening.open(&self.path).map(|(database, _)| *slot = Some(database))
        };
        *self.openings.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.opened.notify_all();
        result.map_err(|error| match error {
            super::OpenError::Failed { source, .. } => self.unavailable(*source),
            error => Unavailable::Failed { place: self.place(), source: Arc::new(error) },
        })?;
        self.catch_up()
    }

    pub(super) fn close(&self) {
        self.log.close();
        *self.database.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    pub(super) fn unavailable(&self, error: redb::Error) -> Unavailable {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        match error {
            _ if self.log.is_closed() => Unavailable::Closed,
            redb::Error::Io(e)
                if matches!(e.kind(), StorageFull | QuotaExceeded | FileTooLarge) =>
            {
                Unavailable::Full { place: self.place() }
            }
            error => Unavailable::Failed { place: self.place(), source: Arc::new(error) },
        }
    }

    fn place(&self) -> String {
        self.path.display().to_string()
    }

    fn wait_for_opening(&self, seen: u64) -> bool {
        let openings = self.openings.lock().unwrap_or_else(PoisonError::into_inner);
        let (_guard, waited) = self
            .opened
            .wait_timeout_while(openings, PATIENCE, |now| *now == seen)
            .unwrap_or_else(PoisonError::into_inner);
        !waited.timed_out()
    }

    /// A commit that reported an error may have been made: then the file is ahead of the log.
    fn catch_up(&self) -> Result<(), Unavailable> {
        let known = self.log.position();
        let missed = self.read(|read| {
            let meta = Meta::read(&read.open_table(META)?)?;
            let is_gap = meta.position.epoch != known.epoch || meta.floor > known.revision;
            let missed = if is_gap { Vec::new() } else { changes(read, known, usize::MAX)? };
            Ok((meta, missed))
        });
        match missed? {
            (meta, missed) if missed.is_empty() && meta.position != known => {
                self.log.reset(meta.position);
            }
            (_, missed) => self.log.publish(missed),
        }
        Ok(())
    }

    pub(super) fn get(&self, key: &Key) -> Result<Option<Entry>, Unavailable> {
        self.read(|read| {
            let found = read.open_table(OBJECTS)?.get(key.as_str())?;
            Ok(found.map(|record| decode_entry(record.value())).transpose()?)
        })
    }

    pub(super) fn list(&self, query: &Query) -> Result<Page, ListError> {
        self.read(|read| {
            let meta = Meta::read(&read.open_table(META)?)?;
            let position = query.at.unwrap_or(meta.position);
            let before = match before(read, query, &meta, position)? {
                Ok(before) => before,
                Err(error) => return Ok(Err(error)),
            };
            let table = read.open_table(OBJECTS)?;
            let current = table
                .range(query.start()..)?
                .take_while(|document| match document {
                    Ok((key, _)) => key.value().starts_with(&query.prefix),
                    Err(_) => true,
                })
                .filter(|document| match document {
                    Ok((key, _)) => query.takes(key.value()),
                    Err(_) => true,
                })
                .map(|document| {
                    let (key, record) = document?;
                    Ok((decode_key(key.value())?, decode_entry(record.value())?))
                });
            listing::page(query, position, current, before).map(Ok)
        })?
    }
}

/// How documents were at a position.
fn before(
    read: &ReadTransaction,
    query: &Query,
    meta: &Meta,
    at: Position,
) -> Result<Result<Before, ListError>, redb::Error> {
    let now = meta.position;
    if at.epoch != now.epoch || at.revision > now.revision {
        return Ok(Err(ListError::Unknown { asked: at, now }));
    }
    if at.revision < meta.floor {
        return Ok(Err(ListError::Compacted { asked: at.revision, oldest: meta.floor }));
    }
    let mut known = Before::new();
    let mut from = at;
    loop {
        let since = changes(read, from, CHUNK)?;
        let Some(last) = since.last() else { return Ok(Ok(known)) };
        from = last.position;
        for (key, was) in listing::before(query, since.iter()) {
            known.entry(key).or_insert(was);
        }
    }
}

fn changes(
    read: &ReadTransaction,
    after: Position,
    limit: usize,
) -> Result<Vec<Changes>, redb::Error> {
    let table = read.open_table(HISTORY)?;
    let mut changes = Vec::new();
    for record in table.range(after.revision.next().0..)?.take(limit) {
        let (revision, record) = record?;
        let position = after.at(crate::Revision(revision.value()));
        changes.push(decode_changes(position, record.value())?);
    }
    Ok(changes)
}

impl Source for Shared {
    fn log(&self) -> &Log {
        &self.log
    }

    fn past(self: Arc<Self>, after: Position) -> Reply<'static, Result<Vec<Changes>, Gone>> {
        let read = move || {
            // What the log was not told yet is not for watches: it comes by the log.
            let told = self.log.position();
            let past = self.read(|read| {
                let meta = Meta::read(&read.open_table(META)?)?;
                let is_kept = meta.position.epoch == after.epoch && meta.floor <= after.revision;
                let past = if is_kept { changes(read, after, CHUNK)? } else { Vec::new() };
                Ok((meta.floor, past))
            });
            let (floor, mut past) = past.map_err(Gone::Unavailable)?;
            past.retain(|changes| changes.position.revision <= told.revision);
            if past.is_empty() { Err(Gone::Compacted(floor)) } else { Ok(past) }
        };
        Box::pin(async move {
            let closed = |_| Gone::Unavailable(Unavailable::Closed);
            tokio::task::spawn_blocking(read).await.map_err(closed)?
        })
    }
}
