//! What `ovsdb-server` and `ovs-vswitchd` have in common: a directory, a control socket, a log, and
//! that tests kill and restart them.

use std::fs;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::command::{Command, CommandError};
use crate::lab::LabError;
use crate::netns::Netns;
use crate::process::{Process, Usage};
use crate::wait::{Timeout, wait_until};

/// Generous, for machines under load: a daemon that fails says so long before.
const READY: Duration = Duration::from_secs(20);

/// A daemon did not come up.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// A switch must have a namespace of its own.
    #[error("a switch in the host's namespace would leave its devices behind")]
    Host,
    /// Its directory could not be made.
    #[error("no place for the daemon")]
    Place(#[from] LabError),
    /// It, or a tool that prepares it, could not be run.
    #[error("a command for the daemon failed")]
    Command(#[from] CommandError),
    /// It ended instead of becoming ready.
    #[error("{program} ended while starting ({status}); its log:\n{log}")]
    Ended {
        /// The daemon.
        program: &'static str,
        /// How it ended.
        status: ExitStatus,
        /// The end of its log.
        log: String,
    },
    /// It runs but did not become ready.
    #[error("not ready")]
    NotReady(#[from] Timeout),
}

/// An Open vSwitch daemon that can be killed and started again.
#[derive(Debug)]
pub(crate) struct Daemon {
    program: &'static str,
    netns: Netns,
    dir: PathBuf,
    process: Option<Process>,
}

impl Daemon {
    pub(crate) fn new(program: &'static str, netns: Netns, dir: PathBuf) -> Self {
        Self { program, netns, dir, process: None }
    }

    pub(crate) fn netns(&self) -> &Netns {
        &self.netns
    }

    /// It will live in another namespace from its next start on.
    pub(crate) fn move_to(&mut self, netns: &Netns) {
        self.netns = netns.clone();
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The socket of `ovs-appctl`.
    pub(crate) fn unixctl(&self) -> PathBuf {
        self.file("ctl")
    }

    /// Its log, from its first start on.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.file("log")).unwrap_or_default()
    }

    /// Starts it and waits until it answers on its control socket and `ready` agrees.
    pub(crate) fn start(
        &mut self,
        args: &[String],
        mut ready: impl FnMut(&Self) -> Result<(), String>,
    ) -> Result<(), DaemonError> {
        self.process = None;
        let process = tool(&self.netns, &self.dir, self.program)
            .args(args)
            .args([("unixctl", "ctl"), ("log-file", "log"), ("pidfile", "pid")].map(
                |(option, extension)| format!("--{option}={}", self.file(extension).display()),
            ))
            .args(["--no-chdir", "-vconsole:off", "-vsyslog:off"])
            .spawn()?;
        self.process = Some(process);
        let ended = wait_until(&format!("{} to be ready", self.program), READY, || {
            if let Some(status) = self.process.as_mut().and_then(Process::exited) {
                return Ok(Some(status));
            }
            accepts(&self.unixctl())?;
            ready(self).map(|()| None)
        })?;
        match ended {
            None => Ok(()),
            Some(status) => {
                Err(DaemonError::Ended { program: self.program, status, log: self.log_tail(20) })
            }
        }
    }

    /// Kills it with SIGKILL and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        self.process = None;
    }

    pub(crate) fn process(&self) -> io::Result<&Process> {
        self.process.as_ref().ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, format!("{} does not run", self.program))
        })
    }

    pub(crate) fn usage(&self) -> io::Result<Usage> {
        self.process()?.usage()
    }

    /// Stops it where it stands: it keeps its sockets but does not answer.
    pub(crate) fn pause(&self) -> io::Result<()> {
        self.process()?.signal(Signal::SIGSTOP)
    }

    pub(crate) fn resume(&self) -> io::Result<()> {
        self.process()?.signal(Signal::SIGCONT)
    }

    pub(crate) fn appctl(&self, args: &[&str]) -> Result<String, CommandError> {
        self.tool("ovs-appctl").arg("-t").arg(self.unixctl()).args(args).run()
    }

    /// A tool that finds this daemon's directory by itself.
    pub(crate) fn tool(&self, program: &str) -> Command {
        tool(&self.netns, &self.dir, program)
    }

    /// The last lines of its log.
    pub(crate) fn log_tail(&self, lines: usize) -> String {
        let log = self.log();
        let skip = log.lines().count().saturating_sub(lines);
        log.lines().skip(skip).fold(String::new(), |text, line| text + line + "\n")
    }

    fn file(&self, extension: &str) -> PathBuf {
        self.dir.join(format!("{}.{extension}", self.program))
    }
}

/// A command of Open vSwitch that looks for everything in `dir`.
fn tool(netns: &Netns, dir: &Path, program: &str) -> Command {
    ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"]
        .iter()
        .fold(netns.command(program), |command, name| command.env(name, dir))
}

/// Whether someone accepts connections there; a socket that a killed daemon left refuses.
pub(crate) fn accepts(socket: &Path) -> Result<(), String> {
    match UnixStream::connect(socket) {
        Ok(_) => Ok(()),
        Err(e) => Err(format!("{}: {e}", socket.display())),
    }
}
