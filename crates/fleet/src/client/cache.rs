//! The view on disk: one file, a journal, checked when it is read.
//!
//! ```text
//! | "OSIERVIEW" | version: u8 | reserved: u16 | record | record | …
//! record: | length: u32 | SHA-256 of the body | body |
//! ```
//!
//! A body is a protobuf message. The first has the whole view, each further one only what changed,
//! so that a change costs what it changes; when they are as long as the view, the file is replaced.
//! A last record that is not whole was being written at a crash: the view before it holds. A file of
//! a later version, a broken one, or another node's is never used; the controller has it all.

use super::held::Held;
use crate::token::sha256;
use crate::wire::Digest;
use bytes::Bytes;
use osier_model::NodeName;
use prost::Message;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use thiserror::Error;

const MAGIC: &[u8; 9] = b"OSIERVIEW";
/// Version 1 had one record and no more.
const FORMAT: u8 = 2;
const HEADER: usize = 9 + 1 + 2;
const RECORD: usize = 4 + 32;
/// The longest view that is read, in bytes.
const MAX: u64 = 512 << 20;
/// Changes of fewer bytes than these are never a reason to replace the file.
const SMALL: usize = 64 << 10;

/// The file.
#[derive(Debug)]
pub(crate) struct Cache {
    path: PathBuf,
    /// None: what is there is not what we wrote last.
    journal: Option<Journal>,
}

/// The file as we wrote it.
#[derive(Debug)]
struct Journal {
    file: File,
    /// Bytes of the first record, and of all that came after it.
    whole: usize,
    since: usize,
    fabric: Option<Bytes>,
}

/// Why a view on disk cannot be used.
#[derive(Debug, Error)]
pub enum CacheError {
    /// The file cannot be read or written.
    #[error("{} cannot be used", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is no view.
    #[error("{} is no view: {problem}", path.display())]
    Broken {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// It is another's.
    #[error("{} is the view of node {found}", path.display())]
    Node {
        /// Which.
        path: PathBuf,
        /// Whose.
        found: String,
    },
}

#[derive(Clone, PartialEq, Message)]
struct Body {
    #[prost(string, tag = "1")]
    node: String,
    #[prost(uint64, tag = "2")]
    term: u64,
    #[prost(uint64, tag = "3")]
    epoch: u64,
    #[prost(uint64, tag = "4")]
    revision: u64,
    #[prost(bytes = "bytes", optional, tag = "5")]
    fabric: Option<Bytes>,
    #[prost(message, repeated, tag = "6")]
    objects: Vec<Entry>,
}

#[derive(Clone, PartialEq, Message)]
struct Entry {
    #[prost(bytes = "bytes", tag = "1")]
    key: Bytes,
    /// Missing: it is gone.
    #[prost(bytes = "bytes", optional, tag = "2")]
    put: Option<Bytes>,
}

// === impl Cache ===

impl Cache {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, journal: None }
    }

    /// What is on disk, if anything is.
    pub(crate) async fn load(&self, node: &NodeName) -> Result<Option<Held>, CacheError> {
        let file = |source| CacheError::File { path: self.path.clone(), source };
        let size = match tokio::fs::metadata(&self.path).await {
            Ok(found) => found.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(file(error)),
        };
        if size > MAX {
            return Err(self.broken(format!("{size} bytes are more than {MAX}")));
        }
        let bytes = tokio::fs::read(&self.path).await.map_err(file)?;
        let bodies = decode(&bytes).map_err(|problem| self.broken(problem))?;
        if let Some(other) = bodies.iter().find(|body| body.node != node.as_str()) {
            let found = other.node.clone();
            return Err(CacheError::Node { path: self.path.clone(), found });
        }
        Ok(Some(held(bodies)))
    }

    /// Brings the file up to date. After a crash there is the view of before or this one.
    pub(crate) async fn store(
        &mut self,
        node: &NodeName,
        view: &mut Held,
    ) -> Result<(), CacheError> {
        let changed = std::mem::take(&mut view.unwritten);
        let journal = self.journal.take().filter(Journal::has_room);
        let path = self.path.clone();
        let write: Box<dyn FnOnce() -> io::Result<Journal> + Send> = if let Some(mut journal) =
            journal
        {
            let entry = |key: Bytes| Entry { put: view.objects.get(&key).cloned(), key };
            let fabric = view.fabric.clone().filter(|_| view.fabric != journal.fabric);
            let objects = changed.into_iter().map(entry).collect();
            let record = record(node, view, fabric, objects);
            journal.since += record.len();
            journal.fabric.clone_from(&view.fabric);
            Box::new(move || {
                journal.file.write_all(&record)?;
                journal.file.sync_data()?;
                Ok(journal)
            })
        } else {
            let entry =
                |(key, put): (&Bytes, &Bytes)| Entry { key: key.clone(), put: Some(put.clone()) };
            let objects = view.objects.iter().map(entry).collect();
            let mut bytes = [MAGIC.as_slice(), &[FORMAT, 0, 0]].concat();
            bytes.extend(record(node, view, view.fabric.clone(), objects));
            let (whole, fabric) = (bytes.len(), view.fabric.clone());
            Box::new(move || {
                let file = write(&path, &bytes)?;
                Ok(Journal { file, whole, since: 0, fabric })
            })
        };
        let written = tokio::task::spawn_blocking(write).await;
        let written = written.unwrap_or_else(|panic| Err(io::Error::other(panic)));
        let failed = |source| CacheError::File { path: self.path.clone(), source };
        self.journal = Some(written.map_err(failed)?);
        Ok(())
    }

    fn broken(&self, problem: String) -> CacheError {
        CacheError::Broken { path: self.path.clone(), problem }
    }
}

// === impl Journal ===

impl Journal {
    /// Whether one more record is better than a new file.
    fn has_room(&self) -> bool {
        self.since < self.whole.max(SMALL)
    }
}

fn held(bodies: Vec<Body>) -> Held {
    let mut held = Held::default();
    for body in bodies {
        (held.term, held.epoch, held.revision) = (body.term, body.epoch, body.revision);
        held.fabric = body.fabric.or(held.fabric);
        for Entry { key, put } in body.objects {
            match put {
                Some(put) => held.objects.insert(key, put),
                None => held.objects.remove(&key),
            };
        }
    }
    for bytes in held.fabric.iter().chain(held.objects.values()) {
        held.digest.toggle(Digest::of(bytes));
    }
    held
}

fn record(node: &NodeName, view: &Held, fabric: Option<Bytes>, objects: Vec<Entry>) -> Vec<u8> {
    let Held { term, epoch, revision, .. } = *view;
    let body = Body { node: node.to_string(), term, epoch, revision, fabric, objects };
    let body = body.encode_to_vec();
    let mut bytes = Vec::with_capacity(RECORD + body.len());
    bytes.extend_from_slice(&u32::try_from(body.len()).unwrap_or(u32::MAX).to_be_bytes());
    bytes.extend_from_slice(&sha256(&body));
    bytes.extend_from_slice(&body);
    bytes
}

/// All records, the first of which has to be good.
fn decode(bytes: &[u8]) -> Result<Vec<Body>, String> {
    let Some((header, mut records)) = bytes.split_at_checked(HEADER) else {
        return Err(format!("it has {} bytes, its header alone {HEADER}", bytes.len()));
    };
    if &header[..9] != MAGIC {
        return Err("it does not begin like one".to_owned());
    }
    if !(1..=FORMAT).contains(&header[9]) {
        return Err(format!("its version is {}, and this agent reads up to {FORMAT}", header[9]));
    }
    let mut bodies = Vec::new();
    while bodies.is_empty() || !records.is_empty() {
        match next(&mut records) {
            Ok(body) => bodies.push(body),
            Err(problem) if bodies.is_empty() => return Err(problem),
            Err(_) => break,
        }
    }
    Ok(bodies)
}

fn next(records: &mut &[u8]) -> Result<Body, String> {
    let Some((length, rest)) = records.split_first_chunk::<4>() else {
        return Err(format!("a record has {} bytes", records.len()));
    };
    let Some((checksum, rest)) = rest.split_first_chunk::<32>() else {
        return Err(format!("a record has {} bytes", records.len()));
    };
    let length = u32::from_be_bytes(*length);
    let body = usize::try_from(length).ok().and_then(|length| rest.split_at_checked(length));
    let Some((body, rest)) = body else {
        return Err(format!("a record has {} bytes, and says {length}", rest.len()));
    };
    if *checksum != sha256(body) {
        return Err("its checksum is wrong".to_owned());
    }
    *records = rest;
    Body::decode(body).map_err(|error| error.to_string())
}

/// Writes beside, makes it durable, and puts it in its place.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<File> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    let mut file = private(&beside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&beside, path)?;
    File::open(folder)?.sync_all()?;
    Ok(file)
}

/// A new file that only its owner reads.
fn private(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Bytes {
        Bytes::copy_from_slice(text.as_bytes())
    }

    /// A view that has been changed often.
    struct Changing {
        view: Held,
        cache: Cache,
        node: NodeName,
        folder: tempfile::TempDir,
    }

    impl Changing {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let cache = Cache::new(folder.path().join("view"));
            let view = Held { fabric: Some(bytes("{}")), ..Held::default() };
            let mut changing = Self { view, cache, node: "n1".parse().unwrap(), folder };
            changing.view.digest.toggle(Digest::of(b"{}"));
            changing
        }

        fn set(&mut self, key: &str, put: Option<&str>) {
            let (key, view) = (bytes(key), &mut self.view);
            let was = match put {
                Some(put) => view.objects.insert(key.clone(), bytes(put)),
                None => view.objects.remove(&key),
            };
            for bytes in was.iter().chain(view.objects.get(&key)) {
                view.digest.toggle(Digest::of(bytes));
            }
            view.revision += 1;
            view.unwritten.insert(key);
        }

        async fn store(&mut self) -> u64 {
            self.cache.store(&self.node, &mut self.view).await.unwrap();
            std::fs::metadata(&self.cache.path).unwrap().len()
        }

        async fn load(&self) -> Held {
            Cache::new(self.cache.path.clone()).load(&self.node).await.unwrap().unwrap()
        }
    }

    #[tokio::test]
    async fn a_change_is_written_alone_and_all_of_them_are_read() {
        let mut changing = Changing::new();
        for n in 0..1000 {
            changing.set(&format!("key {n}"), Some("an object of some length"));
        }
        let whole = changing.store().await;
        changing.set("key 7", Some("another"));
        changing.set("key 8", None);
        let more = changing.store().await - whole;
        assert!(more < 200, "{more}");
        assert_eq!(changing.load().await, changing.view);
        changing.view.fabric = Some(bytes("{ }"));
        changing.view.digest.toggle(Digest::of(b"{}"));
        changing.view.digest.toggle(Digest::of(b"{ }"));
        changing.view.term = 9;
        changing.store().await;
        assert_eq!(changing.load().await, changing.view);
    }

    #[tokio::test]
    async fn the_file_does_not_grow_for_ever() {
        let mut changing = Changing::new();
        let text = "x".repeat(10_000);
        let mut longest = 0;
        for n in 0..50 {
            changing.set("one", Some(&format!("{n} {text}")));
            longest = longest.max(changing.store().await);
        }
        assert!(longest < 100_000, "{longest}");
        assert_eq!(changing.load().await, changing.view);
    }

    #[tokio::test]
    async fn a_crash_while_it_is_written_leaves_the_view_of_before() {
        let mut changing = Changing::new();
        changing.set("one", Some("1"));
        changing.store().await;
        changing.set("two", Some("2"));
        let good = changing.store().await;
        let before = changing.view.clone();
        changing.set("three", Some("3"));
        let all = changing.store().await;
        let path = changing.folder.path().join("view");
        let whole = std::fs::read(&path).unwrap();
        for end in good..all {
            std::fs::write(&path, &whole[..usize::try_from(end).unwrap()]).unwrap();
            assert_eq!(changing.load().await, before, "cut at {end}");
        }
        // Not what we wrote: nothing is added to it by who starts from it.
        let mut cache = Cache::new(path.clone());
        let mut found = cache.load(&changing.node).await.unwrap().unwrap();
        cache.store(&changing.node, &mut found).await.unwrap();
        assert_eq!(changing.load().await, found);
    }
}
