//! Clusters that outlive the command that made them: a process of its own keeps each.
//!
//! In `/run/osier/kubelab/<name>` are the keeper's socket, its log and, once the cluster is up, its
//! facts. A connection to the socket ends the cluster, and is closed when all is gone. While the
//! cluster comes up, the keeper ends if the one who asked for it does.

use crate::arguments::ClusterArguments;
use anyhow::{Context, Result, bail, ensure};
use osier_kubelab::{Layout, wait_until};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

const BASE: &str = "/run/osier/kubelab";
const SOCKET: &str = "keeper.sock";
const FACTS: &str = "cluster.json";
const LOG: &str = "keeper.log";
/// What the keeper says when all is up, and hears when it shall go on alone.
const DONE: &[u8] = b"!";
const PATIENCE: Duration = Duration::from_mins(2);

fn folder(name: &str) -> Result<PathBuf> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    ensure!(!name.is_empty() && name.bytes().all(plain), "{name:?}: letters, digits and - only");
    Ok(PathBuf::from(BASE).join(name))
}

/// Starts a keeper, and waits until its cluster is up.
pub(crate) fn up(name: &str, cluster: &ClusterArguments) -> Result<Layout> {
    let dir = folder(name)?;
    ensure!(layout(name).is_err(), "{name} is up already; `make k8s-down` ends it");
    fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let log = dir.join(LOG);
    let mut keeper = Command::new(std::env::current_exe()?)
        .args(["--name", name, "keep"])
        .args(cluster.to_words())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(File::create(&log)?)
        // Ctrl-C is ours: it hears of our end.
        .process_group(0)
        .spawn()
        .context("cannot start the keeper")?;
    if !echo_until_done(File::open(&log)?, keeper.stdout.take())? {
        bail!("the cluster did not come up ({})", keeper.wait()?);
    }
    if let Some(mut stdin) = keeper.stdin.take() {
        stdin.write_all(DONE).context("the keeper is gone")?;
    }
    layout(name)
}

/// Shows what the keeper says until it is done: whether it was.
fn echo_until_done(mut log: File, done: Option<ChildStdout>) -> Result<bool> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut byte = [0];
        // Nobody listens when we were interrupted.
        let _ = sender.send(done.is_some_and(|mut done| done.read_exact(&mut byte).is_ok()));
    });
    loop {
        let done = receiver.recv_timeout(Duration::from_millis(100));
        io::copy(&mut log, &mut io::stderr())?;
        match done {
            Ok(done) => return Ok(done),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(false),
        }
    }
}

/// Owns a cluster until somebody connects to its socket.
pub(crate) fn keep(name: &str, arguments: &ClusterArguments) -> Result<()> {
    let dir = folder(name)?;
    thread::spawn(|| {
        let mut heard = [0];
        if io::stdin().read_exact(&mut heard).is_err() {
            // The janitor of the lab cleans up.
            std::process::exit(1);
        }
    });
    let cluster = arguments.up()?;
    let socket = dir.join(SOCKET);
    // Of a keeper that was killed.
    let _ = fs::remove_file(&socket);
    let listener = UnixListener::bind(&socket)?;
    fs::write(dir.join(FACTS), serde_json::to_vec_pretty(&cluster.layout()?)?)?;
    io::stdout().write_all(DONE)?;
    io::stdout().flush()?;
    let (caller, _) = listener.accept()?;
    drop(cluster);
    fs::remove_dir_all(&dir)?;
    drop(caller);
    Ok(())
}

/// The facts of a cluster that is up.
pub(crate) fn layout(name: &str) -> Result<Layout> {
    let dir = folder(name)?;
    let facts = fs::read(dir.join(FACTS));
    let facts =
        facts.with_context(|| format!("there is no cluster {name}; `make k8s` makes one"))?;
    let layout: Layout = serde_json::from_slice(&facts)?;
    ensure!(
        layout.dir.is_dir(),
        "the cluster {name} is dead; `make k8s-down` removes what is left"
    );
    Ok(layout)
}

/// Ends a cluster, and waits until it is gone.
pub(crate) fn down(name: &str) -> Result<()> {
    let dir = folder(name)?;
    match UnixStream::connect(dir.join(SOCKET)) {
        Ok(mut keeper) => {
            keeper.set_read_timeout(Some(PATIENCE))?;
            // It says nothing, and closes.
            keeper.read_to_end(&mut Vec::new()).context("the keeper does not end")?;
        }
        // It is dead, and its janitor has cleaned up; or there was none.
        Err(_) => match fs::remove_dir_all(&dir) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e.into()),
            _ => {}
        },
    }
    wait_until("the cluster's folder to go", PATIENCE, || {
        if dir.exists() { Err(dir.display().to_string()) } else { Ok(()) }
    })?;
    Ok(())
}
