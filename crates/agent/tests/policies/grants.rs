//! What is granted passes, what is not does not, and answers always do.

use crate::ask::{By, reaches, until_denied, until_reached};
use crate::stage::{PORT, Stage, policy, selection, service};
use std::net::SocketAddr;

const BOTH: [By; 2] = [By::Tcp, By::Udp];
pub(crate) const EVERYONE: [(&str, u32); 4] =
    [("web", 300), ("near", 301), ("far", 301), ("other", 302)];

/// A rule for the port that all listen on.
fn at_port(peers: &str) -> String {
    let range = format!("range: {{ first: {PORT}, last: {PORT} }}");
    format!("{{ {peers}ports: [{{ {range} }}, {{ transport: udp, {range} }}] }}")
}

#[test]
fn a_receiver_is_reached_by_whom_rules_name() {
    receive(&Stage::new());
}

/// Identities go along with VXLAN, too.
#[test]
fn a_receiver_is_reached_over_vxlan_by_whom_rules_name() {
    receive(&Stage::over("vxlan"));
}

fn receive(stage: &Stage) {
    let law = [
        selection(1, &[300]),
        selection(2, &[301]),
        policy("web", 1, &format!("ingress: [{}]", at_port("peers: [{ selection: 2 }], "))),
        service(stage.guest("web")),
    ];
    stage.tell(&EVERYONE, &law.concat());
    let web = stage.guest("web");
    for ipv6 in [false, true] {
        let vip: SocketAddr = if ipv6 { "[fd96::10]:80" } else { "10.96.0.10:80" }.parse().unwrap();
        until_denied(&stage.guest("other").netns, By::Tcp, web.at(ipv6));
        for name in ["near", "far"] {
            until_reached(&stage.guest(name).netns, By::Tcp, web.at(ipv6));
            until_reached(&stage.guest(name).netns, By::Tcp, vip);
        }
        for by in BOTH {
            for name in ["near", "far"] {
                assert!(reaches(&stage.guest(name).netns, by, web.at(ipv6)), "{name} {by:?}");
                assert!(reaches(&stage.guest(name).netns, by, vip), "{name} to its Service {by:?}");
            }
            // Neither by its address nor by its Service, nor from other nodes or outside.
            let others = [&stage.guest("other").netns, stage.node(1), &stage.outside.netns];
            for (n, from) in others.into_iter().enumerate() {
                assert!(!reaches(from, by, web.at(ipv6)), "{n} {by:?}");
            }
            assert!(!reaches(&stage.guest("other").netns, by, vip), "by its Service {by:?}");
            // Its node always, and itself by its Service; and what it sends is nobody's business.
            assert!(reaches(stage.node(0), by, web.at(ipv6)), "its node {by:?}");
            assert!(reaches(&web.netns, by, vip), "itself {by:?}");
            for name in ["near", "far", "other"] {
                assert!(reaches(&web.netns, by, stage.guest(name).at(ipv6)), "to {name} {by:?}");
            }
            assert!(reaches(&web.netns, by, stage.outside.at(ipv6)), "to the outside {by:?}");
        }
    }
    // Who reached it is remembered with the rule: not 0, neither its node nor itself.
    let dumped = stage.cluster.fabric.nodes()[0].ovs();
    let dumped = dumped.appctl(&["dpctl/dump-conntrack", "-m", "netdev@ovs-netdev"]).unwrap();
    assert!(
        dumped.lines().any(|line| line.contains("labels=0x") && line.contains("zone=2")),
        "{dumped}"
    );
}

#[test]
fn a_sender_reaches_whom_rules_name_wherever_they_are() {
    send(&Stage::new());
}

/// And that it is for the receiver's node to judge.
#[test]
fn a_sender_reaches_over_vxlan_whom_rules_name() {
    send(&Stage::over("vxlan"));
}

fn send(stage: &Stage) {
    let law = [
        selection(1, &[301]),
        selection(2, &[300]),
        // Both `near` and `far` may send to `web` and to the machine outside, and nothing else.
        policy(
            "out",
            1,
            &format!(
                "egress: [{}, {}]",
                at_port("peers: [{ selection: 2 }], "),
                at_port(
                    "peers: [{ block: { cidr: 198.51.100.254/32 } }, { block: { cidr: '2001:db8::fe/128' } }], "
                )
            ),
        ),
        service(stage.guest("web")),
    ];
    stage.tell(&EVERYONE, &law.concat());
    let web = stage.guest("web");
    for ipv6 in [false, true] {
        let vip: SocketAddr = if ipv6 { "[fd96::10]:80" } else { "10.96.0.10:80" }.parse().unwrap();
        for name in ["near", "far"] {
            let from = &stage.guest(name).netns;
            until_denied(from, By::Tcp, stage.guest("other").at(ipv6));
            until_reached(from, By::Tcp, web.at(ipv6));
            until_reached(from, By::Tcp, vip);
            for by in BOTH {
                assert!(reaches(from, by, web.at(ipv6)), "{name} to web {by:?}");
                assert!(reaches(from, by, vip), "{name} to its Service {by:?}");
                assert!(
                    !reaches(from, by, stage.guest("other").at(ipv6)),
                    "{name} to other {by:?}"
                );
                assert!(reaches(from, by, stage.outside.at(ipv6)), "{name} to outside {by:?}");
                // It may answer whoever asks, also its own node.
                for asks in ["web", "other"] {
                    let asks = &stage.guest(asks).netns;
                    assert!(reaches(asks, by, stage.guest(name).at(ipv6)), "answers {by:?}");
                }
            }
        }
        assert!(reaches(stage.node(0), By::Tcp, stage.guest("near").at(ipv6)));
        assert!(reaches(stage.node(1), By::Tcp, stage.guest("far").at(ipv6)));
    }
}

/// A node is let in by the addresses of its gateways, which is what a block with its own comes to; its
/// neighbours are not, and it is itself again when that goes.
#[test]
fn a_node_is_let_in_by_its_gateways() {
    let stage = Stage::new();
    let web = stage.guest("web");
    let with = |block: &dyn Fn(u8) -> Vec<std::net::IpAddr>| {
        let blocks = block(2).into_iter().map(|address| {
            let bits = if address.is_ipv4() { 32 } else { 128 };
            format!("{{ block: {{ cidr: '{address}/{bits}' }} }}")
        });
        let peers = format!("peers: [{}], ", blocks.collect::<Vec<_>>().join(", "));
        let rules = format!("ingress: [{}]", at_port(&peers));
        [selection(1, &[300]), policy("web", 1, &rules)].concat()
    };
    let addressing = stage.cluster.addressing;
    stage.tell(&EVERYONE, &with(&|n| addressing.gateways(n)));
    for ipv6 in [false, true] {
        until_denied(&stage.guest("near").netns, By::Tcp, web.at(ipv6));
        until_reached(stage.node(1), By::Tcp, web.at(ipv6));
        for by in BOTH {
            assert!(reaches(stage.node(1), by, web.at(ipv6)), "the other node {by:?}");
            assert!(reaches(stage.node(0), by, web.at(ipv6)), "its own {by:?}");
            // Pods of that node are not it.
            for name in ["near", "far", "other"] {
                assert!(!reaches(&stage.guest(name).netns, by, web.at(ipv6)), "{name} {by:?}");
            }
            assert!(!reaches(&stage.outside.netns, by, web.at(ipv6)), "outside {by:?}");
        }
    }
    // As packets say it: the machine's own address is not in them.
    let own = |n| addressing.outer(n).into_iter().map(|(address, _)| address).collect();
    stage.tell(&EVERYONE, &with(&own));
    for ipv6 in [false, true] {
        until_denied(stage.node(1), By::Tcp, web.at(ipv6));
        assert!(reaches(stage.node(0), By::Udp, web.at(ipv6)), "its own");
    }
}
