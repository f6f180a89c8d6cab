//! The node's view, from a file until a controller sends it.
//!
//! The file is a YAML document: what holds for the whole cluster (`fabric`), and the objects of
//! the model (`objects`). It is looked at each second. A file that is wrong is refused with the
//! reason, and the last good one stays. What a view means is the model's and the compiler's.

use osier_model::{Change, Fabric, Invalid, Key, NodeName, Object, View};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use thiserror::Error;

/// How often the file is looked at.
pub const POLL: Duration = Duration::from_secs(1);

/// The longest view that is read, in bytes.
const MAX_FILE: u64 = 64 << 20;

/// A view as a file has it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ViewDocument {
    /// What holds for the whole cluster.
    #[serde(default)]
    pub fabric: Fabric,
    /// Objects, in any order.
    #[serde(default)]
    pub objects: Vec<Object>,
}

/// A view that cannot be used.
#[derive(Debug, Error)]
pub enum ViewError {
    /// The file cannot be read.
    #[error("the view {} cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is no view.
    #[error("{} is no view", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: Box<serde_saphyr::Error>,
    },
    /// An object cannot be.
    #[error("the view {} is wrong", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Which object, and why.
        source: Box<Invalid>,
    },
    /// An object stands twice.
    #[error("{} has {key} twice", path.display())]
    Twice {
        /// The file.
        path: PathBuf,
        /// Which.
        key: Box<Key>,
    },
    /// What holds for the cluster cannot change under a running agent.
    #[error("{}: fabric: it differs from what the agent started with; restart the agent", path.display())]
    Fabric {
        /// The file.
        path: PathBuf,
    },
}

// === impl ViewDocument ===

impl ViewDocument {
    /// Reads and checks a file.
    pub fn load(path: &Path) -> Result<Self, ViewError> {
        let read = std::fs::metadata(path).and_then(|found| match found.len() {
            0..=MAX_FILE => std::fs::read_to_string(path),
            size => Err(io::Error::other(format!("{size} bytes, where {MAX_FILE} are allowed"))),
        });
        let text = read.map_err(|source| ViewError::Read { path: path.to_owned(), source })?;
        Self::parse(&text, path)
    }

    /// Reads and checks the text of a file; `path` is for errors.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ViewError> {
        let document: Self = serde_saphyr::from_str(text).map_err(|source| ViewError::Parse {
            path: path.to_owned(),
            source: Box::new(source),
        })?;
        let invalid =
            |source| ViewError::Invalid { path: path.to_owned(), source: Box::new(source) };
        document.fabric.validate().map_err(invalid)?;
        let nobody = NodeName::new("nobody").expect("these are letters");
        let mut view = View::new(nobody, document.fabric.clone());
        let mut seen = BTreeSet::new();
        for object in &document.objects {
            let key = object.key();
            if !seen.insert(key.clone()) {
                return Err(ViewError::Twice { path: path.to_owned(), key: Box::new(key) });
            }
            view.apply(Change::Put(object.clone())).map_err(invalid)?;
        }
        Ok(document)
    }

    /// The changes that lead from this view to the next. What goes, and what gets another number,
    /// goes first: its number may be another's in the next.
    pub fn changes_to(&self, next: &Self) -> Vec<Change> {
        let index = |document: &Self| -> BTreeMap<Key, Object> {
            document.objects.iter().map(|object| (object.key(), object.clone())).collect()
        };
        let (old, new) = (index(self), index(next));
        let goes = |key: &&Key| match (&old[*key], new.get(*key)) {
            (_, None) => true,
            (Object::Network(old), Some(Object::Network(new))) => old.vni != new.vni,
            (Object::Router(old), Some(Object::Router(new))) => old.vrf != new.vrf,
            _ => false,
        };
        let gone = old.keys().filter(goes).cloned().map(Change::Delete);
        let put = next.objects.iter().filter(|object| old.get(&object.key()) != Some(object));
        gone.chain(put.cloned().map(Change::Put)).collect()
    }
}

/// The file with the view, and what of it holds now.
#[derive(Debug)]
pub struct ViewFile {
    path: PathBuf,
    current: ViewDocument,
    seen: Option<(SystemTime, u64)>,
}

// === impl ViewFile ===

impl ViewFile {
    /// Opens the file. One that is not there yet is an empty view.
    pub fn open(path: &Path) -> Result<Self, ViewError> {
        let seen = stamp(path);
        let current = match seen {
            Some(_) => ViewDocument::load(path)?,
            None => ViewDocument::default(),
        };
        Ok(Self { path: path.to_owned(), current, seen })
    }

    /// What holds now.
    pub fn current(&self) -> &ViewDocument {
        &self.current
    }

    /// Looks at the file: the changes since the last look. On an error the last good view holds,
    /// and the file is not read again until it changes.
    pub fn look(&mut self) -> Result<Vec<Change>, ViewError> {
        let found = stamp(&self.path);
        // A file that is away is about to be replaced: nothing is deleted for that.
        if found.is_none() || found == self.seen {
            return Ok(Vec::new());
        }
        let first = self.seen.is_none();
        self.seen = found;
        let next = ViewDocument::load(&self.path)?;
        if next.fabric != self.current.fabric && !first {
            return Err(ViewError::Fabric { path: self.path.clone() });
        }
        let changes = self.current.changes_to(&next);
        self.current = next;
        Ok(changes)
    }
}

fn stamp(path: &Path) -> Option<(SystemTime, u64)> {
    let found = std::fs::metadata(path).ok()?;
    Some((found.modified().ok()?, found.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error as _;

    const VIEW: &str = r#"
fabric: { tunnel: geneve, cluster: [10.1.0.0/16, "fd01::/48"] }
objects:
  - { kind: node, name: n1, tunnel: 192.0.2.1, blocks: [10.1.1.0/24, "fd01:0:0:1::/64"] }
  - { kind: router, name: default, vrf: 0 }
  - { kind: network, name: pods, vni: 1, router: default, reach: routed }
"#;

    fn parse(text: &str) -> Result<ViewDocument, ViewError> {
        ViewDocument::parse(text, Path::new("/view.yaml"))
    }

    #[test]
    fn changes_are_what_differs() {
        let old = parse(VIEW).unwrap();
        assert!(old.changes_to(&old).is_empty());
        let text = VIEW.replace("10.1.1.0/24, ", "").replace("name: pods", "name: shop");
        let new = parse(&text).unwrap();
        let changes = old.changes_to(&new);
        assert_eq!(changes.len(), 3, "{changes:?}");
        assert!(matches!(&changes[0], Change::Delete(Key::Network(n)) if n.as_str() == "pods"));
        // Taking the steps gives the end.
        let apply = |view: &mut View, changes: Vec<Change>| {
            for change in changes {
                view.apply(change).unwrap();
            }
        };
        let name = NodeName::new("n1").unwrap();
        let mut stepped = View::new(name.clone(), old.fabric.clone());
        apply(&mut stepped, ViewDocument::default().changes_to(&old));
        apply(&mut stepped, changes);
        let mut direct = View::new(name, new.fabric.clone());
        apply(&mut direct, ViewDocument::default().changes_to(&new));
        assert_eq!(stepped, direct);
    }

    #[test]
    fn numbers_may_be_swapped() {
        let blue = "  - { kind: network, name: blue, vni: 7, router: default }\n";
        let old = parse(&format!("{VIEW}{blue}")).unwrap();
        let swapped = VIEW.replace("vni: 1,", "vni: 7,") + &blue.replace("vni: 7", "vni: 1");
        let mut view = View::new(NodeName::new("n1").unwrap(), old.fabric.clone());
        let steps = ViewDocument::default().changes_to(&old);
        for change in steps.into_iter().chain(old.changes_to(&parse(&swapped).unwrap())) {
            view.apply(change).unwrap();
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let cause = |text: &str| {
            let error = parse(text).unwrap_err();
            let cause = error.source().map(ToString::to_string).unwrap_or_default();
            format!("{error}: {cause}")
        };
        let said = cause(&VIEW.replace("10.1.1.0/24", "10.1.1.7/24"));
        assert!(said.contains("node n1: blocks[0]: 10.1.1.7/24 has bits"), "{said}");
        let said = cause(&VIEW.replace("kind: router", "kind: rooter"));
        assert!(said.contains("rooter"), "{said}");
        let said = cause(&VIEW.replace("fabric", "fabrik"));
        assert!(said.contains("fabrik"), "{said}");
        let twice = format!("{VIEW}  - {{ kind: router, name: default, vrf: 1 }}\n");
        assert!(cause(&twice).starts_with("/view.yaml has router default twice"));
    }

    #[test]
    fn a_bad_file_is_refused_and_the_last_good_one_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("view.yaml");
        let mut file = ViewFile::open(&path).unwrap();
        assert!(file.look().unwrap().is_empty());
        std::fs::write(&path, VIEW).unwrap();
        assert_eq!(file.look().unwrap().len(), 3);
        std::fs::write(&path, "objects: [oh").unwrap();
        assert!(matches!(file.look(), Err(ViewError::Parse { .. })));
        assert_eq!(file.current(), &parse(VIEW).unwrap());
        assert!(file.look().unwrap().is_empty(), "it is complained about once");
        std::fs::write(&path, VIEW.replace("geneve", "vxlan")).unwrap();
        assert!(matches!(file.look(), Err(ViewError::Fabric { .. })));
        std::fs::remove_file(&path).unwrap();
        assert!(file.look().unwrap().is_empty());
        assert_eq!(file.current().objects.len(), 3);
    }
}
