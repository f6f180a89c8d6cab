//! Credentials: read from files that nobody else can read, shown to nobody.

use hyper::header::HeaderValue;
use std::fmt;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The longest credential.
const MAX: usize = 4096;

/// What shows to a controller who asks.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Credential(String);

/// Why a file with a secret cannot be used.
#[derive(Debug, Error)]
pub(crate) enum SecretError {
    /// It cannot be read.
    #[error("{} cannot be read", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// Others can read it.
    #[error(
        "{} can be read by others (mode {mode:o}): `chmod 600 {}` first, and think of a new \
         credential",
        path.display(),
        path.display()
    )]
    Open { path: PathBuf, mode: u32 },
    /// What it holds is none.
    #[error("{whence} holds no credential: one line of visible characters, at most {MAX}")]
    NoCredential { whence: String },
}

// === impl Credential ===

impl Credential {
    /// Takes one line.
    pub(crate) fn new(text: &str, whence: &str) -> Result<Self, SecretError> {
        let text = text.trim();
        let is_fine =
            !text.is_empty() && text.len() <= MAX && text.bytes().all(|b| b.is_ascii_graphic());
        if is_fine {
            return Ok(Self(text.to_owned()));
        }
        Err(SecretError::NoCredential { whence: whence.to_owned() })
    }

    /// Of a file that only its owner can read.
    pub(crate) fn load(path: &Path) -> Result<Self, SecretError> {
        Self::new(&read_private(path)?, &path.display().to_string())
    }

    /// As it stands in a request.
    pub(crate) fn bearer(&self) -> HeaderValue {
        let mut value = HeaderValue::from_str(&format!("Bearer {}", self.0))
            .expect("visible characters make a header");
        value.set_sensitive(true);
        value
    }

    /// Itself, to be kept or removed from texts.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credential")
    }
}

/// The text of a file that only its owner can read.
pub(crate) fn read_private(path: &Path) -> Result<String, SecretError> {
    let unread = |source| SecretError::Read { path: path.to_owned(), source };
    let mut file = std::fs::File::open(path).map_err(unread)?;
    let metadata = file.metadata().map_err(unread)?;
    let mode = metadata.permissions().mode() & 0o777;
    if metadata.is_file() && mode & 0o077 != 0 {
        return Err(SecretError::Open { path: path.to_owned(), mode });
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(unread)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("credential");
        std::fs::write(&path, "s3cret\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let error = Credential::load(&path).unwrap_err().to_string();
        assert!(error.contains("can be read by others (mode 640): `chmod 600 "), "{error}");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let credential = Credential::load(&path).unwrap();
        assert_eq!(credential.bearer(), "Bearer s3cret");
        assert_eq!(format!("{credential:?}"), "Credential");
    }

    #[test]
    fn what_is_no_credential_is_refused() {
        for text in ["", "\n", "two words", "two\nlines", &"x".repeat(MAX + 1)] {
            assert!(Credential::new(text, "standard input").is_err(), "{text:?}");
        }
    }
}
