//! Opening the file: made whole or not at all, checked, brought up to date, and known again.

use super::format::{FORMAT, HISTORY, META, Meta, OBJECTS};
use crate::position::{Epoch, Position, Revision};
use redb::{Database, DatabaseError, ReadableDatabase, TableError, WriteTransaction};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use thiserror::Error;

/// Why a store cannot be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// Another process has it.
    #[error("{} is in use by another process", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// A later version wrote it.
    #[error(
        "{} was made by a newer Osier: its format is {found}, this version reads up to {known}",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u64,
        /// The latest that this version knows.
        known: u64,
    },
    /// It is something else.
    #[error("{} is not a store of Osier", path.display())]
    NotAStore {
        /// The file.
        path: PathBuf,
        /// How that was seen.
        #[source]
        source: Option<Box<redb::Error>>,
    },
    /// It cannot be made, read or written.
    #[error("{} cannot be opened", path.display())]
    Failed {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: Box<redb::Error>,
    },
}

/// Steps from each format to the next: the first is from 1 to 2.
pub(super) type Migration = fn(&WriteTransaction) -> Result<(), redb::Error>;
const MIGRATIONS: &[Migration] = &[];

/// How a file is opened.
#[derive(Clone, Copy)]
pub(super) struct Opening {
    pub(super) cache: usize,
    pub(super) format: u64,
    pub(super) migrations: &'static [Migration],
}

// === impl Opening ===

impl Opening {
    pub(super) fn new(cache: usize) -> Self {
        Self { cache, format: FORMAT, migrations: MIGRATIONS }
    }

    /// Opens the file, or makes it.
    pub(super) fn open_or_create(self, path: &Path) -> Result<(Database, Meta), OpenError> {
        if !path.exists() {
            self.create(path).map_err(|e| failed(path, e))?;
        }
        self.open(path)
    }

    /// Opens the file, which has to be there.
    pub(super) fn open(self, path: &Path) -> Result<(Database, Meta), OpenError> {
        let database = redb::Builder::new().set_cache_size(self.cache).open(path);
        let database = database.map_err(|error| match error {
            DatabaseError::DatabaseAlreadyOpen => OpenError::InUse { path: path.to_owned() },
            DatabaseError::Storage(redb::StorageError::Io(e))
                if e.kind() == io::ErrorKind::InvalidData =>
            {
                not_a_store(path, Some(redb::Error::Io(e)))
            }
            error => failed(path, error),
        })?;
        let found = format_of(&database).map_err(|e| failed(path, e))?;
        match found {
            None => return Err(not_a_store(path, None)),
            Some(found) if found > self.format => {
                let (path, known) = (path.to_owned(), self.format);
                return Err(OpenError::Newer { path, found, known });
            }
            Some(found) => self.migrate(&database, found).map_err(|e| failed(path, e))?,
        }
        let meta = recognise(&database, path).map_err(|e| failed(path, e))?;
        Ok((database, meta))
    }

    /// Makes the file beside, and links it into place only when it is whole: a crash leaves no half
    /// of a store, and of two that make it at the same time one wins.
    fn create(self, path: &Path) -> Result<(), redb::Error> {
        let folder = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let file = tempfile::Builder::new().prefix(".osier-store-").tempfile_in(folder)?;
        let database = redb::Builder::new()
            .set_cache_size(self.cache)
            .create_file(file.as_file().try_clone()?)?;
        let meta = Meta {
            position: Position { epoch: Epoch::random()?, revision: Revision(0) },
            floor: Revision(0),
            history_bytes: 0,
            inode: file.as_file().metadata()?.ino(),
            backup: false,
        };
        initialise(&database, &meta, self.format)?;
        drop(database);
        match file.persist_noclobber(path) {
            Ok(_) => {}
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error.error.into()),
        }
        // The name in its folder has to last as well.
        Ok(File::open(folder)?.sync_all()?)
    }

    fn migrate(self, database: &Database, found: u64) -> Result<(), redb::Error> {
        if found == self.format {
            return Ok(());
        }
        let write = database.begin_write()?;
        let done = usize::try_from(found.saturating_sub(1)).unwrap_or(usize::MAX);
        for migration in self.migrations.iter().skip(done) {
            migration(&write)?;
        }
        write.open_table(META)?.insert("format", self.format)?;
        Ok(write.commit()?)
    }
}

/// Makes the tables of an empty file.
pub(super) fn initialise(database: &Database, meta: &Meta, format: u64) -> Result<(), redb::Error> {
    let write = database.begin_write()?;
    {
        let mut table = write.open_table(META)?;
        table.insert("format", format)?;
        meta.write(&mut table)?;
        write.open_table(OBJECTS)?;
        write.open_table(HISTORY)?;
    }
    Ok(write.commit()?)
}

fn format_of(database: &Database) -> Result<Option<u64>, redb::Error> {
    let read = database.begin_read()?;
    match read.open_table(META) {
        Ok(table) => Ok(table.get("format")?.map(|guard| guard.value())),
        Err(TableError::TableDoesNotExist(_) | TableError::TableTypeMismatch { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// A backup, and a file that was copied here, are not the store that others know: what was
/// committed after the copy was made is lost. So they begin a new epoch.
fn recognise(database: &Database, path: &Path) -> Result<Meta, redb::Error> {
    let meta = Meta::read(&database.begin_read()?.open_table(META)?)?;
    let inode = std::fs::metadata(path)?.ino();
    if meta.inode == inode && !meta.backup {
        return Ok(meta);
    }
    let write = database.begin_write()?;
    let meta = begin_epoch(&write, meta, ahead(meta.position.revision))?;
    let meta = Meta { inode, backup: false, ..meta };
    meta.write(&mut write.open_table(META)?)?;
    write.commit()?;
    Ok(meta)
}

/// Where a new epoch begins. Milliseconds grow faster than revisions, so that a backup which is
/// restored twice is ahead of its first life as well, and of all that anyone knew of that.
pub(super) fn ahead(of: Revision) -> Revision {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let now = Revision(u64::try_from(now).unwrap_or_default());
    // A clock that was put back leaves the leap.
    if now > of { now } else { of.leap() }
}

/// Forgets the past, and goes on at a revision of a new epoch.
pub(super) fn begin_epoch(
    write: &WriteTransaction,
    meta: Meta,
    revision: Revision,
) -> Result<Meta, redb::Error> {
    write.delete_table(HISTORY)?;
    write.open_table(HISTORY)?;
    let position = Position { epoch: Epoch::random()?, revision };
    let meta = Meta { position, floor: revision, history_bytes: 0, ..meta };
    meta.write(&mut write.open_table(META)?)?;
    Ok(meta)
}

fn failed(path: &Path, source: impl Into<redb::Error>) -> OpenError {
    OpenError::Failed { path: path.to_owned(), source: Box::new(source.into()) }
}

fn not_a_store(path: &Path, source: Option<redb::Error>) -> OpenError {
    OpenError::NotAStore { path: path.to_owned(), source: source.map(Box::new) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redb::{ReadableTable, TableDefinition};

    const NEW: TableDefinition<'static, &str, &str> = TableDefinition::new("new");

    fn to_two(write: &WriteTransaction) -> Result<(), redb::Error> {
        write.open_table(NEW)?.insert("made", "by step 1")?;
        Ok(())
    }

    fn to_three(write: &WriteTransaction) -> Result<(), redb::Error> {
        let mut table = write.open_table(NEW)?;
        let made = table.get("made")?.map(|v| v.value().to_owned()).unwrap_or_default();
        table.insert("made", format!("{made} and 2").as_str())?;
        Ok(())
    }

    fn fails(_: &WriteTransaction) -> Result<(), redb::Error> {
        Err(io::Error::other("no").into())
    }

    fn opening(format: u64, migrations: &'static [Migration]) -> Opening {
        Opening { cache: 1 << 20, format, migrations }
    }

    #[test]
    fn an_older_file_goes_through_every_step_once_and_whole() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("store");
        let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/format-1.redb");
        std::fs::copy(fixture, &path).unwrap();
        let error = opening(3, &[to_two, fails]).open(&path).unwrap_err();
        assert!(matches!(error, OpenError::Failed { .. }), "{error:?}");
        drop(opening(1, &[]).open(&path).unwrap());
        for _ in 0..2 {
            let (database, _) = opening(3, &[to_two, to_three]).open(&path).unwrap();
            let read = database.begin_read().unwrap();
            let made = read.open_table(NEW).unwrap().get("made").unwrap().unwrap();
            assert_eq!(made.value(), "by step 1 and 2");
            assert_eq!(format_of(&database).unwrap(), Some(3));
        }
        let error = opening(2, &[to_two]).open(&path).unwrap_err();
        assert!(matches!(error, OpenError::Newer { found: 3, known: 2, .. }), "{error:?}");
    }
}
