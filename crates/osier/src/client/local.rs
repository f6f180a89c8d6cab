//! The controller on this machine: what it leaves for its administrator.
//!
//! It writes `admin.toml`, readable by root only, whenever it starts: where it listens, its
//! authority, and a credential that may write. So `osier get nodes` works there without a word more.

use super::contexts::Context;
use super::secret::{SecretError, read_private};
use std::io;
use std::path::Path;

/// Where a controller leaves it.
pub(super) const PATH: &str = "/var/lib/osier/controller/admin.toml";

/// What a file of a controller says; nothing if there is none, or if it is not for us.
pub(super) fn load(path: &Path) -> Result<Option<Context>, SecretError> {
    let text = match read_private(path) {
        Err(SecretError::Read { source, .. })
            if matches!(
                source.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
            ) =>
        {
            return Ok(None);
        }
        outcome => outcome?,
    };
    // Half a file, or one of another version, is no access; the error then names all other ways.
    Ok(toml::from_str(&text).ok())
}
