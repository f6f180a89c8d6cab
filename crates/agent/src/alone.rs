//! One agent a node, from its first look at the switch to its last word.
//!
//! Two at once would undo each other's ports: each takes what it did not make for a leftover. The
//! socket cannot tell, for it is made last and removed first; so there is a file beside it, locked
//! as long as the process lives. The kernel unlocks it, however the process ends.

use crate::cni_server::ServeError;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::net::UnixStream;
use tokio::time::sleep;
use tracing::info;

/// How long one that goes may take: as long as it lets its last calls take, and some more.
const PATIENCE: Duration = Duration::from_secs(15);
const AGAIN: Duration = Duration::from_millis(10);

/// Nobody else is the agent while this is kept.
#[derive(Debug)]
pub(crate) struct Alone {
    _lock: Flock<File>,
}

impl Alone {
    /// Waits for an agent that is about to go; one that serves is not waited for.
    pub(crate) async fn wait(socket: &Path) -> Result<Self, ServeError> {
        let failed = |source| ServeError::Bind { path: socket.to_owned(), source };
        let (started, mut told) = (Instant::now(), false);
        let mut file = open(socket).map_err(failed)?;
        loop {
            file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(lock) => return Ok(Self { _lock: lock }),
                Err((file, Errno::EWOULDBLOCK)) => file,
                Err((_, error)) => return Err(failed(error.into())),
            };
            let serves = UnixStream::connect(socket).await.is_ok();
            if serves || started.elapsed() >= PATIENCE {
                return Err(ServeError::Taken { path: socket.to_owned() });
            }
            if !std::mem::replace(&mut told, true) {
                info!("waiting for the agent before this one to end");
            }
            sleep(AGAIN).await;
        }
    }
}

fn open(socket: &Path) -> io::Result<File> {
    std::fs::create_dir_all(socket.parent().ok_or(io::ErrorKind::InvalidInput)?)?;
    let mut path = socket.as_os_str().to_owned();
    path.push(".lock");
    OpenOptions::new().write(true).create(true).truncate(false).open(path)
}
