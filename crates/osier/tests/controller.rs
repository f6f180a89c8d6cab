//! `osier controller` as a process: killed in the middle of writes, started again, and looked after
//! while it is stopped. curl is its client.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is the report")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

const BASE: &str = "/apis/osier.dev/v1alpha1";

/// A controller's process, and what it said.
struct Process {
    child: Child,
    api: String,
    credential: Option<String>,
}

fn osier(config: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_osier"));
    command.arg("controller").arg("--config").arg(config).args(arguments);
    command
}

fn run(config: &Path, arguments: &[&str]) -> Output {
    osier(config, arguments).output().unwrap()
}

fn configuration(folder: &Path) -> PathBuf {
    let path = folder.join("controller.toml");
    let state = folder.join("state");
    let text = format!(
        "state_dir = '{}'\n[api]\nlisten = '127.0.0.1:0'\n[fleet]\nlisten = '127.0.0.1:0'\n",
        state.display()
    );
    std::fs::write(&path, text).unwrap();
    path
}

impl Process {
    fn start(config: &Path) -> Self {
        let mut child =
            osier(config, &[]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let said: Vec<String> = BufReader::new(child.stdout.take().unwrap())
            .lines()
            .map(Result::unwrap)
            .take_while(|line| line != "ready")
            .collect();
        let find = |word: &str| said.iter().find_map(|line| line.strip_prefix(word));
        let api = find("api: ").unwrap_or_else(|| panic!("it did not start: {said:?}")).to_owned();
        let credential = find("credential: ").map(str::to_owned);
        Self { child, api, credential }
    }

    /// Whether a request succeeds, and what it answers.
    fn curl(&self, config: &Path, credential: &str, path: &str, more: &[&str]) -> Option<String> {
        let authority = config.with_file_name("state").join("authority.pem");
        let output = Command::new("curl")
            .args(["--silent", "--fail", "--max-time", "30", "--cacert"])
            .arg(authority)
            .args(["-H", &format!("Authorization: Bearer {credential}")])
            .args(more)
            .arg(format!("{}{BASE}{path}", self.api))
            .output()
            .unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may be dead already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn router(n: u32) -> String {
    format!(
        r#"{{"apiVersion":"osier.dev/v1alpha1","kind":"Router","metadata":{{"name":"r{n}"}},"spec":{{}}}}"#
    )
}

#[test]
fn it_survives_being_killed_and_is_looked_after_while_it_is_stopped() {
    let folder = TempDir::new().unwrap();
    let config = configuration(folder.path());
    let mut process = Process::start(&config);
    let credential = process.credential.clone().expect("a credential at the first start");
    let mut made = Vec::new();
    for round in 0..3_u32 {
        let acknowledged = std::thread::scope(|scope| {
            let (process, config, credential) = (&process, &config, &credential);
            let writer = scope.spawn(move || {
                let write = |n: u32| {
                    let body = router(1000 * round + n);
                    process.curl(config, credential, "/routers", &["--data-binary", &body])
                };
                (0..1000).map_while(write).collect::<Vec<String>>()
            });
            // Killed while it writes, somewhere behind the tenth.
            let tenth = format!("/routers/r{}", 1000 * round + 10);
            while process.curl(config, credential, &tenth, &[]).is_none() {
                assert!(!writer.is_finished(), "writes failed by themselves");
            }
            let pid = process.child.id().try_into().unwrap();
            let kill = nix::sys::signal::Signal::SIGKILL;
            nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), kill).unwrap();
            writer.join().unwrap()
        });
        made.extend(acknowledged);
        process.child.wait().unwrap();
        process = Process::start(&config);
        assert_eq!(process.credential, None, "it is shown once");
        let all = process.curl(&config, &credential, "/routers?limit=10000", &[]).unwrap();
        for router in &made {
            let uid = router.split("\"uid\":\"").nth(1).unwrap().split('"').next().unwrap();
            assert!(all.contains(uid), "{router} is lost");
        }
    }
    let refused = run(&config, &["export"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && said.contains("is in use by another process"), "{said}");
    let backup = folder.path().join("backup.redb");
    let copied = run(&config, &["backup", backup.to_str().unwrap()]);
    assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
    let left = std::fs::read_dir(folder.path().join("state/backups")).unwrap().count();
    assert_eq!(left, 0, "it is where it was asked for, and nowhere else");
    let twice = run(&config, &["backup", backup.to_str().unwrap()]);
    assert!(String::from_utf8(twice.stderr).unwrap().contains("cannot be made"));
    let behind = process.curl(&config, &credential, "/routers", &["--data-binary", &router(8888)]);
    assert!(behind.is_some());
    process.kill();
    let stopped = folder.path().join("stopped.redb");
    assert!(run(&config, &["backup", stopped.to_str().unwrap()]).status.success());
    for (copy, is_there) in [(&backup, false), (&stopped, true)] {
        std::fs::copy(copy, folder.path().join("state/store.redb")).unwrap();
        let mut process = Process::start(&config);
        let read =
            |name: &str| process.curl(&config, &credential, &format!("/routers/{name}"), &[]);
        assert!(read("r10").is_some());
        assert_eq!(read("r8888").is_some(), is_there, "what came after a backup is not in it");
        process.kill();
    }
    let export = folder.path().join("export.yaml");
    assert!(run(&config, &["export", export.to_str().unwrap()]).status.success());
    let refused = run(&config, &["import", export.to_str().unwrap()]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && said.contains("the store is not empty"), "{said}");
    assert!(run(&config, &["import", "--over", export.to_str().unwrap()]).status.success());
    let added = run(&config, &["credential", "add", "--role", "read", "--name", "viewer"]);
    let viewer = String::from_utf8(added.stdout).unwrap();
    let process = Process::start(&config);
    let all = process.curl(&config, viewer.trim(), "/routers?limit=10000", &[]).unwrap();
    assert!(all.contains("\"name\":\"r10\""), "an import has all that was exported");
    let body = router(9999);
    let write = process.curl(&config, viewer.trim(), "/routers", &["--data-binary", &body]);
    assert_eq!(write, None, "it may read only");
}
