//! Network namespaces of pods: who they are, and working inside of one.

use nix::errno::Errno;
use nix::sched::{CloneFlags, setns};
use nix::sys::statfs::{NSFS_MAGIC, fstatfs};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::thread;
use thiserror::Error;
use tokio::sync::oneshot;

/// A namespace that cannot be used.
#[derive(Debug, Error)]
pub enum NamespaceError {
    /// The path leads nowhere.
    #[error("the network namespace {path} cannot be opened")]
    Open {
        /// The path.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// The path leads to something else.
    #[error("{path} is no network namespace")]
    Other {
        /// The path.
        path: String,
    },
    /// It cannot be entered.
    #[error("the network namespace {path} cannot be entered")]
    Enter {
        /// The path.
        path: String,
        /// Why.
        source: io::Error,
    },
}

/// Which namespace: as long as it exists, no other has these numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamespaceId {
    /// The device of its file system.
    pub device: u64,
    /// Its inode.
    pub inode: u64,
}

/// An open namespace; while it is open it does not go away.
#[derive(Debug, Clone)]
pub struct Namespace {
    path: Arc<str>,
    file: Arc<File>,
    id: NamespaceId,
}

// === impl NamespaceId ===

impl NamespaceId {
    /// The namespace at a path now, if there is one.
    pub fn at(path: &str) -> io::Result<Self> {
        std::fs::metadata(path).map(|found| Self { device: found.dev(), inode: found.ino() })
    }
}

// === impl Namespace ===

impl Namespace {
    /// Opens the namespace at a path.
    pub fn open(path: &str) -> Result<Self, NamespaceError> {
        let failed = |source| NamespaceError::Open { path: path.to_owned(), source };
        let file = File::open(path).map_err(failed)?;
        // nsfs(5): the files of namespaces, and no others, are in it.
        let kind = fstatfs(&file).map_err(|error| failed(error.into()))?.filesystem_type();
        if kind != NSFS_MAGIC {
            return Err(NamespaceError::Other { path: path.to_owned() });
        }
        let found = file.metadata().map_err(failed)?;
        let id = NamespaceId { device: found.dev(), inode: found.ino() };
        Ok(Self { path: path.into(), file: Arc::new(file), id })
    }

    /// Where it was opened.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Which one it is.
    pub fn id(&self) -> NamespaceId {
        self.id
    }

    /// Whether it can be entered: a namespace of another kind cannot.
    pub async fn enter(&self) -> Result<(), NamespaceError> {
        self.within(|| ()).await
    }

    pub(super) fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// Does work inside, on a thread that ends with it.
    pub(super) async fn within<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, NamespaceError> {
        self.within_behind(|| (), |()| work()).await
    }

    /// Does something in our own namespace, and with what comes of it work inside, on a thread that
    /// ends with it.
    pub(super) async fn within_behind<B, T: Send + 'static>(
        &self,
        before: impl FnOnce() -> B + Send + 'static,
        work: impl FnOnce(B) -> T + Send + 'static,
    ) -> Result<T, NamespaceError> {
        let file = Arc::clone(&self.file);
        let failed = |source| NamespaceError::Enter { path: self.path.to_string(), source };
        let (reply, done) = oneshot::channel();
        thread::Builder::new()
            .name("osier-namespace".to_owned())
            .spawn(move || {
                let before = before();
                let entered = setns(&*file, CloneFlags::CLONE_NEWNET);
                // Who asked may be gone.
                let _ = reply.send(entered.map(|()| work(before)));
            })
            .map_err(failed)?;
        match done.await {
            // setns(2): "fd refers to a namespace whose type does not match".
            Ok(Err(Errno::EINVAL)) => Err(NamespaceError::Other { path: self.path.to_string() }),
            Ok(result) => result.map_err(|e| failed(e.into())),
            Err(_) => Err(failed(io::Error::other("the work inside panicked"))),
        }
    }
}
