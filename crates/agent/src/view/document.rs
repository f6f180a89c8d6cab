//! Views as text: a YAML document with what holds for the whole cluster (`fabric`), and the
//! objects of the model (`objects`).

use super::ViewContent;
use osier_model::{Change, Fabric, Invalid, Key, NodeName, Object, View};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

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
}

impl From<ViewDocument> for ViewContent {
    fn from(ViewDocument { fabric, objects }: ViewDocument) -> Self {
        Self::Snapshot { fabric, objects }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{VIEW, parse};
    use std::error::Error as _;

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
}
