//! A controller of the test's own, and the command line that talks to it.

use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub(crate) const OSIER: &str = env!("CARGO_BIN_EXE_osier");
/// Generous, for machines under load.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// A controller, until it is dropped.
pub(crate) struct Controller {
    pub(crate) folder: TempDir,
    pub(crate) server: String,
    child: Child,
}

/// What a command said, and how it ended.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) code: i32,
}

/// A command that goes on, and its lines.
pub(crate) struct Running {
    child: Child,
    lines: Receiver<String>,
}

impl Controller {
    /// Starts one with an empty store, on a port of its own.
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("home")).unwrap();
        let (child, said) = launch(&folder, 0);
        let fact = |name: &str| {
            let line = said.iter().find_map(|line| line.strip_prefix(&format!("{name}: ")));
            line.unwrap_or_else(|| panic!("no {name} in {said:?}")).to_owned()
        };
        let controller = Self { server: fact("api"), folder, child };
        controller.secret("credential", &fact("credential"));
        controller
    }

    /// Ends it at once, as a power cut does.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again, where it was.
    pub(crate) fn restart(&mut self) {
        let port = self.server.rsplit(':').next().unwrap().parse().unwrap();
        self.child = launch(&self.folder, port).0;
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A file beside the controller.
    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// A file that only its owner can read.
    pub(crate) fn secret(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        let mut options = fs::OpenOptions::new();
        let options = options.write(true).create(true).truncate(true).mode(0o600);
        options.open(&path).unwrap().write_all(text.as_bytes()).unwrap();
        path
    }

    /// The command line, without any access but what a test gives it.
    pub(crate) fn bare(&self, line: &str) -> Command {
        let mut command = Command::new(OSIER);
        command.args(line.split_whitespace()).current_dir(self.folder.path());
        for variable in ["OSIER_CONTEXT", "OSIER_CONFIG", "XDG_CONFIG_HOME", "NO_COLOR"] {
            command.env_remove(variable);
        }
        for variable in ["OSIER_SERVER", "OSIER_CA", "OSIER_CREDENTIAL_FILE"] {
            command.env_remove(variable);
        }
        command.env("HOME", self.path("home"));
        command
    }

    /// The command line, with the credential of the first start.
    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = self.bare(line);
        command.env("OSIER_SERVER", &self.server).env("OSIER_CA", self.path("state/authority.pem"));
        command.env("OSIER_CREDENTIAL_FILE", self.path("credential"));
        command
    }

    pub(crate) fn run(&self, line: &str) -> Said {
        run(self.command(line), "")
    }

    /// Runs what has to succeed: its output.
    pub(crate) fn ok(&self, line: &str) -> String {
        let said = self.run(line);
        assert_eq!(said.code, 0, "{line}: {said:?}");
        said.out
    }

    /// Runs what has to succeed, with standard input.
    pub(crate) fn ok_with(&self, line: &str, input: &str) -> String {
        let said = run(self.command(line), input);
        assert_eq!(said.code, 0, "{line}: {said:?}");
        said.out
    }

    /// Runs what has to fail: its errors.
    pub(crate) fn fails(&self, line: &str) -> String {
        let said = self.run(line);
        assert_eq!(said.code, 1, "{line}: {said:?}");
        said.err
    }

    pub(crate) fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.ok(line)).unwrap()
    }

    /// Starts what goes on.
    pub(crate) fn start_command(&self, line: &str) -> Running {
        let mut command = dying_with_us();
        let inner = self.command(line);
        command.arg(inner.get_program()).args(inner.get_args());
        for (name, value) in inner.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = lines_of(child.stdout.take().unwrap());
        Running { child, lines }
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    /// The next line that contains something; lines before it are passed over.
    pub(crate) fn until(&self, what: &str) -> String {
        let end = Instant::now() + PATIENCE;
        let mut seen = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(end.saturating_duration_since(Instant::now()))
        {
            if line.contains(what) {
                return line;
            }
            seen.push(line);
        }
        panic!("{what:?} did not come, but {seen:#?}");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a command to its end.
pub(crate) fn run(mut command: Command, input: &str) -> Said {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // Who does not read it may have ended already.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    Said {
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
        code: output.status.code().unwrap_or(-1),
    }
}

/// What is started through it ends with the test, however that ends.
fn dying_with_us() -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]);
    command
}

/// Starts a controller, and waits until it is ready: what it said.
fn launch(folder: &TempDir, port: u16) -> (Child, Vec<String>) {
    let path = folder.path().join("controller.toml");
    let state = folder.path().join("state");
    let config = format!(
        "state_dir = \"{}\"\n[api]\nlisten = \"127.0.0.1:{port}\"\n[fleet]\nlisten = \"127.0.0.1:0\"\n",
        state.display()
    );
    fs::write(&path, config).unwrap();
    let mut command = dying_with_us();
    command.args([OSIER, "controller", "--config"]).arg(path).stdout(Stdio::piped());
    let log = fs::File::create(folder.path().join("controller.log")).unwrap();
    let mut child = command.stderr(log).spawn().unwrap();
    let lines = lines_of(child.stdout.take().unwrap());
    let end = Instant::now() + PATIENCE;
    let mut said = Vec::new();
    while let Ok(line) = lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
        if line == "ready" {
            return (child, said);
        }
        said.push(line);
    }
    let _ = child.kill();
    let _ = child.wait();
    let log = fs::read_to_string(folder.path().join("controller.log")).unwrap_or_default();
    panic!("the controller is not ready: {said:?}\n{log}");
}

/// Reads on for as long as something writes, so that nobody is held up.
fn lines_of(from: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    receiver
}
