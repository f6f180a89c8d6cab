//! A cluster of nodes, each with its switch and its agent as a process of its own.

use crate::lab::{PATIENCE, Pod, configure, executables};
use osier_testbed::{Command, Fabric, Family, Lab, Netns, Node, Process, Signal, wait_until};
use std::fmt::Write as _;
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// The number of the machine outside, which knows nodes and no pods.
const OUTSIDE: u8 = 254;

/// Which addresses pods and nodes have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Addressing {
    Ipv4,
    /// Also the underlay.
    Ipv6,
    /// Tunnels over IPv4; nodes have both.
    Dual,
}

/// A cluster. Its agents end before its switches.
pub(crate) struct Cluster {
    pub(crate) agents: Vec<AgentProcess>,
    pub(crate) fabric: Fabric,
    pub(crate) lab: Lab,
    pub(crate) addressing: Addressing,
}

/// The agent of a node, as a process.
pub(crate) struct AgentProcess {
    pub(crate) process: Process,
    pub(crate) socket: PathBuf,
}

// === impl Addressing ===

impl Addressing {
    fn underlay(self) -> Family {
        if self == Self::Ipv6 { Family::Ipv6 } else { Family::Ipv4 }
    }

    fn keeps(self, address: IpAddr) -> bool {
        match self {
            Self::Ipv4 => address.is_ipv4(),
            Self::Ipv6 => address.is_ipv6(),
            Self::Dual => true,
        }
    }

    /// The addresses of a machine in the underlay, with the lengths of their prefixes.
    pub(crate) fn outer(self, number: u8) -> Vec<(IpAddr, u8)> {
        let all = [
            (IpAddr::from([198, 51, 100, number]), 24),
            (IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, number.into()]), 64),
        ];
        all.into_iter().filter(|(address, _)| self.keeps(*address)).collect()
    }

    /// The gateway's addresses on a node.
    pub(crate) fn gateways(self, number: u8) -> Vec<IpAddr> {
        let all = [
            IpAddr::from([10, 1, number, 1]),
            IpAddr::from([0xfd01, 0, 0, number.into(), 0, 0, 0, 1]),
        ];
        all.into_iter().filter(|address| self.keeps(*address)).collect()
    }

    /// What agents are told of nodes `1..=size`.
    pub(crate) fn view(self, size: u8) -> String {
        let mut text = String::from(
            "fabric: { tunnel: geneve, cluster: [10.1.0.0/16, 'fd01::/48'] }\nobjects:\n\
             - { kind: router, name: default, vrf: 0 }\n\
             - { kind: network, name: pods, vni: 1, router: default, reach: routed }\n",
        );
        for n in 1..=size {
            let outer: Vec<_> = self.outer(n).iter().map(|(a, _)| format!("'{a}'")).collect();
            let blocks: Vec<_> = self.gateways(n).into_iter().map(block).collect();
            writeln!(
                text,
                "- {{ kind: node, name: n{n}, tunnel: {}, addresses: [{}], blocks: [{}] }}",
                outer[0],
                outer.join(", "),
                blocks.join(", "),
            )
            .unwrap();
        }
        text
    }
}

/// The block that a gateway is the first address of.
fn block(gateway: IpAddr) -> String {
    let text = gateway.to_string();
    let network = text.strip_suffix('1').unwrap();
    if gateway.is_ipv4() { format!("'{network}0/24'") } else { format!("'{network}/64'") }
}

// === impl Cluster ===

impl Cluster {
    /// Starts nodes and agents, and waits until all serve.
    pub(crate) fn start(addressing: Addressing, size: u8) -> Self {
        Self::start_with(addressing, size, |view| view)
    }

    /// Starts them with another view than the usual one.
    pub(crate) fn start_with(
        addressing: Addressing,
        size: u8,
        view: impl FnOnce(String) -> String,
    ) -> Self {
        let lab = Lab::new().unwrap();
        let fabric = Fabric::new(&lab, addressing.underlay(), size).unwrap();
        for (n, node) in (1..).zip(fabric.nodes()) {
            for (address, length) in addressing.outer(n) {
                let nodad = if address.is_ipv6() { "nodad" } else { "" };
                let wanted = format!("address replace {address}/{length} dev br-phy {nodad}");
                node.netns().ip(&wanted).unwrap();
            }
        }
        let view = view(addressing.view(size));
        let start = |node: &Node| AgentProcess::launch(node, &configure(node, &view));
        let agents: Vec<_> = fabric.nodes().iter().map(start).collect();
        agents.iter().for_each(AgentProcess::wait_ready);
        Self { agents, fabric, lab, addressing }
    }

    /// A pod that the runtime of a node knows; not attached yet.
    pub(crate) fn pod(&self, node: usize, name: &str) -> Pod {
        Pod::at(&self.lab, name, &self.agents[node].socket)
    }

    /// Starts the agent of a node again, as it was configured; the last one has ended.
    /// A machine on the same segment as the nodes, with the number of none of them.
    pub(crate) fn outsider(&self) -> (Netns, Vec<IpAddr>) {
        let netns = self.lab.netns("outside").unwrap();
        let segment = self.fabric.segment();
        segment
            .ip(&format!("link add outside type veth peer name eth0 netns {}", netns.name()))
            .unwrap();
        segment.ip("link set outside master segment up").unwrap();
        let addresses = self.addressing.outer(OUTSIDE);
        for (address, length) in &addresses {
            let nodad = if address.is_ipv6() { "nodad" } else { "" };
            netns.ip(&format!("address add {address}/{length} dev eth0 {nodad}")).unwrap();
        }
        // The userspace datapath takes packets as they are: checksums must be there.
        netns.run(&["ethtool", "-K", "eth0", "tx", "off"]).unwrap();
        netns.ip("link set eth0 up").unwrap();
        (netns, addresses.into_iter().map(|(address, _)| address).collect())
    }

    pub(crate) fn start_agent(&mut self, node: usize) {
        self.agents[node] = AgentProcess::again(&self.fabric.nodes()[node]);
        self.agents[node].wait_ready();
    }
}

// === impl AgentProcess ===

impl AgentProcess {
    /// Starts the agent that was built with this test.
    pub(crate) fn launch(node: &Node, config: &Path) -> Self {
        Self::run(node, config, &executables().join("osier"))
    }

    /// Starts it with the configuration that the node has.
    pub(crate) fn again(node: &Node) -> Self {
        Self::launch(node, &config_of(node))
    }

    /// Starts any agent.
    pub(crate) fn run(node: &Node, config: &Path, executable: &Path) -> Self {
        let command = node.netns().command(executable.to_str().unwrap());
        let command = command.args(["agent".as_ref(), "--config".as_ref(), config.as_os_str()]);
        let process = command.spawn().unwrap();
        Self { process, socket: socket_of(node) }
    }

    /// Starts it with the configuration that the node has, by `unshare` with these options.
    pub(crate) fn unshared(node: &Node, options: impl FnOnce(Command) -> Command) -> Self {
        let command = options(node.netns().command("unshare")).arg(executables().join("osier"));
        let command = command.args(["agent", "--config"]).arg(config_of(node));
        Self { process: command.spawn().unwrap(), socket: socket_of(node) }
    }

    /// Waits until it serves.
    pub(crate) fn wait_ready(&self) {
        let said = "ready";
        wait_until("the agent to serve", PATIENCE, || {
            let log = self.process.stderr();
            let reached = UnixStream::connect(&self.socket).is_ok();
            // Not only the socket: it may still be that of the one before.
            if reached && log.contains(said) { Ok(()) } else { Err(log) }
        })
        .unwrap();
    }

    /// Ends it with a signal.
    pub(crate) fn end(&mut self, signal: Signal) {
        self.process.stop(signal, PATIENCE).unwrap();
    }
}

/// Where [`configure`] puts it.
pub(crate) fn config_of(node: &Node) -> PathBuf {
    node.ovs().dir().join("agent.toml")
}

fn socket_of(node: &Node) -> PathBuf {
    node.ovs().dir().join("cni.sock")
}
