//! A child process with a deadline, and with limits on what it may print.

use crate::MAX_DOCUMENT;
use crate::spec::Environment;
use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

/// How much of standard error is kept.
const MAX_COMPLAINT: usize = 4096;

/// How long it is waited between looks at a child that has closed its output but not ended.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// How long the last words of a child that failed may take to arrive.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A child that has ended.
pub(super) struct Finished {
    pub(super) status: ExitStatus,
    pub(super) stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Finished {
    /// What it said, shortened for a message.
    pub(super) fn said(&self) -> String {
        let said = if self.stderr.is_empty() { &self.stdout } else { &self.stderr };
        let start = said.len().saturating_sub(512);
        String::from_utf8_lossy(&said[start..]).trim().to_owned()
    }
}

/// Runs a plugin to its end; none if the deadline came first, and then it is dead.
pub(super) fn run(
    program: &Path,
    environment: &Environment,
    stdin: &[u8],
    deadline: Instant,
) -> io::Result<Option<Finished>> {
    let mut child = spawn(program, environment)?;
    let outcome = converse(&mut child, stdin, deadline);
    if !matches!(outcome, Ok(Some(_))) {
        // It may have ended meanwhile: then there is nothing to kill, and waiting reaps it.
        let _ = child.kill();
        let _ = child.wait();
    }
    outcome
}

fn spawn(program: &Path, environment: &Environment) -> io::Result<Child> {
    let mut command = Command::new(program);
    command.env_clear().stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    command.env("CNI_COMMAND", environment.command.as_str());
    for (name, value) in [
        ("CNI_CONTAINERID", &environment.container_id),
        ("CNI_NETNS", &environment.netns),
        ("CNI_IFNAME", &environment.ifname),
        ("CNI_ARGS", &environment.args),
        ("CNI_PATH", &environment.path),
    ] {
        if !value.is_empty() {
            command.env(name, value);
        }
    }
    if environment.netns_override {
        command.env("CNI_NETNS_OVERRIDE", "1");
    }
    command.spawn()
}

fn converse(child: &mut Child, stdin: &[u8], deadline: Instant) -> io::Result<Option<Finished>> {
    if let Some(mut pipe) = child.stdin.take() {
        let input = stdin.to_vec();
        // A plugin need not read its input; a broken pipe is none of our business.
        thread::Builder::new().spawn(move || pipe.write_all(&input))?;
    }
    let stdout = collect(child.stdout.take(), MAX_DOCUMENT)?;
    let stderr = collect(child.stderr.take(), MAX_COMPLAINT)?;
    let Some(stdout) = received(&stdout, deadline) else { return Ok(None) };
    if stdout.len() > MAX_DOCUMENT {
        let limit = format!("it printed more than {MAX_DOCUMENT} bytes");
        return Err(io::Error::new(ErrorKind::InvalidData, limit));
    }
    let Some(status) = ended(child, deadline)? else { return Ok(None) };
    // A grandchild may keep standard error open for ever; what a plugin said before it failed is
    // waited for, but not for long.
    let patience = if status.success() { LOOK_AGAIN } else { LAST_WORDS };
    let stderr = received(&stderr, Instant::now() + patience).unwrap_or_default();
    Ok(Some(Finished { status, stdout, stderr }))
}

/// Reads a pipe to its end or one byte over the limit, in a thread of its own.
fn collect(
    pipe: Option<impl Read + Send + 'static>,
    limit: usize,
) -> io::Result<Receiver<Vec<u8>>> {
    let (sender, receiver) = mpsc::sync_channel(1);
    thread::Builder::new().spawn(move || {
        let mut bytes = Vec::new();
        if let Some(pipe) = pipe {
            // What was read before a failure is still of use in a message.
            let _ = pipe.take(limit as u64 + 1).read_to_end(&mut bytes);
        }
        let _ = sender.send(bytes);
    })?;
    Ok(receiver)
}

fn received(receiver: &Receiver<Vec<u8>>, deadline: Instant) -> Option<Vec<u8>> {
    receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok()
}

fn ended(child: &mut Child, deadline: Instant) -> io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        thread::sleep(LOOK_AGAIN);
    }
}
