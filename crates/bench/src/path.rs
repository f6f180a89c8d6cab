//! Packets between pods, against the smallest flow table that forwards at all.
//!
//! Both sides are on the same two switches: our pods on the bridge that the agents keep, the
//! rival's on a bridge with one flow for each port, which sends all that comes in out of another
//! one, and into a tunnel of its own where the other is elsewhere. MTUs are the same.

use crate::Suite;
use crate::figure::{Amount, Figure, Goal, Wanted};
use crate::measure::{Cost, Number, Side, in_turns, median, middle_number};
use crate::node::{Cluster, PATIENCE};
use crate::runtime::{Plugin, Pod};
use anyhow::{Context, Result, ensure};
use osier_testbed::{Endpoint, EndpointConfig, FailMode, Netns, Node, traffic};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const BRIDGE: &str = "br-least";
const TUNNEL: &str = "tun-least";
/// Not the agents': two tunnels cannot share a port.
const TUNNEL_PORT: u16 = 6082;
/// What an uplink of 1500 leaves to our pods; the rival's have the same.
const MTU: u16 = 1442;
/// How long one measurement of throughput takes.
const SECONDS: u32 = 2;
/// Measurements of a round: short ones, in turns, so that what else the machine does meets both.
const TURNS: usize = 3;
/// Requests that make one measurement.
const REQUESTS: usize = 2000;
/// A datagram that does not come back in this time is lost.
const LOST: Duration = Duration::from_secs(1);

const SAME_NODE: Goal = Goal {
    name: "path-same-node",
    about: "TCP between pods of a node, against one flow for each port; throughput by iperf3",
    wanted: Wanted::AtLeast(0.95),
};
const CROSS_NODE: Goal = Goal {
    name: "path-cross-node",
    about: "TCP between pods of two nodes, against the same with a tunnel; throughput by iperf3",
    wanted: Wanted::AtLeast(0.95),
};
const REQUEST: Goal = Goal {
    name: "path-rr",
    about: "a datagram to a pod of the other node and back, against the same; median time",
    wanted: Wanted::AtMost(1.05),
};

/// Throughput on a node.
pub(crate) const WITHIN: Suite = Suite { goals: &[SAME_NODE], run: same_node };
/// Throughput and latency between nodes.
pub(crate) const BETWEEN: Suite = Suite { goals: &[CROSS_NODE, REQUEST], run: cross_node };

/// Two pods that reach each other.
struct Pair {
    from: Netns,
    to: Netns,
    address: IpAddr,
}

/// Who is measured, with what keeps it alive.
struct Paths {
    ours: Pair,
    rival: Pair,
    _rivals: Vec<Endpoint>,
    _pods: Vec<Pod>,
    _cluster: Cluster,
}

fn same_node(rounds: usize) -> Result<Vec<Figure>> {
    eprintln!("path-same-node: one TCP stream, {SECONDS} s at a time");
    Ok(vec![Paths::new(1)?.throughput(&SAME_NODE, rounds)?])
}

fn cross_node(rounds: usize) -> Result<Vec<Figure>> {
    eprintln!("path-cross-node: one TCP stream, {SECONDS} s at a time");
    let paths = Paths::new(2)?;
    let throughput = paths.throughput(&CROSS_NODE, rounds)?;
    eprintln!("path-rr: {REQUESTS} datagrams at a time, each behind the answer to the last");
    Ok(vec![throughput, paths.latency(&REQUEST, rounds)?])
}

// === impl Paths ===

impl Paths {
    /// From the first node to the last.
    fn new(nodes: u8) -> Result<Self> {
        let cluster = Cluster::start(nodes)?;
        let ends = [0, usize::from(nodes) - 1];
        let pods = Pod::make(cluster.lab(), "a", 2)?;
        let mut addresses = Vec::new();
        for (pod, node) in pods.iter().zip(ends) {
            addresses.push(Plugin::ours(&cluster, node).address(pod)?);
        }
        let [from, to] = [&pods[0], &pods[1]].map(|pod| pod.netns.clone());
        let ours = Pair { from, to, address: addresses[1] };
        let rivals = least(ends.map(|end| cluster.node(end)))?;
        let [from, to] = [&rivals[0], &rivals[1]].map(|end| end.netns().clone());
        let address = rivals[1].addresses().next().context("it has an address")?;
        let rival = Pair { from, to, address };
        for pair in [&ours, &rival] {
            traffic::ping_until(&pair.from, pair.address, PATIENCE)?;
        }
        Ok(Self { ours, rival, _rivals: rivals, _pods: pods, _cluster: cluster })
    }

    fn pair(&self, side: Side) -> &Pair {
        if side == Side::Ours { &self.ours } else { &self.rival }
    }

    fn throughput(&self, goal: &'static Goal, rounds: usize) -> Result<Figure> {
        let rates = in_turns(rounds * TURNS, |side| {
            let Pair { from, to, address } = self.pair(side);
            Ok(Number(traffic::iperf_tcp(from, to, *address, SECONDS)?.mbit_per_second))
        })?;
        let [ours, rival] =
            [rates.ours, rates.rival].map(|rates| Amount::Rate(middle_number(rates)));
        Ok(Figure { goal, ours, rival })
    }

    fn latency(&self, goal: &'static Goal, rounds: usize) -> Result<Figure> {
        let times = in_turns(rounds * TURNS, |side| {
            let wall = self.pair(side).round_trip()?;
            Ok(Cost { wall, cpu: Duration::ZERO })
        })?;
        let wall = |costs: &[Cost]| median(costs, |cost| cost.wall);
        Ok(Figure::times(goal, wall(&times.ours), wall(&times.rival)))
    }
}

/// Two endpoints on the bridge with the smallest table, one on each of these nodes.
fn least(nodes: [&Node; 2]) -> Result<Vec<Endpoint>> {
    let same = nodes[0].name() == nodes[1].name();
    let mut endpoints = Vec::new();
    for (number, node) in [(10, nodes[0]), (11, nodes[1])] {
        if number == 10 || !same {
            node.ovs().add_bridge(BRIDGE, FailMode::Secure)?;
        }
        let config = EndpointConfig::numbered(&format!("r{number}"), number);
        let config = EndpointConfig { mtu: Some(MTU), ..config };
        endpoints.push(Endpoint::attach(node.ovs(), BRIDGE, &config)?);
    }
    if same {
        let flows = "in_port=10 actions=output:11\nin_port=11 actions=output:10\n";
        nodes[0].ovs().add_flows(BRIDGE, flows)?;
        return Ok(endpoints);
    }
    for (number, node, other) in [(10, nodes[0], nodes[1]), (11, nodes[1], nodes[0])] {
        add_tunnel(node)?;
        let (key, to) = ("set_field:1->tun_id", other.underlay());
        let flows = format!(
            "in_port={number} actions={key},set_field:{to}->tun_dst,output:1\n\
             in_port=1 actions=output:{number}\n"
        );
        node.ovs().add_flows(BRIDGE, &flows)?;
    }
    Ok(endpoints)
}

fn add_tunnel(node: &Node) -> Result<()> {
    let local = format!("options:local_ip={}", node.underlay());
    let port = format!("options:dst_port={TUNNEL_PORT}");
    let interface = ["set", "interface", TUNNEL, "type=geneve", "options:remote_ip=flow"];
    let options = ["options:key=flow", &local, &port, "ofport_request=1"];
    let add = ["add-port", BRIDGE, TUNNEL, "--"];
    node.ovs().vsctl(&[&add[..], &interface, &options].concat())?;
    Ok(())
}

// === impl Pair ===

impl Pair {
    /// The median time of a datagram there and back.
    fn round_trip(&self) -> Result<Duration> {
        let any = SocketAddr::new([0, 0, 0, 0].into(), 0);
        let server = self.to.udp_bind(any)?;
        let client = self.from.udp_bind(any)?;
        client.connect((self.address, server.local_addr()?.port()))?;
        for socket in [&server, &client] {
            socket.set_read_timeout(Some(LOST))?;
        }
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| echo(&server, &done));
            let times = requests(&client);
            done.store(true, Ordering::Relaxed);
            // The last one, so that it sees that it is done.
            client.send(&[0])?;
            Ok(median(&times?, |cost| cost.wall))
        })
    }
}

fn echo(server: &UdpSocket, done: &AtomicBool) {
    let mut datagram = [0; 64];
    while !done.load(Ordering::Relaxed) {
        if let Ok((length, from)) = server.recv_from(&mut datagram) {
            // What is lost is seen by who asked.
            let _ = server.send_to(&datagram[..length], from);
        }
    }
}

fn requests(client: &UdpSocket) -> Result<Vec<Cost>> {
    let mut times = Vec::with_capacity(REQUESTS);
    let mut datagram = [0; 64];
    for n in 0..REQUESTS {
        let start = Instant::now();
        client.send(&n.to_be_bytes())?;
        let length = client.recv(&mut datagram).context("a datagram was lost")?;
        times.push(Cost { wall: start.elapsed(), cpu: Duration::ZERO });
        ensure!(datagram[..length] == n.to_be_bytes(), "not the answer to what was asked");
    }
    Ok(times)
}
