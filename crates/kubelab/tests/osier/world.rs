//! A cluster of two nodes with Osier, and a pod on each.

use osier_kubelab::{AGNHOST, Cluster, Osier, Settings};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

pub(crate) struct World {
    pub(crate) cluster: Cluster,
    /// What was installed.
    pub(crate) osier: Osier,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(&programs(), "test")
    }

    /// Of programs that were built elsewhere.
    pub(crate) fn with(programs: &Path, tag: &str) -> Self {
        let settings = Settings { dual: true, ..Settings::default() };
        Self::of(settings, programs, tag, &["datapath=netdev"], "node-2")
    }

    /// Of another kind; with the node of pod `b`.
    pub(crate) fn of(
        settings: Settings,
        programs: &Path,
        tag: &str,
        values: &[&str],
        node: &str,
    ) -> Self {
        let cluster = Cluster::up(settings).unwrap();
        let osier = Osier::of_programs(cluster.lab(), programs, tag, values).unwrap();
        let world = Self { cluster, osier };
        world.step("Osier is installed", |world| {
            world.cluster.install_osier(&world.osier).unwrap();
            world.cluster.install_dns().unwrap();
        });
        world.start_pod("a", "node-1");
        world.start_pod("b", node);
        for pod in ["a", "b"] {
            world.wait_for_pod(pod);
        }
        world
    }

    /// Does a part of the test, tells how long it took, and keeps the logs if it fails.
    pub(crate) fn step(&self, what: &str, work: impl FnOnce(&Self)) {
        let begun = Instant::now();
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(self)));
        println!("{what}: {:.1} s", begun.elapsed().as_secs_f64());
        if let Err(panic) = done {
            for part in ["osier-agent", "osier-controller"] {
                let label = format!("app.kubernetes.io/name={part}");
                let args = ["logs", "-n", "osier-system", "-l", &label, "--tail=60", "--prefix"];
                println!("{}", self.cluster.kubectl(&args).unwrap_or_default());
            }
            println!("logs: {:?}", self.cluster.keep_logs());
            std::panic::resume_unwind(panic);
        }
    }

    pub(crate) fn start_pod(&self, name: &str, node: &str) {
        self.start_pod_with(name, node, "annotations: {}");
    }

    /// With more in its metadata.
    pub(crate) fn start_pod_with(&self, name: &str, node: &str, metadata: &str) {
        let pod = format!(
            "apiVersion: v1
kind: Pod
metadata: {{name: {name}, labels: {{app: echo}}, {metadata}}}
spec:
  nodeName: {node}
  terminationGracePeriodSeconds: 1
  containers: [{{name: agnhost, image: \"{AGNHOST}\", args: [netexec]}}]
"
        );
        self.cluster.apply(&pod).unwrap();
    }

    pub(crate) fn wait_for_pod(&self, name: &str) {
        let pod = format!("pod/{name}");
        let wait = ["wait", &pod, "--for=condition=Ready", "--timeout=100s"];
        self.cluster.wait("a pod to be ready", PATIENCE, || self.cluster.kubectl(&wait)).unwrap();
    }

    pub(crate) fn addresses(&self, pod: &str) -> Vec<String> {
        let query = "jsonpath={.status.podIPs[*].ip}";
        let found = self.cluster.kubectl(&["get", "pod", pod, "-o", query]).unwrap();
        let addresses: Vec<String> = found.split_whitespace().map(str::to_owned).collect();
        assert_eq!(addresses.len(), 2, "{found}");
        addresses
    }

    pub(crate) fn node_address(&self, node: &str) -> String {
        let query = "jsonpath={.status.addresses[?(@.type=='InternalIP')].address}";
        self.cluster.kubectl(&["get", "node", node, "-o", query]).unwrap()
    }

    pub(crate) fn talk(&self, from: &str, to: &str) {
        let to = if to.contains(':') { format!("[{to}]") } else { to.to_owned() };
        let url = format!("http://{to}:8080/hostname");
        let ask = ["exec", from, "--", "curl", "-gs", "-m", "3", &url];
        self.cluster.wait("an answer", PATIENCE, || self.cluster.kubectl(&ask)).unwrap();
    }

    pub(crate) fn reach_from_the_node(&self, node: &str, pod: &str) {
        let machine = self.cluster.node(node).unwrap().machine();
        for address in self.addresses(pod) {
            let ping = ["ping", "-c1", "-W3", &address];
            self.cluster.wait("an echo", PATIENCE, || machine.run(&ping)).unwrap();
        }
    }

    /// The pods of a part of Osier.
    pub(crate) fn parts(&self, name: &str) -> Vec<String> {
        let label = format!("app.kubernetes.io/name={name}");
        let args = ["get", "pod", "-n", "osier-system", "-l", &label, "-o", "name"];
        self.cluster.kubectl(&args).unwrap().lines().map(str::to_owned).collect()
    }

    /// Waits until all of Osier runs.
    pub(crate) fn wait_for_osier(&self) {
        for part in ["deployment/osier-controller", "daemonset/osier-agent"] {
            let args = ["rollout", "status", part, "-n", "osier-system", "--timeout=100s"];
            let rolled = || self.cluster.kubectl(&args);
            self.cluster.wait("Osier to run", PATIENCE, rolled).unwrap();
        }
    }
}

/// The folder with what the image is made of, built where this test is.
pub(crate) fn programs() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().unwrap().parent().unwrap().to_owned();
    let mut cargo = osier_testbed::cargo();
    cargo.args(["build", "-q", "--locked", "-p", "osier", "-p", "xtask"]);
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    let mut plugin = Command::new(profile.join("xtask"));
    plugin.arg("cni").env("CARGO_TARGET_DIR", profile.parent().unwrap());
    for command in [&mut cargo, &mut plugin] {
        assert!(command.status().unwrap().success(), "{command:?}");
    }
    profile
}
