//! A layer: what stands at which path, and the tar of it.

use crate::error::ImageError;
use crate::libraries::libraries;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use tar::{EntryType, Header};

/// Files, folders and links. Folders on the way to something are made by themselves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layer {
    entries: BTreeMap<String, Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    Directory { mode: u32 },
    Bytes { mode: u32, bytes: Vec<u8> },
    File { mode: u32, from: PathBuf },
    Link { to: String },
}

const PROGRAM: u32 = 0o755;
const DATA: u32 = 0o644;

impl Layer {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A folder.
    pub fn directory(&mut self, path: &str, mode: u32) -> Result<(), ImageError> {
        self.put(path, Entry::Directory { mode })
    }

    /// A file with these bytes.
    pub fn bytes(
        &mut self,
        path: &str,
        mode: u32,
        bytes: impl Into<Vec<u8>>,
    ) -> Result<(), ImageError> {
        self.put(path, Entry::Bytes { mode, bytes: bytes.into() })
    }

    /// A copy of a file of this machine; it is read when the image is written.
    pub fn file(&mut self, from: &Path, path: &str, mode: u32) -> Result<(), ImageError> {
        let read = |source| ImageError::Read { path: from.to_owned(), source };
        let from = from.canonicalize().map_err(read)?;
        self.put(path, Entry::File { mode, from })
    }

    /// A symbolic link.
    pub fn link(&mut self, path: &str, to: &str) -> Result<(), ImageError> {
        self.put(path, Entry::Link { to: to.to_owned() })
    }

    /// A program of this machine, with the libraries that it needs, at their own paths.
    pub fn program(&mut self, from: &Path, path: &str) -> Result<(), ImageError> {
        self.file(from, path, PROGRAM)?;
        self.libraries_of(from)
    }

    /// Only the libraries of a program.
    pub fn libraries_of(&mut self, program: &Path) -> Result<(), ImageError> {
        for library in libraries(program)? {
            let inside = library.path.strip_prefix("/").unwrap_or(&library.path);
            self.file(&library.path, &inside.to_string_lossy(), PROGRAM)?;
        }
        Ok(())
    }

    /// All files of a folder that a test likes, not those below.
    pub fn folder(
        &mut self,
        from: &Path,
        path: &str,
        likes: impl Fn(&str) -> bool,
    ) -> Result<(), ImageError> {
        let read = |source| ImageError::Read { path: from.to_owned(), source };
        for found in fs::read_dir(from).map_err(read)? {
            let found = found.map_err(read)?;
            let name = found.file_name().to_string_lossy().into_owned();
            if found.path().is_file() && likes(&name) {
                self.file(&found.path(), &format!("{path}/{name}"), DATA)?;
            }
        }
        Ok(())
    }

    /// Takes out what another layer below has already.
    pub fn subtract(&mut self, below: &Self) {
        self.entries.retain(|path, entry| below.entries.get(path) != Some(entry));
    }

    fn put(&mut self, path: &str, entry: Entry) -> Result<(), ImageError> {
        let proper = |part: &str| !part.is_empty() && part != "." && part != "..";
        if !path.split('/').all(proper) {
            return Err(ImageError::Path(path.to_owned()));
        }
        for (end, _) in path.match_indices('/') {
            let folder = Entry::Directory { mode: 0o755 };
            let found = self.entries.entry(path[..end].to_owned()).or_insert(folder);
            if !matches!(found, Entry::Directory { .. }) {
                return Err(ImageError::Taken(path[..end].to_owned()));
            }
        }
        match self.entries.get(path) {
            Some(found) if *found != entry && !both_directories(found, &entry) => {
                Err(ImageError::Taken(path.to_owned()))
            }
            _ => {
                self.entries.insert(path.to_owned(), entry);
                Ok(())
            }
        }
    }

    /// The tar: sorted, of root, without times.
    pub(crate) fn write_tar(&self, out: impl Write) -> Result<(), ImageError> {
        let mut tar = tar::Builder::new(out);
        for (path, entry) in &self.entries {
            entry.append(&mut tar, path)?;
        }
        tar.finish().map_err(ImageError::Layer)
    }
}

fn both_directories(a: &Entry, b: &Entry) -> bool {
    matches!((a, b), (Entry::Directory { .. }, Entry::Directory { .. }))
}

// === impl Entry ===

impl Entry {
    fn append(&self, tar: &mut tar::Builder<impl Write>, path: &str) -> Result<(), ImageError> {
        let header = |kind, mode, size| {
            // Ustar with GNU's long names: what all runtimes read.
            let mut header = Header::new_gnu();
            header.set_entry_type(kind);
            header.set_mode(mode);
            header.set_size(size);
            header.set_mtime(0);
            header.set_uid(0);
            header.set_gid(0);
            header
        };
        let done: io::Result<()> = match self {
            Self::Directory { mode } => {
                let mut header = header(EntryType::Directory, *mode, 0);
                tar.append_data(&mut header, format!("{path}/"), io::empty())
            }
            Self::Bytes { mode, bytes } => {
                let mut header = header(EntryType::Regular, *mode, bytes.len() as u64);
                tar.append_data(&mut header, path, bytes.as_slice())
            }
            Self::File { mode, from } => {
                let read = |source| ImageError::Read { path: from.clone(), source };
                let bytes = fs::read(from).map_err(read)?;
                let mut header = header(EntryType::Regular, *mode, bytes.len() as u64);
                tar.append_data(&mut header, path, bytes.as_slice())
            }
            Self::Link { to } => {
                let mut header = header(EntryType::Symlink, 0o777, 0);
                tar.append_link(&mut header, path, to)
            }
        };
        done.map_err(ImageError::Layer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_come_by_themselves_and_before_what_is_in_them() {
        let mut layer = Layer::new();
        layer.bytes("usr/bin/a", 0o755, "a").unwrap();
        layer.directory("tmp", 0o1777).unwrap();
        layer.link("bin", "usr/bin").unwrap();
        let mut tar = Vec::new();
        layer.write_tar(&mut tar).unwrap();
        let mut archive = tar::Archive::new(tar.as_slice());
        let entries = archive.entries().unwrap().map(|entry| {
            let entry = entry.unwrap();
            assert_eq!((entry.header().mtime().unwrap(), entry.header().uid().unwrap()), (0, 0));
            (entry.path().unwrap().display().to_string(), entry.header().mode().unwrap())
        });
        let entries: Vec<(String, u32)> = entries.collect();
        let expected = [
            ("bin", 0o777),
            ("tmp/", 0o1777),
            ("usr/", 0o755),
            ("usr/bin/", 0o755),
            ("usr/bin/a", 0o755),
        ];
        assert_eq!(entries, expected.map(|(path, mode)| (path.to_owned(), mode)));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let mut layer = Layer::new();
        for path in ["/etc", "", "a//b", "a/../b", "./a", "a/"] {
            assert!(matches!(layer.directory(path, 0o755), Err(ImageError::Path(_))), "{path}");
        }
        layer.bytes("a", 0o644, "1").unwrap();
        layer.bytes("a", 0o644, "1").unwrap();
        assert!(matches!(layer.bytes("a", 0o644, "2"), Err(ImageError::Taken(_))));
        assert!(matches!(layer.bytes("a/b", 0o644, "2"), Err(ImageError::Taken(_))));
        assert!(layer.file(Path::new("/nonexistent"), "b", 0o644).is_err());
    }

    #[test]
    fn an_upper_layer_has_only_what_is_new() {
        let (mut lower, mut upper) = (Layer::new(), Layer::new());
        lower.bytes("lib/a", 0o644, "a").unwrap();
        upper.bytes("lib/a", 0o644, "a").unwrap();
        upper.bytes("lib/b", 0o644, "b").unwrap();
        upper.subtract(&lower);
        assert_eq!(upper.entries.keys().collect::<Vec<_>>(), ["lib/b"]);
    }
}
