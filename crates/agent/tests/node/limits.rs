//! Limits: of the runtime and of the view, measured by `iperf3`.

use crate::lab::{Agent, NETWORKS, PATIENCE, Pod, one_node, port, rewrite_view, view};
use osier_testbed::{Netns, Node, traffic, wait_until};
use serde_json::json;
use std::net::IpAddr;

/// Megabits a second that arrive of many more.
fn rate(from: &Netns, to: &Netns, address: IpAddr) -> f64 {
    traffic::iperf_udp(from, to, address, 3, 60).unwrap().mbit_per_second
}

/// Never more than so, give or take what a burst is; and if the machine has the time, not less.
fn is_limited(from: &Netns, to: &Netns, address: IpAddr, wanted: f64) {
    let mut seen = Vec::new();
    for _ in 0..5 {
        let rate = rate(from, to, address);
        assert!(rate < 1.3 * wanted, "{rate} of {wanted} Mbit/s");
        if rate > 0.7 * wanted {
            return;
        }
        seen.push(rate);
    }
    panic!("{seen:?} of {wanted} Mbit/s");
}

fn meters(node: &Node) -> String {
    node.ovs().ofctl(&["dump-meters", "br-int"]).unwrap()
}

fn wait_for_meter(node: &Node, said: &str) {
    let shown = || match meters(node) {
        text if text.contains(said) => Ok(()),
        text => Err(text),
    };
    wait_until(said, PATIENCE, shown).unwrap();
}

#[test]
fn a_runtime_limits_a_pod() {
    let (lab, fabric) = one_node();
    let node = &fabric.nodes()[0];
    let view = view(&fabric, 24);
    let agent = Agent::start(node, &view);
    let mut pod = Pod::new(&lab, "a", &agent);
    pod.config["runtimeConfig"] = json!({"bandwidth": {
        "ingressRate": 20_000_000, "ingressBurst": 2_000_000,
        "egressRate": 10_000_000, "egressBurst": 1_000_000,
    }});
    let given = pod.addresses();
    let free = Pod::new(&lab, "b", &agent);
    let others = free.addresses();
    for (to, other) in [(given[0], others[0]), (given[1], others[1])] {
        traffic::ping_until(&free.netns, to, PATIENCE).unwrap();
        is_limited(&free.netns, &pod.netns, to, 20.0);
        is_limited(&pod.netns, &free.netns, other, 10.0);
    }
    // The next agent knows, and touches nothing.
    let before = meters(node);
    agent.stop().unwrap();
    let agent = Agent::start(node, &view);
    assert_eq!(meters(node), before);
    is_limited(&free.netns, &pod.netns, given[0], 20.0);
    // Asked again with another wish, it is as fast as that says, and nothing else changes.
    pod.config["runtimeConfig"] = json!({"bandwidth": {"ingressRate": 7_000_000}});
    assert_eq!(pod.addresses(), given);
    wait_for_meter(node, "rate=7000");
    assert!(!meters(node).contains("rate=20000"), "{}", meters(node));
    is_limited(&free.netns, &pod.netns, given[0], 7.0);
    pod.call("DEL");
    wait_until("its meters to be gone", PATIENCE, || match meters(node) {
        text if text.contains("rate=7000") => Err(text),
        _ => Ok(()),
    })
    .unwrap();
    drop(agent);
}

#[test]
fn the_view_limits_a_living_pod() {
    let (lab, fabric) = one_node();
    let node = &fabric.nodes()[0];
    let base = view(&fabric, 24) + NETWORKS;
    let limited = |rate: &str| {
        let rest = format!(
            "mac: '02:00:00:00:00:07', addresses: [10.5.0.7], limits: {{ egress: {{ rate: {rate} }} }}"
        );
        base.clone() + &port("a", "eth0", "red-1", "n1", &rest)
    };
    let agent = Agent::start(node, &limited("30000000"));
    let pod = Pod::new(&lab, "a", &agent);
    assert_eq!(pod.addresses(), [IpAddr::from([10, 5, 0, 7])]);
    let mut free = Pod::new(&lab, "b", &agent).second("eth0", "red-1");
    free.config["runtimeConfig"] = json!({"ips": ["10.5.0.8"]});
    let to = free.addresses()[0];
    wait_for_meter(node, "rate=30000");
    rewrite_view(node, &limited("8000000"));
    wait_for_meter(node, "rate=8000");
    traffic::ping_until(&pod.netns, to, PATIENCE).unwrap();
    is_limited(&pod.netns, &free.netns, to, 8.0);
    // Without the view's word it is as its runtime wanted it: free.
    rewrite_view(node, &base);
    wait_until("its meter to be gone", PATIENCE, || match meters(node) {
        text if text.contains("rate=8000") => Err(text),
        _ => Ok(()),
    })
    .unwrap();
    let egress = rate(&pod.netns, &free.netns, to);
    assert!(egress > 1.3 * 8.0, "{egress}");
}
