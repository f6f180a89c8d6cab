//! Foreign commands in a namespace: always with a deadline, never with silent output.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::mem::take;
use std::os::unix::process::CommandExt;
use std::process::{self, Child, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::janitor::LAB_VARIABLE;
use crate::netns::{Netns, NetnsError};
use crate::process::Process;
use crate::wait::wait_until;

const DEFAULT_DEADLINE: Duration = Duration::from_secs(30);

/// A foreign command failed, or could not be run.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The command line had no program.
    #[error("no command given")]
    Empty,
    /// Its namespace could not be entered or prepared.
    #[error(transparent)]
    Namespace(#[from] NetnsError),
    /// The program could not be started.
    #[error("cannot start `{command}`")]
    Start {
        /// The command line.
        command: String,
        /// Why.
        source: io::Error,
    },
    /// It did not end in time, and was killed.
    #[error("`{command}` did not end within {deadline:?}\n{stdout}{stderr}")]
    Deadline {
        /// The command line.
        command: String,
        /// The time it had.
        deadline: Duration,
        /// Its standard output so far.
        stdout: String,
        /// Its standard error so far.
        stderr: String,
    },
    /// It ended without success.
    #[error("`{command}` failed ({status})\n{stdout}{stderr}")]
    Failed {
        /// The command line.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// Its standard output.
        stdout: String,
        /// Its standard error.
        stderr: String,
    },
    /// Its end could not be awaited, or its output not be kept.
    #[error("lost track of `{command}`")]
    Lost {
        /// The command line.
        command: String,
        /// Why.
        source: io::Error,
    },
}

/// What a command that ended has said.
#[derive(Debug, Clone)]
pub struct Output {
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

/// A command to run inside a namespace; made by [`Netns::command`].
#[derive(Debug)]
#[must_use = "a command does nothing until it is run"]
pub struct Command {
    netns: Netns,
    program: String,
    args: Vec<OsString>,
    envs: Vec<(String, OsString)>,
    input: Vec<u8>,
    deadline: Duration,
}

impl Command {
    pub(crate) fn new(netns: Netns, program: &str) -> Self {
        Self {
            netns,
            program: program.to_owned(),
            args: Vec::new(),
            envs: Vec::new(),
            input: Vec::new(),
            deadline: DEFAULT_DEADLINE,
        }
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets a variable of its environment.
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.envs.push((name.to_owned(), value.into()));
        self
    }

    /// Gives it standard input; without, it reads end-of-file.
    pub fn input(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.input = input.into();
        self
    }

    /// Sets the time after which it is killed; 30 s if not set. Does not bind what is spawned.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Runs it to its end; any exit status is fine.
    pub fn output(mut self) -> Result<Output, CommandError> {
        let end = Instant::now() + self.deadline;
        let mut child = self.start(Stdio::piped(), Stdio::piped(), Stdio::piped())?;
        feed(&mut child, take(&mut self.input));
        let stdout = Collected::of(child.stdout.take());
        let stderr = Collected::of(child.stderr.take());
        let (stdout, stdout_ended) = stdout.until(end);
        let (stderr, stderr_ended) = stderr.until(end);
        let exited = if stdout_ended && stderr_ended { self.reap(&mut child, end)? } else { None };
        if let Some(status) = exited {
            return Ok(Output { status, stdout, stderr });
        }
        let command = self.line();
        match child.kill().and_then(|()| child.wait()) {
            Ok(_) => {
                Err(CommandError::Deadline { command, deadline: self.deadline, stdout, stderr })
            }
            Err(source) => Err(CommandError::Lost { command, source }),
        }
    }

    /// Runs it to its end, which must be a success; returns its standard output.
    pub fn run(self) -> Result<String, CommandError> {
        let command = self.line();
        let Output { status, stdout, stderr } = self.output()?;
        if status.success() {
            Ok(stdout)
        } else {
            Err(CommandError::Failed { command, status, stdout, stderr })
        }
    }

    /// Starts it and lets it run; the guard ends it. Its output goes to files of the lab.
    pub fn spawn(self) -> Result<Process, CommandError> {
        Process::spawn(&self)
    }

    pub(crate) fn netns(&self) -> &Netns {
        &self.netns
    }

    pub(crate) fn program(&self) -> &str {
        &self.program
    }

    /// The command line as one would type it, for messages.
    pub(crate) fn line(&self) -> String {
        let mut line = String::new();
        if !self.netns.is_host() {
            line = format!("ip netns exec {} ", self.netns.name());
        }
        line.push_str(&self.program);
        for arg in &self.args {
            line.push(' ');
            line.push_str(&arg.to_string_lossy());
        }
        line
    }

    /// Starts the child from a thread inside the namespace, which is how it gets there.
    pub(crate) fn start(
        &self,
        stdin: Stdio,
        stdout: Stdio,
        stderr: Stdio,
    ) -> Result<Child, CommandError> {
        let mut command = process::Command::new(&self.program);
        command
            .args(&self.args)
            .env(LAB_VARIABLE, self.netns.lab().id())
            .envs(self.envs.iter().map(|(name, value)| (name, value)))
            .stdin(stdin)
            .stdout(stdout)
            .stderr(stderr)
            // The terminal's ctrl-C is for the test; the janitor ends its children.
            .process_group(0);
        self.netns
            .within(move || command.spawn())?
            .map_err(|source| CommandError::Start { command: self.line(), source })
    }

    fn reap(&self, child: &mut Child, end: Instant) -> Result<Option<ExitStatus>, CommandError> {
        let left = end.saturating_duration_since(Instant::now());
        let mut lost = None;
        let status = wait_until("its end", left, || match child.try_wait() {
            Ok(Some(status)) => Ok(Some(status)),
            Ok(None) => Err("running"),
            Err(e) => {
                lost = Some(e);
                Ok(None)
            }
        });
        match lost {
            Some(source) => Err(CommandError::Lost { command: self.line(), source }),
            None => Ok(status.ok().flatten()),
        }
    }
}

/// Writes the input from a thread of its own: the child may read it as late as it likes, or never.
fn feed(child: &mut Child, input: Vec<u8>) {
    if let Some(mut stdin) = child.stdin.take() {
        thread::spawn(move || {
            // A child that does not want its input closes the pipe: its exit status tells.
            let _ = stdin.write_all(&input);
        });
    }
}

/// A stream read to its end on a thread of its own.
struct Collected(mpsc::Receiver<Vec<u8>>);

impl Collected {
    fn of<R: Read + Send + 'static>(stream: Option<R>) -> Self {
        let (sender, receiver) = mpsc::channel();
        if let Some(mut stream) = stream {
            thread::spawn(move || {
                let mut chunk = [0; 16 * 1024];
                while let Ok(n @ 1..) = stream.read(&mut chunk) {
                    if sender.send(chunk[..n].to_vec()).is_err() {
                        break;
                    }
                }
            });
        }
        Self(receiver)
    }

    /// What came until `end`, and whether the stream ended before.
    fn until(&self, end: Instant) -> (String, bool) {
        let mut bytes = Vec::new();
        let ended = loop {
            match self.0.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(chunk) => bytes.extend(chunk),
                Err(mpsc::RecvTimeoutError::Disconnected) => break true,
                Err(mpsc::RecvTimeoutError::Timeout) => break false,
            }
        };
        (String::from_utf8_lossy(&bytes).into_owned(), ended)
    }
}
