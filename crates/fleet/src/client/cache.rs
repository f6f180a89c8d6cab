//! The view on disk: one file, replaced as a whole, checked when it is read.
//!
//! ```text
//! | "OSIERVIEW" | version: u8 | reserved: u16 | length: u32 | SHA-256 of the body | body |
//! ```
//!
//! The body is a protobuf message. A file of a later version, a broken one, or another node's is
//! never used; the controller has it all.

use super::held::{Held, Unread};
use crate::token::sha256;
use crate::wire::Digest;
use bytes::Bytes;
use osier_model::NodeName;
use prost::Message;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use thiserror::Error;

const MAGIC: &[u8; 9] = b"OSIERVIEW";
const FORMAT: u8 = 1;
const HEADER: usize = 9 + 1 + 2 + 4 + 32;
/// The longest view that is read, in bytes.
const MAX: u64 = 512 << 20;

/// The file.
#[derive(Debug, Clone)]
pub(crate) struct Cache {
    path: PathBuf,
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
    #[prost(bytes = "bytes", tag = "2")]
    put: Bytes,
}

// === impl Cache ===

impl Cache {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path }
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
        let body = decode(&bytes).map_err(|problem| self.broken(problem))?;
        if body.node != node.as_str() {
            return Err(CacheError::Node { path: self.path.clone(), found: body.node });
        }
        Ok(Some(held(body)))
    }

    /// Replaces what is on disk. After a crash there is the old one or the new one.
    pub(crate) async fn store(&self, node: &NodeName, view: &Held) -> Result<(), CacheError> {
        let bytes = encode(node, view);
        let path = self.path.clone();
        let written = tokio::task::spawn_blocking(move || write(&path, &bytes)).await;
        let written = written.unwrap_or_else(|panic| Err(io::Error::other(panic)));
        written.map_err(|source| CacheError::File { path: self.path.clone(), source })
    }

    fn broken(&self, problem: String) -> CacheError {
        CacheError::Broken { path: self.path.clone(), problem }
    }
}

fn held(body: Body) -> Held {
    let mut digest = body.fabric.as_ref().map_or(Digest::default(), |bytes| Digest::of(bytes));
    for entry in &body.objects {
        digest.toggle(Digest::of(&entry.put));
    }
    Held {
        term: body.term,
        epoch: body.epoch,
        revision: body.revision,
        fabric: body.fabric,
        objects: body.objects.into_iter().map(|entry| (entry.key, entry.put)).collect(),
        digest,
        unread: Unread::new(),
    }
}

fn encode(node: &NodeName, view: &Held) -> Vec<u8> {
    let entry = |(key, put): (&Bytes, &Bytes)| Entry { key: key.clone(), put: put.clone() };
    let body = Body {
        node: node.to_string(),
        term: view.term,
        epoch: view.epoch,
        revision: view.revision,
        fabric: view.fabric.clone(),
        objects: view.objects.iter().map(entry).collect(),
    };
    let body = body.encode_to_vec();
    let mut bytes = Vec::with_capacity(HEADER + body.len());
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&[FORMAT, 0, 0]);
    bytes.extend_from_slice(&u32::try_from(body.len()).unwrap_or(u32::MAX).to_be_bytes());
    bytes.extend_from_slice(&sha256(&body));
    bytes.extend_from_slice(&body);
    bytes
}

fn decode(bytes: &[u8]) -> Result<Body, String> {
    let Some((header, body)) = bytes.split_at_checked(HEADER) else {
        return Err(format!("it has {} bytes, its header alone {HEADER}", bytes.len()));
    };
    if &header[..9] != MAGIC {
        return Err("it does not begin like one".to_owned());
    }
    if header[9] != FORMAT {
        return Err(format!("its version is {}, and this agent reads {FORMAT}", header[9]));
    }
    let length = u32::from_be_bytes([header[12], header[13], header[14], header[15]]);
    if u32::try_from(body.len()) != Ok(length) {
        return Err(format!("it has {} bytes, and says {length}", body.len()));
    }
    if header[16..] != sha256(body) {
        return Err("its checksum is wrong".to_owned());
    }
    Body::decode(body).map_err(|error| error.to_string())
}

/// Writes beside, makes it durable, and puts it in its place.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
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
    std::fs::File::open(folder)?.sync_all()
}

/// A new file that only its owner reads.
fn private(path: &Path) -> io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}
