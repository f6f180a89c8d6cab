//! What the switch asks and the agent answers, as pods see it; and rates that the switch keeps.
//! Real switches, real agents, pods made by the plugin.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is the report")]

#[path = "../fabric/cluster.rs"]
#[allow(dead_code, reason = "shared with the tests of clusters, which use the rest")]
mod cluster;
#[path = "../node/lab.rs"]
#[allow(dead_code, reason = "shared with the tests of one node, which use the rest")]
mod lab;
mod rates;

use cluster::{AgentProcess, config_of};
use lab::{NETWORKS, PATIENCE, Pod, configure, port, view};
use osier_testbed::traffic::{self, PacketSocket};
use osier_testbed::{Fabric, Family, Lab, Netns, wait_until};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

/// The tunnels, and what they leave of 1500: Geneve has an option of ours.
const TUNNELS: [(&str, &str); 2] = [("geneve", "1442"), ("vxlan", "1450")];
const ROUTER: &str = "0e:6f:73:69:65:72";

/// Nodes with agents whose pods have interfaces of 1500: more than fits the tunnel.
struct Rig {
    agents: Vec<AgentProcess>,
    _fabric: Fabric,
    lab: Lab,
}

impl Rig {
    fn start(nodes: u8, more: &str) -> Self {
        Self::tunnelled("geneve", nodes, more)
    }

    fn tunnelled(tunnel: &str, nodes: u8, more: &str) -> Self {
        let lab = Lab::new().unwrap();
        let fabric = Fabric::new(&lab, Family::Ipv4, nodes).unwrap();
        let view = view(&fabric, 24).replace("geneve", tunnel) + NETWORKS + more;
        let agents = fabric.nodes().iter().map(|node| {
            let mut text = std::fs::read_to_string(configure(node, &view)).unwrap();
            text.push_str("mtu = 1500\n");
            std::fs::write(config_of(node), text).unwrap();
            AgentProcess::again(node)
        });
        let agents: Vec<_> = agents.collect();
        agents.iter().for_each(AgentProcess::wait_ready);
        Self { agents, _fabric: fabric, lab }
    }

    /// A pod, attached: and its addresses.
    fn pod(&self, node: usize, name: &str) -> (Pod, Vec<IpAddr>) {
        let pod = Pod::at(&self.lab, name, &self.agents[node].socket);
        let addresses = pod.addresses();
        (pod, addresses)
    }
}

fn reaches(from: &Netns, to: IpAddr) {
    traffic::ping_until(from, to, PATIENCE).unwrap();
}

/// Pings with these options until it says all of this. One packet may be lost; an answer that
/// never comes is a failure.
fn pings_until(from: &Netns, options: &[&str], to: IpAddr, says: &[&str]) {
    let what = format!("ping {options:?} to {to} to say {says:?}");
    wait_until(&what, PATIENCE, || {
        let ping = from.command("ping").args(["-n", "-c1", "-W1"]).args(options);
        let said = ping.arg(to.to_string()).output().unwrap();
        let text = said.stdout + &said.stderr;
        if says.iter().all(|word| text.contains(word)) { Ok(()) } else { Err(text) }
    })
    .unwrap();
}

#[test]
fn who_sends_too_much_is_told_what_fits() {
    for (tunnel, mtu) in TUNNELS {
        let rig = Rig::tunnelled(tunnel, 2, "");
        let ((a, _), (_b, to)) = (rig.pod(0, "a"), rig.pod(1, "b"));
        for to in &to {
            reaches(&a.netns, *to);
        }
        // Headers of 28 and 48 bytes make 1500 of it.
        let said = format!("Frag needed and DF set (mtu = {mtu})");
        pings_until(&a.netns, &["-M", "do", "-s", "1472"], to[0], &["From 10.1.1.1 ", &said]);
        let said = format!("Packet too big: mtu={mtu}");
        pings_until(&a.netns, &["-M", "do", "-s", "1452"], to[1], &["From fd01:0:0:1::1 ", &said]);
        for to in to {
            // The kernel believed it, and knows what to do now.
            let route = a.netns.ip(&format!("route get {to}")).unwrap();
            assert!(route.contains(&format!("mtu {mtu}")), "{tunnel}: {route}");
            pings_until(&a.netns, &["-s", "3000"], to, &["3008 bytes from"]);
        }
    }
}

#[test]
fn the_way_can_be_traced() {
    let rig = Rig::start(2, "");
    let ((a, _), (_b, to)) = (rig.pod(0, "a"), rig.pod(1, "b"));
    for to in &to {
        reaches(&a.netns, *to);
    }
    let (v4, v6) = (to[0], to[1]);
    pings_until(&a.netns, &["-t", "1"], v4, &["From 10.1.1.1 ", "Time to live exceeded"]);
    pings_until(&a.netns, &["-t", "1"], v6, &["From fd01:0:0:1::1 ", "Time exceeded: Hop limit"]);
    // One hop from pod to pod, wherever it is.
    for to in to {
        pings_until(&a.netns, &["-t", "2"], to, &["bytes from"]);
    }
}

#[test]
fn routers_are_found_by_their_neighbours() {
    let rest = "mac: '02:00:00:00:00:10', addresses: [10.5.0.10, 'fd05::10']";
    let rig = Rig::start(1, &port("red", "eth0", "red-1", "n1", rest));
    let ((red, _), (a, _)) = (rig.pod(0, "red"), rig.pod(0, "a"));
    let gateway = |pod: &Pod, address: &str| {
        let netns = &pod.netns;
        // The agent gave it for ever; without that, it must be asked for.
        let _ = netns.ip(&format!("neigh del {address} dev eth0"));
        reaches(netns, address.parse().unwrap());
        let found = netns.ip(&format!("neigh show {address} dev eth0")).unwrap();
        assert!(found.contains(ROUTER) && !found.contains("PERMANENT"), "{found:?}");
    };
    for address in ["10.5.0.1", "fd05::1"] {
        gateway(&red, address);
    }
    for address in ["10.1.1.1", "fd01:0:0:1::1"] {
        gateway(&a, address);
    }
    // Also by its address for the link alone, which the kernel may use to ask.
    let mut frame = vec![0x33, 0x33, 0xff, 0, 0, 1, 2, 0, 0, 0, 0, 0x10, 0x86, 0xdd];
    frame.extend([0x60, 0, 0, 0, 0, 32, 58, 255]);
    for address in ["fe80::ff:fe00:10", "ff02::1:ff00:1"] {
        frame.extend(address.parse::<Ipv6Addr>().unwrap().octets());
    }
    frame.extend([135, 0, 0, 0, 0, 0, 0, 0]);
    frame.extend("fd05::1".parse::<Ipv6Addr>().unwrap().octets());
    frame.extend([1, 1, 2, 0, 0, 0, 0, 0x10]);
    let socket = PacketSocket::open(&red.netns, "eth0").unwrap();
    wait_until("an advertisement", PATIENCE, || {
        socket.send(&frame).unwrap();
        let advertised = |seen: &[u8]| seen.len() == 86 && seen[54] == 136;
        let answer = socket.receive(Duration::from_secs(1), advertised).unwrap();
        answer.filter(|answer| answer[..6] == frame[6..12]).map(drop).ok_or("none")
    })
    .unwrap();
}
