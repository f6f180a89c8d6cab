//! An API server with etcd, in a network namespace of its own.

use crate::pki;
use osier_testbed::{Lab, Netns, Process, Signal, wait_until};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// Generous: tests share two cores with others.
pub(crate) const PATIENCE: Duration = Duration::from_secs(40);
/// Where our own objects are.
pub(crate) const NAMESPACE: &str = "osier-system";
const ADDRESS: &str = "192.0.2.100";

/// A running API server, to which tests come one after the other.
pub(crate) struct Server {
    pub(crate) netns: Netns,
    folder: PathBuf,
    apiserver: Mutex<Option<Process>>,
    _etcd: Process,
    turn: Mutex<()>,
}

/// A test's turn: it begins with an empty cluster.
pub(crate) struct Turn {
    pub(crate) server: &'static Server,
    _turn: MutexGuard<'static, ()>,
}

pub(crate) fn program(name: &str) -> String {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let folder = variable("OSIER_KUBERNETES_DIR").unwrap_or_else(|| {
        let cache = variable("XDG_CACHE_HOME")
            .unwrap_or_else(|| format!("{}/.cache", variable("HOME").unwrap_or_default()));
        format!("{cache}/osier/kubernetes-1.34.4")
    });
    let path = Path::new(&folder).join("bin").join(name);
    assert!(path.is_file(), "{} is missing: scripts/install-kubernetes gets it", path.display());
    path.display().to_string()
}

/// Waits for a test's turn.
pub(crate) fn turn() -> Turn {
    static SERVER: OnceLock<Server> = OnceLock::new();
    let server = SERVER.get_or_init(Server::start);
    let turn = server.turn.lock().unwrap_or_else(PoisonError::into_inner);
    server.empty();
    Turn { server, _turn: turn }
}

// === impl Server ===

impl Server {
    fn start() -> Self {
        let lab = Lab::new().unwrap();
        let netns = lab.netns("api").unwrap();
        // Machines of nodes; who connects to one of them comes from there.
        for last in (1..=9).chain([100]) {
            netns.ip(&format!("address add 192.0.2.{last}/32 dev lo")).unwrap();
        }
        let folder = lab.make_dir("api").unwrap();
        pki::make(&folder, &[ADDRESS, "127.0.0.1"]);
        let etcd = netns.command("etcd").args([
            format!("--data-dir={}", folder.join("etcd").display()),
            "--listen-client-urls=http://127.0.0.1:2379".to_owned(),
            "--advertise-client-urls=http://127.0.0.1:2379".to_owned(),
            "--listen-peer-urls=http://127.0.0.1:2380".to_owned(),
            "--unsafe-no-fsync".to_owned(),
            "--log-level=error".to_owned(),
        ]);
        let etcd = etcd.spawn().unwrap();
        let policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\n\
                      rules: [{level: Metadata}]\n";
        std::fs::write(folder.join("policy.yaml"), policy).unwrap();
        let kubeconfig = kubeconfig(
            &folder,
            &json!({
                "client-certificate": folder.join("admin.crt"), "client-key": folder.join("admin.key"),
            }),
        );
        std::fs::write(folder.join("admin.conf"), kubeconfig).unwrap();
        let (apiserver, turn) = (Mutex::new(None), Mutex::new(()));
        let server = Self { netns, folder, apiserver, _etcd: etcd, turn };
        server.begin();
        server.install();
        server
    }

    /// Starts the API server, and waits for it.
    pub(crate) fn begin(&self) {
        let at = |name: &str| self.folder.join(name).display().to_string();
        let mut process = self
            .netns
            .command(&program("kube-apiserver"))
            .args([
                "--etcd-servers=http://127.0.0.1:2379".to_owned(),
                format!("--advertise-address={ADDRESS}"),
                "--secure-port=6443".to_owned(),
                "--service-cluster-ip-range=10.96.0.0/24".to_owned(),
                "--authorization-mode=RBAC".to_owned(),
                // There is nobody who makes accounts, or takes taints away.
                "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition".to_owned(),
                format!("--client-ca-file={}", at("ca.crt")),
                format!("--tls-cert-file={}", at("server.crt")),
                format!("--tls-private-key-file={}", at("server.key")),
                "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
                format!("--service-account-key-file={}", at("sa.pub")),
                format!("--service-account-signing-key-file={}", at("sa.key")),
                format!("--audit-policy-file={}", at("policy.yaml")),
                format!("--audit-log-path={}", at("audit.log")),
                "--watch-cache-sizes=pods#100,nodes#100".to_owned(),
                "--v=1".to_owned(),
            ])
            .spawn()
            .unwrap();
        wait_until("a ready API server", PATIENCE * 2, || {
            if let Some(status) = process.exited() {
                return Err(format!("it ended with {status}: {}", process.stderr()));
            }
            self.kubectl(&["get", "--raw", "/readyz"]).map(drop)
        })
        .unwrap();
        *self.lock() = Some(process);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Process>> {
        self.apiserver.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Kills the API server.
    pub(crate) fn end(&self) {
        drop(self.lock().take());
    }

    /// Stops it so that it neither answers nor refuses, or lets it go on.
    pub(crate) fn signal(&self, signal: Signal) {
        self.lock().as_ref().expect("it runs").signal(signal).unwrap();
    }

    /// Rights, accounts and definitions, as users install them.
    fn install(&self) {
        let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/osier.yaml");
        let manifests = std::fs::read_to_string(chart).unwrap();
        let wanted = |document: &&str| {
            let kind = document.lines().find_map(|line| line.strip_prefix("kind: "));
            let kinds = ["Namespace", "ServiceAccount", "Role", "RoleBinding"];
            kind.is_some_and(|kind| {
                kinds.iter().any(|k| kind.trim().trim_start_matches("Cluster") == *k)
            })
        };
        let rights: Vec<&str> = manifests.split("\n---\n").filter(wanted).collect();
        self.apply(&rights.join("\n---\n"));
        for definition in osier_kubernetes::crds() {
            self.apply(&serde_json::to_string(&definition).unwrap());
        }
        self.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"])
            .unwrap();
    }

    /// What a test left.
    fn empty(&self) {
        if self.lock().is_none() {
            self.begin();
        }
        let kinds = "networks.osier.dev,routers.osier.dev,pools.osier.dev,ports.osier.dev,\
                     addressblocks.osier.dev,identities.osier.dev,nodes";
        self.kubectl(&["delete", kinds, "--all", "--wait=false"]).unwrap();
        let more = [
            "delete",
            "pods,networkpolicies,events.events.k8s.io",
            "-A",
            "--all",
            "--force",
            "--grace-period=0",
        ];
        self.kubectl(&more).unwrap();
        let own = [
            "delete",
            "lease/osier-controller",
            "cm/osier-controllers",
            "secret/osier-authority",
            "-n",
            NAMESPACE,
            "--ignore-not-found",
        ];
        self.kubectl(&own).unwrap();
    }

    /// Runs `kubectl` as the administrator.
    pub(crate) fn kubectl(&self, args: &[&str]) -> Result<String, String> {
        self.kubectl_with(args, "")
    }

    pub(crate) fn kubectl_with(&self, args: &[&str], input: &str) -> Result<String, String> {
        let command = self.netns.command(&program("kubectl")).args(args);
        let command = command.env("KUBECONFIG", self.folder.join("admin.conf")).input(input);
        let command = command.env("HOME", &self.folder);
        command.run().map_err(|error| format!("{error:?}"))
    }

    pub(crate) fn apply(&self, manifest: &str) {
        self.kubectl_with(&["apply", "-f", "-"], manifest).unwrap();
    }

    /// What is at a path; nothing if nobody answers. It is asked often, so not by `kubectl`, which
    /// takes long to start.
    pub(crate) fn get(&self, path: &str) -> Value {
        self.curl(&["-s"], path)
    }

    /// Makes or changes something, and says what became of it.
    pub(crate) fn send(&self, method: &str, path: &str, body: &Value) -> Value {
        let form = match method {
            "PATCH" => "Content-Type: application/merge-patch+json",
            _ => "Content-Type: application/json",
        };
        let body = body.to_string();
        let made = self.curl(&["-s", "-X", method, "-H", form, "-d", &body], path);
        assert!(made["kind"] != "Status", "{method} {path}: {made}");
        made
    }

    fn curl(&self, args: &[&str], path: &str) -> Value {
        let at = |name: &str| self.folder.join(name).display().to_string();
        let (ca, cert, key) = (at("ca.crt"), at("admin.crt"), at("admin.key"));
        let url = format!("https://{ADDRESS}:6443{path}");
        let access = ["--cacert", &ca, "--cert", &cert, "--key", &key, &url];
        let command = self.netns.command("curl").args(args).args(access);
        serde_json::from_str(&command.output().unwrap().stdout).unwrap_or_default()
    }

    /// Makes many objects of one form, which has a `generateName`.
    #[allow(dead_code, reason = "tests of other crates need it")]
    pub(crate) fn post_many(&self, path: &str, count: usize, body: &Path) {
        let at = |name: &str| self.folder.join(name).display().to_string();
        let (ca, cert, key) = (at("ca.crt"), at("admin.crt"), at("admin.key"));
        let url = format!("https://{ADDRESS}:6443{path}?fieldManager=m[1-{count}]");
        let body = format!("@{}", body.display());
        let args = [
            "-s",
            "-Z",
            "--parallel-max",
            "40",
            "-o",
            "/dev/null",
            "--cacert",
            &ca,
            "--cert",
            &cert,
            "--key",
            &key,
            "-H",
            "Content-Type: application/json",
            "-d",
            &body,
            &url,
        ];
        let command = self.netns.command("curl").args(args).deadline(Duration::from_mins(5));
        command.run().unwrap();
    }

    /// One of our own resources, such as `networks/blue`, or all of a kind.
    pub(crate) fn own(&self, path: &str) -> Value {
        self.get(&format!("/apis/osier.dev/v1alpha1/{path}"))
    }

    /// A kubeconfig with which a service account comes.
    pub(crate) fn account(&self, name: &str) -> PathBuf {
        let token = self.token(name, &json!({}));
        let path = self.folder.join(format!("{name}.conf"));
        std::fs::write(&path, kubeconfig(&self.folder, &json!({"token": token}))).unwrap();
        path
    }

    /// A token of a service account.
    pub(crate) fn token(&self, account: &str, spec: &Value) -> String {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token");
        let kind = "TokenRequest";
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": kind, "spec": spec});
        self.send("POST", &path, &request)["status"]["token"].as_str().unwrap().to_owned()
    }

    /// The administrator's kubeconfig.
    pub(crate) fn admin(&self) -> PathBuf {
        self.folder.join("admin.conf")
    }

    /// A node, made as its kubelet would.
    pub(crate) fn node(&self, name: &str, address: Option<&str>, cidrs: &[&str]) {
        let mut node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
        if let Some(first) = cidrs.first() {
            node["spec"] = json!({"podCIDR": first, "podCIDRs": cidrs});
        }
        self.send("POST", "/api/v1/nodes", &node);
        if let Some(address) = address {
            self.address(name, address);
        }
    }

    pub(crate) fn address(&self, name: &str, address: &str) {
        let addresses = json!([{"type": "InternalIP", "address": address}]);
        let status = json!({"status": {"addresses": addresses}});
        self.send("PATCH", &format!("/api/v1/nodes/{name}/status"), &status);
    }

    /// Requests of a user that the API server has served so far, by verb and resource.
    pub(crate) fn audited(&self, user: &str) -> Vec<(String, String)> {
        let log = std::fs::read_to_string(self.folder.join("audit.log")).unwrap_or_default();
        let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let own = lines.filter(|event| {
            event["user"]["username"].as_str().is_some_and(|name| name.ends_with(user))
        });
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        own.map(|event| (text(&event["verb"]), text(&event["objectRef"]["resource"]))).collect()
    }
}

fn kubeconfig(folder: &Path, user: &Value) -> String {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "osier",
        "clusters": [{"name": "osier", "cluster": {
            "server": format!("https://{ADDRESS}:6443"),
            "certificate-authority": folder.join("ca.crt"),
        }}],
        "users": [{"name": "osier", "user": user}],
        "contexts": [{"name": "osier", "context": {"cluster": "osier", "user": "osier"}}],
    })
    .to_string()
}

// === impl Turn ===

impl Turn {
    /// Runs a test inside of the server's namespace.
    pub(crate) fn run<T: Send>(&self, work: impl AsyncFnOnce() -> T + Send) -> T {
        let inside = || {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            let runtime = builder.worker_threads(2).enable_all().build().unwrap();
            let done = runtime.block_on(work());
            runtime.shutdown_timeout(Duration::from_secs(5));
            done
        };
        self.server.netns.within(inside).unwrap()
    }
}

/// Waits until something is so, with what is seen instead.
pub(crate) fn until<T>(what: &str, mut probe: impl FnMut() -> Result<T, String>) -> T {
    wait_until(what, PATIENCE, &mut probe).unwrap_or_else(|late| panic!("{late}"))
}
