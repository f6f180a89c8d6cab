//! Copies of a live store, each as of one moment.

use super::file::initialise;
use super::format::{FORMAT, HISTORY, META, Meta, OBJECTS};
use super::shared::Shared;
use crate::error::Unavailable;
use crate::position::Position;
use redb::{Database, ReadTransaction};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why there is no backup.
#[derive(Debug, Error)]
pub enum BackupError {
    /// The store cannot be read, or the copy not be written.
    #[error("the copy could not be made")]
    Copy(#[source] Unavailable),
    /// The copy cannot be put in place.
    #[error("{} cannot be written", path.display())]
    Write {
        /// The copy.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Copies what is committed now; what is committed meanwhile waits for nothing. The copy is marked
/// as one, so that a store restored from it begins a new epoch.
pub(super) fn backup(shared: &Shared, path: &Path) -> Result<Position, BackupError> {
    let write = |source| BackupError::Write { path: path.to_owned(), source };
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut builder = tempfile::Builder::new();
    let file = builder.prefix(".osier-backup-").tempfile_in(folder).map_err(write)?;
    let position = shared
        .with(|database| {
            let read = redb::ReadableDatabase::begin_read(database)?;
            file.as_file().set_len(0)?;
            let copy = redb::Builder::new()
                .set_cache_size(8 << 20)
                .create_file(file.as_file().try_clone()?)?;
            copy_all(&read, &copy)
        })
        .map_err(BackupError::Copy)?;
    file.as_file().sync_all().map_err(write)?;
    file.persist_noclobber(path).map_err(|e| write(e.error))?;
    File::open(folder).and_then(|f| f.sync_all()).map_err(write)?;
    Ok(position)
}

fn copy_all(read: &ReadTransaction, copy: &Database) -> Result<Position, redb::Error> {
    let meta = Meta::read(&read.open_table(META)?)?;
    initialise(copy, &Meta { backup: true, ..meta }, FORMAT)?;
    let write = copy.begin_write()?;
    {
        let mut objects = write.open_table(OBJECTS)?;
        for document in read.open_table(OBJECTS)?.range::<&str>(..)? {
            let (key, record) = document?;
            objects.insert(key.value(), record.value())?;
        }
        let mut history = write.open_table(HISTORY)?;
        for changes in read.open_table(HISTORY)?.range::<u64>(..)? {
            let (revision, record) = changes?;
            history.insert(revision.value(), record.value())?;
        }
    }
    write.commit()?;
    Ok(meta.position)
}
