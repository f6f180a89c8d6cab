//! A whole cluster: brought up in parallel, used through one handle, gone when that is dropped.

use crate::cgroups;
use crate::control_plane;
use crate::error::{ClusterError, MachineError, file};
use crate::forward::Forward;
use crate::images;
use crate::install::Kubernetes;
use crate::layout::{Layout, Place};
use crate::logs;
use crate::machine::Machine;
use crate::node::{Node, UPLINK};
use crate::phases::Phases;
use crate::pki::Pki;
use crate::segment::{Segment, number};
use crate::settings::{API_PORT, CONTROL_PLANE, Settings};
use crate::stale;
use osier_testbed::{Command, Lab, wait_until};
use std::fmt::Display;
use std::fs::File;
use std::net::SocketAddr;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// For what takes seconds on an idle machine.
const PATIENCE: Duration = Duration::from_mins(3);

/// A Kubernetes cluster. All of it ends when it is dropped, or when the process ends in any other way.
///
/// Everything takes `&self`: tests drive traffic from one thread and faults from another.
#[derive(Debug)]
pub struct Cluster {
    settings: Settings,
    kubernetes: Kubernetes,
    forward: Option<Forward>,
    nodes: Vec<Node>,
    control_plane: Arc<Machine>,
    segment: Segment,
    pki: Pki,
    kubeconfig: PathBuf,
    phases: Phases,
    _claim: File,
    // The last to go.
    lab: Lab,
}

impl Cluster {
    /// Brings a cluster up: every daemon answers and every node is registered. Nodes are not ready,
    /// for they have no network yet.
    pub fn up(settings: Settings) -> Result<Self, ClusterError> {
        if !(1..=200).contains(&settings.nodes) {
            let what = format!("a cluster has 1 to 200 nodes, not {}", settings.nodes);
            return Err(ClusterError::Setting { what });
        }
        let kubernetes = Kubernetes::find()?;
        stale::sweep();
        let lab = Lab::new()?;
        let phases = Phases::start(settings.verbose);
        // The lab's own handle keeps the logs until they are copied.
        Self::build(&lab, settings, kubernetes, phases).map_err(|source| match logs::keep(&lab) {
            Some(logs) => ClusterError::Kept { logs, source: Box::new(source) },
            None => source,
        })
    }

    fn build(
        lab: &Lab,
        settings: Settings,
        kubernetes: Kubernetes,
        phases: Phases,
    ) -> Result<Self, ClusterError> {
        let claim = stale::claim(lab)?;
        let archive = images::archive(&kubernetes)?;
        phases.done("images");
        let pki = Pki::create(lab.dir().join("pki"), &settings)?;
        let programs = kubernetes.programs();
        let segment = Segment::create(lab, settings.mtu)?;
        let address = settings.underlay(CONTROL_PLANE)[0];
        let machine = Arc::new(Machine::new(lab, "cp", &programs, address.to_string())?);
        let nodes = (1..=settings.nodes).map(|n| Node::new(lab, n, &programs, &settings, &pki));
        let nodes = nodes.collect::<Result<Vec<_>, _>>()?;
        let forward = Forward::start(machine.clone(), SocketAddr::new(address, API_PORT))
            .map_err(file("listen for", "kubectl"))?;
        let server = format!("https://{}", forward.address());
        let kubeconfig = pki.kubeconfig("kubeconfig", "admin", &server)?;
        phases.done("certificates");
        let cluster = Self {
            settings,
            kubernetes,
            forward: Some(forward),
            nodes,
            control_plane: machine,
            segment,
            pki,
            kubeconfig,
            phases,
            _claim: claim,
            lab: lab.clone(),
        };
        cluster.boot(&archive)?;
        Ok(cluster)
    }

    fn boot(&self, archive: &Path) -> Result<(), ClusterError> {
        let (settings, pki) = (&self.settings, &self.pki);
        let archives: Vec<&Path> =
            std::iter::once(archive).chain(settings.images.iter().map(PathBuf::as_path)).collect();
        thread::scope(|scope| {
            let api = scope.spawn(|| {
                self.start_api()?;
                control_plane::start_controllers(&self.control_plane, settings, pki)?;
                self.tell("control plane");
                Ok::<_, ClusterError>(())
            });
            let nodes: Vec<_> = self
                .nodes
                .iter()
                .map(|node| {
                    let archives = &archives;
                    scope.spawn(move || {
                        node.boot(&self.segment, settings)?;
                        self.tell(&format!("{} booted", node.name()));
                        archives.iter().try_for_each(|archive| node.load_image(archive))?;
                        self.tell(&format!("{} has its images", node.name()));
                        Ok::<_, ClusterError>(())
                    })
                })
                .collect();
            std::iter::once(api).chain(nodes).map(join).fold(Ok(()), Result::and)
        })?;
        self.tell("machines");
        for node in &self.nodes {
            node.start_kubelet(settings, pki)?;
        }
        self.wait_for_nodes()?;
        self.tell("nodes registered");
        Ok(())
    }

    fn start_api(&self) -> Result<(), ClusterError> {
        let (machine, settings) = (&self.control_plane, &self.settings);
        let netns = machine.new_netns()?;
        self.segment.plug(&netns, machine.name(), settings.mtu)?;
        number(&netns, UPLINK, &settings.underlay(CONTROL_PLANE), settings)?;
        machine.boot(netns)?;
        cgroups::create(&self.control_plane_group())?;
        machine.set_group(cgroups::for_daemons(&self.control_plane_group()));
        control_plane::start_api(machine, settings, &self.pki)?;
        self.wait_for_api()
    }

    fn control_plane_group(&self) -> String {
        format!("{}-cp", self.lab.id())
    }

    /// Waits until the API server is ready, after it was started again, for instance.
    pub fn wait_for_api(&self) -> Result<(), ClusterError> {
        let machine = &self.control_plane;
        let netns = machine.netns()?;
        // Asking kubectl each time would slow down what it waits for.
        self.wait("the API server's port", PATIENCE, || match netns.listens_on_tcp(API_PORT) {
            Ok(true) => Ok(Ok(())),
            Ok(false) => match machine.obituaries() {
                none if none.is_empty() => Err("closed".to_owned()),
                obituaries => Ok(Err(ClusterError::Ended { obituaries })),
            },
            Err(e) => Err(e.to_string()),
        })??;
        self.wait("the API server", PATIENCE, || self.kubectl(&["get", "--raw", "/readyz"]))?;
        Ok(())
    }

    fn wait_for_nodes(&self) -> Result<(), ClusterError> {
        let names: Vec<String> = self.nodes.iter().map(|n| format!("node/{}", n.name())).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut conditions = vec!["--for=create"];
        if self.settings.pod_cidrs {
            conditions.push("--for=jsonpath={.spec.podCIDRs[0]}");
        }
        for condition in conditions {
            let args = [&["wait", "--timeout=120s", condition], names.as_slice()].concat();
            self.wait("the nodes to register", PATIENCE, || self.kubectl(&args))?;
        }
        Ok(())
    }

    /// Waits until every node is ready, which takes a network.
    pub fn wait_until_ready(&self) -> Result<(), ClusterError> {
        let args = ["wait", "node", "--all", "--for=condition=Ready", "--timeout=120s"];
        self.kubectl(&args).map(drop)
    }

    /// Probes until `Ok`, for at most `deadline`. The error has the last answer, and the last words of
    /// daemons that ended meanwhile.
    pub fn wait<T, E: Display>(
        &self,
        what: &str,
        deadline: Duration,
        probe: impl FnMut() -> Result<T, E>,
    ) -> Result<T, ClusterError> {
        wait_until(what, deadline, probe).map_err(|timeout| {
            let obituaries = self.machines().map(Machine::obituaries).collect();
            ClusterError::NotReady { timeout, obituaries }
        })
    }

    /// Tells on standard error that something is done, with the time since the start; if the settings
    /// want that.
    pub fn tell(&self, what: &str) {
        self.phases.done(what);
    }

    /// What it was made by.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The lab that all of it belongs to: namespaces, folders and processes go with it.
    pub fn lab(&self) -> &Lab {
        &self.lab
    }

    /// The installed Kubernetes: `agnhost`, `e2e.test` and others are there.
    pub fn kubernetes(&self) -> &Kubernetes {
        &self.kubernetes
    }

    /// The machine with etcd, kube-apiserver, kube-controller-manager and kube-scheduler; daemons that
    /// can be killed and started by these names.
    pub fn control_plane(&self) -> &Machine {
        &self.control_plane
    }

    /// The nodes. On each are the daemons `containerd`, `kubelet` and, by the settings, `kube-proxy`,
    /// `ovsdb-server` and `ovs-vswitchd`.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// A node by its name.
    pub fn node(&self, name: &str) -> Result<&Node, ClusterError> {
        let found = self.nodes.iter().find(|node| node.name() == name);
        found.ok_or_else(|| ClusterError::NoNode(name.to_owned()))
    }

    fn machines(&self) -> impl Iterator<Item = &Machine> {
        std::iter::once(self.control_plane()).chain(self.nodes.iter().map(Node::machine))
    }

    /// An administrator's kubeconfig, for use on the host: for kubectl, and for clients in tests.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// A kubectl to give more arguments and standard input to. It runs on the host.
    pub fn kubectl_command(&self) -> Command {
        let program = self.kubernetes.program("kubectl").display().to_string();
        let host = self.lab.host();
        // Its cache of what the server can do would outlive the cluster.
        let cache = self.lab.dir().join("kubectl-cache");
        host.command(&program)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("KUBECACHEDIR", cache)
            .deadline(PATIENCE)
    }

    /// Runs kubectl to its end, and returns its standard output.
    pub fn kubectl(&self, args: &[&str]) -> Result<String, ClusterError> {
        Ok(self.kubectl_command().args(args).run()?)
    }

    /// Asks kubectl for JSON.
    pub fn kubectl_json(&self, args: &[&str]) -> Result<serde_json::Value, ClusterError> {
        let text = self.kubectl_command().args(args).args(["-o", "json"]).run()?;
        Ok(serde_json::from_str(&text)?)
    }

    /// Applies manifests given as text.
    pub fn apply(&self, manifests: &str) -> Result<String, ClusterError> {
        Ok(self.kubectl_command().args(["apply", "-f", "-"]).input(manifests).run()?)
    }

    /// Puts the images of an archive (`docker save`, or an OCI layout) into every node.
    pub fn load_image(&self, archive: &Path) -> Result<(), ClusterError> {
        thread::scope(|scope| {
            let loads: Vec<_> =
                self.nodes.iter().map(|node| scope.spawn(|| node.load_image(archive))).collect();
            loads.into_iter().map(join).fold(Ok(()), Result::and)
        })
    }

    /// Ends a node's machine at once, as by a loss of power, and boots it anew with its disk. Returns
    /// when its kubelet has been started.
    pub fn reboot(&self, node: &str) -> Result<(), ClusterError> {
        self.power_off(node)?;
        self.power_on(node)
    }

    /// Ends a node's machine at once.
    pub fn power_off(&self, node: &str) -> Result<(), ClusterError> {
        let node = self.node(node)?;
        node.machine().power_off()?;
        node.remove_cgroup();
        Ok(())
    }

    /// Boots a node whose machine is off, with its disk.
    pub fn power_on(&self, node: &str) -> Result<(), ClusterError> {
        let node = self.node(node)?;
        node.boot(&self.segment, &self.settings)?;
        node.start_kubelet(&self.settings, &self.pki)
    }

    /// Takes a node out of the cluster, and lets its machine come back under the same name with another
    /// address, and with its disk.
    pub fn readdress(&self, node: &str) -> Result<(), ClusterError> {
        self.power_off(node)?;
        self.kubectl(&["delete", "node", node])?;
        let moved = self.node(node)?;
        moved.move_to(Settings::moved_place(moved.number()), &self.settings);
        self.power_on(node)?;
        self.wait_for_nodes()
    }

    /// Cuts a machine off the underlay, or joins it again.
    pub fn set_link(&self, machine: &str, up: bool) -> Result<(), ClusterError> {
        Ok(self.segment.set_link(machine, up)?)
    }

    /// Gives the control plane routes to the pods of all nodes, over the nodes: the API server dials
    /// pods itself, for webhooks and proxies. Needs `podCIDRs`.
    pub fn route_pods(&self) -> Result<(), ClusterError> {
        let netns = self.control_plane.netns()?;
        for node in &self.nodes {
            for range in self.pod_cidrs(node.name())? {
                if let Some(gateway) = node.gateway_for(&range) {
                    netns.ip(&format!("route replace {range} via {gateway}"))?;
                }
            }
        }
        Ok(())
    }

    /// The ranges that the cluster gave a node for its pods.
    pub fn pod_cidrs(&self, node: &str) -> Result<Vec<String>, ClusterError> {
        let ranges = self.kubectl(&["get", "node", node, "-o", "jsonpath={.spec.podCIDRs[*]}"])?;
        Ok(ranges.split_whitespace().map(str::to_owned).collect())
    }

    /// The facts that other processes need to use it.
    pub fn layout(&self) -> Result<Layout, ClusterError> {
        let place = |machine: &Machine| -> Result<Place, MachineError> {
            Ok(Place { name: machine.name().to_owned(), init: machine.init()? })
        };
        Ok(Layout {
            id: self.lab.id().to_owned(),
            dir: self.lab.dir().to_owned(),
            programs: self.kubernetes.programs(),
            kubeconfig: self.kubeconfig.clone(),
            kubeconfig_inside: self.pki.path("admin.conf"),
            machines: self.machines().map(place).collect::<Result<_, _>>()?,
        })
    }

    /// Copies all logs to a place that outlives the cluster, and says where.
    pub fn keep_logs(&self) -> Option<PathBuf> {
        let mut state = String::new();
        for what in [&["get", "pods", "-A", "-o", "wide"], &["get", "events", "-A", "-o", "wide"]] {
            let asked = self.kubectl_command().args(what.iter().copied());
            let said = asked.deadline(Duration::from_secs(15)).run();
            state += &said.unwrap_or_else(|e| e.to_string());
        }
        // Without it the logs still tell most.
        let _ = std::fs::write(self.lab.dir().join("cp/log/cluster.txt"), state);
        logs::keep(&self.lab)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if thread::panicking()
            && let Some(logs) = self.keep_logs()
        {
            eprintln!("the cluster's logs are in {}", logs.display());
        }
        drop(self.forward.take());
        thread::scope(|scope| {
            for machine in self.machines() {
                scope.spawn(|| {
                    if let Err(e) = machine.power_off() {
                        eprintln!("machine {}: {e}", machine.name());
                    }
                });
            }
        });
        for node in &self.nodes {
            node.remove_cgroup();
        }
        cgroups::remove(&self.control_plane_group());
    }
}

/// The result of a thread; its panic is ours.
fn join<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}
