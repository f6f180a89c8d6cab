//! A lab: the name, the directory and the janitor that everything in one test shares.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::command::CommandError;
use crate::janitor::Janitor;
use crate::netns::Netns;
use crate::wait::wait_until;

/// A socket's path has room for 108 bytes; the lab's directory must leave most of them.
const LONGEST_PARENT: usize = 40;

/// What the names of all labs begin with.
const PREFIX: &str = "osier-";

/// The caller is not root, and namespaces need root.
#[derive(Debug, thiserror::Error)]
#[error(
    "needs root to make network namespaces and start switches; the effective user id is {euid}"
)]
pub struct NotRoot {
    /// The effective user id found.
    pub euid: u32,
}

/// Fails unless the process is root.
pub fn require_root() -> Result<(), NotRoot> {
    let euid = nix::unistd::geteuid();
    if euid.is_root() { Ok(()) } else { Err(NotRoot { euid: euid.as_raw() }) }
}

/// A lab could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// See [`NotRoot`].
    #[error(transparent)]
    NotRoot(#[from] NotRoot),
    /// The run directory could not be made.
    #[error("cannot make the lab's directory {}", path.display())]
    Directory {
        /// The directory, or its parent while it had no name yet.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The process that cleans up could not be started.
    #[error("cannot start the lab's janitor (`sh`)")]
    Janitor(#[source] io::Error),
}

/// One test's private world; a cheap handle.
///
/// All guards made from a lab hold it: what it owns is removed when the last of them is dropped, or
/// when the process ends in any other way.
#[derive(Clone, Debug)]
pub struct Lab {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    id: String,
    dir: PathBuf,
    janitor: Janitor,
    serial: AtomicU32,
}

impl Lab {
    /// Makes an empty lab with a name that no other lab has.
    pub fn new() -> Result<Self, LabError> {
        require_root()?;
        let mut parent = std::env::temp_dir();
        if parent.as_os_str().len() > LONGEST_PARENT {
            parent = PathBuf::from("/tmp");
        }
        let dir = tempfile::Builder::new()
            .prefix(PREFIX)
            .rand_bytes(6)
            .tempdir_in(&parent)
            .map_err(|source| LabError::Directory { path: parent.clone(), source })?;
        let id = dir
            .path()
            .file_name()
            .and_then(|name| name.to_str())
            .expect("a temporary directory's last part is our prefix and ASCII letters")
            .to_owned();
        let janitor = Janitor::start(&id, dir.path()).map_err(LabError::Janitor)?;
        // From here on the janitor removes it.
        let dir = dir.keep();
        Ok(Self { inner: Arc::new(Inner { id, dir, janitor, serial: AtomicU32::new(0) }) })
    }

    /// Removes what is left of the lab that had this directory, and waits for another janitor that
    /// is at it: what stays, one a line, if something does. For labs of processes that are gone.
    pub fn remove_remains(dir: &Path, patience: Duration) -> Result<String, LabError> {
        require_root()?;
        let id = dir.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let letters = id.strip_prefix(PREFIX).unwrap_or_default();
        if letters.is_empty() || !letters.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            let source = io::Error::new(io::ErrorKind::InvalidInput, "it is no lab's");
            return Err(LabError::Directory { path: dir.to_owned(), source });
        }
        // Complaints may be about what the other one was faster with: what is left counts.
        Janitor::start(id, dir)
            .and_then(|mut janitor| janitor.dismiss())
            .map_err(LabError::Janitor)?;
        let left = || {
            let namespaces = fs::read_dir("/run/netns").into_iter().flatten().flatten();
            let names = namespaces.map(|entry| entry.file_name().to_string_lossy().into_owned());
            let of_lab = |name: &String| name.strip_prefix(id).is_some_and(|n| n.starts_with('-'));
            let mut left: Vec<String> = names.filter(of_lab).collect();
            left.extend(dir.exists().then(|| dir.display().to_string()));
            if left.is_empty() { Ok(()) } else { Err(left.join("\n")) }
        };
        Ok(wait_until("an empty place", patience, left).err().map_or_else(String::new, |e| e.last))
    }

    /// The lab's name, `osier-` and six letters: namespaces start with it.
    pub fn id(&self) -> &str {
        &self.inner.id
    }

    /// The lab's directory: logs, sockets, databases.
    pub fn dir(&self) -> &Path {
        &self.inner.dir
    }

    /// Makes a namespace `<lab>-<name>`, with its loopback interface up.
    pub fn netns(&self, name: &str) -> Result<Netns, CommandError> {
        Netns::create(self.clone(), name)
    }

    /// The namespace the test itself runs in; never deleted.
    pub fn host(&self) -> Netns {
        Netns::host(self.clone())
    }

    /// Makes a directory of its own for `name`; fails if there is one.
    pub fn make_dir(&self, name: &str) -> Result<PathBuf, LabError> {
        let path = self.inner.dir.join(name);
        match fs::create_dir(&path) {
            Ok(()) => Ok(path),
            Err(source) => Err(LabError::Directory { path, source }),
        }
    }

    /// A number that no one else in this lab gets.
    pub(crate) fn serial(&self) -> u32 {
        self.inner.serial.fetch_add(1, Ordering::Relaxed)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        match self.janitor.dismiss() {
            Ok(complaints) if complaints.is_empty() => {}
            Ok(complaints) => eprintln!("lab {}: not all removed:\n{complaints}", self.id),
            Err(e) => eprintln!("lab {}: the janitor cannot be heard: {e}", self.id),
        }
    }
}
