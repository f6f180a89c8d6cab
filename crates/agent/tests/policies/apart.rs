//! Namespaces apart: the policies that a controller makes for that, as packets meet them.

use crate::ask::{By, reaches, until_denied, until_reached};
use crate::proxy::proxy;
use crate::stage::{PORT, Stage, policy, selection, service};
use std::net::SocketAddr;

/// `web` and `far` are of one namespace, `near` and `other` of another.
const EVERYONE: [(&str, u32); 4] = [("web", 300), ("near", 400), ("far", 301), ("other", 401)];
/// The Service's addresses.
const VIPS: [&str; 2] = ["10.96.0.10", "fd96::10"];
/// What comes by nodes.
const HOST: u32 = 2;

#[test]
fn a_namespace_is_for_its_own_and_for_nodes_and_the_outside() {
    are_apart(&Stage::new());
}

/// Also by Services to which machines lead: a gateway joins no namespaces.
#[test]
fn a_namespace_is_for_its_own_where_machines_lead() {
    let stage = Stage::new();
    let rules = VIPS.map(|vip| (vip, stage.guest("web").addresses.clone()));
    (0..2).for_each(|n| proxy(stage.node(n), &rules, PORT));
    stage.by_gateway.set(true);
    are_apart(&stage);
}

fn are_apart(stage: &Stage) {
    let apart = |namespace: u32| {
        format!("ingress: [{{ peers: [{{ selection: {namespace} }}, {{ selection: 9 }}] }}]")
    };
    let law = [
        selection(1, &[300, 301]),
        selection(2, &[400, 401]),
        selection(9, &[HOST]),
        policy("one", 1, &apart(1)),
        policy("two", 2, &apart(2)),
        service(stage.guest("web")),
    ];
    stage.tell(&EVERYONE, &law.concat());
    let web = stage.guest("web");
    for ipv6 in [false, true] {
        let vip = SocketAddr::new(VIPS[usize::from(ipv6)].parse().unwrap(), 80);
        until_denied(&stage.guest("near").netns, By::Tcp, web.at(ipv6));
        until_reached(&stage.guest("far").netns, By::Tcp, web.at(ipv6));
        until_reached(&stage.guest("far").netns, By::Tcp, vip);
        until_reached(&stage.guest("other").netns, By::Tcp, stage.guest("near").at(ipv6));
        // Also from another node, whose gateway's address is one of the pods' range.
        until_reached(stage.node(1), By::Tcp, web.at(ipv6));
        until_reached(&stage.outside.netns, By::Tcp, web.at(ipv6));
        for by in [By::Tcp, By::Udp] {
            for (from, to) in [("near", "web"), ("other", "web"), ("web", "near"), ("far", "other")]
            {
                let (from_at, to_at) = (&stage.guest(from).netns, stage.guest(to).at(ipv6));
                assert!(!reaches(from_at, by, to_at), "{from} to {to} {by:?}");
            }
            assert!(!reaches(&stage.guest("near").netns, by, vip), "by its Service {by:?}");
            assert!(reaches(&stage.guest("far").netns, by, vip), "by its Service {by:?}");
            for node in 0..2 {
                assert!(reaches(stage.node(node), by, web.at(ipv6)), "node {node} {by:?}");
            }
            assert!(reaches(&stage.outside.netns, by, web.at(ipv6)), "outside {by:?}");
            assert!(reaches(&web.netns, by, stage.outside.at(ipv6)), "to the outside {by:?}");
        }
    }
}
