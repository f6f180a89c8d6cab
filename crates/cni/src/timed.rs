//! A connection to a socket of this machine that ends at a deadline, whatever the peer does.
//!
//! The kernel keeps the time of each call, so no thread is needed for that: starting one would cost
//! the plugin as much as all of its own work.

use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, UnixAddr, connect, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeVal;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// See the module. What comes too late fails with [`ErrorKind::TimedOut`].
#[derive(Debug)]
pub(crate) struct TimedStream {
    stream: UnixStream,
    end: Instant,
}

// === impl TimedStream ===

impl TimedStream {
    /// Connects; all that is done with it together may take so long.
    pub(crate) fn connect(path: &Path, patience: Duration) -> io::Result<Self> {
        let end = Instant::now() + patience;
        let (family, kind) = (AddressFamily::Unix, SockType::Stream);
        let socket = socket(family, kind, SockFlag::SOCK_CLOEXEC, None)?;
        // unix(7) does not say it, the kernel does it: who connects to a socket whose backlog is
        // full waits no longer than this.
        // None at all would be for ever.
        let seconds = patience.as_secs().try_into().unwrap_or(i64::MAX);
        let left = TimeVal::new(seconds, patience.subsec_micros().max(1).into());
        setsockopt(&socket, sockopt::SendTimeout, &left)?;
        connect(socket.as_raw_fd(), &UnixAddr::new(path)?).map_err(|e| late(e.into()))?;
        Ok(Self { stream: socket.into(), end })
    }

    fn left(&self) -> io::Result<Duration> {
        let left = self.end.saturating_duration_since(Instant::now());
        // The kernel counts microseconds, and takes none of them for no limit.
        if left < Duration::from_micros(1) { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

impl Read for TimedStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        self.stream.read(buffer).map_err(late)
    }
}

impl Write for TimedStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        self.stream.write(bytes).map_err(late)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// A deadline is told like a socket that would block.
fn late(error: io::Error) -> io::Error {
    if error.kind() == ErrorKind::WouldBlock { ErrorKind::TimedOut.into() } else { error }
}
