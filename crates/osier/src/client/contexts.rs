//! The contexts file: controllers that the user knows, each with its authority and credential.
//!
//! It holds secrets, so only its owner may read it, and it is replaced as a whole.

use super::secret::{SecretError, read_private};
use super::server::Servers;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// What of the environment says where the file is.
const VARIABLE: &str = "OSIER_CONFIG";

/// The file.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Contexts {
    /// The one that is meant if none is named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) current: Option<String>,
    /// All of them.
    #[serde(default)]
    pub(crate) contexts: BTreeMap<String, Context>,
}

/// A controller that the user knows.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Context {
    /// Where it is; of several, where all are.
    pub(crate) server: Servers,
    /// Who vouches for it, as PEM.
    pub(crate) ca: String,
    /// What the user is known by there.
    pub(crate) credential: String,
}

/// Why the file cannot be used.
#[derive(Debug, Error)]
pub(crate) enum ContextsError {
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error("{} is no file of contexts", path.display())]
    Form {
        path: PathBuf,
        #[source]
        source: Box<toml::de::Error>,
    },
    #[error("{} cannot be written", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("there is no folder for settings: set HOME, or {VARIABLE}")]
    NoHome,
}

// === impl Context ===

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("server", &self.server).finish_non_exhaustive()
    }
}

// === impl Contexts ===

impl Contexts {
    /// Where the user's file is.
    pub(crate) fn path() -> Result<PathBuf, ContextsError> {
        let variable = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        if let Some(path) = variable(VARIABLE) {
            return Ok(path);
        }
        let folder = variable("XDG_CONFIG_HOME")
            .or_else(|| Some(variable("HOME")?.join(".config")))
            .ok_or(ContextsError::NoHome)?;
        Ok(folder.join("osier/config.toml"))
    }

    /// Reads a file; where there is none, there are no contexts.
    pub(crate) fn load(path: &Path) -> Result<Self, ContextsError> {
        let text = match read_private(path) {
            Err(SecretError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            outcome => outcome?,
        };
        // What is wrong is told without the line: it may be the one with the secret.
        toml::from_str(&text).map_err(|mut source: toml::de::Error| {
            source.set_input(None);
            ContextsError::Form { path: path.to_owned(), source: Box::new(source) }
        })
    }

    /// Replaces the file.
    pub(crate) fn save(&self, path: &Path) -> Result<(), ContextsError> {
        let failed = |source| ContextsError::Write { path: path.to_owned(), source };
        let text = toml::to_string(self).map_err(|e| failed(io::Error::other(e)))?;
        let folder = path.parent().unwrap_or(Path::new("."));
        if !folder.as_os_str().is_empty() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        }
        let fresh = path.with_extension(format!("new-{}", std::process::id()));
        let write = || {
            let mut file =
                fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&fresh, path)
        };
        write().map_err(|source| {
            let _ = fs::remove_file(&fresh);
            failed(source)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn example() -> Contexts {
        let context = Context {
            server: "https://10.0.0.1:6645".parse().unwrap(),
            ca: "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n".to_owned(),
            credential: "s3cret".to_owned(),
        };
        Contexts {
            current: Some("prod".to_owned()),
            contexts: [("prod".to_owned(), context)].into(),
        }
    }

    #[test]
    fn a_file_comes_back_as_it_was_and_only_its_owner_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/config.toml");
        assert_eq!(Contexts::load(&path).unwrap(), Contexts::default());
        for _ in 0..2 {
            example().save(&path).unwrap();
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            assert_eq!(Contexts::load(&path).unwrap(), example());
        }
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o604)).unwrap();
        let error = Contexts::load(&path).unwrap_err().to_string();
        assert!(error.contains("can be read by others (mode 604)"), "{error}");
    }

    #[test]
    fn a_wrong_file_is_told_without_its_secrets() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        fs::write(&path, "[contexts.a]\nserver = \"x\"\nca = \"\"\ncredential = s3cret\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let error = format!("{:#}", anyhow::Error::new(Contexts::load(&path).unwrap_err()));
        assert!(error.contains("is no file of contexts"), "{error}");
        assert!(!error.contains("s3cret"), "{error}");
        assert!(!format!("{:?}", example()).contains("s3cret"));
    }
}
