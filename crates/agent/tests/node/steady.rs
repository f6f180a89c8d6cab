//! A restart rewrites no flow: its age and its counters go on.

use crate::lab::{Agent, NETWORKS, Pod, one_node, succeeds, view};
use osier_testbed::{Node, traffic};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Instant;

/// What a switch says of a flow.
#[derive(Debug, Clone, PartialEq)]
struct Stats {
    cookie: String,
    seconds: f64,
    packets: u64,
}

/// All flows, by table and match.
fn flows(node: &Node) -> BTreeMap<String, Stats> {
    let shown = node.ovs().ofctl(&["dump-flows", "br-int"]).unwrap();
    let of_line = |line: &str| {
        let value = |key: &str| {
            let (_, rest) = line.split_once(key)?;
            rest.split([',', ' ']).next()
        };
        let (_, matched) = line.split_once("priority=")?;
        let stats = Stats {
            cookie: value("cookie=")?.to_owned(),
            seconds: value("duration=")?.strip_suffix('s')?.parse().ok()?,
            packets: value("n_packets=")?.parse().ok()?,
        };
        Some((format!("{} {matched}", value("table=")?), stats))
    };
    shown.lines().filter_map(of_line).collect()
}

#[test]
fn a_restart_rewrites_no_flow() {
    let (lab, fabric) = one_node();
    let node = &fabric.nodes()[0];
    let view = view(&fabric, 24) + NETWORKS;
    let agent = Agent::start(node, &view);
    // In an order that is not that of their names, with one gone in between, of two networks.
    let pods = ["c", "x", "a", "b"].map(|name| Pod::new(&lab, name, &agent));
    let given = pods.each_ref().map(Pod::addresses);
    succeeds(&pods[1].call("DEL"));
    let mut more = pods[2].second("net1", "red-1");
    more.config["runtimeConfig"] =
        json!({"ips": ["10.5.0.7"], "bandwidth": {"egressRate": 50_000_000}});
    more.add();
    let ping = || {
        let sent = traffic::ping(&pods[0].netns, given[2][0], 3).unwrap();
        assert_eq!(sent.received, 3);
    };
    ping();
    agent.stop().unwrap();
    // Twice: the second one takes over from one that took over itself.
    for _ in 0..2 {
        let (before, since) = (flows(node), Instant::now());
        assert!(before.len() > 40, "{before:?}");
        let agent = Agent::start(node, &view);
        ping();
        nothing_is_new(node, &before, since);
        agent.stop().unwrap();
    }
}

/// All flows are there with their cookies, and are older by as much time as went by.
fn nothing_is_new(node: &Node, before: &BTreeMap<String, Stats>, since: Instant) {
    let went_by = since.elapsed().as_secs_f64();
    let after = flows(node);
    let keys = |flows: &BTreeMap<String, Stats>| flows.keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(before), keys(&after));
    for (flow, old) in before {
        let new = &after[flow];
        assert_eq!(old.cookie, new.cookie, "{flow}");
        assert!(new.packets >= old.packets, "{flow}: {old:?}, then {new:?}");
        // The switch prints thousandths.
        assert!(new.seconds + 0.01 >= old.seconds + went_by, "{flow}: {old:?}, then {new:?}");
    }
}
