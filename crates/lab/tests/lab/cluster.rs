//! A lab with a controller, two nodes and pods, as the tests of controllers use it: processes are
//! killed, stopped and started again, and pods made by the plugin as a runtime does.

use crate::world::{World, all, executables, processes};
use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use osier_testbed::wait_until;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) const BLUE: &str = "
apiVersion: osier.dev/v1alpha1
kind: Network
metadata: {name: blue}
spec: {subnets: [{cidr: 10.20.0.0/29}]}
";

/// A lab with a controller, two nodes and a pod on each.
pub(crate) struct Cluster {
    pub(crate) world: World,
    pub(crate) dir: PathBuf,
    /// Processes that we started instead of those that we killed.
    again: Vec<Child>,
    namespaces: Vec<String>,
}

impl Cluster {
    /// With network blue.
    pub(crate) fn up() -> Self {
        let cluster = Self::with("--family ipv4");
        cluster.apply(BLUE);
        cluster.converges();
        cluster
    }

    /// With options of `lab up`.
    pub(crate) fn with(options: &str) -> Self {
        let world = World::new();
        world.succeeds(&format!("up --nodes 2 --pods 2 --controller {options}"));
        let dir = world.dir_of("default");
        Self { world, dir, again: Vec::new(), namespaces: Vec::new() }
    }

    /// What is where.
    pub(crate) fn layout(&self) -> Value {
        let path = self.world.base.path().join("default/lab.json");
        serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
    }

    /// The name of one of the lab's network namespaces.
    pub(crate) fn netns(&self, part: &str) -> String {
        format!("{}-{part}", self.dir.file_name().unwrap().to_str().unwrap())
    }

    /// From now on pod1 asks pod2 ten times a second.
    pub(crate) fn traffic(&self) -> Traffic {
        self.pings();
        let layout = self.layout();
        let (netns, to) = (&layout["pods"][0]["netns"], &layout["pods"][1]["addresses"][0]);
        let mut ping = Command::new("ip");
        ping.args(["netns", "exec", netns.as_str().unwrap()]);
        ping.args(["ping", "-n", "-q", "-i", "0.1", to.as_str().unwrap()]);
        Traffic(Some(ping.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap()))
    }

    pub(crate) fn osier(&self, line: &str) -> Output {
        let osier = executables().join("osier");
        self.world.run(&format!("exec controller -- {} {line}", osier.display()))
    }

    pub(crate) fn apply(&self, text: &str) {
        let output = self.try_apply(text);
        assert!(output.status.success(), "{}", all(&output));
    }

    pub(crate) fn try_apply(&self, text: &str) -> Output {
        let osier = executables().join("osier");
        let line = format!("exec controller -- {} apply -f -", osier.display());
        self.world.feed(&line, text)
    }

    pub(crate) fn converges(&self) {
        wait_until("all nodes to converge", PATIENCE, || {
            let output = self.osier("status");
            output.status.success().then_some(()).ok_or_else(|| all(&output))
        })
        .unwrap();
    }

    /// Changes what holds for the whole cluster.
    pub(crate) fn set_fabric(&self, change: impl FnOnce(&mut Value)) {
        let output = self.osier("get fabric -o json");
        let mut fabrics: Value = serde_json::from_slice(&output.stdout).unwrap();
        let fabric = &mut fabrics["items"][0];
        change(&mut fabric["spec"]);
        fabric.as_object_mut().unwrap().remove("status");
        self.apply(&fabric.to_string());
        self.converges();
    }

    /// Works inside of a pod or node: sockets that are made there stay there.
    pub(crate) fn within<T: Send>(&self, place: &str, work: impl FnOnce() -> T + Send) -> T {
        let netns = fs::File::open(format!("/run/netns/{}", self.netns(place))).unwrap();
        let inside = || {
            setns(netns, CloneFlags::CLONE_NEWNET).unwrap();
            work()
        };
        thread::scope(|scope| scope.spawn(inside).join().unwrap())
    }

    /// Connects from a pod or node, once; who says nothing for a while does not answer.
    pub(crate) fn connect(&self, place: &str, to: &str) -> io::Result<TcpStream> {
        let to: SocketAddr = to.parse().unwrap();
        self.within(place, || TcpStream::connect_timeout(&to, Duration::from_millis(700)))
    }

    /// The addresses of all ports that the controller gave.
    pub(crate) fn given(&self) -> Vec<(String, String)> {
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

    /// A process of the lab.
    pub(crate) fn find(&self, part: &str) -> Option<i32> {
        let found = processes(&self.dir).into_iter().find(|(_, line)| line.contains(part));
        found.map(|(pid, _)| pid)
    }

    pub(crate) fn signal(&self, part: &str, signal: Signal) {
        let pid = self.find(part).unwrap_or_else(|| panic!("no process with {part}"));
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

    /// Waits until a process has ended by itself.
    pub(crate) fn has_ended(&self, part: &str) {
        wait_until("the process to end", PATIENCE, || {
            self.find(part).map_or(Ok(()), |pid| Err(format!("{pid} runs")))
        })
        .unwrap();
    }

    /// Starts our program somewhere in the lab.
    pub(crate) fn start(&mut self, place: &str, line: &str) {
        let osier = executables().join("osier");
        self.start_program(place, &format!("{} {line}", osier.display()));
    }

    /// Starts any program there.
    pub(crate) fn start_program(&mut self, place: &str, line: &str) {
        let mut command = self.world.command(&format!("exec {place} -- {line}"));
        let log = fs::File::create(self.log(place)).unwrap();
        command.stdout(Stdio::null()).stderr(log);
        self.again.push(command.spawn().unwrap());
    }

    pub(crate) fn log(&self, place: &str) -> PathBuf {
        self.dir.join(format!("{place}.again.log"))
    }

    pub(crate) fn start_controller(&mut self) {
        let config = self.dir.join("controller/controller.toml");
        self.start("controller", &format!("controller --config {}", config.display()));
    }

    /// Calls the plugin for a pod: of the namespace `test`, or `namespace:pod`.
    pub(crate) fn cni(
        &mut self,
        command: &str,
        node: &str,
        pod: &str,
        network: Option<&str>,
    ) -> Value {
        let (namespace, pod) = pod.split_once(':').unwrap_or(("test", pod));
        let netns = self.netns(pod);
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
             CNI_ARGS=IgnoreUnknown=1;K8S_POD_NAMESPACE={namespace};K8S_POD_NAME={pod} {}",
            executables().join("osier-cni").display()
        );
        let output = self.world.feed(&line, &config.to_string());
        let said = serde_json::from_slice(&output.stdout);
        assert!(said.is_ok() || output.status.success(), "{}", all(&output));
        said.unwrap_or_default()
    }

    /// Makes a pod: its address.
    pub(crate) fn add(&mut self, node: &str, pod: &str, network: Option<&str>) -> String {
        let mut last = Value::Null;
        let added = wait_until("the pod", PATIENCE, || {
            last = self.cni("ADD", node, pod, network);
            last["ips"][0]["address"].as_str().map(str::to_owned).ok_or_else(|| last.to_string())
        });
        let log = || fs::read_to_string(self.log(node)).unwrap_or_default();
        let added = added.unwrap_or_else(|late| panic!("{late}\n{}", log()));
        added.split('/').next().unwrap().to_owned()
    }

    pub(crate) fn pings(&self) {
        let layout = self.layout();
        let to = layout["pods"][1]["addresses"][0].as_str().unwrap();
        wait_until("pod1 to reach pod2", PATIENCE, || {
            let output = self.world.run(&format!("exec pod1 -- ping -c1 -W1 {to}"));
            output.status.success().then_some(()).ok_or_else(|| all(&output))
        })
        .unwrap();
    }
}

/// A ping that goes on.
pub(crate) struct Traffic(Option<Child>);

impl Traffic {
    /// Ends it: hardly a packet may be lost.
    pub(crate) fn flowed_on(mut self) {
        let ping = self.0.take().unwrap();
        kill(Pid::from_raw(ping.id().cast_signed()), Signal::SIGINT).unwrap();
        let said = ping.wait_with_output().unwrap();
        let said = String::from_utf8(said.stdout).unwrap();
        let count = |what: &str| -> u32 {
            let before = said.split(what).next().unwrap();
            before.trim_end().rsplit([' ', '\n']).next().unwrap().parse().unwrap()
        };
        let (sent, received) = (count("packets transmitted"), count("received"));
        // A busy machine may lose one by itself, and the last may be on its way.
        assert!(sent > 2 && received + 3 >= sent, "{said}");
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        if let Some(ping) = &mut self.0 {
            let _ = ping.kill();
            let _ = ping.wait();
        }
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

pub(crate) fn no_address_twice(given: &[(String, String)]) {
    let addresses: BTreeSet<&String> = given.iter().map(|(_, address)| address).collect();
    assert_eq!(addresses.len(), given.len(), "{given:?}");
}
