//! A long-running process, as a guard: it ends with its owner.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, SysconfVar, sysconf};

use crate::command::{Command, CommandError};
use crate::netns::Netns;
use crate::wait::{Timeout, wait_until};

/// What a process has used so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// CPU time in user and kernel mode, of all threads.
    pub cpu: Duration,
    /// Resident memory, in bytes.
    pub rss: u64,
}

/// A process in a namespace; killed (SIGKILL) and reaped on drop.
#[derive(Debug)]
pub struct Process {
    child: Child,
    line: String,
    stdout: PathBuf,
    stderr: PathBuf,
    /// Keeps the namespace while the process lives in it.
    _netns: Netns,
}

impl Process {
    pub(crate) fn spawn(command: &Command) -> Result<Self, CommandError> {
        let netns = command.netns().clone();
        let lab = netns.lab();
        let program = Path::new(command.program()).file_name().unwrap_or_default();
        let stem = lab.dir().join(format!("{}.{}", program.display(), lab.serial()));
        let (stdout, stderr) = (stem.with_added_extension("out"), stem.with_added_extension("err"));
        let line = command.line();
        let lost = |source| CommandError::Lost { command: line.clone(), source };
        let out = File::create(&stdout).map_err(lost)?;
        let err = File::create(&stderr).map_err(lost)?;
        let child = command.start(Stdio::null(), out.into(), err.into())?;
        Ok(Self { child, line, stdout, stderr, _netns: netns })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its standard output so far.
    pub fn stdout(&self) -> String {
        read_lossy(&self.stdout)
    }

    /// Its standard error so far.
    pub fn stderr(&self) -> String {
        read_lossy(&self.stderr)
    }

    /// How it ended; `None` while it runs.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(kill(self.nix_pid(), signal)?)
    }

    /// Waits for its end.
    pub fn wait(&mut self, deadline: Duration) -> Result<ExitStatus, Timeout> {
        let what = format!("the end of `{}`", self.line);
        wait_until(&what, deadline, || {
            self.exited().ok_or_else(|| format!("running; {}", read_lossy(&self.stderr)))
        })
    }

    /// Sends a signal and waits for the end it asks for.
    pub fn stop(&mut self, signal: Signal, deadline: Duration) -> Result<ExitStatus, Timeout> {
        // A process that is gone already cannot be told to go.
        let _ = self.signal(signal);
        self.wait(deadline)
    }

    /// CPU time and memory, from `/proc`.
    pub fn usage(&self) -> io::Result<Usage> {
        usage(self.pid())
    }

    fn nix_pid(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Err(e) = self.child.kill().and_then(|()| self.child.wait()) {
            eprintln!("cannot end `{}`: {e}", self.line);
        }
    }
}

fn read_lossy(path: &Path) -> String {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

fn usage(pid: u32) -> io::Result<Usage> {
    let odd = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let per_second = sysconf(SysconfVar::CLK_TCK)?.map_or(100, i64::cast_unsigned);
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // proc(5): the name in parentheses may hold anything; utime and stime are fields 14 and 15,
    // the 12th and 13th after it.
    let (_, fields) = stat.rsplit_once(')').ok_or_else(|| odd("stat has no name"))?;
    let mut ticks = 0;
    for field in fields.split_whitespace().skip(11).take(2) {
        ticks += field.parse::<u64>().map_err(|_| odd("stat has no times"))?;
    }
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let kib = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok())
        .ok_or_else(|| odd("status has no VmRSS"))?;
    Ok(Usage { cpu: Duration::from_millis(ticks * 1000 / per_second), rss: kib * 1024 })
}
