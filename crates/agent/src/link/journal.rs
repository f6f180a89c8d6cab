//! Which ports the controller gave to this node, on disk before it is asked: so that whatever dies
//! when, what is not used any more is given back, and what is used is not.

use osier_model::PortKey;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

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
    entries: BTreeMap<PortKey, Port>,
    /// The last generation that was begun.
    last: u64,
}

/// A port, and which of its lives this is: each is asked for, and given back, by its generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Port {
    owed: Owed,
    #[serde(default)]
    generation: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    #[serde(flatten)]
    key: PortKey,
    #[serde(flatten)]
    port: Port,
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
        let entries: BTreeMap<PortKey, Port> =
            entries.into_iter().map(|entry| (entry.key, entry.port)).collect();
        let last = entries.values().map(|port| port.generation).max().unwrap_or_default();
        Ok(Self { path: path.to_owned(), entries, last })
    }

    pub(super) fn get(&self, key: &PortKey) -> Option<Owed> {
        self.entries.get(key).map(|port| port.owed)
    }

    /// Which life of a port this is.
    pub(super) fn generation(&self, key: &PortKey) -> u64 {
        self.entries.get(key).map(|port| port.generation).unwrap_or_default()
    }

    pub(super) fn with(&self, is: impl Fn(Owed) -> bool) -> Vec<PortKey> {
        let ports = self.entries.iter().filter(|(_, port)| is(port.owed));
        ports.map(|(key, _)| key.clone()).collect()
    }

    /// Sets, or forgets, and writes. On an error all is as it was. A port that was not held
    /// before begins a life.
    pub(super) fn set(&mut self, key: &PortKey, owed: Option<Owed>) -> io::Result<()> {
        let before = self.entries.get(key).copied();
        if before.map(|port| port.owed) == owed {
            return Ok(());
        }
        let generation = match (before, owed) {
            (_, Some(Owed::Held)) | (None, Some(_)) => self.begin(),
            (before, _) => before.map(|port| port.generation).unwrap_or_default(),
        };
        self.put(key, owed.map(|owed| Port { owed, generation }));
        self.store().inspect_err(|_| self.put(key, before))
    }

    /// A generation after all before it, also those of a journal that was lost.
    fn begin(&mut self) -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
        self.last = (self.last + 1).max(u64::try_from(now).unwrap_or_default());
        self.last
    }

    fn put(&mut self, key: &PortKey, port: Option<Port>) {
        match port {
            Some(port) => self.entries.insert(key.clone(), port),
            None => self.entries.remove(key),
        };
    }

    fn store(&self) -> io::Result<()> {
        let entry = |(key, port): (&PortKey, &Port)| Entry { key: key.clone(), port: *port };
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
        let first = journal.generation(&key);
        for owed in [Owed::Held, Owed::Back, Owed::Gone(7)] {
            journal.set(&key, Some(owed)).unwrap();
            assert_eq!(journal.generation(&key), first, "it is given back as it was asked for");
        }
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
    #[test]
    fn each_life_of_a_port_is_later_than_all_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("granted.json");
        let key = PortKey { device: "a:b".parse().unwrap(), interface: "eth0".parse().unwrap() };
        let mut last = 0;
        for owed in [Some(Owed::Back), Some(Owed::Gone(7)), None, Some(Owed::Back)] {
            let mut journal = Journal::open(&path).unwrap();
            journal.set(&key, Some(Owed::Held)).unwrap();
            assert!(journal.generation(&key) > last);
            last = journal.generation(&key);
            journal.set(&key, owed).unwrap();
        }
        // As it was written before there were generations.
        let old = r#"[{"device":"a:b","interface":"eth0","owed":"held"}]"#;
        std::fs::write(&path, old).unwrap();
        let journal = Journal::open(&path).unwrap();
        assert_eq!((journal.get(&key), journal.generation(&key)), (Some(Owed::Held), 0));
    }
}
