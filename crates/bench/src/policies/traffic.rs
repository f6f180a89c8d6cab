//! Connections and throughput of a pod that a hundred policies are about, against one that none is.

use crate::Suite;
use crate::connect::{self, CLIENTS, SECONDS};
use crate::figure::{Amount, Figure, Goal, Wanted};
use crate::measure::{Number, Side, in_turns, middle_number};
use crate::node::{Cluster, PATIENCE};
use crate::runtime::{Plugin, Pod};
use anyhow::Result;
use osier_testbed::{Netns, traffic, wait_until};
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

const POLICIES: u32 = 100;
/// Where connections are taken, and where none is granted.
const PORT: u16 = 8080;
const REFUSED: u16 = 8081;
/// What iperf3 listens on.
const IPERF: u16 = 5201;
/// What the client, the guarded pod and the open one are.
const IDENTITIES: [u32; 3] = [300, 301, 302];
/// Whom the other policies let in.
const OTHERS: u32 = 1000;

const GOALS: [Goal; 2] = [
    Goal {
        name: "pol-path",
        about: "TCP to a pod that 100 policies are about, against one that none is; throughput by iperf3",
        wanted: Wanted::AtLeast(0.9),
    },
    Goal {
        name: "pol-connect",
        about: "TCP connections a second to the same, against the other",
        wanted: Wanted::AtLeast(0.8),
    },
];

/// Both, of one node.
pub(crate) const TRAFFIC: Suite = Suite { goals: &GOALS, run };

fn run(rounds: usize) -> Result<Vec<Figure>> {
    eprintln!("pol-path: one TCP stream, {SECONDS} s at a time");
    let stage = Stage::new()?;
    let path = in_turns(rounds, |side| {
        let (server, address) = stage.server(side);
        Ok(Number(traffic::iperf_tcp(&stage.client, server, address, SECONDS)?.mbit_per_second))
    })?;
    eprintln!("pol-connect: {CLIENTS} clients, {SECONDS} s at a time");
    let connect = in_turns(rounds, |side| {
        connect::rate(
            std::slice::from_ref(&stage.client),
            &[SocketAddr::new(stage.server(side).1, PORT)],
        )
    })?;
    let rate = |numbers| Amount::Rate(middle_number(numbers));
    let count = |numbers| Amount::Count(middle_number(numbers));
    Ok(vec![
        Figure { goal: &GOALS[0], ours: rate(path.ours), rival: rate(path.rival) },
        Figure { goal: &GOALS[1], ours: count(connect.ours), rival: count(connect.rival) },
    ])
}

/// Pods of one node: who asks, who is guarded, and who is not.
struct Stage {
    client: Netns,
    guarded: (Netns, IpAddr),
    open: (Netns, IpAddr),
    _pods: Vec<Pod>,
    _cluster: Cluster,
}

impl Stage {
    fn new() -> Result<Self> {
        let cluster = Cluster::start(1)?;
        let pods = Pod::make(cluster.lab(), "s", IDENTITIES.len())?;
        let plugin = Plugin::ours(&cluster, 0);
        let mut all = Vec::new();
        for pod in &pods {
            all.push((pod.netns.clone(), plugin.address(pod)?));
        }
        for (netns, address) in &all[1..] {
            for port in [PORT, REFUSED] {
                connect::serve(netns, SocketAddr::new(*address, port))?;
            }
        }
        let path = cluster.node(0).ovs().dir().join("view.yaml");
        let beside = path.with_extension("new");
        std::fs::write(&beside, std::fs::read_to_string(&path)? + &law()?)?;
        std::fs::rename(beside, path)?;
        let [client, guarded, open] = [0, 1, 2].map(|n: usize| all[n].clone());
        // That policies are in force is seen by whom they stop.
        wait_until("policies", PATIENCE, || {
            let refused = client.0.tcp_connect(SocketAddr::new(guarded.1, REFUSED));
            if refused.is_err() { Ok(()) } else { Err("what no policy grants is connected") }
        })?;
        for server in [&guarded, &open] {
            let to = SocketAddr::new(server.1, PORT);
            wait_until("the server", PATIENCE, || client.0.tcp_connect(to))?;
        }
        Ok(Self { client: client.0, guarded, open, _pods: pods, _cluster: cluster })
    }

    fn server(&self, side: Side) -> (&Netns, IpAddr) {
        let (netns, address) = if side == Side::Ours { &self.guarded } else { &self.open };
        (netns, *address)
    }
}

/// Who is who, and a hundred policies about one of them, of which the last lets the client in. All
/// let it out to others only: what it answers needs no rule.
fn law() -> Result<String> {
    let mut law = String::new();
    for (number, identity) in IDENTITIES.iter().enumerate() {
        let device = format!("shop:s{number}");
        writeln!(
            law,
            "- {{ kind: workload, device: '{device}', node: n1, identity: {identity} }}"
        )?;
    }
    writeln!(law, "- {{ kind: selection, id: 1, members: [{}] }}", IDENTITIES[1])?;
    for number in 0..POLICIES {
        let (id, last) = (10 + number, number == POLICIES - 1);
        let peer = if last { IDENTITIES[0] } else { OTHERS + number };
        let ports =
            if last { [PORT, IPERF].map(u32::from) } else { [8000 + number, 9000 + number] };
        let ports = ports
            .map(|port| format!("{{ transport: tcp, range: {{ first: {port}, last: {port} }} }}"));
        let rule = format!("[{{ peers: [{{ selection: {id} }}], ports: [{}] }}]", ports.join(", "));
        writeln!(law, "- {{ kind: selection, id: {id}, members: [{peer}] }}")?;
        writeln!(
            law,
            "- {{ kind: policy, name: 'shop:p{number}', subjects: 1, ingress: {rule}, egress: {rule} }}"
        )?;
    }
    Ok(law)
}
