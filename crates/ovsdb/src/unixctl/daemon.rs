//! Where a daemon's control socket is: it carries the process id, which the pidfile beside it has.

use std::io;
use std::path::{Path, PathBuf};

/// Why the socket of a daemon is not known.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// No pidfile: the daemon does not run, or its directory is another.
    #[error("cannot read {}", path.display())]
    Pidfile {
        /// The pidfile.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The pidfile holds no process id.
    #[error("{} holds no process id but {text:?}", path.display())]
    NotAPid {
        /// The pidfile.
        path: PathBuf,
        /// What it holds, cut short.
        text: String,
    },
}

/// The control socket of a daemon, such as `ovs-vswitchd`, that keeps its files in a directory,
/// such as `/run/openvswitch`.
pub fn find_socket(run_dir: &Path, daemon: &str) -> Result<PathBuf, FindError> {
    let path = run_dir.join(format!("{daemon}.pid"));
    let text = match std::fs::read(&path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes[..bytes.len().min(32)]).into_owned(),
        Err(source) => return Err(FindError::Pidfile { path, source }),
    };
    match text.trim().parse::<u32>() {
        Ok(pid) => Ok(run_dir.join(format!("{daemon}.{pid}.ctl"))),
        Err(_) => Err(FindError::NotAPid { path, text }),
    }
}
