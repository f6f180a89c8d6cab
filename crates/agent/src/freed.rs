//! Which addresses were freed a while ago, for the next agent: a restart warms no address up.
//!
//! A file beside the CNI socket, one line for each address that is freed: when, and which. Where
//! sockets are there is memory, not a disk, so a line costs a system call, and all is forgotten
//! with a boot. What is old goes whenever the file has become twice as long as it need be. Without
//! the file pods come and go as ever; only a restart forgets what cools down.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tracing::warn;

/// The longest file that is read. One is rewritten long before it gets there.
const MAX_FILE: u64 = 16 << 20;
/// A file of so many lines is never rewritten.
const FEW: usize = 256;

/// See the module.
#[derive(Debug)]
pub(crate) struct Freed {
    path: PathBuf,
    cool_down: Duration,
    /// Since the epoch, in the order in which they were freed.
    recent: VecDeque<(Duration, IpAddr)>,
    file: Option<File>,
    lines: usize,
}

// === impl Freed ===

impl Freed {
    /// What earlier agents noted beside this socket.
    pub(crate) fn beside(socket: &Path, cool_down: Duration, now: SystemTime) -> Self {
        let mut path = socket.as_os_str().to_owned();
        path.push(".freed");
        let path = PathBuf::from(path);
        let recent = VecDeque::new();
        let mut freed = Self { path, cool_down, recent, file: None, lines: 0 };
        if !cool_down.is_zero() {
            match read(&freed.path) {
                Ok(text) => freed.recent = text.lines().filter_map(parse).collect(),
                Err(error) => warn!(path = %freed.path.display(), %error, "not read"),
            }
            freed.forget(now);
            freed.rewrite();
        }
        freed
    }

    /// What still cools down, and for how long. A clock that was set makes that no longer.
    pub(crate) fn resting(&self, now: SystemTime) -> impl Iterator<Item = (IpAddr, Duration)> {
        let now = since_epoch(now);
        self.recent.iter().map(move |(at, address)| {
            (*address, (*at + self.cool_down).saturating_sub(now).min(self.cool_down))
        })
    }

    /// These are freed now.
    pub(crate) fn note(&mut self, addresses: impl Iterator<Item = IpAddr>, now: SystemTime) {
        if self.cool_down.is_zero() {
            return;
        }
        let (at, first) = (since_epoch(now), self.recent.len());
        self.recent.extend(addresses.map(|address| (at, address)));
        let text: String = self.recent.range(first..).map(line).collect();
        self.lines += self.recent.len() - first;
        self.forget(now);
        if self.lines > FEW.max(self.recent.len() * 2) {
            self.rewrite();
        } else if let Some(file) = &mut self.file
            && let Err(error) = file.write_all(text.as_bytes())
        {
            // Half a line may be there: the next one must not become part of it.
            warn!(path = %self.path.display(), %error, "an address that was freed is not noted");
            self.rewrite();
        }
    }

    fn forget(&mut self, now: SystemTime) {
        let now = since_epoch(now);
        let old = |at: Duration| at + self.cool_down <= now;
        while self.recent.front().is_some_and(|(at, _)| old(*at)) {
            self.recent.pop_front();
        }
    }

    /// Begins the file anew, with what is not old.
    fn rewrite(&mut self) {
        self.lines = self.recent.len();
        let text: String = self.recent.iter().map(line).collect();
        self.file = match replace(&self.path, &text) {
            Ok(file) => Some(file),
            Err(error) => {
                let path = self.path.display();
                warn!(%path, %error, "after a restart freed addresses will not cool down");
                None
            }
        };
    }
}

fn since_epoch(time: SystemTime) -> Duration {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

fn line((at, address): &(Duration, IpAddr)) -> String {
    format!("{} {address}\n", at.as_millis())
}

fn parse(line: &str) -> Option<(Duration, IpAddr)> {
    let (at, address) = line.split_once(' ')?;
    Some((Duration::from_millis(at.parse().ok()?), address.parse().ok()?))
}

fn read(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        file => drop(file?.take(MAX_FILE).read_to_end(&mut bytes)?),
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Made beside its place and moved there: it is there as a whole, or as it was.
fn replace(path: &Path, text: &str) -> io::Result<File> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let options = OpenOptions::new().write(true).create(true).truncate(true).clone();
    let mut file = options.open(&beside)?;
    file.write_all(text.as_bytes())?;
    std::fs::rename(&beside, path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COOL: Duration = Duration::from_mins(1);

    fn ip(last: u8) -> IpAddr {
        [10, 1, 1, last].into()
    }

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds)
    }

    fn resting(freed: &Freed, seconds: u64) -> Vec<(IpAddr, u64)> {
        freed.resting(at(seconds)).map(|(address, left)| (address, left.as_secs())).collect()
    }

    #[test]
    fn the_next_agent_knows_what_cools_down_and_for_how_long() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("cni.sock");
        let mut first = Freed::beside(&socket, COOL, at(0));
        first.note([ip(2)].into_iter(), at(0));
        first.note([ip(3), ip(4)].into_iter(), at(30));
        let second = Freed::beside(&socket, COOL, at(40));
        assert_eq!(resting(&second, 40), [(ip(2), 20), (ip(3), 50), (ip(4), 50)]);
        assert_eq!(resting(&Freed::beside(&socket, COOL, at(70)), 70), [(ip(3), 20), (ip(4), 20)]);
        // A clock that was set back, by hours.
        let third = Freed::beside(&socket, COOL, at(0) - COOL * 600);
        let left: Vec<_> = third.resting(at(0) - COOL * 600).collect();
        assert_eq!(left, [(ip(3), COOL), (ip(4), COOL)]);
    }

    /// Without that line systemd deletes the directory, and the file with it, at every stop.
    #[test]
    fn the_unit_keeps_the_file_when_the_agent_stops() {
        let unit = include_str!("../../../deploy/osier-agent.service");
        let said = |key: &str| unit.lines().find_map(|line| line.strip_prefix(key));
        let directory = said("RuntimeDirectory=").map(|name| Path::new("/run").join(name));
        let socket = Path::new(osier_cni::config::DEFAULT_SOCKET);
        assert_eq!(directory.as_deref(), socket.parent());
        assert_eq!(said("RuntimeDirectoryPreserve="), Some("yes"));
    }

    #[test]
    fn the_file_stays_as_short_as_what_it_tells() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("cni.sock");
        let mut freed = Freed::beside(&socket, COOL, at(0));
        let mut longest = 0;
        for second in 0..5_000 {
            freed.note([ip(2)].into_iter(), at(second));
            longest =
                longest.max(std::fs::read(directory.path().join("cni.sock.freed")).unwrap().len());
        }
        assert!(longest < 300 * 25, "{longest} bytes");
        assert_eq!(resting(&Freed::beside(&socket, COOL, at(5_000)), 5_000).len(), 59);
    }

    #[test]
    fn lines_that_are_none_and_a_place_that_cannot_be_written_stop_nobody() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("cni.sock");
        let text = "x\n1000000000 10.1.1.9\n\u{fffd} 7\n99999999999999999999999 10.1.1.1\n1000";
        std::fs::write(directory.path().join("cni.sock.freed"), text).unwrap();
        let freed = Freed::beside(&socket, COOL, at(1));
        assert_eq!(resting(&freed, 1), [(ip(9), 59)]);
        let mut nowhere = Freed::beside(Path::new("/proc/none/cni.sock"), COOL, at(0));
        nowhere.note([ip(2)].into_iter(), at(0));
        assert_eq!(resting(&nowhere, 1), [(ip(2), 59)]);
        let mut never = Freed::beside(&socket, Duration::ZERO, at(0));
        never.note([ip(2)].into_iter(), at(0));
        assert_eq!(never.resting(at(0)).count(), 0);
    }
}
