//! Machines: namespaces of their own, with a disk that survives a reboot and daemons that can fail.
//!
//! All that runs in a machine descends from its PID 1. When that is killed the kernel ends the rest,
//! pods and all, which is how a machine loses power; nothing is ever looked up by name.

use crate::error::MachineError;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use osier_testbed::{Command, CommandError, Lab, Netns, Process, wait_until};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const INIT: &str = include_str!("machine.sh");
/// For what takes milliseconds on an idle machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// A machine of the cluster.
#[derive(Debug)]
pub struct Machine {
    name: String,
    lab: Lab,
    dir: PathBuf,
    /// What becomes PID 1.
    reaper: PathBuf,
    /// Where programs are looked for first.
    programs: PathBuf,
    nameserver: String,
    /// The control group of its own daemons: their processes are written there.
    group: Mutex<Option<PathBuf>>,
    boots: AtomicU32,
    running: Mutex<Option<Running>>,
}

/// What a machine loses with its power.
#[derive(Debug)]
struct Running {
    netns: Netns,
    init: u32,
    /// Waits for PID 1.
    parent: Process,
    daemons: BTreeMap<String, Daemon>,
}

/// A program that runs in a machine until it is ended, and how it is started again.
#[derive(Debug)]
struct Daemon {
    command: Vec<String>,
    /// `nsenter`, which waits for it.
    parent: Option<Process>,
}

// === impl Machine ===

impl Machine {
    pub(crate) fn new(
        lab: &Lab,
        name: &str,
        programs: &Path,
        nameserver: String,
    ) -> Result<Self, MachineError> {
        let failed = |source| MachineError::Folder { machine: name.to_owned(), source };
        let dir = lab.make_dir(name).map_err(failed)?;
        lab.make_dir(&format!("{name}/log")).map_err(failed)?;
        Ok(Self {
            name: name.to_owned(),
            lab: lab.clone(),
            dir,
            reaper: programs.join("pause"),
            programs: programs.to_owned(),
            nameserver,
            group: Mutex::new(None),
            boots: AtomicU32::new(0),
            running: Mutex::new(None),
        })
    }

    /// Puts daemons that are started from now on into a control group.
    pub(crate) fn set_group(&self, group: Option<PathBuf>) {
        *self.group.lock().unwrap_or_else(PoisonError::into_inner) = group;
    }

    /// Its name: `cp`, `node-1`, `node-2` and so on.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its folder on the host: `log/` with the daemons' logs, and `disk/`.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Its network namespace; another one after each boot.
    pub fn netns(&self) -> Result<Netns, MachineError> {
        self.with(|running| Ok(running.netns.clone()))
    }

    /// Its PID 1, as the host numbers it: for `nsenter -t`.
    pub fn init(&self) -> Result<u32, MachineError> {
        self.with(|running| Ok(running.init))
    }

    /// A new network namespace for the next boot.
    pub(crate) fn new_netns(&self) -> Result<Netns, CommandError> {
        let boot = self.boots.fetch_add(1, Ordering::Relaxed);
        let name = if boot == 0 { self.name.clone() } else { format!("{}-boot{boot}", self.name) };
        self.lab.netns(&name)
    }

    /// Boots with a network that is made already.
    pub(crate) fn boot(&self, netns: Netns) -> Result<(), MachineError> {
        let ready = self.dir.join("ready");
        // Of the boot before; mostly there is none.
        let _ = fs::remove_file(&ready);
        let mut parent = netns
            .command("unshare")
            .args(["--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc"])
            .args(["sh", "-c", INIT, "init", &self.name])
            .args([&self.dir, &self.reaper, &ready])
            .arg(&self.nameserver)
            .env("PATH", self.path())
            .spawn()?;
        let what = format!("machine {} to boot", self.name);
        let init = wait_until(&what, PATIENCE, || {
            if let Some(status) = parent.exited() {
                return Ok(Err(MachineError::Boot {
                    machine: self.name.clone(),
                    status,
                    stderr: parent.stderr(),
                }));
            }
            let init = only_child(parent.pid()).ok_or("it has no process")?;
            if ready.exists() { Ok(Ok(init)) } else { Err("it prepares its file systems") }
        })??;
        *self.lock() = Some(Running { netns, init, parent, daemons: BTreeMap::new() });
        Ok(())
    }

    /// Loses power: every process in it ends at once. What is on its disk stays.
    pub fn power_off(&self) -> Result<(), MachineError> {
        let Some(mut running) = self.lock().take() else { return Ok(()) };
        // One that is gone already cannot be killed.
        let _ = kill(pid(running.init), Signal::SIGKILL);
        // PID 1 is reaped after all others.
        running.parent.wait(PATIENCE)?;
        Ok(())
    }

    /// Whether it runs.
    pub fn is_on(&self) -> bool {
        self.lock().is_some()
    }

    /// A command to run inside, where it sees the machine's files, network and processes.
    pub fn command(&self, program: &str) -> Result<Command, MachineError> {
        let init = self.init()?;
        Ok(self
            .lab
            .host()
            .command("nsenter")
            .args(["-t", &init.to_string(), "-m", "-u", "-i", "-n", "-p", "--", program])
            .env("PATH", self.path()))
    }

    /// Runs a command inside to its end, and returns its standard output.
    pub fn run(&self, command: &[&str]) -> Result<String, MachineError> {
        let (program, args) = command.split_first().ok_or(CommandError::Empty)?;
        Ok(self.command(program)?.args(args).run()?)
    }

    /// Writes a file inside, and the folders it needs.
    pub fn write(&self, path: &str, content: impl Into<Vec<u8>>) -> Result<(), MachineError> {
        let script = "mkdir -p \"$(dirname \"$1\")\" && cat >\"$1\"";
        self.command("sh")?.args(["-c", script, "write", path]).input(content).run()?;
        Ok(())
    }

    /// Starts a daemon under a name. Its output goes to `log/<name>.log`.
    pub fn spawn(&self, name: &str, command: &[&str]) -> Result<(), MachineError> {
        let command: Vec<String> = command.iter().map(|&arg| arg.to_owned()).collect();
        let parent = Some(self.launch(name, &command)?);
        self.with(|running| {
            running.daemons.insert(name.to_owned(), Daemon { command, parent });
            Ok(())
        })
    }

    /// Starts a daemon again that was killed or stopped.
    pub fn start(&self, name: &str) -> Result<(), MachineError> {
        let command = self.with_daemon(name, |daemon| Ok(daemon.command.clone()))?;
        let parent = self.launch(name, &command)?;
        self.with_daemon(name, |daemon| {
            daemon.parent = Some(parent);
            Ok(())
        })
    }

    /// Kills a daemon with SIGKILL, and waits until it is gone.
    pub fn kill(&self, name: &str) -> Result<(), MachineError> {
        self.end(name, Signal::SIGKILL)
    }

    /// Asks a daemon to end, and waits until it is gone.
    pub fn stop(&self, name: &str) -> Result<(), MachineError> {
        self.end(name, Signal::SIGTERM)
    }

    /// Sends a daemon a signal: SIGSTOP makes it hang, SIGCONT lets it go on.
    pub fn signal(&self, name: &str, signal: Signal) -> Result<(), MachineError> {
        let daemon = self.pid_of(name)?;
        kill(pid(daemon), signal).map_err(|errno| MachineError::Signal {
            machine: self.name.clone(),
            daemon: name.to_owned(),
            source: errno.into(),
        })
    }

    /// A running daemon's process, as the host numbers it.
    pub fn pid_of(&self, name: &str) -> Result<u32, MachineError> {
        let parent =
            self.with_daemon(name, |daemon| Ok(daemon.parent.as_ref().map(Process::pid)))?;
        parent.and_then(only_child).ok_or_else(|| self.not_running(name))
    }

    /// How its daemons are: `None` for those that run, else what is known of their end.
    pub fn daemons(&self) -> BTreeMap<String, Option<String>> {
        let mut running = self.lock();
        let daemons = running.iter_mut().flat_map(|running| &mut running.daemons);
        daemons
            .map(|(name, daemon)| {
                let end = match &mut daemon.parent {
                    None => Some("ended by us".to_owned()),
                    Some(parent) => parent.exited().map(|status| status.to_string()),
                };
                (name.clone(), end)
            })
            .collect()
    }

    /// The log of a daemon, from its first start on.
    pub fn log(&self, name: &str) -> String {
        let bytes = fs::read(self.log_file(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The last lines of the logs of all daemons that ended by themselves.
    pub(crate) fn obituaries(&self) -> String {
        let mut text = String::new();
        for (name, end) in self.daemons() {
            let Some(end) = end.filter(|end| end != "ended by us") else { continue };
            let log = self.log(&name);
            let lines: Vec<&str> = log.lines().collect();
            let last = lines[lines.len().saturating_sub(12)..].join("\n  ");
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{} on {}: {end}\n  {last}", name, self.name);
        }
        text
    }

    fn launch(&self, name: &str, command: &[String]) -> Result<Process, MachineError> {
        let log = self.log_file(name).display().to_string();
        // Zero is who writes.
        let script = "log=$1 group=$2; shift 2; [ -z \"$group\" ] || echo 0 >\"$group\"
                      exec \"$@\" >>\"$log\" 2>&1";
        let group = self.group.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let group = group.map(|group| group.display().to_string()).unwrap_or_default();
        let parent = self
            .command("sh")?
            .args(["-c", script, "daemon", &log, &group])
            .args(command)
            .spawn()?;
        wait_until(&format!("{name} to start"), PATIENCE, || {
            only_child(parent.pid()).ok_or("it has no process")
        })?;
        Ok(parent)
    }

    fn end(&self, name: &str, signal: Signal) -> Result<(), MachineError> {
        let taken = self.with_daemon(name, |daemon| Ok(daemon.parent.take()))?;
        let mut parent = taken.ok_or_else(|| self.not_running(name))?;
        if let Some(daemon) = only_child(parent.pid()) {
            // It may end by itself just now.
            let _ = kill(pid(daemon), signal);
        }
        parent.wait(PATIENCE)?;
        Ok(())
    }

    fn log_file(&self, name: &str) -> PathBuf {
        self.dir.join("log").join(format!("{name}.log"))
    }

    fn path(&self) -> String {
        format!(
            "{}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            self.programs.display()
        )
    }

    fn not_running(&self, daemon: &str) -> MachineError {
        MachineError::NotRunning { machine: self.name.clone(), daemon: daemon.to_owned() }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(
        &self,
        work: impl FnOnce(&mut Running) -> Result<T, MachineError>,
    ) -> Result<T, MachineError> {
        let mut running = self.lock();
        work(running.as_mut().ok_or_else(|| MachineError::Off { machine: self.name.clone() })?)
    }

    fn with_daemon<T>(
        &self,
        name: &str,
        work: impl FnOnce(&mut Daemon) -> Result<T, MachineError>,
    ) -> Result<T, MachineError> {
        self.with(|running| {
            let daemon = running.daemons.get_mut(name);
            work(daemon.ok_or_else(|| self.not_running(name))?)
        })
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if let Err(e) = self.power_off() {
            eprintln!("machine {} stays until its lab goes: {e}", self.name);
        }
    }
}

fn pid(number: u32) -> Pid {
    Pid::from_raw(number.cast_signed())
}

/// The process that `unshare` or `nsenter` started, as the host numbers it.
fn only_child(parent: u32) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
