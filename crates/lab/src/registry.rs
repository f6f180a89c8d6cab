//! Which labs there are: a directory for each, under `/run/osier/lab`.
//!
//! A directory holds the lab's facts, its keeper's socket and log, and a lock that the keeper holds.
//! Who answers on the socket is alive; who gets the lock may remove the directory. So no two keepers
//! ever have one name, and what a killed one leaves is known for what it is.

use crate::error::LabError;
use crate::layout::Layout;
use crate::spec::LabName;
use osier_testbed::{Lab, wait_until};
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where labs are kept.
const BASE: &str = "/run/osier/lab";
/// Names another place for labs: for tests, and for those who want their labs apart.
pub(crate) const BASE_VARIABLE: &str = "OSIER_LAB_DIR";

const LOCK: &str = "lock";
const FACTS: &str = "lab.json";
const SOCKET: &str = "keeper.sock";
const LOG: &str = "keeper.log";
const LARGEST_FACTS: u64 = 4 << 20;

/// How long a keeper that was told to go, and the cleaning after it, may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// The place where labs are known.
#[derive(Debug, Clone)]
pub struct Registry {
    base: PathBuf,
}

/// How a lab is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It is being made.
    Starting,
    /// It is there.
    Up,
    /// Its keeper is gone.
    Dead,
}

/// A lab that is known.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its name.
    pub name: LabName,
    /// How it is.
    pub state: State,
    /// Its facts, as far as they are known.
    pub layout: Option<Layout>,
}

/// A name that is ours, with its directory.
#[derive(Debug)]
pub(crate) struct Claim {
    dir: PathBuf,
    _lock: File,
}

// === impl Registry ===

impl Registry {
    /// This machine's.
    pub fn system() -> Self {
        let base = std::env::var_os(BASE_VARIABLE).filter(|base| !base.is_empty());
        Self { base: base.map_or_else(|| BASE.into(), PathBuf::from) }
    }

    /// One in a directory of its own.
    pub fn at(base: &Path) -> Self {
        Self { base: base.to_owned() }
    }

    /// All labs, by name.
    pub fn entries(&self) -> Vec<Entry> {
        let found = self.base.read_dir().into_iter().flatten().flatten();
        let names = found.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let mut entries: Vec<Entry> = names.filter_map(|name| self.entry(&name)).collect();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        entries
    }

    /// One lab.
    pub fn entry(&self, name: &LabName) -> Option<Entry> {
        let dir = self.dir(name);
        if !dir.is_dir() {
            return None;
        }
        let layout = read_facts(&dir);
        let complete = layout.as_ref().is_some_and(|layout| !layout.nodes.is_empty());
        let state = match UnixStream::connect(dir.join(SOCKET)) {
            Ok(_) if complete => State::Up,
            Ok(_) => State::Starting,
            Err(_) => State::Dead,
        };
        Some(Entry { name: name.clone(), state, layout })
    }

    /// The lab that is meant: the one named, or the only one there is, or the one of default name.
    pub fn choose(&self, named: Option<&LabName>) -> Result<LabName, LabError> {
        if let Some(name) = named {
            return Ok(name.clone());
        }
        let default = LabName::default_name();
        let mut names: Vec<LabName> = self.entries().into_iter().map(|entry| entry.name).collect();
        match names.len() {
            1 => Ok(names.remove(0)),
            2.. if !names.contains(&default) => {
                Err(LabError::Several { names: names.into_iter().map(String::from).collect() })
            }
            _ => Ok(default),
        }
    }

    /// The facts of a lab that is up.
    pub fn layout(&self, name: &LabName) -> Result<Layout, LabError> {
        let name = name.clone();
        match self.entry(&name) {
            Some(Entry { state: State::Up, layout: Some(layout), .. }) => Ok(layout),
            Some(Entry { state: State::Dead, .. }) => Err(LabError::Dead { name }),
            Some(_) => Err(LabError::Starting { name }),
            None => Err(LabError::Unknown { name }),
        }
    }

    /// A connection to a lab's keeper.
    pub(crate) fn connect(&self, name: &LabName) -> io::Result<UnixStream> {
        UnixStream::connect(self.dir(name).join(SOCKET))
    }

    /// What a keeper said last.
    pub(crate) fn log(&self, name: &LabName) -> String {
        fs::read_to_string(self.dir(name).join(LOG)).unwrap_or_default()
    }

    /// Takes a name. What a dead lab of that name left is removed first.
    pub(crate) fn claim(&self, name: &LabName) -> Result<Claim, LabError> {
        let claim = self.lock(name)?.ok_or_else(|| LabError::Taken { name: name.clone() })?;
        if let Some(layout) = read_facts(&claim.dir) {
            remove_remains(name, &layout.dir)?;
        }
        for file in [FACTS, SOCKET, LOG] {
            // Most often there is none.
            let _ = fs::remove_file(claim.dir.join(file));
        }
        Ok(claim)
    }

    /// Removes all that is left of a lab whose keeper is gone or about to go: whether there was
    /// something.
    pub(crate) fn bury(&self, name: &LabName) -> Result<bool, LabError> {
        let dir = self.dir(name);
        if !dir.exists() {
            return Ok(false);
        }
        let claim =
            wait_until("the end of the lab's keeper", PATIENCE, || match self.lock(name) {
                Ok(Some(claim)) => Ok(Ok(claim)),
                Ok(None) => Err("it runs"),
                Err(error) => Ok(Err(error)),
            })??;
        if let Some(layout) = read_facts(&claim.dir) {
            remove_remains(name, &layout.dir)?;
        }
        claim.release().map_err(file("remove", &dir))?;
        Ok(true)
    }

    /// The lock of a name; `None` if another has it.
    fn lock(&self, name: &LabName) -> Result<Option<Claim>, LabError> {
        let dir = self.dir(name);
        let path = dir.join(LOCK);
        loop {
            let made = fs::create_dir_all(&self.base)
                .and_then(|()| DirBuilder::new().recursive(true).mode(0o700).create(&dir));
            made.map_err(file("make", &dir))?;
            let mut options = OpenOptions::new();
            let lock = match options.create(true).append(true).mode(0o600).open(&path) {
                Ok(lock) => lock,
                // Its owner removed the directory in between.
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                Err(source) => return Err(file("open", &path)(source)),
            };
            match lock.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(source)) => return Err(file("lock", &path)(source)),
            }
            // It may be the lock of a directory that its owner has just removed.
            let inode = |found: io::Result<fs::Metadata>| found.map(|found| found.ino()).ok();
            if inode(fs::metadata(&path)) == inode(lock.metadata()) {
                return Ok(Some(Claim { dir, _lock: lock }));
            }
        }
    }

    fn dir(&self, name: &LabName) -> PathBuf {
        self.base.join(name.as_str())
    }
}

// === impl Claim ===

impl Claim {
    /// Listens for those who ask about the lab.
    pub(crate) fn listen(&self) -> Result<UnixListener, LabError> {
        let path = self.dir.join(SOCKET);
        // The directory is root's alone, and so is the socket in it.
        UnixListener::bind(&path).map_err(file("listen on", &path))
    }

    /// A fresh log.
    pub(crate) fn log(&self) -> Result<File, LabError> {
        let path = self.dir.join(LOG);
        File::create(&path).map_err(file("make", &path))
    }

    /// Writes the lab's facts, at once or not at all.
    pub(crate) fn publish(&self, layout: &Layout) -> Result<(), LabError> {
        let (path, new) = (self.dir.join(FACTS), self.dir.join("lab.json.new"));
        let text = serde_json::to_vec_pretty(layout).map_err(io::Error::from);
        text.and_then(|text| fs::write(&new, text))
            .and_then(|()| fs::rename(&new, &path))
            .map_err(file("write", &path))
    }

    /// Gives the name back: its directory goes.
    pub(crate) fn release(&self) -> io::Result<()> {
        // The lock last: until then nobody else takes the directory for theirs.
        for entry in self.dir.read_dir()?.flatten().filter(|entry| entry.file_name() != LOCK) {
            fs::remove_file(entry.path())?;
        }
        fs::remove_file(self.dir.join(LOCK))?;
        fs::remove_dir(&self.dir)
    }
}

/// Ends what is left of a lab, and waits until it is gone.
pub(crate) fn remove_remains(name: &LabName, dir: &Path) -> Result<(), LabError> {
    let left = Lab::remove_remains(dir, PATIENCE)?;
    if left.is_empty() { Ok(()) } else { Err(LabError::Left { name: name.clone(), left }) }
}

fn read_facts(dir: &Path) -> Option<Layout> {
    let path = dir.join(FACTS);
    if fs::metadata(&path).ok()?.len() > LARGEST_FACTS {
        return None;
    }
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> LabError {
    let path = path.to_owned();
    move |source| LabError::File { action, path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> LabName {
        text.parse().unwrap()
    }

    #[test]
    fn a_name_is_one_keepers() {
        let base = tempfile::tempdir().unwrap();
        let registry = Registry::at(&base.path().join("lab"));
        let claim = registry.claim(&name("a")).unwrap();
        assert!(matches!(registry.claim(&name("a")), Err(LabError::Taken { .. })));
        assert!(registry.claim(&name("b")).is_ok(), "another name is free");
        let state = |of| registry.entry(&name(of)).map(|entry| entry.state);
        assert_eq!(state("a"), Some(State::Dead), "nobody listens yet");
        let _listener = claim.listen().unwrap();
        assert_eq!(state("a"), Some(State::Starting));
        assert!(matches!(registry.layout(&name("a")), Err(LabError::Starting { .. })));
        claim.release().unwrap();
        assert_eq!(state("a"), None);
        // The old claim's lock is that of a removed file, and does not count.
        let again = registry.claim(&name("a")).unwrap();
        drop((claim, again));
        assert!(registry.bury(&name("a")).unwrap());
        assert!(!registry.bury(&name("a")).unwrap());
    }

    #[test]
    fn the_lab_that_is_meant() {
        let base = tempfile::tempdir().unwrap();
        let registry = Registry::at(base.path());
        let chosen = || registry.choose(None).map(String::from);
        assert_eq!(chosen().unwrap(), "default");
        fs::create_dir(base.path().join("mine")).unwrap();
        assert_eq!(chosen().unwrap(), "mine");
        fs::create_dir(base.path().join("other")).unwrap();
        assert!(matches!(chosen(), Err(LabError::Several { .. })));
        fs::create_dir(base.path().join("default")).unwrap();
        assert_eq!(chosen().unwrap(), "default");
        assert_eq!(registry.choose(Some(&name("x"))).unwrap(), name("x"));
        assert_eq!(registry.entries().len(), 3);
    }
}
