//! Who may use the API: a list with a hash for each credential, in a file beside the store; where several
//! controllers share them, whoever has the list tells of it.
//!
//! A secret is 256 random bits, shown once, and kept as its SHA-256: nothing to guess, so nothing
//! that a slow hash would protect. The file may be changed while the controller runs; it is looked at
//! twice a second.

use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use thiserror::Error;
use tokio::sync::watch;

/// What a credential's text begins with.
const PREFIX: &str = "osier";
/// Whose the first one is.
pub const FIRST: &str = "admin";
/// How often the file is looked at.
const LOOK: Duration = Duration::from_millis(500);

/// What a credential is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// To look.
    Read,
    /// To look and to change.
    Write,
}

/// A credential, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Credential {
    /// Which one: no secret.
    pub id: String,
    /// Whose, for people.
    pub name: String,
    /// What it is good for.
    pub role: Role,
    /// SHA-256 of the secret, in hexadecimal.
    hash: String,
    /// When it was made (RFC 3339).
    pub created: String,
}

/// Why credentials cannot be used.
#[derive(Debug, Error)]
pub enum CredentialError {
    /// The file cannot be read or written.
    #[error("{} cannot be used", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is something else.
    #[error("{} is no file of credentials", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Where.
        source: serde_json::Error,
    },
    /// There is no such credential.
    #[error("there is no credential {0}")]
    Unknown(String),
    /// The system has no random numbers.
    #[error("the system has no random numbers")]
    Random,
}

/// All credentials.
pub struct Credentials {
    /// The administrator's on this machine: for as long as this controller runs.
    local: Arc<Credential>,
    state: Mutex<State>,
}

struct State {
    known: HashMap<String, Arc<Credential>>,
    source: Source,
}

/// Where they are from.
enum Source {
    File { path: PathBuf, stamp: Option<Stamp>, looked: Instant },
    Told(watch::Receiver<Vec<Credential>>),
}

/// By which one sees that the file is another.
type Stamp = (u64, i64, i64, u64);

// === impl Role ===

impl FromStr for Role {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "read" => Ok(Self::Read),
            "write" => Ok(Self::Write),
            _ => Err(format!("{text:?} is no role: there are read and write")),
        }
    }
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Read => "read",
            Self::Write => "write",
        })
    }
}

// === impl Credential ===

impl Credential {
    /// Of somebody whom others know: no secret of ours is good for it.
    pub(crate) fn reviewed(name: String, role: Role) -> Self {
        Self { id: name.clone(), name, role, hash: String::new(), created: String::new() }
    }
}

// === impl Credentials ===

impl Credentials {
    /// Reads the file, which may be missing. Beside those of the file there is one more, whose text
    /// comes with it: for the machine's administrator, until the controller ends.
    pub fn open(path: &Path) -> Result<(Self, String), CredentialError> {
        let stamp = stamp(path);
        let known = index(read(path)?);
        let source = Source::File { path: path.to_owned(), stamp, looked: Instant::now() };
        Self::with(State { known, source })
    }

    /// Those that somebody else tells of, and one more as in [`Self::open`].
    pub fn told(
        mut by: watch::Receiver<Vec<Credential>>,
    ) -> Result<(Self, String), CredentialError> {
        let known = index(by.borrow_and_update().clone());
        Self::with(State { known, source: Source::Told(by) })
    }

    fn with(state: State) -> Result<(Self, String), CredentialError> {
        let (local, text) = make("local", Role::Write)?;
        Ok((Self { local: Arc::new(local), state: Mutex::new(state) }, text))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).known.is_empty()
    }

    /// Whose a text is, if it is anybody's.
    pub fn find(&self, text: &str) -> Option<Arc<Credential>> {
        let (id, secret) = text.strip_prefix(PREFIX)?.strip_prefix('_')?.split_once('_')?;
        let hash = hash(secret);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.refresh();
        let credential = match id == self.local.id {
            true => &self.local,
            false => state.known.get(id)?,
        };
        equal(credential.hash.as_bytes(), hash.as_bytes()).then(|| Arc::clone(credential))
    }
}

// === impl State ===

impl State {
    fn refresh(&mut self) {
        match &mut self.source {
            Source::Told(by) => {
                // Who tells no more has told the last.
                if by.has_changed().unwrap_or(false) {
                    self.known = index(by.borrow_and_update().clone());
                }
            }
            Source::File { path, stamp: before, looked } => {
                if looked.elapsed() < LOOK {
                    return;
                }
                *looked = Instant::now();
                let now = stamp(path);
                if now == *before {
                    return;
                }
                match read(path) {
                    Ok(credentials) => (self.known, *before) = (index(credentials), now),
                    // Whoever may come, may still come.
                    Err(error) => tracing::error!(%error, "the credentials are as they were"),
                }
            }
        }
    }
}

/// Makes a credential: its text, which is shown once.
pub fn add(path: &Path, name: &str, role: Role) -> Result<String, CredentialError> {
    change(path, |all| insert(all, name, role))
}

/// The same, in a list.
pub fn insert(
    all: &mut Vec<Credential>,
    name: &str,
    role: Role,
) -> Result<String, CredentialError> {
    let (credential, text) = make(name, role)?;
    all.push(credential);
    Ok(text)
}

fn make(name: &str, role: Role) -> Result<(Credential, String), CredentialError> {
    let mut random = [0; 36];
    SystemRandom::new().fill(&mut random).map_err(|_| CredentialError::Random)?;
    let (id, secret) = random.split_at(4);
    let (id, secret) = (hex(id), hex(secret));
    let text = format!("{PREFIX}_{id}_{secret}");
    let (name, hash) = (name.to_owned(), hash(&secret));
    Ok((Credential { id, name, role, hash, created: crate::engine::now() }, text))
}

/// All of a file.
pub fn list(path: &Path) -> Result<Vec<Credential>, CredentialError> {
    read(path)
}

/// Revokes one, by its id or name; those who use it are refused within a second.
pub fn revoke(path: &Path, which: &str) -> Result<usize, CredentialError> {
    change(path, |all| remove(all, which))
}

/// The same, in a list.
pub fn remove(all: &mut Vec<Credential>, which: &str) -> Result<usize, CredentialError> {
    let before = all.len();
    all.retain(|credential| credential.id != which && credential.name != which);
    match before - all.len() {
        0 => Err(CredentialError::Unknown(which.to_owned())),
        gone => Ok(gone),
    }
}

/// Changes a file; two who do so at once come one after the other.
pub fn change<T>(
    path: &Path,
    edit: impl FnOnce(&mut Vec<Credential>) -> Result<T, CredentialError>,
) -> Result<T, CredentialError> {
    let file = |source| CredentialError::File { path: path.to_owned(), source };
    // Two who change it at once come one after the other.
    let lock = path.with_extension("lock");
    let mut private = OpenOptions::new();
    private.mode(0o600).write(true);
    let lock = private.clone().create(true).truncate(false).open(lock).map_err(file)?;
    lock.lock().map_err(file)?;
    let mut all = read(path)?;
    let result = edit(&mut all)?;
    let text = serde_json::to_string_pretty(&all).unwrap_or_default();
    let next = path.with_extension("new");
    let mut new = private.create(true).truncate(true).open(&next).map_err(file)?;
    new.write_all(text.as_bytes()).and_then(|()| new.sync_all()).map_err(file)?;
    std::fs::rename(&next, path).map_err(file)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new("."))).and_then(|f| f.sync_all()).map_err(file)?;
    Ok(result)
}

fn read(path: &Path) -> Result<Vec<Credential>, CredentialError> {
    match std::fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map_err(|source| CredentialError::Parse { path: path.to_owned(), source }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(source) => Err(CredentialError::File { path: path.to_owned(), source }),
    }
}

fn index(credentials: Vec<Credential>) -> HashMap<String, Arc<Credential>> {
    credentials.into_iter().map(|c| (c.id.clone(), Arc::new(c))).collect()
}

fn stamp(path: &Path) -> Option<Stamp> {
    let found = std::fs::metadata(path).ok()?;
    Some((found.ino(), found.mtime(), found.mtime_nsec(), found.size()))
}

fn hash(secret: &str) -> String {
    hex(digest(&SHA256, secret.as_bytes()).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Whether two hashes are equal, in the same time whether they are or not.
fn equal(one: &[u8], other: &[u8]) -> bool {
    let differ = one.iter().zip(other).fold(0, |differ, (a, b)| differ | (a ^ b));
    std::hint::black_box(differ) == 0 && one.len() == other.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_is_known_by_its_secret_until_it_is_revoked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("credentials.json");
        let text = add(&path, "ops", Role::Read).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let secret = text.rsplit('_').next().unwrap();
        assert!(!std::fs::read_to_string(&path).unwrap().contains(secret));
        let (credentials, local) = Credentials::open(&path).unwrap();
        assert_eq!(credentials.find(&local).unwrap().name, "local");
        assert_eq!(credentials.find(&text).unwrap().role, Role::Read);
        for wrong in ["", "osier", "osier_", &text[..text.len() - 1], &format!("{text}0")] {
            assert!(credentials.find(wrong).is_none(), "{wrong}");
        }
        assert!(matches!(revoke(&path, "opps"), Err(CredentialError::Unknown(_))));
        assert_eq!(revoke(&path, "ops").unwrap(), 1);
        assert!(Credentials::open(&path).unwrap().0.is_empty());
    }

    #[test]
    fn who_is_told_of_is_known_until_nobody_tells_of_it() {
        let mut all = Vec::new();
        let text = insert(&mut all, "ops", Role::Write).unwrap();
        let (tell, told) = watch::channel(Vec::new());
        let (credentials, local) = Credentials::told(told).unwrap();
        assert!(credentials.find(&text).is_none() && credentials.find(&local).is_some());
        tell.send(all.clone()).unwrap();
        assert_eq!(credentials.find(&text).unwrap().name, "ops");
        assert_eq!(remove(&mut all, "ops").unwrap(), 1);
        tell.send(all).unwrap();
        assert!(credentials.find(&text).is_none() && credentials.find(&local).is_some());
    }
}
