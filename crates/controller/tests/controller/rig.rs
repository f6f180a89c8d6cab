//! A controller in a directory of its own, and curl.

use osier_controller::Controller;
use osier_controller::config::Config;
use serde_json::{Value, json};
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::runtime::Runtime;

pub(crate) const BASE: &str = "/apis/osier.dev/v1alpha1";

/// A controller that ends with it.
pub(crate) struct Rig {
    pub(crate) config: Config,
    pub(crate) credential: String,
    pub(crate) api: SocketAddr,
    pub(crate) fleet: SocketAddr,
    /// Over TLS, and in the clear.
    pub(crate) restconf: (Option<SocketAddr>, Option<SocketAddr>),
    pub(crate) runtime: Runtime,
    controller: Option<Controller>,
    folder: Option<TempDir>,
}

/// What curl got.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

pub(crate) fn config(folder: &Path) -> Config {
    let mut config = Config { state_dir: folder.to_owned(), ..Config::default() };
    config.api.listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    config.fleet.listen = config.api.listen;
    config.allocation.cool_down_seconds = 0;
    config
}

pub(crate) fn resource(kind: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "osier.dev/v1alpha1", "kind": kind,
        "metadata": {"name": name}, "spec": spec,
    })
}

/// Waits until something is so.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(20));
    }
}

// === impl Rig ===

impl Rig {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut Config)) -> Self {
        let folder = TempDir::new().unwrap();
        let mut config = config(folder.path());
        change(&mut config);
        let mut rig = Self::at(config);
        rig.folder = Some(folder);
        rig
    }

    /// In a folder of the caller's.
    pub(crate) fn at(config: Config) -> Self {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(2).enable_all().build().unwrap();
        let controller = runtime.block_on(Controller::start(config.clone())).unwrap();
        Self {
            credential: controller.first_credential.clone().unwrap_or_default(),
            api: controller.api,
            fleet: controller.fleet,
            restconf: controller.restconf,
            config,
            runtime,
            controller: Some(controller),
            folder: None,
        }
    }

    pub(crate) fn stop(&mut self) {
        if let Some(controller) = self.controller.take() {
            self.runtime.block_on(controller.stop());
        }
    }

    /// Starts again, at the same ports.
    pub(crate) fn start(&mut self) {
        self.config.api.listen = self.api;
        self.config.fleet.listen = self.fleet;
        let config = self.config.clone();
        let controller = self.runtime.block_on(Controller::start(config)).unwrap();
        assert_eq!(controller.first_credential, None, "it is made once");
        self.controller = Some(controller);
    }

    pub(crate) fn url(&self, path: &str) -> String {
        match path.starts_with("//") {
            true => format!("https://{}{}", self.api, &path[1..]),
            false => format!("https://{}{BASE}{path}", self.api),
        }
    }

    pub(crate) fn authority(&self) -> PathBuf {
        self.config.authority()
    }

    /// curl with a credential. Paths with two slashes are from the root.
    pub(crate) fn curl(&self, path: &str, arguments: &[&str], body: Option<&str>) -> Answer {
        let credential = format!("Authorization: Bearer {}", self.credential);
        let mut all = vec!["-H", &credential];
        all.extend_from_slice(arguments);
        self.anonymous(path, &all, body)
    }

    /// curl as it is.
    pub(crate) fn anonymous(&self, path: &str, arguments: &[&str], body: Option<&str>) -> Answer {
        self.curl_at(&self.url(path), arguments, body)
    }

    /// curl at another place.
    pub(crate) fn curl_at(&self, url: &str, arguments: &[&str], body: Option<&str>) -> Answer {
        let mut command = Command::new("curl");
        command.args(["--silent", "--show-error", "--max-time", "30", "--dump-header", "-"]);
        command.arg("--cacert").arg(self.authority()).args(arguments);
        if body.is_some() {
            command.args(["--data-binary", "@-"]);
        }
        command.arg(url);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let body = body.unwrap_or_default().to_owned();
        // It may be refused before it is read.
        let writer = std::thread::spawn(move || drop(stdin.write_all(body.as_bytes())));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut rest = text.as_str();
        let mut head = "";
        // An interim answer may come first.
        while rest.starts_with("HTTP/") {
            (head, rest) = rest.split_once("\r\n\r\n").unwrap_or((rest, ""));
        }
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        let status = status.unwrap_or(0);
        let head = if status == 0 { error } else { head.to_owned() };
        Answer { status, head, body: rest.to_owned() }
    }

    /// A curl that watches, to be killed.
    pub(crate) fn watching(&self, path: &str) -> Child {
        Command::new("curl")
            .args(["--silent", "--no-buffer", "--max-time", "60", "--cacert"])
            .arg(self.authority())
            .args(["-H", &format!("Authorization: Bearer {}", self.credential)])
            .arg(self.url(path))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }

    pub(crate) fn send(&self, method: &str, path: &str, body: &Value) -> Answer {
        self.curl(path, &["-X", method], Some(&body.to_string()))
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.curl(path, &[], None)
    }

    /// Applies resources, which must work.
    pub(crate) fn apply(&self, items: &[Value]) -> Value {
        let answer = self.send("POST", "/apply", &json!({"items": items}));
        answer.expect(200)
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.stop();
        self.folder.take();
    }
}

// === impl Answer ===

impl Answer {
    /// The body, if the status is this one.
    pub(crate) fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{} {}", self.head, self.body);
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    /// The message of an error of this status and code.
    pub(crate) fn refused(&self, status: u16, code: &str) -> String {
        let body = self.expect(status);
        assert_eq!(body["error"]["code"], code, "{}", self.body);
        body["error"]["message"].as_str().unwrap().to_owned()
    }
}
