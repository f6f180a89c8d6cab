//! Three members of etcd on loopback, gone with the test however it ends.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const SIZE: usize = 3;

/// Reads pids, and kills them when the test's process is gone; then removes the folder.
const JANITOR: &str = r#"
pids=
while read -r line; do
    case $line in
        +*) pids="$pids ${line#+}" ;;
        -*) kept=; for pid in $pids; do [ "$pid" = "${line#-}" ] || kept="$kept $pid"; done; pids=$kept ;;
    esac
done
[ -z "$pids" ] || kill -9 $pids 2>/dev/null
rm -rf "$1"
"#;

pub(crate) struct Members {
    folder: PathBuf,
    ports: Vec<(u16, u16)>,
    processes: Vec<Option<Child>>,
    janitor: Option<(ChildStdin, Child)>,
}

fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

impl Members {
    /// Starts three, with ports that nobody else took meanwhile.
    pub(crate) fn start() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let fast = Path::new("/dev/shm");
        let base = if fast.is_dir() { fast.to_owned() } else { std::env::temp_dir() };
        for _ in 0..5 {
            let n = COUNT.fetch_add(1, Ordering::Relaxed);
            let folder = base.join(format!("osier-etcd-{}-{n}", std::process::id()));
            std::fs::create_dir_all(&folder).unwrap();
            let mut janitor = Command::new("sh");
            janitor.args(["-c", JANITOR, "janitor"]).arg(&folder).stdin(Stdio::piped());
            let mut janitor = janitor.spawn().unwrap();
            let stdin = janitor.stdin.take().unwrap();
            let ports = (0..SIZE).map(|_| (free_port(), free_port())).collect();
            let processes = (0..SIZE).map(|_| None).collect();
            let mut members = Self { folder, ports, processes, janitor: Some((stdin, janitor)) };
            (0..SIZE).for_each(|i| members.revive(i));
            if members.is_up() {
                return members;
            }
        }
        panic!("etcd does not start");
    }

    fn is_up(&mut self) -> bool {
        let end = Instant::now() + Duration::from_secs(30);
        while Instant::now() < end {
            let has_ended = |c: &mut Option<Child>| {
                c.as_mut().is_none_or(|child| !matches!(child.try_wait(), Ok(None)))
            };
            if self.processes.iter_mut().any(has_ended) {
                return false;
            }
            let is_healthy = |i: usize| self.post(i, "kv/range", r#"{"key":"AA=="}"#).is_some();
            if (0..SIZE).all(is_healthy) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        false
    }

    /// Asks a member over its JSON gateway.
    pub(crate) fn post(&self, member: usize, what: &str, body: &str) -> Option<String> {
        let url = format!("http://127.0.0.1:{}/v3/{what}", self.ports[member].0);
        let curl = Command::new("curl")
            .args(["--silent", "--fail", "--noproxy", "*", "--max-time", "2", "--data", body, &url])
            .output()
            .unwrap();
        curl.status.success().then(|| String::from_utf8_lossy(&curl.stdout).into_owned())
    }

    pub(crate) fn addresses(&self) -> Vec<String> {
        self.ports.iter().map(|(client, _)| format!("http://127.0.0.1:{client}")).collect()
    }

    fn tell(&mut self, line: &str) {
        if let Some((stdin, _)) = &mut self.janitor {
            writeln!(stdin, "{line}").unwrap();
        }
    }

    /// Starts a member, for the first time or again.
    pub(crate) fn revive(&mut self, member: usize) {
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let (client, peer) = self.ports[member];
        let cluster: Vec<String> =
            self.ports.iter().enumerate().map(|(i, (_, p))| format!("m{i}={}", url(*p))).collect();
        let log = std::fs::File::create(self.folder.join(format!("m{member}.log"))).unwrap();
        let etcd = Command::new("etcd")
            .args(["--name", &format!("m{member}"), "--data-dir"])
            .arg(self.folder.join(format!("m{member}")))
            .args(["--listen-client-urls", &url(client), "--advertise-client-urls", &url(client)])
            .args(["--listen-peer-urls", &url(peer), "--initial-advertise-peer-urls", &url(peer)])
            .args(["--initial-cluster", &cluster.join(","), "--initial-cluster-state", "new"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("etcd is of the Debian package etcd-server: scripts/install-packages");
        self.tell(&format!("+{}", etcd.id()));
        self.processes[member] = Some(etcd);
    }

    pub(crate) fn kill(&mut self, member: usize) {
        if let Some(mut child) = self.processes[member].take() {
            child.kill().unwrap();
            child.wait().unwrap();
            self.tell(&format!("-{}", child.id()));
        }
    }

    pub(crate) fn signal(&self, member: usize, signal: Signal) {
        let child = self.processes[member].as_ref().unwrap();
        kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal).unwrap();
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        (0..SIZE).for_each(|member| self.kill(member));
        if let Some((stdin, mut janitor)) = self.janitor.take() {
            drop(stdin);
            janitor.wait().unwrap();
        }
    }
}
