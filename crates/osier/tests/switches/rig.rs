//! A controller on the underlay, nodes as `odlovs-cni` makes them, and pods.

use crate::client::{API, Client, RESTCONF, WATCHER};
pub(crate) use crate::seat::PATIENCE;
use crate::seat::Seat;
use osier_testbed::traffic::{ping, ping_until};
use osier_testbed::{Etcd, Fabric, Family, Lab, Netns, Node, Signal, wait_until};
use std::cell::Cell;
use std::fs;
use std::net::IpAddr;

/// The bridge's name, as in COE's own configuration.
pub(crate) const BRIDGE: &str = "ovsbrk8s";
/// COE's only cluster.
pub(crate) const CLUSTER: &str = "00000000-0000-0000-0000-000000000001";
/// The bridge by which controllers reach etcd.
const ETCD_NETWORK: &str = "members";

/// How a node's switch and the controller meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dial {
    /// `mgrActive` and `ctlrActive`: the switch dials.
    Switch,
    /// It listens.
    Controller,
    /// It dials, over TLS.
    Tls,
    /// Only `mgrActive`: its database dials, its bridge listens.
    Manager,
    /// Only `ctlrActive`.
    OpenFlow,
}

pub(crate) struct Rig {
    /// The controllers' places.
    pub(crate) seats: Vec<Seat>,
    /// Which of them answered last.
    at: Cell<usize>,
    client: Client,
    /// Where controllers keep the model, if they are several.
    pub(crate) etcd: Option<(Netns, Etcd)>,
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

/// Where a switch listens.
fn listening(port: u16) -> Vec<String> {
    vec![format!("ptcp:{port}")]
}

pub(crate) fn uid(n: u32) -> String {
    format!("00000000-0000-0000-0000-{n:012}")
}

// === impl Rig ===

impl Rig {
    /// A controller, and so many nodes whose switches nobody drives yet. `more` is added to its
    /// configuration.
    pub(crate) fn new(nodes: u8, more: &str) -> Self {
        Self::make_in(Lab::new().unwrap(), nodes, 1, None, more)
    }

    /// Controllers on three members of etcd, which they reach by a network of their own.
    pub(crate) fn clustered(nodes: u8, controllers: usize, more: &str) -> Self {
        let lab = Lab::new().unwrap();
        let netns = Self::etcd_netns(&lab);
        let etcd = Etcd::start(&netns, [203, 0, 113, 1].into()).unwrap();
        Self::clustered_on(lab, (netns, etcd), nodes, controllers, more)
    }

    /// The machine of all members, at 203.0.113.1.
    pub(crate) fn etcd_netns(lab: &Lab) -> Netns {
        let netns = lab.netns("etcd").unwrap();
        netns.ip(&format!("link add {ETCD_NETWORK} type bridge")).unwrap();
        netns.ip(&format!("address add 203.0.113.1/24 dev {ETCD_NETWORK}")).unwrap();
        netns.ip(&format!("link set {ETCD_NETWORK} up")).unwrap();
        netns
    }

    /// The same, on members that run; `more` begins with what else belongs to `[etcd]`.
    pub(crate) fn clustered_on(
        lab: Lab,
        etcd: (Netns, Etcd),
        nodes: u8,
        controllers: usize,
        more: &str,
    ) -> Self {
        let more = Self::etcd_config(&etcd.1, more);
        Self::make_in(lab, nodes, controllers, Some(etcd), &more)
    }

    fn etcd_config(etcd: &Etcd, more: &str) -> String {
        format!("[etcd]\nmembers = {:?}\nlease_seconds = 2\n{more}", etcd.urls())
    }

    /// Another configuration for a controller's next process, as in [`Self::clustered_on`].
    pub(crate) fn reconfigure(&self, seat: usize, more: &str) {
        let (_, etcd) = self.etcd.as_ref().unwrap();
        self.seats[seat].configure(&Self::etcd_config(etcd, more));
    }

    fn make_in(
        lab: Lab,
        nodes: u8,
        controllers: usize,
        etcd: Option<(Netns, Etcd)>,
        more: &str,
    ) -> Self {
        let fabric = Fabric::new(&lab, Family::Ipv4, nodes).unwrap();
        let seats: Vec<Seat> =
            (0..controllers).map(|n| Seat::new(&lab, &fabric, n, more)).collect();
        let client = Client::new(&seats, lab.dir().join("ca.pem"));
        let mut rig = Self { seats, at: Cell::new(0), client, etcd, fabric, lab };
        for number in 0..controllers {
            rig.plug(number);
        }
        rig.start();
        fs::copy(rig.seats[0].file("authority.pem"), &rig.client.authority).unwrap();
        rig.client.credential =
            rig.osier(&["controller", "credential", "add", "--role", "write", "--name", WATCHER]);
        let known = || match rig.curl("GET", "/restconf/config/pod:coe", None).0 {
            401 => Err("it is not known yet"),
            _ => Ok(()),
        };
        wait_until("the credential", PATIENCE, known).unwrap();
        rig.seats[1..].iter_mut().for_each(Seat::launch);
        rig
    }

    /// Joins a controller to etcd's network.
    fn plug(&self, number: usize) {
        let Some((netns, _)) = &self.etcd else { return };
        let seat = &self.seats[number].netns;
        let link = format!("link add c{number} type veth peer name eth1 netns {}", seat.name());
        netns.ip(&link).unwrap();
        netns.ip(&format!("link set c{number} master {ETCD_NETWORK} up")).unwrap();
        seat.ip(&format!("address add 203.0.113.{}/24 dev eth1", 10 + number)).unwrap();
        seat.ip("link set eth1 up").unwrap();
    }

    /// Cuts a controller off etcd, or joins it again.
    pub(crate) fn set_etcd_link(&self, number: usize, is_up: bool) {
        let state = if is_up { "up" } else { "down" };
        let (netns, _) = self.etcd.as_ref().unwrap();
        netns.ip(&format!("link set c{number} {state}")).unwrap();
    }

    /// The configuration that lets all nodes in.
    pub(crate) fn allowed() -> &'static str {
        "[switches]\nallow = ['198.51.100.0/24']\n"
    }

    /// Starts the first controller, and waits until it answers.
    pub(crate) fn start(&mut self) {
        self.seats[0].launch();
        self.seats[0].await_ready();
    }

    /// Ends the first controller, without warning.
    pub(crate) fn kill(&mut self) {
        self.seats[0].kill();
    }

    /// Sends the first controller a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        self.seats[0].signal(signal);
    }

    /// Waits for a line in the first controller's log.
    pub(crate) fn await_log(&self, part: &str) {
        let log = || self.seats[0].log();
        let has = || if log().contains(part) { Ok(()) } else { Err(log()) };
        wait_until(part, PATIENCE, has).unwrap();
    }

    /// The command line, as the administrator of the controller that answered last uses it.
    pub(crate) fn osier(&self, arguments: &[&str]) -> String {
        self.seats[self.at.get()].administrator(arguments).run().unwrap().trim().to_owned()
    }

    /// Makes resources, as the administrator does.
    pub(crate) fn apply(&self, text: &str) {
        let seat = &self.seats[self.at.get()];
        seat.administrator(&["apply", "-f", "-"]).input(text).run().unwrap();
    }

    /// A request of the watcher to whichever controller answers: its status and its answer.
    pub(crate) fn curl(&self, method: &str, path: &str, body: Option<&str>) -> (u16, String) {
        let ask = || {
            let first = self.at.get();
            for number in (0..self.seats.len()).map(|n| (first + n) % self.seats.len()) {
                let answer = self.client.ask(number, RESTCONF, (method, path, body), 30);
                if let Some(answer) = answer.filter(|(status, _)| *status != 503) {
                    self.at.set(number);
                    return Ok(answer);
                }
            }
            Err("no controller answers")
        };
        wait_until("an answer", PATIENCE, ask).unwrap()
    }

    /// Who asks controllers one by one.
    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// What the controller counts.
    pub(crate) fn metrics(&self) -> String {
        let (seat, asked) = (self.at.get(), ("GET", "/metrics", None));
        self.client.ask(seat, API, asked, 30).unwrap().1
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
            Dial::Switch => (self.targets("tcp", 6640), self.targets("tcp", 6653)),
            Dial::Controller => (listening(6640), listening(6653)),
            Dial::Manager => (self.targets("tcp", 6640), listening(6653)),
            Dial::OpenFlow => (listening(6640), self.targets("tcp", 6653)),
            Dial::Tls => (self.targets("ssl", 6640), self.targets("ssl", 6653)),
        };
        for (mut command, targets) in
            [(vec!["set-manager"], &manager), (vec!["set-controller", BRIDGE], &controller)]
        {
            command.extend(targets.iter().map(String::as_str));
            ovs.vsctl(&command).unwrap();
        }
        self.make_gateway(node);
    }

    /// The pods' gateway, on the bridge itself once that is there.
    pub(crate) fn make_gateway(&self, node: usize) {
        let netns = self.node(node).netns();
        let address = format!("address add 10.11.{}.1/24 dev {BRIDGE}", node + 1);
        wait_until("the bridge", PATIENCE, || netns.ip(&address)).unwrap();
        netns.ip(&format!("link set {BRIDGE} up")).unwrap();
    }

    /// Where switches dial all controllers.
    fn targets(&self, protocol: &str, port: u16) -> Vec<String> {
        self.seats.iter().map(|seat| format!("{protocol}:{}:{port}", seat.address)).collect()
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
        let pod = self.wire(n, name, namespace, node);
        self.put_pod(n, name, namespace, node, &pod.address.to_string());
        pod
    }

    /// The same, of which nobody has told the controller yet.
    pub(crate) fn wire(&self, n: u32, name: &str, namespace: &str, node: usize) -> Pod {
        let (id, address) = (format!("{CLUSTER}:{name}"), format!("10.11.{}.{n}", node + 1));
        self.add_pod(&format!("{name}-{namespace}"), node, &address, &id)
    }

    /// Makes wires, whose pods are told of later by [`Self::tell`]: a switch that gets a port may lose a
    /// packet of others, and who counts packets makes ports before.
    pub(crate) fn wires(&self, numbers: std::ops::Range<u32>) -> Vec<(u32, Pod)> {
        numbers.map(|n| (n, self.wire(n, &format!("late{n}"), "red", 0))).collect()
    }

    /// Tells the controller of the pod of a wire.
    pub(crate) fn tell(&self, (n, pod): &(u32, Pod)) {
        self.put_pod(*n, &format!("late{n}"), "red", 0, &pod.address.to_string());
    }

    /// The flows of a node's bridge.
    pub(crate) fn flows(&self, node: usize) -> String {
        self.node(node).ovs().ofctl(&["-O", "OpenFlow15", "dump-flows", BRIDGE]).unwrap()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.seats.iter().for_each(|seat| eprintln!("{}", seat.said()));
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
