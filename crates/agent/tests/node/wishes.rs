//! What a configuration's members do: addresses by force, routes, translation, MTU.

use crate::lab::{Agent, PATIENCE, Pod, addresses, one_node, pod_links, pod_ports, view};
use osier_testbed::{traffic, wait_until};
use serde_json::json;
use std::net::IpAddr;

#[test]
fn addresses_change_by_force_only() {
    let (lab, fabric) = one_node();
    let node = &fabric.nodes()[0];
    let agent = Agent::start(node, &view(&fabric, 24));
    let mut pod = Pod::new(&lab, "a", &agent);
    let first = pod.addresses();
    pod.config["runtimeConfig"] = json!({"ips": [first[0].to_string()]});
    assert_eq!(pod.addresses(), first, "it has what is asked for");
    pod.config["runtimeConfig"] = json!({"ips": ["10.1.1.77", "fd01:0:0:1::77"],
        "mac": "02:00:00:00:00:77"});
    let error = pod.fails("ADD");
    assert_eq!(error["code"], 7, "{error}");
    let said = error["msg"].as_str().unwrap();
    assert!(said.contains("has no 10.1.1.77") && said.contains("forceAddress"), "{said}");
    for address in &first {
        assert!(traffic::ping_until(node.netns(), *address, PATIENCE).is_ok(), "it is as it was");
    }
    pod.config["forceAddress"] = json!(true);
    let result = pod.add();
    let wished: [IpAddr; 2] = [[10, 1, 1, 77].into(), "fd01:0:0:1::77".parse().unwrap()];
    assert_eq!(addresses(&result), wished);
    assert_eq!(result["interfaces"][1]["mac"], "02:00:00:00:00:77");
    for address in wished {
        assert!(traffic::ping_until(node.netns(), address, PATIENCE).is_ok(), "{address}");
    }
    assert_eq!((pod_ports(node).len(), pod_links(node)), (1, 1));
    // The old ones are free. Who asks for one of IPv6 alone gets one of the other family, too.
    for (name, at) in [("b", 0), ("c", 1)] {
        let mut other = Pod::new(&lab, name, &agent);
        other.config["runtimeConfig"] = json!({"ips": [first[at].to_string()]});
        let given = other.addresses();
        assert_eq!((given.len(), given[at]), (2, first[at]));
        assert!(traffic::ping_until(node.netns(), first[at], PATIENCE).is_ok(), "{}", first[at]);
    }
    // What another has is not given again.
    let mut late = Pod::new(&lab, "d", &agent);
    late.config["runtimeConfig"] = json!({"ips": ["fd01:0:0:1::77"]});
    assert_eq!(late.fails("ADD")["code"], 101);
}

#[test]
fn one_pod_leaves_with_its_own_address() {
    let (lab, fabric) = one_node();
    let node = &fabric.nodes()[0];
    let outside = IpAddr::from([198, 51, 100, 254]);
    fabric.segment().ip("address add 198.51.100.254/24 dev segment").unwrap();
    let text = view(&fabric, 24);
    let agent = Agent::start(node, &text);
    let usual = Pod::new(&lab, "a", &agent);
    usual.add();
    let mut plain = Pod::new(&lab, "b", &agent);
    plain.config["ipMasq"] = json!(false);
    let address = plain.addresses()[0];
    assert!(traffic::ping_until(&usual.netns, outside, PATIENCE).is_ok());
    // Nobody outside knows the way back to it, until somebody says.
    let lost = traffic::ping(&plain.netns, outside, 2).unwrap();
    assert_eq!(lost.received, 0);
    let route = format!("route add {address}/32 via {}", node.underlay());
    fabric.segment().ip(&route).unwrap();
    assert!(traffic::ping_until(&plain.netns, outside, PATIENCE).is_ok());
    // The next agent knows, and when the pod is gone nothing of it is left.
    agent.stop().unwrap();
    let agent = Agent::start(node, &text);
    let table = || node.netns().run(&["nft", "list", "table", "inet", "osier"]).unwrap();
    assert!(table().contains(&address.to_string()), "{}", table());
    assert!(traffic::ping_until(&plain.netns, outside, PATIENCE).is_ok());
    plain.call("DEL");
    wait_until("the firewall to forget it", PATIENCE, || match table() {
        text if text.contains(&address.to_string()) => Err(text),
        _ => Ok(()),
    })
    .unwrap();
    drop(agent);
}

#[test]
fn routes_and_sizes_are_as_the_configuration_says() {
    let (lab, fabric) = one_node();
    let node = &fabric.nodes()[0];
    let agent = Agent::start(node, &view(&fabric, 24));
    let mut pod = Pod::new(&lab, "a", &agent);
    pod.config["isDefaultGateway"] = json!(false);
    pod.config["mtu"] = json!(1300);
    let result = pod.add();
    assert_eq!(result.get("routes"), None, "{result}");
    assert_eq!(result["interfaces"][1]["mtu"], 1300);
    assert!(pod.netns.ip("link show eth0").unwrap().contains("mtu 1300"));
    // Pods of the cluster, and nothing else.
    let mut pod = Pod::new(&lab, "b", &agent);
    pod.config["isDefaultGateway"] = json!(false);
    pod.config["isGateway"] = json!(true);
    pod.config["mtu"] = json!(9000);
    let result = pod.add();
    assert_eq!(result["routes"][0]["dst"], "10.1.0.0/16");
    assert_eq!(result["interfaces"][1]["mtu"], 1442, "no more than fits the tunnel");
    assert!(traffic::ping_until(&pod.netns, [10, 1, 1, 1].into(), PATIENCE).is_ok());
    assert!(!pod.netns.ip("route").unwrap().contains("default"));
}

#[test]
fn a_pod_reaches_itself_by_the_node_unless_told_not_to() {
    let (lab, fabric) = one_node();
    let node = &fabric.nodes()[0];
    let agent = Agent::start(node, &view(&fabric, 24));
    let mut pods = ["a", "b"].map(|name| Pod::new(&lab, name, &agent));
    pods[1].config["hairpinMode"] = json!(false);
    // As `portmap` does it: a port of the node for each.
    node.netns().run(&["nft", "add", "table", "ip", "ports"]).unwrap();
    let chain = "{ type nat hook prerouting priority dstnat; }";
    node.netns().run(&["nft", "add", "chain", "ip", "ports", "in", chain]).unwrap();
    let underlay = node.underlay().to_string();
    let reached = pods.each_ref().map(|pod| {
        let address = pod.addresses()[0];
        let rule =
            format!("ip daddr {underlay} tcp dport 8080 ip saddr {address} dnat to {address}:7000");
        node.netns().run(&["nft", "add", "rule", "ip", "ports", "in", &rule]).unwrap();
        let _listener = pod.netns.tcp_listen("0.0.0.0:7000".parse().unwrap()).unwrap();
        let to = "8080";
        pod.netns
            .run(&["timeout", "5", "bash", "-c", &format!("</dev/tcp/{underlay}/{to}")])
            .is_ok()
    });
    assert_eq!(reached, [true, false]);
}
