//! A node whose container runtime is `cnitool`.
//!
//! The tool keeps what it was told in `/var/lib/cni`: it gets a `/var/lib` of the lab's own, so that
//! tests neither meet nor leave anything behind.

use crate::lab::{Agent, executables, one_node, view};
use osier_agent::config::Config;
use osier_testbed::{Fabric, Lab, Netns, Node, Output};
use serde_json::{Value, json};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Where Debian has the reference plugins.
pub(crate) const REFERENCE: &str = "/usr/lib/cni";

/// The only network's name.
pub(crate) const NETWORK: &str = "net";

/// The tool's executable, built where this test is if it is missing.
fn cnitool() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/install-tools");
        let target = executables().parent().unwrap();
        let output = Command::new(script).env("CARGO_TARGET_DIR", target).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Path::new(String::from_utf8(output.stdout).unwrap().trim()).join("cnitool")
    })
}

/// See the module. What goes first is first here.
pub(crate) struct Runtime {
    agent: Option<Agent>,
    pub(crate) fabric: Fabric,
    plugins: PathBuf,
    networks: PathBuf,
    var_lib: PathBuf,
    pub(crate) lab: Lab,
}

impl Runtime {
    /// A node with an agent that serves.
    pub(crate) fn new() -> Self {
        let mut runtime = Self::without_agent();
        runtime.start_agent();
        runtime
    }

    /// The same with an agent whose bridge has this name.
    pub(crate) fn on_bridge(bridge: &str) -> Self {
        let mut runtime = Self::without_agent();
        let bridge = bridge.parse().unwrap();
        let text = view(&runtime.fabric, 24);
        let change = move |config| Config { bridge, ..config };
        runtime.agent = Some(Agent::start_changed(runtime.node(), &text, change));
        runtime
    }

    fn without_agent() -> Self {
        let (lab, fabric) = one_node();
        let plugins = lab.make_dir("plugins").unwrap();
        for name in ["osier", "odlovs-cni", "odlcoe", "ovs-odl"] {
            symlink(executables().join("osier-cni"), plugins.join(name)).unwrap();
        }
        let networks = lab.make_dir("net.d").unwrap();
        let var_lib = lab.make_dir("var-lib").unwrap();
        Self { agent: None, fabric, plugins, networks, var_lib, lab }
    }

    pub(crate) fn node(&self) -> &Node {
        &self.fabric.nodes()[0]
    }

    pub(crate) fn start_agent(&mut self) {
        self.agent = Some(Agent::start(self.node(), &view(&self.fabric, 24)));
    }

    pub(crate) fn stop_agent(&mut self) {
        self.agent.take().unwrap().stop().unwrap();
    }

    /// Where the agent serves, or would.
    pub(crate) fn socket(&self) -> PathBuf {
        self.node().ovs().dir().join("cni.sock")
    }

    /// `CNI_PATH`.
    pub(crate) fn path(&self) -> String {
        format!("{}:{REFERENCE}", self.plugins.display())
    }

    /// Our plugin in a list, with more members.
    pub(crate) fn ours(&self, more: Value) -> Value {
        let mut plugin = json!({"type": "osier", "agentSocket": self.socket()});
        merge(&mut plugin, more);
        plugin
    }

    /// Makes a list of plugins the only network.
    pub(crate) fn configure(&self, version: &str, plugins: &[Value]) {
        let list = json!({"cniVersion": version, "name": NETWORK, "plugins": plugins});
        self.write("only.conflist", &list);
    }

    /// Makes a single plugin the only network, as before there were lists.
    pub(crate) fn configure_alone(&self, version: &str, mut plugin: Value) {
        merge(&mut plugin, json!({"cniVersion": version, "name": NETWORK}));
        self.write("only.conf", &plugin);
    }

    fn write(&self, name: &str, config: &Value) {
        for file in std::fs::read_dir(&self.networks).unwrap() {
            std::fs::remove_file(file.unwrap().path()).unwrap();
        }
        std::fs::write(self.networks.join(name), config.to_string()).unwrap();
    }

    pub(crate) fn container(&self, name: &str) -> Container<'_> {
        Container { runtime: self, netns: self.lab.netns(name).unwrap(), variables: Vec::new() }
    }

    /// Forgets all results, as a runtime that lost its disk.
    pub(crate) fn forget(&self) {
        std::fs::remove_dir_all(self.var_lib.join("cni")).unwrap();
    }
}

fn merge(into: &mut Value, from: Value) {
    let Value::Object(from) = from else { panic!("{from} is no object") };
    into.as_object_mut().unwrap().extend(from);
}

/// A container of the runtime.
pub(crate) struct Container<'a> {
    runtime: &'a Runtime,
    pub(crate) netns: Netns,
    variables: Vec<(&'static str, String)>,
}

impl Container<'_> {
    /// Arguments of capabilities, for the plugins that have them.
    pub(crate) fn wishing(mut self, capabilities: &Value) -> Self {
        self.variables.push(("CAP_ARGS", capabilities.to_string()));
        self
    }

    /// `CNI_ARGS`.
    pub(crate) fn named(mut self, arguments: &str) -> Self {
        self.variables.push(("CNI_ARGS", arguments.to_owned()));
        self
    }

    pub(crate) fn path(&self) -> String {
        format!("/run/netns/{}", self.netns.name())
    }

    /// Runs the tool, in the node's namespace.
    pub(crate) fn run(&self, verb: &str) -> Output {
        let runtime = self.runtime;
        let own_var_lib = r#"mount --bind "$1" /var/lib && shift && exec "$@""#;
        let mut command = runtime
            .node()
            .netns()
            .command("unshare")
            .args(["--mount", "sh", "-c", own_var_lib, "sh"])
            .arg(&runtime.var_lib)
            .arg(cnitool())
            .args([verb, NETWORK, &self.path()])
            .env("CNI_PATH", runtime.path())
            .env("NETCONFPATH", &runtime.networks);
        for (name, value) in &self.variables {
            command = command.env(name, value);
        }
        command.output().unwrap()
    }

    /// Runs the tool, which must succeed: what it printed.
    pub(crate) fn does(&self, verb: &str) -> Value {
        let output = self.run(verb);
        assert!(output.status.success(), "{verb}: {}{}", output.stdout, output.stderr);
        if output.stdout.is_empty() {
            return Value::Null;
        }
        serde_json::from_str(&output.stdout).unwrap()
    }

    /// Runs the tool, which must fail: what it said.
    pub(crate) fn fails(&self, verb: &str) -> String {
        let output = self.run(verb);
        assert!(!output.status.success(), "{verb}: {}", output.stdout);
        output.stderr
    }
}
