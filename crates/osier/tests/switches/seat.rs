//! A controller's place: a machine on the underlay, its configuration, and its process, which may be
//! killed, stopped and started again.

use osier_testbed::{Command, Fabric, Lab, Netns, Process, Signal, wait_until};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

/// How long something may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Seat {
    pub(crate) netns: Netns,
    pub(crate) address: String,
    dir: PathBuf,
    process: Option<Process>,
    /// What it is started with besides.
    env: Vec<(&'static str, String)>,
    /// What earlier processes logged.
    past: String,
}

impl Seat {
    /// The machine of this number, at 198.51.100.250 and up. `more` is added to its configuration.
    pub(crate) fn new(lab: &Lab, fabric: &Fabric, number: usize, more: &str) -> Self {
        let netns = lab.netns(&format!("controller{number}")).unwrap();
        let (segment, name) = (fabric.segment(), netns.name());
        let (plug, address) = (format!("plug{number}"), format!("198.51.100.{}", 250 + number));
        segment.ip(&format!("link add {plug} type veth peer name eth0 netns {name}")).unwrap();
        segment.ip(&format!("link set {plug} master {} up", Fabric::SEGMENT)).unwrap();
        netns.ip(&format!("address add {address}/24 dev eth0")).unwrap();
        // The nodes' switches take packets as they are: checksums must be there.
        netns.run(&["ethtool", "-K", "eth0", "tx", "off"]).unwrap();
        netns.ip("link set eth0 up").unwrap();
        let dir = lab.make_dir(&format!("controller{number}")).unwrap();
        let (process, env, past) = (None, Vec::new(), String::new());
        let seat = Self { netns, address, dir, process, env, past };
        seat.configure(more);
        seat
    }

    /// Writes its configuration, for its next process.
    pub(crate) fn configure(&self, more: &str) {
        let text = format!(
            "state_dir = '{}/state'\n[api]\naddresses = ['{}']\n[restconf]\nage_seconds = 2\n{more}",
            self.dir.display(),
            self.address
        );
        fs::write(self.dir.join("controller.toml"), text).unwrap();
    }

    /// What its next process finds in its environment.
    pub(crate) fn set_env(&mut self, env: Vec<(&'static str, String)>) {
        self.env = env;
    }

    /// Starts a process; it may have to wait until it leads.
    pub(crate) fn launch(&mut self) {
        self.end();
        let mut command = self.netns.command(env!("CARGO_BIN_EXE_osier"));
        for (name, value) in &self.env {
            command = command.env(name, value);
        }
        let config = self.dir.join("controller.toml");
        self.process = Some(command.args(["controller", "--config"]).arg(&config).spawn().unwrap());
    }

    fn end(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.stop(Signal::SIGKILL, PATIENCE);
            self.past += &process.stderr();
        }
    }

    /// Whether it leads, or did until it ended.
    pub(crate) fn is_ready(&self) -> bool {
        self.process.as_ref().is_some_and(|p| p.stdout().lines().any(|line| line == "ready"))
    }

    pub(crate) fn await_ready(&self) {
        let ready = || self.is_ready().then_some(()).ok_or_else(|| self.said());
        wait_until("the controller", PATIENCE, ready).unwrap();
    }

    /// Ends the process without warning.
    pub(crate) fn kill(&mut self) {
        assert!(self.process.is_some(), "there is no process to kill");
        self.end();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.process.as_ref().unwrap().signal(signal).unwrap();
    }

    /// Whether the process runs.
    pub(crate) fn is_running(&mut self) -> bool {
        self.process.as_mut().is_some_and(|process| process.exited().is_none())
    }

    /// All that was logged here.
    pub(crate) fn log(&self) -> String {
        self.past.clone() + &self.process.as_ref().map(Process::stderr).unwrap_or_default()
    }

    /// What its process has printed and logged, for people.
    pub(crate) fn said(&self) -> String {
        let said = self.process.as_ref().map(Process::stdout);
        format!(
            "==== the controller at {}\n{}{}",
            self.address,
            said.unwrap_or_default(),
            self.log()
        )
    }

    /// The terms that processes here have led.
    pub(crate) fn terms(&self) -> Vec<u64> {
        let log = self.log();
        let read = log.lines().filter(|line| line.contains("the model is read"));
        let term = |line: &str| line.split("term=").nth(1)?.split_whitespace().next()?.parse().ok();
        read.filter_map(term).collect()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.join("state").join(name)
    }

    /// Where to say what time it is to it. It is there before the controller is.
    pub(crate) fn clock(&self) -> PathBuf {
        self.dir.join("clock")
    }

    /// The command line, as the controller's administrator uses it.
    pub(crate) fn administrator(&self, arguments: &[&str]) -> Command {
        let command =
            self.netns.command(env!("CARGO_BIN_EXE_osier")).args(arguments.iter().copied());
        if let ["controller", ..] = arguments {
            return command.arg("--config").arg(self.dir.join("controller.toml"));
        }
        let admin = fs::read_to_string(self.file("admin.toml")).unwrap();
        let line = admin.lines().find_map(|line| line.strip_prefix("credential = "));
        let file = self.dir.join("credential");
        fs::write(&file, line.unwrap().trim_matches('"')).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        command
            .env("OSIER_SERVER", format!("https://{}:6645", self.address))
            .env("OSIER_CA", self.file("authority.pem"))
            .env("OSIER_CREDENTIAL_FILE", file)
    }
}
