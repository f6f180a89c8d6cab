//! Nodes with an agent each, and pods made by the plugin.

use osier_agent::config::Config;
use osier_agent::metrics::Metrics;
use osier_agent::{AgentError, Upstream};
use osier_testbed::{Fabric, Family, Lab, Netns, Node, wait_until};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::watch;

pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The directory with the plugin's and the agent's executables, built where this test is.
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

/// A view of nodes with a block of each family.
pub(crate) fn view(fabric: &Fabric, length: u8) -> String {
    let mut text = String::from(
        "fabric: { tunnel: geneve, cluster: [10.1.0.0/16, 'fd01::/48'] }\nobjects:\n\
         - { kind: router, name: default, vrf: 0 }\n\
         - { kind: network, name: pods, vni: 1, router: default, reach: routed }\n",
    );
    for (n, node) in (1..).zip(fabric.nodes()) {
        let address = node.underlay();
        let blocks = format!("[10.1.{n}.0/{length}, 'fd01:0:0:{n}::/64']");
        let addresses = format!("tunnel: '{address}', addresses: ['{address}']");
        writeln!(text, "- {{ kind: node, name: n{n}, {addresses}, blocks: {blocks} }}").unwrap();
    }
    text
}

/// Two routers with the same addresses, and networks of theirs.
pub(crate) const NETWORKS: &str = "\
- { kind: router, name: red, vrf: 3 }
- { kind: router, name: blue, vrf: 4 }
- { kind: network, name: red-1, vni: 31, router: red, subnets: [
    { cidr: 10.5.0.0/24, gateway: 10.5.0.1 }, { cidr: 'fd05::/64', gateway: 'fd05::1' }],
    dhcp_servers: [10.5.0.2] }
- { kind: network, name: red-2, vni: 32, router: red, subnets: [
    { cidr: 10.6.0.0/24, gateway: 10.6.0.1 }] }
- { kind: network, name: blue-1, vni: 41, router: blue, subnets: [
    { cidr: 10.5.0.0/24, gateway: 10.5.0.1 }, { cidr: 'fd05::/64', gateway: 'fd05::1' }] }
";

/// A port of the view, with what else it has.
pub(crate) fn port(pod: &str, interface: &str, network: &str, node: &str, rest: &str) -> String {
    format!(
        "- {{ kind: port, device: 'shop:{pod}', interface: {interface}, network: {network}, \
         node: {node}, {rest} }}\n"
    )
}

/// Replaces a node's view, under a running agent.
pub(crate) fn rewrite_view(node: &Node, view: &str) {
    let path = node.ovs().dir().join("view.yaml");
    let beside = path.with_extension("new");
    std::fs::write(&beside, view).unwrap();
    std::fs::rename(beside, path).unwrap();
}

/// Writes a node's configuration and its view: the configuration's path.
pub(crate) fn configure(node: &Node, view: &str) -> PathBuf {
    let directory = node.ovs().dir();
    std::fs::write(directory.join("view.yaml"), view).unwrap();
    let (run, name) = (directory.display(), node.name());
    let text = format!(
        "node = '{name}'\ndatapath = 'netdev'\novsdb = '{}'\novs_run_dir = '{run}'\n\
         cni_socket = '{run}/cni.sock'\nview = '{run}/view.yaml'\ncool_down_seconds = 0\n",
        node.ovs().db_socket().display(),
    );
    let path = directory.join("agent.toml");
    std::fs::write(&path, text).unwrap();
    path
}

/// An agent in a node's namespace; stops when dropped.
pub(crate) struct Agent {
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<Result<(), AgentError>>>,
    pub(crate) socket: PathBuf,
}

impl Agent {
    /// Starts it, and waits until it serves.
    pub(crate) fn start(node: &Node, view: &str) -> Self {
        let agent = Self::launch(node, view);
        agent.wait();
        agent
    }

    fn wait(&self) {
        wait_until("the agent's socket", PATIENCE, || {
            assert!(!self.thread.as_ref().unwrap().is_finished(), "the agent ended");
            std::os::unix::net::UnixStream::connect(&self.socket).map(drop)
        })
        .unwrap();
    }

    /// Starts it with a view and a controller of our own.
    pub(crate) fn start_with(node: &Node, upstream: Upstream) -> Self {
        let run = |config, stop| osier_agent::run_with(config, upstream, Metrics::default(), stop);
        let agent = Self::run(node, "", run);
        agent.wait();
        agent
    }

    /// Starts one whose freed addresses rest for so long.
    pub(crate) fn start_cooling(node: &Node, view: &str, cool_down: Duration) -> Self {
        Self::start_changed(node, view, move |config| Config { cool_down, ..config })
    }

    /// Starts one that is configured otherwise.
    pub(crate) fn start_changed(
        node: &Node,
        view: &str,
        change: impl FnOnce(Config) -> Config + Send + 'static,
    ) -> Self {
        let agent = Self::run(node, view, |config, stop| osier_agent::run(change(config), stop));
        agent.wait();
        agent
    }

    pub(crate) fn launch(node: &Node, view: &str) -> Self {
        Self::run(node, view, osier_agent::run)
    }

    fn run<F>(
        node: &Node,
        view: &str,
        run: impl FnOnce(Config, watch::Receiver<bool>) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(), AgentError>>,
    {
        let config = Config::load(&configure(node, view)).unwrap();
        let socket = config.cni_socket.clone();
        let (stop, stopped) = watch::channel(false);
        let netns = node.netns().clone();
        // A thread in the node's namespace; all threads that the runtime makes are in it, too.
        let thread = std::thread::spawn(move || {
            let work = || {
                let runtime = tokio::runtime::Builder::new_multi_thread()
                    .worker_threads(2)
                    .enable_all()
                    .build()
                    .unwrap();
                runtime.block_on(run(config, stopped))
            };
            netns.within(work).unwrap()
        });
        Self { stop, thread: Some(thread), socket }
    }

    /// Stops it, and tells how it ended.
    pub(crate) fn stop(mut self) -> Result<(), AgentError> {
        self.end().unwrap()
    }

    /// Waits for it to give up: why.
    pub(crate) fn stop_by_itself(mut self) -> AgentError {
        self.thread.take().unwrap().join().unwrap().unwrap_err()
    }

    fn end(&mut self) -> Option<Result<(), AgentError>> {
        let _ = self.stop.send(true);
        Some(self.thread.take()?.join().expect("the agent does not panic"))
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if let Some(Err(error)) = self.end() {
            eprintln!("the agent ended: {error}: {:?}", std::error::Error::source(&error));
        }
    }
}

/// A pod, as a runtime knows it.
pub(crate) struct Pod {
    pub(crate) netns: Netns,
    pub(crate) name: String,
    pub(crate) container: String,
    pub(crate) ifname: String,
    pub(crate) config: Value,
}

impl Pod {
    pub(crate) fn new(lab: &Lab, name: &str, agent: &Agent) -> Self {
        Self::at(lab, name, &agent.socket)
    }

    /// A pod of the agent at a socket.
    pub(crate) fn at(lab: &Lab, name: &str, socket: &Path) -> Self {
        let config = json!({
            "cniVersion": "1.1.0", "name": "net", "type": "osier", "agentSocket": socket,
        });
        let container = format!("container-{name}");
        let (netns, name) = (lab.netns(name).unwrap(), name.to_owned());
        Self { netns, name, container, ifname: "eth0".to_owned(), config }
    }

    /// The same pod by another interface, in a network of the view.
    pub(crate) fn second(&self, ifname: &str, network: &str) -> Self {
        let mut config = self.config.clone();
        config["name"] = json!(network);
        config["network"] = json!(network);
        let (netns, name) = (self.netns.clone(), self.name.clone());
        Self { netns, name, container: self.container.clone(), ifname: ifname.to_owned(), config }
    }

    pub(crate) fn path(&self) -> String {
        format!("/run/netns/{}", self.netns.name())
    }

    /// Calls the plugin.
    pub(crate) fn call(&self, command: &str) -> Output {
        self.call_with(command, &self.path())
    }

    pub(crate) fn call_with(&self, command: &str, netns: &str) -> Output {
        self.begin(command, netns).wait_with_output().unwrap()
    }

    /// Starts the plugin, and gives it all that it reads.
    pub(crate) fn begin(&self, command: &str, netns: &str) -> Child {
        let args = format!("IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME={}", self.name);
        let mut child = Command::new(executables().join("osier-cni"))
            .env_clear()
            .env("CNI_COMMAND", command)
            .env("CNI_CONTAINERID", &self.container)
            .env("CNI_NETNS", netns)
            .env("CNI_IFNAME", &self.ifname)
            .env("CNI_ARGS", args)
            .env("CNI_PATH", "/usr/lib/cni:/opt/cni/bin")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(self.config.to_string().as_bytes()).unwrap();
        child
    }

    /// Attaches it: the result.
    pub(crate) fn add(&self) -> Value {
        succeeds(&self.call("ADD"))
    }

    /// Attaches it: its addresses.
    pub(crate) fn addresses(&self) -> Vec<IpAddr> {
        addresses(&self.add())
    }

    /// Expects a call to fail: the error.
    pub(crate) fn fails(&self, command: &str) -> Value {
        failed(&self.call(command))
    }
}

pub(crate) fn addresses(result: &Value) -> Vec<IpAddr> {
    let ips = result["ips"].as_array().unwrap();
    let address = |ip: &Value| {
        let (address, _) = ip["address"].as_str().unwrap().split_once('/').unwrap();
        address.parse().unwrap()
    };
    ips.iter().map(address).collect()
}

pub(crate) fn succeeds(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    if said.is_empty() { Value::Null } else { serde_json::from_str(&said).unwrap() }
}

pub(crate) fn failed(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success(), "{said}");
    serde_json::from_str(&said).unwrap()
}

/// Ports of pods on a node's switch, as `ovs-vsctl` lists them.
pub(crate) fn pod_ports(node: &Node) -> Vec<String> {
    let listed = node.ovs().vsctl(&["--no-wait", "list-ports", "br-int"]).unwrap();
    listed.lines().filter(|name| name.starts_with("veth")).map(str::to_owned).collect()
}

/// Interfaces of pods on a node, as `ip` lists them.
pub(crate) fn pod_links(node: &Node) -> usize {
    node.netns().ip("-brief link show type veth").unwrap().matches("veth").count()
}

/// What a node's agent counts.
pub(crate) fn metrics(node: &Node) -> String {
    let mut stream = node.netns().tcp_connect("127.0.0.1:9476".parse().unwrap()).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    page
}

pub(crate) fn one_node() -> (Lab, Fabric) {
    let lab = Lab::new().unwrap();
    let fabric = Fabric::new(&lab, Family::Ipv4, 1).unwrap();
    (lab, fabric)
}
