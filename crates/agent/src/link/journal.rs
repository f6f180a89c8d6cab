//! Which ports the controller gave to this node, on disk before it is asked: so that whatever dies
//! when, what is not used any more is given back, and what is used is not.

use osier_model::PortKey;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// How it is with a port between this node and the controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Owed {
    /// The controller may have given it, and it is used or about to be.
    Held,
    /// It is to be given back.
    Back,
    /// It was given back: views before this revision still have it.
    Gone(u64),
}

/// The file.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    entries: BTreeMap<PortKey, Owed>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    #[serde(flatten)]
    key: PortKey,
    owed: Owed,
}

// === impl Journal ===

impl Journal {
    /// What is on disk. A file that cannot be read is an error: to forget would be to leak.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let entries = match std::fs::read(path) {
            Ok(bytes) => serde_json::from_slice::<Vec<Entry>>(&bytes).map_err(io::Error::other)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let entries = entries.into_iter().map(|entry| (entry.key, entry.owed)).collect();
        Ok(Self { path: path.to_owned(), entries })
    }

    pub(super) fn get(&self, key: &PortKey) -> Option<Owed> {
        self.entries.get(key).copied()
    }

    pub(super) fn with(&self, is: impl Fn(Owed) -> bool) -> Vec<PortKey> {
        self.entries.iter().filter(|(_, owed)| is(**owed)).map(|(key, _)| key.clone()).collect()
    }

    /// Sets, or forgets, and writes. On an error all is as it was.
    pub(super) fn set(&mut self, key: &PortKey, owed: Option<Owed>) -> io::Result<()> {
        let before = self.get(key);
        if before == owed {
            return Ok(());
        }
        self.put(key, owed);
        self.store().inspect_err(|_| self.put(key, before))
    }

    fn put(&mut self, key: &PortKey, owed: Option<Owed>) {
        match owed {
            Some(owed) => self.entries.insert(key.clone(), owed),
            None => self.entries.remove(key),
        };
    }

    fn store(&self) -> io::Result<()> {
        let entry = |(key, owed): (&PortKey, &Owed)| Entry { key: key.clone(), owed: *owed };
        let entries: Vec<Entry> = self.entries.iter().map(entry).collect();
        write(&self.path, &serde_json::to_vec(&entries).map_err(io::Error::other)?)
    }
}

/// Replaces a file: after a crash there is the old one or the new one.
pub(super) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    std::fs::create_dir_all(folder)?;
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let mut file = std::fs::File::create(&beside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&beside, path)?;
    std::fs::File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_there_again_and_what_cannot_be_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("granted.json");
        let key = PortKey { device: "a:b".parse().unwrap(), interface: "eth0".parse().unwrap() };
        let mut journal = Journal::open(&path).unwrap();
        journal.set(&key, Some(Owed::Held)).unwrap();
        assert_eq!(Journal::open(&path).unwrap().get(&key), Some(Owed::Held));
        journal.set(&key, Some(Owed::Gone(7))).unwrap();
        assert_eq!(
            Journal::open(&path).unwrap().with(|owed| owed == Owed::Gone(7)),
            std::slice::from_ref(&key)
        );
        // Its place is a folder now.
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir_all(path.join("x")).unwrap();
        assert!(journal.set(&key, None).is_err());
        assert_eq!(journal.get(&key), Some(Owed::Gone(7)));
        assert!(Journal::open(&path).is_err());
    }
}
