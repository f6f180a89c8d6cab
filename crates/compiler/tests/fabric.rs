//! What we compile, on real switches: three nodes, pods of both families, a bridged network whose
//! addresses are the default network's again, and a pod that lies.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is the report")]
#![allow(unreachable_pub, reason = "modules that tests share")]

mod real_switch;

use osier_compiler::{Attachment, Compiler, LocalPorts};
use osier_model::{
    Change, Fabric as Cluster, Identity, Limits, Mac, Network, NetworkName, Node as ModelNode,
    NodeName, Object, Port, PortKey, Reach, Router, RouterName, Subnet, Tunnel, Vni, VrfId,
};
use osier_openflow::port_no::PortNo;
use osier_testbed::{
    Endpoint, EndpointConfig, Fabric, Family, Lab, MacAddr, Netns, Node, Tunnel as Kind, traffic,
};
use std::net::IpAddr;
use std::time::Duration;

const TUNNEL: u16 = 1;
const GATEWAY: u16 = 2;
const NODES: u8 = 3;

/// One interface of a pod, and where it is.
struct Pod {
    key: PortKey,
    node: u8,
    network: &'static str,
    ofport: u16,
    addresses: Vec<IpAddr>,
}

fn pod(name: &str, node: u8, network: &'static str, ofport: u16, last: u8) -> Pod {
    let third = if network == "pods" { node } else { 1 };
    let addresses = vec![
        IpAddr::from([10, 1, third, last]),
        IpAddr::from([0xfd01, 0, 0, third.into(), 0, 0, 0, last.into()]),
    ];
    let key = PortKey {
        device: format!("ns:{name}").parse().unwrap(),
        interface: "eth0".parse().unwrap(),
    };
    Pod { key, node, network, ofport, addresses }
}

/// Pods a to d are on the default network; x and y on one of their own, with a's and c's addresses.
fn pods() -> Vec<Pod> {
    vec![
        pod("a", 1, "pods", 11, 5),
        pod("b", 1, "pods", 12, 6),
        pod("c", 2, "pods", 11, 5),
        pod("d", 3, "pods", 11, 5),
        pod("x", 1, "blue", 21, 5),
        pod("y", 2, "blue", 21, 6),
    ]
}

fn name(n: u8) -> NodeName {
    NodeName::new(&format!("n{n}")).unwrap()
}

fn mac(pod: &Pod) -> Mac {
    let mut mac = Mac::of(pod.addresses[0]);
    mac.0[1] ^= u8::from(pod.network == "blue") << 7;
    mac
}

/// The objects of the model, the same in every node's view.
fn objects(fabric: &Fabric) -> Vec<Object> {
    let mut objects = Vec::new();
    for (n, node) in (1..).zip(fabric.nodes()) {
        objects.push(Object::Node(ModelNode {
            name: name(n),
            tunnel: node.underlay(),
            addresses: vec![node.underlay()],
            blocks: vec![
                format!("10.1.{n}.0/24").parse().unwrap(),
                format!("fd01:0:0:{n}::/64").parse().unwrap(),
            ],
            zone: None,
        }));
    }
    let router = |name, vrf| {
        Object::Router(Router { name: RouterName::new(name).unwrap(), vrf: VrfId(vrf) })
    };
    objects.extend([router("default", 0), router("shop", 7)]);
    let network = |name, vni, router, reach, subnets| {
        Object::Network(Network {
            name: NetworkName::new(name).unwrap(),
            vni: Vni::new(vni).unwrap(),
            router: Some(RouterName::new(router).unwrap()),
            reach,
            subnets,
            dhcp_servers: Vec::new(),
            dhcp: None,
        })
    };
    objects.push(network("pods", 1, "default", Reach::Routed, vec![]));
    let subnet = |cidr: &str, gateway: &str| Subnet {
        cidr: cidr.parse().unwrap(),
        gateway: Some(gateway.parse().unwrap()),
    };
    let subnets =
        vec![subnet("10.1.1.0/24", "10.1.1.1"), subnet("fd01:0:0:1::/64", "fd01:0:0:1::1")];
    objects.push(network("blue", 4096, "shop", Reach::Bridged, subnets));
    for pod in pods() {
        objects.push(Object::Port(Port {
            key: pod.key.clone(),
            network: NetworkName::new(pod.network).unwrap(),
            node: name(pod.node),
            mac: mac(&pod),
            addresses: pod.addresses.clone(),
            identity: Identity::ANY,
            limits: Limits::default(),
        }));
    }
    objects
}

/// The machine's own interface on the switch, with its way to all pods.
fn add_gateway(node: &Node, n: u8) {
    let ofport = format!("ofport_request={GATEWAY}");
    let address = format!("mac=\"{}\"", Mac::GATEWAY);
    node.ovs()
        .vsctl(&[
            "add-port",
            "br-int",
            "osier0",
            "--",
            "set",
            "interface",
            "osier0",
            "type=internal",
            &ofport,
            &address,
        ])
        .unwrap();
    let ip = |command: &str| node.netns().ip(command).unwrap();
    ip(&format!("addr add 10.1.{n}.1/32 dev osier0"));
    ip(&format!("addr add fd01:0:0:{n}::1/128 dev osier0 nodad"));
    ip("link set osier0 up");
    ip(&format!("neigh replace 169.254.111.1 lladdr {} dev osier0 nud permanent", Mac::FABRIC));
    ip(&format!("neigh replace fe80::1 lladdr {} dev osier0 nud permanent", Mac::FABRIC));
    ip(&format!("route add 10.1.0.0/16 via 169.254.111.1 dev osier0 onlink src 10.1.{n}.1"));
    ip(&format!("route add fd01::/48 via fe80::1 dev osier0 onlink src fd01:0:0:{n}::1"));
}

/// As an agent would: address, gateway and permanent neighbour; nothing to resolve.
fn add_pod(node: &Node, pod: &Pod) -> Endpoint {
    let bridged = pod.network == "blue";
    let length = |a: &IpAddr| match (bridged, a.is_ipv4()) {
        (true, true) => 24,
        (true, false) => 64,
        (false, true) => 32,
        (false, false) => 128,
    };
    let config = EndpointConfig {
        name: pod.key.device.as_str().replace("ns:", "pod-"),
        ofport: pod.ofport,
        mac: MacAddr(mac(pod).0),
        addresses: pod.addresses.iter().map(|a| (*a, length(a))).collect(),
        mtu: None,
    };
    let endpoint = node.add_endpoint(&config).unwrap();
    let n = if bridged { 1 } else { pod.node };
    for gateway in [format!("10.1.{n}.1"), format!("fd01:0:0:{n}::1")] {
        let ip = |command: &str| endpoint.netns().ip(command).unwrap();
        ip(&format!("neigh replace {gateway} lladdr {} dev eth0 nud permanent", Mac::GATEWAY));
        ip(&format!("route replace default via {gateway} dev eth0 onlink"));
    }
    endpoint
}

async fn program(node: &Node, n: u8, objects: &[Object], tunnel: Tunnel) {
    let local = LocalPorts {
        gateway: PortNo(GATEWAY.into()),
        service_gateway: None,
        tunnel: PortNo(TUNNEL.into()),
        tunnel_mtu: None,
        connection_rate: Some(1000),
    };
    let cluster = Cluster { tunnel, ..Cluster::default() };
    let mut compiler = Compiler::new(name(n), cluster, local);
    for object in objects {
        compiler.apply(Change::Put(object.clone())).unwrap();
    }
    for pod in pods().into_iter().filter(|p| p.node == n) {
        let at =
            Attachment { ofport: PortNo(pod.ofport.into()), tag: pod.ofport.into(), mtu: None };
        compiler.attach(pod.key, at).unwrap();
    }
    real_switch::program(node.ovs(), Node::INTEGRATION, &compiler).await;
}

/// Whether pings come back. Loss is for other tests: the userspace datapath drops what it must
/// resolve the underlay's neighbour for.
fn assert_reaches(from: &Netns, to: &[IpAddr]) {
    for address in to {
        let reached = traffic::ping_until(from, *address, Duration::from_secs(10));
        assert!(reached.is_ok(), "{} does not reach {address}", from.name());
    }
}

fn assert_pings(from: &Endpoint, to: &[IpAddr]) {
    assert_reaches(from.netns(), to);
}

async fn cluster(family: Family, tunnel: Tunnel) {
    let lab = Lab::new().unwrap();
    let fabric = Fabric::new(&lab, family, NODES).unwrap();
    let objects = objects(&fabric);
    let mut endpoints = Vec::new();
    for (n, node) in (1..).zip(fabric.nodes()) {
        let kind = if tunnel == Tunnel::Geneve { Kind::Geneve } else { Kind::Vxlan };
        node.add_tunnel_port(kind, "osier-tun", TUNNEL).unwrap();
        add_gateway(node, n);
        endpoints.extend(
            pods().iter().filter(|p| p.node == n).map(|p| (p.key.to_string(), add_pod(node, p))),
        );
        program(node, n, &objects, tunnel).await;
    }
    let of =
        |name: &str| &endpoints.iter().find(|(key, _)| key == &format!("ns:{name}")).unwrap().1;
    let addresses = |name: &str| of(name).addresses().collect::<Vec<_>>();

    // Every pair on the default network, in both families, without resolving anything.
    for from in ["a", "b", "c", "d"] {
        for to in ["a", "b", "c", "d"].into_iter().filter(|to| *to != from) {
            assert_pings(of(from), &addresses(to));
        }
    }
    // Nodes and pods, both ways, on the same node and across.
    for (n, node) in (1_u8..).zip(fabric.nodes()) {
        for to in ["a", "c"] {
            assert_reaches(node.netns(), &addresses(to));
        }
        let gateways =
            [IpAddr::from([10, 1, n, 1]), IpAddr::from([0xfd01, 0, 0, n.into(), 0, 0, 0, 1])];
        assert_pings(of("a"), &gateways);
        assert_pings(of("a"), &[node.underlay()]);
    }
    // The same addresses in another router, bridged: neighbours are resolved, the router answers.
    assert_pings(of("x"), &addresses("y"));
    assert_pings(of("y"), &addresses("x"));
    assert_pings(of("x"), &["10.1.1.1".parse().unwrap(), "fd01:0:0:1::1".parse().unwrap()]);
    // A pod that uses another's address reaches nobody.
    let liar = of("b").netns();
    for address in ["10.1.1.77/32", "fd01:0:0:1::77/128"] {
        liar.ip(&format!("addr add {address} dev eth0 nodad")).ok();
    }
    for (source, to) in ["10.1.1.77", "fd01:0:0:1::77"].iter().zip(addresses("a")) {
        let out = liar
            .command("ping")
            .args(["-c1", "-W1", "-I", source, &to.to_string()])
            .output()
            .unwrap();
        assert!(!out.status.success(), "{source} was believed");
    }
}

#[tokio::test]
async fn geneve_over_ipv4() {
    cluster(Family::Ipv4, Tunnel::Geneve).await;
}

#[tokio::test]
async fn geneve_over_ipv6() {
    cluster(Family::Ipv6, Tunnel::Geneve).await;
}

#[tokio::test]
async fn vxlan_over_ipv4() {
    cluster(Family::Ipv4, Tunnel::Vxlan).await;
}
