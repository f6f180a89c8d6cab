//! The cluster changes under a running agent: another tunnel, other prefixes, another address.

use crate::lab::{Agent, PATIENCE, Pod, rewrite_view, view};
use osier_testbed::{Fabric, Family, Lab, Netns, Node, traffic, traffic::Pinger, wait_until};
use std::net::IpAddr;

fn reaches(from: &Netns, to: &[IpAddr]) {
    for address in to {
        let reached = traffic::ping_until(from, *address, PATIENCE);
        assert!(reached.is_ok(), "{} does not reach {address}", from.name());
    }
}

fn wait_for_tunnel(node: &Node, wanted: &str) {
    let columns =
        ["--bare", "--columns=type,options,ofport", "find", "interface", "name=osier-tun"];
    wait_until(wanted, PATIENCE, || match node.ovs().vsctl(&columns).unwrap() {
        text if text.contains(wanted) && text.trim_end().ends_with("\n1") => Ok(()),
        text => Err(text),
    })
    .unwrap();
}

fn rewrite_views(nodes: &[Node], view: &str) {
    for node in nodes {
        rewrite_view(node, view);
    }
}

fn mtu(pod: &Pod) -> String {
    let link = pod.netns.ip("link show eth0").unwrap();
    link.split("mtu ").nth(1).unwrap().split(' ').next().unwrap().to_owned()
}

#[test]
fn a_changed_cluster_is_followed_without_a_restart() {
    let lab = Lab::new().unwrap();
    let fabric = Fabric::new(&lab, Family::Ipv4, 2).unwrap();
    let nodes = fabric.nodes();
    let geneve = view(&fabric, 24);
    let agents: Vec<Agent> = nodes.iter().map(|node| Agent::start(node, &geneve)).collect();
    let pods =
        [("a", 0), ("b", 0), ("c", 1)].map(|(name, node)| Pod::new(&lab, name, &agents[node]));
    let given = pods.each_ref().map(Pod::addresses);
    reaches(&pods[0].netns, &given[2]);
    assert_eq!(mtu(&pods[0]), "1442");
    let pinger = Pinger::start(&pods[0].netns, given[1][0]).unwrap();

    // Another kind of tunnel: those who live go on, those who come have more room.
    let vxlan = geneve.replace("tunnel: geneve", "tunnel: vxlan");
    rewrite_views(nodes, &vxlan);
    for node in nodes {
        wait_for_tunnel(node, "vxlan");
    }
    reaches(&pods[0].netns, &given[2]);
    reaches(nodes[1].netns(), &given[0]);
    let new = wait_until("the larger MTU", PATIENCE, || {
        let new = Pod::new(&lab, "new", &agents[0]);
        new.add();
        if mtu(&new) == "1450" { Ok(new) } else { Err(mtu(&new)) }
    })
    .unwrap();
    reaches(&new.netns, &given[2]);

    // Another address of a node's tunnel.
    nodes[0].netns().ip("address add 198.51.100.101/24 dev br-phy").unwrap();
    let moved = vxlan.replace("tunnel: '198.51.100.1'", "tunnel: '198.51.100.101'");
    rewrite_views(nodes, &moved);
    wait_for_tunnel(&nodes[0], "198.51.100.101");
    reaches(&pods[0].netns, &given[2]);
    reaches(&pods[2].netns, &given[1]);

    // Other prefixes of the cluster: the machine's routes follow.
    let wider = moved.replace("10.1.0.0/16", "10.0.0.0/14");
    rewrite_view(&nodes[0], &wider);
    wait_until("the wider route", PATIENCE, || match nodes[0].netns().ip("route").unwrap() {
        routes if routes.contains("10.0.0.0/14") && !routes.contains("10.1.0.0/16") => Ok(()),
        routes => Err(routes),
    })
    .unwrap();
    reaches(nodes[0].netns(), &given[2]);
    // And back: a restart finds nothing to do.
    let back = wider.replace("tunnel: vxlan", "tunnel: geneve");
    rewrite_views(nodes, &back);
    for node in nodes {
        wait_for_tunnel(node, "geneve");
    }
    reaches(&pods[0].netns, &given[2]);
    let loss = pinger.stop().unwrap();
    assert_eq!(loss.lost, 0, "neighbours noticed: {loss:?}");
}
