//! The program, a place for its labs that is the test's own, and what is left of a lab.

use osier_testbed::wait_until;
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::Duration;
use tempfile::TempDir;

pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The directory with the executables, built where this test is.
pub(crate) fn executables() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        let mut build = osier_testbed::cargo();
        build.args(["build", "-q", "-p", "osier-cni", "-p", "osier"]);
        if !cfg!(debug_assertions) {
            build.arg("--release");
        }
        assert!(build.status().unwrap().success(), "the executables cannot be built");
        let test = std::env::current_exe().unwrap();
        test.parent().unwrap().parent().unwrap().to_owned()
    })
}

/// A place for labs; they go with it.
pub(crate) struct World {
    pub(crate) base: TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        executables();
        // A socket's path must fit: not in a long TMPDIR.
        Self { base: tempfile::Builder::new().prefix("labs-").tempdir_in("/tmp").unwrap() }
    }

    /// `osier lab` with these words.
    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = Command::new(executables().join("osier"));
        command.arg("lab").args(line.split_whitespace());
        command.env("OSIER_LAB_DIR", self.base.path()).stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, line: &str) -> Output {
        self.command(line).output().unwrap()
    }

    /// Expects success: standard output.
    pub(crate) fn succeeds(&self, line: &str) -> String {
        let output = self.run(line);
        assert!(output.status.success(), "{line}: {}", all(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Expects failure: standard error.
    pub(crate) fn fails(&self, line: &str) -> String {
        let output = self.run(line);
        assert_eq!(output.status.code(), Some(1), "{line}: {}", all(&output));
        String::from_utf8(output.stderr).unwrap()
    }

    pub(crate) fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.succeeds(&format!("{line} -o json"))).unwrap()
    }

    /// Runs with standard input.
    pub(crate) fn feed(&self, line: &str, input: &str) -> Output {
        let mut command = self.command(line);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    /// A lab's directory, once it has one.
    pub(crate) fn dir_of(&self, name: &str) -> PathBuf {
        let facts = self.base.path().join(name).join("lab.json");
        wait_until("the lab's facts", PATIENCE, || {
            let text = fs::read_to_string(&facts).map_err(|e| e.to_string())?;
            let facts: Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
            facts["dir"].as_str().map(PathBuf::from).ok_or_else(|| text.clone())
        })
        .unwrap()
    }

    pub(crate) fn keeper_of(&self, name: &str) -> i32 {
        let text = fs::read_to_string(self.base.path().join(name).join("lab.json")).unwrap();
        let facts: Value = serde_json::from_str(&text).unwrap();
        facts["keeper"].as_i64().unwrap().try_into().unwrap()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let entries = self.base.path().read_dir().unwrap().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for name in self.names() {
            let _ = self.run(&format!("down --name {name}"));
        }
    }
}

pub(crate) fn all(output: &Output) -> String {
    let (said, complained) = (&output.stdout, &output.stderr);
    format!(
        "{} {}{}",
        output.status,
        String::from_utf8_lossy(said),
        String::from_utf8_lossy(complained)
    )
}

/// Processes of the lab with this directory, each as its id and command line.
pub(crate) fn processes(dir: &Path) -> Vec<(i32, String)> {
    let id = dir.file_name().unwrap().to_str().unwrap();
    let mark = format!("OSIER_TESTBED_LAB={id}");
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let read = |pid: i32, file: &str| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    pids.filter(|pid| read(*pid, "environ").split(|byte| *byte == 0).any(|v| v == mark.as_bytes()))
        .map(|pid| (pid, String::from_utf8_lossy(&read(pid, "cmdline")).replace('\0', " ")))
        .collect()
}

/// What there is of the lab with this directory.
pub(crate) fn traces(dir: &Path) -> Vec<String> {
    let id = dir.file_name().unwrap().to_str().unwrap();
    let namespaces = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let namespaces = namespaces.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut found: Vec<String> = namespaces.filter(|name| name.starts_with(id)).collect();
    found.extend(processes(dir).into_iter().map(|(pid, line)| format!("{pid} {line}")));
    found.extend(dir.exists().then(|| dir.display().to_string()));
    found
}

/// Waits until nothing is left of it.
pub(crate) fn nothing_stays(dir: &Path) {
    wait_until("an empty machine", PATIENCE, || match traces(dir) {
        left if left.is_empty() => Ok(()),
        left => Err(left.join("; ")),
    })
    .unwrap();
}
