//! A controller that dies, stops, is cut off and comes back: traffic flows on, pods are made where
//! nobody needs it, views converge afterwards, and no address is given twice.

use crate::world::{World, all, executables, processes};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use osier_testbed::wait_until;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_mins(1);

const BLUE: &str = "
apiVersion: osier.dev/v1alpha1
kind: Network
metadata: {name: blue}
spec: {subnets: [{cidr: 10.20.0.0/29}]}
";

/// A lab with a controller, two nodes and a pod on each.
struct Cluster {
    world: World,
    dir: PathBuf,
    /// Processes that we started instead of those that we killed.
    again: Vec<Child>,
    namespaces: Vec<String>,
}

impl Cluster {
    fn up() -> Self {
        let world = World::new();
        world.succeeds("up --nodes 2 --pods 2 --family ipv4 --controller");
        let dir = world.dir_of("default");
        let cluster = Self { world, dir, again: Vec::new(), namespaces: Vec::new() };
        cluster.apply(BLUE);
        cluster.converges();
        cluster
    }

    fn osier(&self, line: &str) -> Output {
        let osier = executables().join("osier");
        self.world.run(&format!("exec controller -- {} {line}", osier.display()))
    }

    fn apply(&self, text: &str) {
        let osier = executables().join("osier");
        let line = format!("exec controller -- {} apply -f -", osier.display());
        let output = self.world.feed(&line, text);
        assert!(output.status.success(), "{}", all(&output));
    }

    fn converges(&self) {
        wait_until("all nodes to converge", PATIENCE, || {
            let output = self.osier("status");
            output.status.success().then_some(()).ok_or_else(|| all(&output))
        })
        .unwrap();
    }

    /// The addresses of all ports that the controller gave.
    fn given(&self) -> Vec<(String, String)> {
        let output = self.osier("get ports -o json");
        assert!(output.status.success(), "{}", all(&output));
        let list: Value = serde_json::from_slice(&output.stdout).unwrap();
        let items = list["items"].as_array().unwrap().iter();
        items
            .map(|item| {
                let addresses = [&item["spec"]["addresses"], &item["status"]["addresses"]];
                let address = addresses.iter().find_map(|list| list[0].as_str()).unwrap();
                (item["metadata"]["name"].as_str().unwrap().to_owned(), address.to_owned())
            })
            .collect()
    }

    fn process(&self, part: &str) -> i32 {
        let found = processes(&self.dir).into_iter().find(|(_, line)| line.contains(part));
        found.unwrap_or_else(|| panic!("no process with {part}")).0
    }

    fn signal(&self, part: &str, signal: Signal) {
        let pid = self.process(part);
        kill(Pid::from_raw(pid), signal).unwrap();
        if signal == Signal::SIGKILL {
            // Its files and sockets are closed when it is gone, or waits for its parent.
            wait_until("the process to end", PATIENCE, || {
                let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
                if stat.is_empty() || stat.contains(") Z") { Ok(()) } else { Err(stat) }
            })
            .unwrap();
        }
    }

    /// Starts a program of ours somewhere in the lab.
    fn start(&mut self, place: &str, line: &str) {
        let osier = executables().join("osier");
        let mut command =
            self.world.command(&format!("exec {place} -- {} {line}", osier.display()));
        let log = fs::File::create(self.log(place)).unwrap();
        command.stdout(Stdio::null()).stderr(log);
        self.again.push(command.spawn().unwrap());
    }

    fn log(&self, place: &str) -> PathBuf {
        self.dir.join(format!("{place}.again.log"))
    }

    fn start_controller(&mut self) {
        let config = self.dir.join("controller/controller.toml");
        self.start("controller", &format!("controller --config {}", config.display()));
    }

    /// Calls the plugin for a pod.
    fn cni(&mut self, command: &str, node: &str, pod: &str, network: Option<&str>) -> Value {
        let id = self.dir.file_name().unwrap().to_str().unwrap();
        let netns = format!("{id}-{pod}");
        if !self.namespaces.contains(&netns) {
            assert!(Command::new("ip").args(["netns", "add", &netns]).status().unwrap().success());
            self.namespaces.push(netns.clone());
        }
        let mut config = json!({"cniVersion": "1.1.0", "name": "lab", "type": "osier",
            "agentSocket": self.dir.join(node).join("cni.sock")});
        if let Some(network) = network {
            config["network"] = json!(network);
        }
        let line = format!(
            "exec {node} -- env CNI_COMMAND={command} CNI_CONTAINERID={pod} CNI_IFNAME=eth0 \
             CNI_NETNS=/run/netns/{netns} CNI_PATH=/opt/cni/bin \
             CNI_ARGS=IgnoreUnknown=1;K8S_POD_NAMESPACE=test;K8S_POD_NAME={pod} {}",
            executables().join("osier-cni").display()
        );
        let output = self.world.feed(&line, &config.to_string());
        let said = serde_json::from_slice(&output.stdout);
        assert!(said.is_ok() || output.status.success(), "{}", all(&output));
        said.unwrap_or_default()
    }

    /// Makes a pod: its address.
    fn add(&mut self, node: &str, pod: &str, network: Option<&str>) -> String {
        let mut last = Value::Null;
        let added = wait_until("the pod", PATIENCE, || {
            last = self.cni("ADD", node, pod, network);
            last["ips"][0]["address"].as_str().map(str::to_owned).ok_or_else(|| last.to_string())
        });
        let log = || fs::read_to_string(self.log(node)).unwrap_or_default();
        let added = added.unwrap_or_else(|late| panic!("{late}\n{}", log()));
        added.split('/').next().unwrap().to_owned()
    }

    fn pings(&self) {
        let layout = fs::read_to_string(self.world.base.path().join("default/lab.json")).unwrap();
        let layout: Value = serde_json::from_str(&layout).unwrap();
        let to = layout["pods"][1]["addresses"][0].as_str().unwrap();
        wait_until("pod1 to reach pod2", PATIENCE, || {
            let output = self.world.run(&format!("exec pod1 -- ping -c1 -W1 {to}"));
            output.status.success().then_some(()).ok_or_else(|| all(&output))
        })
        .unwrap();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for child in &mut self.again {
            let _ = child.kill();
            let _ = child.wait();
        }
        for netns in &self.namespaces {
            let _ = Command::new("ip").args(["netns", "delete", netns]).output();
        }
    }
}

fn no_address_twice(given: &[(String, String)]) {
    let addresses: BTreeSet<&String> = given.iter().map(|(_, address)| address).collect();
    assert_eq!(addresses.len(), given.len(), "{given:?}");
}

#[test]
fn nobody_needs_a_controller_to_go_on() {
    let mut cluster = Cluster::up();
    let x = cluster.add("n1", "x", Some("blue"));
    let y = cluster.add("n2", "y", Some("blue"));
    assert_ne!(x, y);
    let names = |cluster: &Cluster| -> Vec<String> {
        cluster.given().into_iter().map(|(name, _)| name).collect()
    };
    assert_eq!(names(&cluster), ["test:x", "test:y"]);

    // It stands still: what needs it waits, and nothing else does.
    cluster.signal("controller --config", Signal::SIGSTOP);
    cluster.pings();
    cluster.add("n1", "alone", None);
    let refused = cluster.cni("ADD", "n1", "z", Some("blue"));
    assert_eq!(refused["code"], 11, "{refused}");
    assert_eq!(cluster.cni("DEL", "n2", "y", Some("blue")), Value::Null);
    cluster.signal("controller --config", Signal::SIGCONT);
    wait_until("the address to be given back", PATIENCE, || {
        let names = names(&cluster);
        if names == ["test:x"] { Ok(()) } else { Err(names.join(" ")) }
    })
    .unwrap();

    // It dies, and an agent with it, which starts again from what it knew.
    cluster.signal("controller --config", Signal::SIGKILL);
    assert_eq!(cluster.cni("DEL", "n1", "x", Some("blue")), Value::Null);
    cluster.signal("n1/agent.toml", Signal::SIGKILL);
    let socket = cluster.dir.join("n1/cni.sock");
    wait_until("the dead agent's socket to be closed", PATIENCE, || {
        match std::os::unix::net::UnixStream::connect(&socket) {
            Ok(_) => Err("somebody listens"),
            Err(_) => Ok(()),
        }
    })
    .unwrap();
    let config = cluster.dir.join("n1/agent.toml");
    cluster.start("n1", &format!("agent --config {}", config.display()));
    cluster.add("n1", "later", None);
    cluster.pings();

    // It comes back, and hears of what was given back while it was away.
    cluster.start_controller();
    cluster.converges();
    wait_until("the address to be given back", PATIENCE, || {
        let names = names(&cluster);
        if names.is_empty() { Ok(()) } else { Err(names.join(" ")) }
    })
    .unwrap();
    let z = cluster.add("n1", "z", Some("blue"));
    let v = cluster.add("n2", "v", Some("blue"));
    assert_ne!(z, v);
    no_address_twice(&cluster.given());
    cluster.pings();
}

#[test]
fn a_node_that_is_cut_off_catches_up() {
    let mut cluster = Cluster::up();
    let id = cluster.dir.file_name().unwrap().to_str().unwrap().to_owned();
    let plug = |state: &str| {
        let arguments =
            ["netns", "exec", &format!("{id}-fabric"), "ip", "link", "set", "controller", state];
        assert!(Command::new("ip").args(arguments).status().unwrap().success());
    };
    plug("down");
    cluster.apply(&BLUE.replace("blue", "green").replace("10.20", "10.21"));
    cluster.pings();
    cluster.add("n2", "alone", None);
    let unknown = cluster.cni("ADD", "n2", "g", Some("green"));
    assert_eq!(unknown["code"], 11, "{unknown}");
    plug("up");
    cluster.converges();
    let g = cluster.add("n2", "g", Some("green"));
    assert!(g.starts_with("10.21.0."), "{g}");
}

/// An agent that never gets to be one, and what it says.
fn refused(world: &World, place: &str, dir: &Path, node: &str, token: &str) -> String {
    fs::create_dir_all(dir).unwrap();
    fs::write(dir.join("token"), token).unwrap();
    let (config, shown) = (dir.join("agent.toml"), dir.display());
    let text = format!(
        "node = '{node}'\nstate_dir = '{shown}'\ncni_socket = '{shown}/cni.sock'\n\
         ovsdb = '{shown}/db.sock'\novs_run_dir = '{shown}'\ncni_config = 'off'\n\
         [controller]\naddress = '198.51.100.250:6646'\ntoken_file = '{shown}/token'\n"
    );
    fs::write(&config, text).unwrap();
    let log = fs::File::create(dir.join("log")).unwrap();
    let osier = executables().join("osier");
    let line = format!("exec {place} -- {} agent --config {}", osier.display(), config.display());
    let mut agent = world.command(&line).stdout(Stdio::null()).stderr(log).spawn().unwrap();
    let said = wait_until("the agent to be refused", PATIENCE, || {
        let said = fs::read_to_string(dir.join("log")).unwrap();
        said.contains("refused").then_some(said).ok_or("nothing")
    });
    agent.kill().unwrap();
    agent.wait().unwrap();
    said.unwrap()
}

#[test]
fn a_token_lets_one_node_in_once_from_its_address() {
    let cluster = Cluster::up();
    let no = "this node may not join with this token";
    let used = fs::read_to_string(cluster.dir.join("n1/token")).unwrap();
    let again = refused(&cluster.world, "n1", &cluster.dir.join("thief"), "n1", &used);
    assert!(again.contains(no), "{again}");
    let token = cluster.osier("node token n9 --address 198.51.100.99");
    assert!(token.status.success(), "{}", all(&token));
    let token = String::from_utf8(token.stdout).unwrap();
    let elsewhere = refused(&cluster.world, "n2", &cluster.dir.join("n9"), "n9", &token);
    assert!(elsewhere.contains(no), "{elsewhere}");
    assert!(!cluster.dir.join("n9/credentials/agent.bundle").exists());
    cluster.converges();
}
