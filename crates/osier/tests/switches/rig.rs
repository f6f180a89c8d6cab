//! A controller on the underlay, nodes as `odlovs-cni` makes them, and pods.

use osier_testbed::traffic::{ping, ping_until};
use osier_testbed::{Command, Fabric, Family, Lab, Netns, Node, Process, Signal, wait_until};
use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

/// How long something may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// The bridge's name, as in COE's own configuration.
pub(crate) const BRIDGE: &str = "ovsbrk8s";
/// COE's only cluster.
pub(crate) const CLUSTER: &str = "00000000-0000-0000-0000-000000000001";
const CONTROLLER: &str = "198.51.100.250";
const WATCHER: &str = "watcher";

/// How a node's switch and the controller meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dial {
    /// `mgrActive` and `ctlrActive`: the switch dials.
    Switch,
    /// It listens.
    Controller,
    /// It dials, over TLS.
    Tls,
}

pub(crate) struct Rig {
    process: Option<Process>,
    netns: Netns,
    dir: PathBuf,
    credential: String,
    pub(crate) fabric: Fabric,
    pub(crate) lab: Lab,
}

/// A pod as COE's plugin leaves it.
pub(crate) struct Pod {
    pub(crate) netns: Netns,
    pub(crate) address: IpAddr,
    /// The wire's end at the node.
    pub(crate) host: String,
    node: usize,
}

pub(crate) fn uid(n: u32) -> String {
    format!("00000000-0000-0000-0000-{n:012}")
}

// === impl Rig ===

impl Rig {
    /// A controller, and so many nodes whose switches nobody drives yet. `more` is added to its
    /// configuration.
    pub(crate) fn new(nodes: u8, more: &str) -> Self {
        let lab = Lab::new().unwrap();
        let fabric = Fabric::new(&lab, Family::Ipv4, nodes).unwrap();
        let netns = lab.netns("controller").unwrap();
        let (segment, name) = (fabric.segment(), netns.name());
        segment.ip(&format!("link add plug type veth peer name eth0 netns {name}")).unwrap();
        segment.ip(&format!("link set plug master {} up", Fabric::SEGMENT)).unwrap();
        netns.ip(&format!("address add {CONTROLLER}/24 dev eth0")).unwrap();
        // The nodes' switches take packets as they are: checksums must be there.
        netns.run(&["ethtool", "-K", "eth0", "tx", "off"]).unwrap();
        netns.ip("link set eth0 up").unwrap();
        netns.ip("link set lo up").unwrap();
        let dir = lab.make_dir("state").unwrap();
        let text = format!(
            "state_dir = '{0}/state'\n[api]\naddresses = ['{CONTROLLER}']\n[restconf]\nage_seconds = 2\n{more}",
            dir.display()
        );
        fs::write(dir.join("controller.toml"), text).unwrap();
        let mut rig = Self { process: None, netns, dir, credential: String::new(), fabric, lab };
        rig.start();
        rig.credential =
            rig.osier(&["controller", "credential", "add", "--role", "write", "--name", WATCHER]);
        let known = || match rig.curl("GET", "/restconf/config/pod:coe", None).0 {
            401 => Err("it is not known yet"),
            _ => Ok(()),
        };
        wait_until("the credential", PATIENCE, known).unwrap();
        rig
    }

    /// The configuration that lets all nodes in.
    pub(crate) fn allowed() -> &'static str {
        "[switches]\nallow = ['198.51.100.0/24']\n"
    }

    /// Starts the controller, and waits until it answers.
    pub(crate) fn start(&mut self) {
        let command = self.netns.command(env!("CARGO_BIN_EXE_osier"));
        let config = self.dir.join("controller.toml");
        let process = command.args(["controller", "--config"]).arg(&config).spawn().unwrap();
        let said = || process.stdout().lines().any(|line| line == "ready").then_some(());
        let late = || format!("{}{}", process.stdout(), process.stderr());
        wait_until("the controller", PATIENCE, || said().ok_or_else(late)).unwrap();
        self.process = Some(process);
    }

    /// Ends the controller, without warning.
    pub(crate) fn kill(&mut self) {
        let mut process = self.process.take().unwrap();
        process.stop(Signal::SIGKILL, PATIENCE).unwrap();
    }

    /// Sends the controller a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        self.process.as_ref().unwrap().signal(signal).unwrap();
    }

    /// What the controller has logged.
    pub(crate) fn log(&self) -> String {
        self.process.as_ref().unwrap().stderr()
    }

    /// Waits for a line in the controller's log.
    pub(crate) fn await_log(&self, part: &str) {
        let has = || if self.log().contains(part) { Ok(()) } else { Err(self.log()) };
        wait_until(part, PATIENCE, has).unwrap();
    }

    /// The command line, as the controller's administrator uses it.
    pub(crate) fn osier(&self, arguments: &[&str]) -> String {
        self.administrator(arguments).run().unwrap().trim().to_owned()
    }

    /// Makes resources, as the administrator does.
    pub(crate) fn apply(&self, text: &str) {
        self.administrator(&["apply", "-f", "-"]).input(text).run().unwrap();
    }

    fn administrator(&self, arguments: &[&str]) -> Command {
        let command =
            self.netns.command(env!("CARGO_BIN_EXE_osier")).args(arguments.iter().copied());
        if let ["controller", ..] = arguments {
            return command.arg("--config").arg(self.dir.join("controller.toml"));
        }
        let admin = fs::read_to_string(self.dir.join("state/admin.toml")).unwrap();
        let line = admin.lines().find_map(|line| line.strip_prefix("credential = "));
        let file = self.dir.join("credential");
        fs::write(&file, line.unwrap().trim_matches('"')).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        command
            .env("OSIER_SERVER", format!("https://{CONTROLLER}:6645"))
            .env("OSIER_CA", self.dir.join("state/authority.pem"))
            .env("OSIER_CREDENTIAL_FILE", file)
    }

    /// A request of the watcher: its status and its answer.
    pub(crate) fn curl(&self, method: &str, path: &str, body: Option<&str>) -> (u16, String) {
        let authority = self.dir.join("state/authority.pem");
        let user = format!("{WATCHER}:{}", self.credential);
        let mut command = self.netns.command("curl").args([
            "--silent",
            "--show-error",
            "--max-time",
            "30",
            "-w",
            "\n%{http_code}",
            "-X",
            method,
            "--user",
            &user,
            "-H",
            "Content-Type: application/json",
            "-A",
            "Go-http-client/1.1",
            "--cacert",
        ]);
        command = command.arg(authority);
        if let Some(body) = body {
            command = command.args(["--data-binary", body]);
        }
        let text = command.arg(format!("https://{CONTROLLER}:8443{path}")).run().unwrap();
        let (body, status) = text.rsplit_once('\n').unwrap();
        (status.parse().unwrap(), body.to_owned())
    }

    /// What the controller counts.
    pub(crate) fn metrics(&self) -> String {
        let bearer = format!("Authorization: Bearer {}", self.credential);
        let curl = self.netns.command("curl").args(["--silent", "--max-time", "30", "-H", &bearer]);
        let curl = curl.arg("--cacert").arg(self.dir.join("state/authority.pem"));
        curl.arg(format!("https://{CONTROLLER}:6645/metrics")).run().unwrap()
    }

    pub(crate) fn put(&self, path: &str, body: &str) {
        let (status, said) = self.curl("PUT", path, Some(body));
        assert_eq!(status, 200, "{path}: {said}");
    }

    pub(crate) fn delete(&self, path: &str) {
        let (status, said) = self.curl("DELETE", path, None);
        assert_eq!(status, 200, "{path}: {said}");
    }

    pub(crate) fn node(&self, node: usize) -> &Node {
        &self.fabric.nodes()[node]
    }

    /// What the watcher tells of a node: 10.11.N.0/24 is its pods'.
    pub(crate) fn put_node(&self, node: usize) {
        let (n, id) = (node + 1, uid(u32::try_from(node).unwrap() + 100));
        let body = format!(
            r#"{{"k8s-node:k8s-nodes":[{{"k8s-node:uid":"{id}","k8s-node:cluster-id":"{CLUSTER}",
                "k8s-node:host-name":"{}","k8s-node:pod-cidr":"10.11.{n}.0/24",
                "k8s-node:internal-ip-address":"{}"}}]}}"#,
            self.node(node).name(),
            self.node(node).underlay()
        );
        self.put(&format!("/restconf/config/k8s-node:k8s-nodes-info/k8s-nodes/{id}"), &body);
    }

    /// What the watcher tells of a pod.
    pub(crate) fn put_pod(&self, n: u32, name: &str, namespace: &str, node: usize, address: &str) {
        let host = self.node(node).underlay();
        let body = format!(
            r#"{{"pods":[{{"uid":"{id}","cluster-id":"{CLUSTER}","name":"{name}",
                "host-ip-address":"{host}","network-NS":"{namespace}","port-mac-address":"",
                "interface":[{{"uid":"{id}","ip-address":"{address}",
                    "network-id":"00000000-0000-0000-0000-000000000000","network-type":"VXLAN"}}]}}]}}"#,
            id = uid(n)
        );
        self.put(&pod_path(n), &body);
    }

    /// What `odlovs-cni` does on a node the first time: the bridge, its manager, its controller, and
    /// the pods' gateway on the bridge itself.
    pub(crate) fn make_bridge(&self, node: usize, dial: Dial) {
        let ovs = self.node(node).ovs();
        // The kernel's datapath is not there: all else is as the plugin leaves it.
        let protocols = "protocols=[OpenFlow10,OpenFlow11,OpenFlow12,OpenFlow13]";
        let create =
            ["add-br", BRIDGE, "--", "set", "bridge", BRIDGE, "datapath_type=netdev", protocols];
        ovs.vsctl(&create).unwrap();
        let (manager, controller) = match dial {
            Dial::Switch => (format!("tcp:{CONTROLLER}:6640"), format!("tcp:{CONTROLLER}:6653")),
            Dial::Controller => ("ptcp:6640".to_owned(), "ptcp:6653".to_owned()),
            Dial::Tls => (format!("ssl:{CONTROLLER}:6640"), format!("ssl:{CONTROLLER}:6653")),
        };
        ovs.vsctl(&["set-manager", &manager]).unwrap();
        ovs.vsctl(&["set-controller", BRIDGE, &controller]).unwrap();
        let netns = self.node(node).netns();
        netns.ip(&format!("address add 10.11.{}.1/24 dev {BRIDGE}", node + 1)).unwrap();
        netns.ip(&format!("link set {BRIDGE} up")).unwrap();
    }

    /// What `odlovs-cni` does for a pod.
    pub(crate) fn add_pod(&self, name: &str, node: usize, address: &str, id: &str) -> Pod {
        let netns = self.lab.netns(name).unwrap();
        let host = format!("veth{:08x}", u32::from(address.parse::<std::net::Ipv4Addr>().unwrap()));
        let at = self.node(node).netns();
        at.ip(&format!(
            "link add {host} mtu 1400 type veth peer name eth0 mtu 1400 netns {}",
            netns.name()
        ))
        .unwrap();
        // With a datapath of its own the machine would see what is for the switch, and answer.
        at.sysctl(&format!("net/ipv4/conf/{host}/arp_ignore"), "1").unwrap();
        at.sysctl(&format!("net/ipv6/conf/{host}/disable_ipv6"), "1").unwrap();
        at.ip(&format!("link set {host} up")).unwrap();
        netns.ip(&format!("address add {address}/24 dev eth0")).unwrap();
        netns.run(&["ethtool", "-K", "eth0", "tx", "off"]).unwrap();
        netns.ip("link set eth0 up").unwrap();
        netns.ip("link set lo up").unwrap();
        let gateway = address.rsplit_once('.').unwrap().0;
        netns.ip(&format!("route add default via {gateway}.1")).unwrap();
        let link = netns.ip("-o link show eth0").unwrap();
        let mac = link.split_whitespace().skip_while(|word| *word != "link/ether").nth(1).unwrap();
        let ids = [
            format!("external_ids:iface-id=\"{id}\""),
            format!("external_ids:attached-mac=\"{mac}\""),
            format!("external_ids:ip-address=\"{address}\""),
        ];
        let mut add = vec!["add-port", BRIDGE, &host];
        for table in ["port", "interface"] {
            add.extend(["--", "set", table, &host]);
            add.extend(ids.iter().map(String::as_str));
        }
        self.node(node).ovs().vsctl(&add).unwrap();
        Pod { netns, address: address.parse().unwrap(), host, node }
    }

    /// What `odlovs-cni` does when a pod ends.
    pub(crate) fn remove_pod(&self, pod: &Pod) {
        self.node(pod.node).ovs().vsctl(&["del-port", BRIDGE, &pod.host]).unwrap();
    }

    /// A pod with all that belongs to it, in COE's later form of ids.
    pub(crate) fn pod(&self, n: u32, name: &str, namespace: &str, node: usize) -> Pod {
        let address = format!("10.11.{}.{n}", node + 1);
        let pod = self.add_pod(
            &format!("{name}-{namespace}"),
            node,
            &address,
            &format!("{CLUSTER}:{name}"),
        );
        self.put_pod(n, name, namespace, node, &address);
        pod
    }

    /// The flows of a node's bridge.
    pub(crate) fn flows(&self, node: usize) -> String {
        self.node(node).ovs().ofctl(&["-O", "OpenFlow15", "dump-flows", BRIDGE]).unwrap()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if let Some(process) = self.process.as_ref().filter(|_| std::thread::panicking()) {
            eprintln!("==== the controller\n{}{}", process.stdout(), process.stderr());
            for node in self.fabric.nodes() {
                let flows = node.ovs().ofctl(&["-O", "OpenFlow15", "dump-flows", BRIDGE]);
                eprintln!("==== {}\n{}", node.name(), flows.unwrap_or_default());
            }
        }
    }
}

// === impl Pod ===

impl Pod {
    /// Waits until another answers.
    pub(crate) fn reaches(&self, to: IpAddr) {
        if let Err(late) = ping_until(&self.netns, to, PATIENCE) {
            panic!("{late}; its neighbours: {}", self.netns.ip("neighbour show").unwrap());
        }
    }

    /// Whether another does not answer.
    pub(crate) fn misses(&self, to: IpAddr) -> bool {
        ping(&self.netns, to, 3).unwrap().received == 0
    }

    /// Waits until another answers no more.
    pub(crate) fn loses(&self, to: IpAddr) {
        let lost = || if self.misses(to) { Ok(()) } else { Err("it still answers") };
        wait_until("silence", PATIENCE, lost).unwrap();
    }
}

pub(crate) fn pod_path(n: u32) -> String {
    format!("/restconf/config/pod:coe/pods/{}", uid(n))
}
