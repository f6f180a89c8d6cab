//! Two nodes, tunnels between them, and traffic through these.
#![allow(missing_docs)]

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use osier_testbed::traffic::{
    Capture, PacketSocket, Pinger, iperf_tcp, iperf_udp, ping, ping_until,
};
use osier_testbed::{
    Endpoint, EndpointConfig, Fabric, FailMode, Family, Lab, NetnsError, Node, Ovs, Tunnel,
    wait_until,
};

const PATIENCE: Duration = Duration::from_secs(20);
const TUNNEL_PORT: u16 = 1;
const KEY: u32 = 42;

/// Two nodes with an endpoint each, joined by a tunnel whose flows `ovs-ofctl` sets.
struct Pair {
    fabric: Fabric,
    endpoints: [Endpoint; 2],
}

fn pair(lab: &Lab, family: Family, tunnel: Tunnel) -> Pair {
    let fabric = Fabric::new(lab, family, 2).expect("two nodes");
    let endpoints = [(0, 1), (1, 0)].map(|(here, there)| {
        let (node, remote) = (&fabric.nodes()[here], &fabric.nodes()[there]);
        node.add_tunnel_port(tunnel, "tunnel", TUNNEL_PORT).expect("a tunnel port");
        let number = 10 + u16::try_from(here).expect("a small number");
        let config = EndpointConfig::numbered(&format!("p{number}"), number);
        let endpoint = node.add_endpoint(&config).expect("an endpoint");
        join(node, remote.underlay(), number);
        endpoint
    });
    Pair { fabric, endpoints }
}

/// Sends all of one port through the tunnel, and all of the tunnel to the port.
fn join(node: &Node, remote: IpAddr, ofport: u16) {
    let destination = if remote.is_ipv6() { "tun_ipv6_dst" } else { "tun_dst" };
    let flows = format!(
        "in_port={ofport} actions=set_field:{KEY}->tun_id,set_field:{remote}->{destination},output:{TUNNEL_PORT}\n\
         in_port={TUNNEL_PORT},tun_id={KEY} actions=output:{ofport}\n"
    );
    node.ovs().add_flows(Node::INTEGRATION, &flows).expect("flows");
}

fn all_addresses_answer(pair: &Pair) {
    let [from, to] = &pair.endpoints;
    for address in to.addresses() {
        ping_until(from.netns(), address, PATIENCE).expect("ping");
        let pings = ping(from.netns(), address, 5).expect("ping");
        assert_eq!((pings.sent, pings.received, pings.rtts.len()), (5, 5, 5));
    }
}

#[test]
fn geneve_over_ipv4() {
    let lab = Lab::new().unwrap();
    let pair = pair(&lab, Family::Ipv4, Tunnel::Geneve);
    let capture = Capture::start(pair.fabric.segment(), "n1", "udp port 6081").unwrap();
    all_addresses_answer(&pair);
    let packets = capture.packets(&[]).unwrap();
    let outer = "IP 198.51.100.1.";
    assert!(packets.iter().any(|p| p.starts_with(outer) && p.contains("vni 0x2a")), "{packets:#?}");
    assert!(capture.stop().unwrap().metadata().unwrap().len() > 24);
}

#[test]
fn geneve_over_ipv6() {
    let lab = Lab::new().unwrap();
    all_addresses_answer(&pair(&lab, Family::Ipv6, Tunnel::Geneve));
}

#[test]
fn vxlan_over_ipv4() {
    let lab = Lab::new().unwrap();
    all_addresses_answer(&pair(&lab, Family::Ipv4, Tunnel::Vxlan));
}

#[test]
fn vxlan_over_ipv6() {
    let lab = Lab::new().unwrap();
    all_addresses_answer(&pair(&lab, Family::Ipv6, Tunnel::Vxlan));
}

#[test]
fn full_sized_packets_fit_and_streams_flow() {
    let lab = Lab::new().unwrap();
    let pair = pair(&lab, Family::Ipv6, Tunnel::Geneve);
    let [from, to] = pair.endpoints.each_ref().map(Endpoint::netns);
    for address in pair.endpoints[1].addresses() {
        ping_until(from, address, PATIENCE).unwrap();
        let tcp = iperf_tcp(from, to, address, 1).unwrap();
        assert!(tcp.mbit_per_second > 1.0, "{tcp:?}");
    }
    let address = pair.endpoints[1].addresses().next().unwrap();
    let udp = iperf_udp(from, to, address, 1, 5).unwrap();
    assert!(udp.sent > 400 && udp.lost < udp.sent / 2, "{udp:?}");
}

#[test]
fn a_pinger_sees_the_gap_of_a_killed_switch() {
    let lab = Lab::new().unwrap();
    let mut pair = pair(&lab, Family::Ipv4, Tunnel::Geneve);
    let from = pair.endpoints[0].netns().clone();
    let to = pair.endpoints[1].addresses().next().unwrap();
    ping_until(&from, to, PATIENCE).unwrap();
    let pinger = Pinger::start(&from, to).unwrap();
    let replies_grow = |by: usize| {
        let goal = pinger.replies() + by;
        wait_until("replies", PATIENCE, || match pinger.replies() {
            n if n >= goal => Ok(()),
            n => Err(format!("{n} of {goal}")),
        })
        .unwrap();
    };
    replies_grow(20);
    pair.fabric.nodes_mut()[1].kill_vswitchd();
    pair.fabric.nodes_mut()[1].start_vswitchd().unwrap();
    join(&pair.fabric.nodes()[1], pair.fabric.nodes()[0].underlay(), 11);
    replies_grow(20);
    let loss = pinger.stop().unwrap();
    assert!(loss.lost > 0 && loss.lost < loss.sent, "{loss:?}");
    assert!(loss.longest_gap > Pinger::INTERVAL * 3, "{loss:?}");
}

#[test]
fn crafted_frames_and_datagrams_arrive_on_one_switch() {
    let lab = Lab::new().unwrap();
    let ovs = Ovs::start(&lab.netns("ovs").unwrap(), "ovs").unwrap();
    ovs.add_bridge("br0", FailMode::Standalone).unwrap();
    let [a, b] = [("a", 10), ("b", 11)].map(|(name, ofport)| {
        Endpoint::attach(&ovs, "br0", &EndpointConfig::numbered(name, ofport)).unwrap()
    });

    let sender = PacketSocket::open(a.netns(), Endpoint::INTERFACE).unwrap();
    let receiver = PacketSocket::open(b.netns(), Endpoint::INTERFACE).unwrap();
    let mut frame = [b.mac().0, a.mac().0].concat();
    frame.extend([0x88, 0xb5]); // the EtherType for local experiments
    frame.extend([0x5a; 50]);
    sender.send(&frame).unwrap();
    let seen = receiver.receive(PATIENCE, |seen| seen.starts_with(&b.mac().0)).unwrap();
    assert_eq!(seen.as_deref(), Some(&frame[..]));
    let none = receiver.receive(Duration::from_millis(50), |seen| seen == frame).unwrap();
    assert_eq!(none, None);

    for (from, to) in a.addresses().zip(b.addresses()) {
        let server = b.netns().udp_bind(SocketAddr::new(to, 7000)).unwrap();
        server.set_read_timeout(Some(PATIENCE)).unwrap();
        let client = a.netns().udp_bind(SocketAddr::new(from, 0)).unwrap();
        client.send_to(b"hello", (to, 7000)).unwrap();
        let mut buffer = [0; 16];
        let (length, peer) = server.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..length], peer), (&b"hello"[..], client.local_addr().unwrap()));
    }

    let host = a.host_interface().to_owned();
    a.detach(&ovs).unwrap();
    assert!(!ovs.vsctl(&["list-ports", "br0"]).unwrap().contains(&host));
    let outside = lab.host().udp_bind("10.77.0.11:7000".parse().unwrap()).unwrap_err();
    let NetnsError::Socket { source, .. } = outside else { panic!("{outside}") };
    assert_eq!(source.kind(), ErrorKind::AddrNotAvailable);
}
