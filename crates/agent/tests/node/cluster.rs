//! Two nodes, pods on both: everybody reaches everybody.

use crate::lab::{Agent, PATIENCE, Pod, addresses, succeeds, view};
use osier_testbed::{Fabric, Family, Lab, Netns, traffic};
use serde_json::json;
use std::net::IpAddr;

fn reaches(from: &Netns, to: &[IpAddr]) {
    for address in to {
        let reached = traffic::ping_until(from, *address, PATIENCE);
        assert!(reached.is_ok(), "{} does not reach {address}", from.name());
    }
}

fn cluster(family: Family) {
    let lab = Lab::new().unwrap();
    let fabric = Fabric::new(&lab, family, 2).unwrap();
    let view = view(&fabric, 24);
    let agents: Vec<Agent> = fabric.nodes().iter().map(|node| Agent::start(node, &view)).collect();
    let pods =
        [("a", 0), ("b", 0), ("c", 1)].map(|(name, node)| Pod::new(&lab, name, &agents[node]));
    let given: Vec<Vec<IpAddr>> = pods.iter().map(Pod::addresses).collect();

    // A pod can talk when ADD returns: its first packet to its neighbour arrives.
    let first = traffic::ping(&pods[0].netns, given[1][0], 1).unwrap();
    assert_eq!(first.received, 1, "the first packet was lost");
    for (i, from) in pods.iter().enumerate() {
        for to in given.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, to)| to) {
            reaches(&from.netns, to);
        }
    }
    for (node, n) in fabric.nodes().iter().zip(1..) {
        for to in &given {
            reaches(node.netns(), to);
        }
        let gateways = [IpAddr::from([10, 1, n, 1]), format!("fd01:0:0:{n}::1").parse().unwrap()];
        reaches(&pods[usize::from(n) * 2 - 2].netns, &gateways);
        reaches(&pods[usize::from(n) * 2 - 2].netns, &[node.underlay()]);
    }
    // At full size, in one piece.
    let mtu = pods[0].netns.ip("link show eth0").unwrap();
    let mtu: u32 = mtu.split("mtu ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    let size = (mtu - 28).to_string();
    let to = given[2][0].to_string();
    let ping = ["ping", "-n", "-c3", "-W1", "-M", "do", "-s", &size, &to];
    pods[0].netns.run(&ping).unwrap();
    for pod in &pods {
        succeeds(&pod.call("DEL"));
    }
    for node in fabric.nodes() {
        assert_eq!(crate::lab::pod_ports(node), Vec::<String>::new());
    }
}

#[test]
fn over_ipv4() {
    cluster(Family::Ipv4);
}

#[test]
fn over_ipv6() {
    cluster(Family::Ipv6);
}

#[test]
fn all_calls_of_a_runtime() {
    let (lab, fabric) = crate::lab::one_node();
    let node = &fabric.nodes()[0];
    let agent = Agent::start(node, &view(&fabric, 24));
    let mut pod = Pod::new(&lab, "a", &agent);
    succeeds(&pod.call("STATUS"));
    succeeds(&pod.call("DEL"));
    pod.config["runtimeConfig"] = json!({"ips": ["10.1.1.77/24"], "mac": "02:00:00:00:00:07"});
    let result = pod.add();
    assert!(addresses(&result).contains(&IpAddr::from([10, 1, 1, 77])));
    assert_eq!(result["interfaces"][1]["mac"], "02:00:00:00:00:07");
    assert_eq!(result["interfaces"][1]["sandbox"], pod.path());
    assert_eq!(result["routes"].as_array().unwrap().len(), 2);
    // Twice is once.
    assert_eq!(pod.add(), result);
    assert_eq!(crate::lab::pod_ports(node).len(), 1);
    let host = result["interfaces"][0]["name"].as_str().unwrap();
    let ids = node.ovs().vsctl(&["get", "interface", host, "external_ids"]).unwrap();
    for said in
        ["iface-id=\"shop:a\"", "attached-mac=\"02:00:00:00:00:07\"", "ip-address=\"10.1.1.77,"]
    {
        assert!(ids.contains(said), "{said} in {ids}");
    }

    pod.config["prevResult"] = result;
    succeeds(&pod.call("CHECK"));
    pod.netns.ip("address del 10.1.1.77/32 dev eth0").unwrap();
    let damaged = pod.fails("CHECK");
    assert_eq!(damaged["code"], 103);
    assert!(damaged["msg"].as_str().unwrap().contains("eth0 has no 10.1.1.77"), "{damaged}");
    pod.netns.ip("address add 10.1.1.77/32 dev eth0").unwrap();

    // Only what is not listed goes.
    pod.config["cni.dev/valid-attachments"] =
        json!([{"containerID": pod.container, "ifname": "eth0"}]);
    succeeds(&pod.call("GC"));
    assert_eq!(crate::lab::pod_ports(node).len(), 1);
    pod.config["cni.dev/valid-attachments"] = json!([]);
    succeeds(&pod.call("GC"));
    assert_eq!(crate::lab::pod_ports(node), Vec::<String>::new());
    let unknown = pod.fails("CHECK");
    assert_eq!(unknown["code"], 3);

    let page = crate::lab::metrics(node);
    assert!(page.contains("osier_agent_pod_creation_seconds_count{stage=\"total\"} 1"), "{page}");
    assert!(page.contains("osier_agent_cni_calls_total{command=\"CHECK\",code=\"103\"} 1"));
    assert!(agent.stop().is_ok());
    assert_eq!(pod.fails("ADD")["code"], 11);
}

#[test]
fn a_node_that_comes_later_is_reached() {
    let lab = Lab::new().unwrap();
    let mut fabric = Fabric::new(&lab, Family::Ipv4, 1).unwrap();
    let alone = view(&fabric, 24);
    let first = Agent::start(&fabric.nodes()[0], &alone);
    let pod = Pod::new(&lab, "a", &first);
    pod.add();
    fabric.add_node().unwrap();
    let both = view(&fabric, 24);
    let second = Agent::start(&fabric.nodes()[1], &both);
    let other = Pod::new(&lab, "b", &second);
    let given = other.addresses();
    let file = fabric.nodes()[0].ovs().dir().join("view.yaml");
    // A wrong one in between changes nothing.
    std::fs::write(&file, both.replace("kind: node", "kind: nude")).unwrap();
    std::fs::write(&file, both).unwrap();
    reaches(&pod.netns, &given);
}
