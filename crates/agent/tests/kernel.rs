//! What we ask of the kernel, judged by `ip` and `ping`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is the report")]

use ipnet::IpNet;
use osier_agent::netlink::{
    HostInterface, HostRoute, Namespace, PodInterface, Veth, create_veth, delete_link, inspect,
    link_exists, mtu_of_address, set_up_host, set_up_pod,
};
use osier_model::Mac;
use osier_testbed::{Lab, Netns};
use std::net::IpAddr;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn path(netns: &Netns) -> String {
    format!("/run/netns/{}", netns.name())
}

#[test]
fn a_pod_can_talk_when_it_is_set_up() {
    let lab = Lab::new().unwrap();
    let (node, pod) = (lab.netns("node").unwrap(), lab.netns("pod").unwrap());
    let namespace = Namespace::open(&path(&pod)).unwrap();
    let veth = Veth {
        host: "veth0000000a".to_owned(),
        peer: "eth0".to_owned(),
        mac: Mac([0x0a, 0x58, 10, 1, 1, 2]),
        mtu: 1400,
    };
    // What a dead agent left is replaced, half made or whole.
    let half = format!("peer name eth0 netns {}", pod.name());
    node.ip(&format!("link add veth0000000a group 28531 type veth {half}")).unwrap();
    for _ in 0..2 {
        node.within(|| create_veth(&veth, &namespace)).unwrap().unwrap();
    }
    let interface = PodInterface {
        name: "eth0".to_owned(),
        addresses: vec![ip("10.1.1.2").into(), ip("fd01::2").into(), net("10.5.0.7/24")],
        routers: vec![ip("10.1.1.1"), ip("fd01::1")],
        router_mac: Mac::GATEWAY,
        routes: vec![
            (net("0.0.0.0/0"), Some(ip("10.1.1.1"))),
            (net("::/0"), Some(ip("fd01::1"))),
            (net("10.6.0.0/16"), None),
        ],
        full_checksums: true,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    // Twice: nothing is made again.
    for _ in 0..2 {
        let work = set_up_pod(&namespace, veth.host.clone(), interface.clone());
        node.within(|| runtime.block_on(work)).unwrap().unwrap().unwrap();
    }

    let link = node.ip("-d link show veth0000000a").unwrap();
    assert!(link.contains("mtu 1400") && link.contains("PROMISC,UP,LOWER_UP"), "{link}");
    let arp =
        node.within(|| std::fs::read_to_string("/proc/sys/net/ipv4/conf/veth0000000a/arp_ignore"));
    assert_eq!(arp.unwrap().unwrap().trim(), "1");
    let addresses = pod.ip("address show eth0 scope global").unwrap();
    assert!(addresses.contains("inet 10.1.1.2/32") && addresses.contains("0a:58:0a:01:01:02"));
    assert!(addresses.contains("inet6 fd01::2/128") && !addresses.contains("tentative"));
    assert!(addresses.contains("inet 10.5.0.7/24"), "{addresses}");
    let routes = pod.ip("route").unwrap();
    assert!(routes.contains("default via 10.1.1.1 dev eth0"), "{routes}");
    assert!(routes.contains("10.6.0.0/16 dev eth0"), "{routes}");
    assert!(pod.ip("-6 route").unwrap().contains("default via fd01::1 dev eth0"));
    let neighbours = pod.ip("neigh").unwrap();
    assert_eq!(neighbours.matches("0e:6f:73:69:65:72 PERMANENT").count(), 2, "{neighbours}");
    let offload = pod.run(&["ethtool", "-k", "eth0"]).unwrap();
    assert!(offload.contains("tx-checksumming: off"), "{offload}");

    let state = runtime.block_on(inspect(&namespace, "eth0".to_owned())).unwrap().unwrap();
    assert!(state.up && state.mac == Some(veth.mac) && state.addresses.contains(&ip("fd01::2")));
    assert!(runtime.block_on(inspect(&namespace, "eth1".to_owned())).unwrap().is_err());

    node.within(|| {
        assert!(link_exists("veth0000000a").unwrap());
        delete_link("veth0000000a").unwrap();
        delete_link("veth0000000a").unwrap();
        assert!(!link_exists("veth0000000a").unwrap());
    })
    .unwrap();
}

#[test]
fn what_belongs_to_others_is_not_replaced() {
    let lab = Lab::new().unwrap();
    let (node, pod) = (lab.netns("node").unwrap(), lab.netns("pod").unwrap());
    node.ip("link add veth0000000b type veth peer name other").unwrap();
    let namespace = Namespace::open(&path(&pod)).unwrap();
    let veth = Veth {
        host: "veth0000000b".to_owned(),
        peer: "eth0".to_owned(),
        mac: Mac([0x0a, 0x58, 10, 1, 1, 2]),
        mtu: 1400,
    };
    let error = node.within(|| create_veth(&veth, &namespace)).unwrap().unwrap_err();
    assert!(error.is_exists(), "{error}");
    assert!(node.ip("link show other").is_ok());
    let error = Namespace::open("/run/netns/nonexistent").unwrap_err();
    assert!(error.to_string().contains("/run/netns/nonexistent"));
}

#[test]
fn the_gateway_has_what_it_shall_have_and_no_more() {
    let lab = Lab::new().unwrap();
    let node = lab.netns("node").unwrap();
    node.ip("link add osier0 type veth peer name switch").unwrap();
    node.ip("link set switch up").unwrap();
    node.ip("address add 10.9.9.9/32 dev osier0").unwrap();
    // What an earlier view had, and what somebody else made.
    node.ip("link set osier0 up").unwrap();
    node.ip("route add 10.7.0.0/16 via 169.254.111.1 dev osier0 onlink proto static").unwrap();
    node.ip("route add 10.8.0.0/16 dev osier0").unwrap();
    let interface = HostInterface {
        name: "osier0".to_owned(),
        mtu: 1300,
        addresses: vec![ip("10.1.1.1"), ip("fd01::1")],
        neighbours: vec![(ip("169.254.111.1"), Mac::FABRIC), (ip("fe80::1"), Mac::FABRIC)],
        routes: vec![
            HostRoute {
                destination: "10.1.0.0/16".parse().unwrap(),
                via: ip("169.254.111.1"),
                source: Some(ip("10.1.1.1")),
            },
            HostRoute {
                destination: "fd01::/48".parse().unwrap(),
                via: ip("fe80::1"),
                source: Some(ip("fd01::1")),
            },
        ],
    };
    for _ in 0..2 {
        node.within(|| set_up_host(&interface)).unwrap().unwrap();
    }
    let shown = node.ip("address show osier0").unwrap();
    assert!(shown.contains("10.1.1.1/32") && shown.contains("fd01::1/128"), "{shown}");
    assert!(!shown.contains("10.9.9.9") && !shown.contains("tentative fd01"), "{shown}");
    let routes = node.ip("route").unwrap() + &node.ip("-6 route").unwrap();
    assert!(routes.contains("10.1.0.0/16 via 169.254.111.1 dev osier0"), "{routes}");
    assert!(routes.contains("fd01::/48 via fe80::1 dev osier0"), "{routes}");
    assert!(!routes.contains("10.7.0.0") && routes.contains("10.8.0.0/16"), "{routes}");
    let mtu = node.within(|| mtu_of_address(ip("fd01::1"))).unwrap().unwrap();
    assert_eq!(mtu, Some(1300));
    assert_eq!(node.within(|| mtu_of_address(ip("fd01::7"))).unwrap().unwrap(), None);
}
