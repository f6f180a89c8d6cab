//! Agents come and go; pods do not notice, and what is gone is tidied up.

use crate::lab::{Agent, PATIENCE, Pod, one_node, pod_ports, succeeds, view};
use osier_testbed::{traffic, traffic::Pinger, wait_until};
use std::time::Duration;

#[test]
fn a_new_agent_takes_over_without_a_packet_lost() {
    let (lab, fabric) = one_node();
    let node = &fabric.nodes()[0];
    let view = view(&fabric, 24);
    let agent = Agent::start(node, &view);
    let pods = ["a", "b"].map(|name| Pod::new(&lab, name, &agent));
    let given = pods.each_ref().map(Pod::addresses);
    let dead = Pod::new(&lab, "dead", &agent);
    dead.add();
    let flows = || {
        let shown = node.ovs().ofctl(&["--no-stats", "dump-flows", "br-int"]).unwrap();
        let mut flows: Vec<String> = shown.lines().map(str::to_owned).collect();
        flows.sort();
        flows
    };
    let (before, ports) = (flows(), pod_ports(node));
    assert_eq!(ports.len(), 3);
    let pinger = Pinger::start(&pods[0].netns, given[1][0]).unwrap();
    let replies = |at_least| {
        wait_until("replies", PATIENCE, || match pinger.replies() {
            n if n >= at_least => Ok(()),
            n => Err(n),
        })
        .unwrap();
    };
    replies(20);
    agent.stop().unwrap();
    // One dies while nobody looks.
    drop(dead);
    replies(40);
    let agent = Agent::start(node, &view);
    replies(pinger.replies() + 50);
    let loss = pinger.stop().unwrap();
    assert_eq!(loss.lost, 0, "{loss:?}");

    assert_eq!(pod_ports(node).len(), 2, "the dead one's port is gone");
    let after = flows();
    assert!(after.iter().all(|flow| before.contains(flow)), "flows were made anew");
    assert!(after.len() < before.len());
    // It knows who has what.
    for (pod, addresses) in pods.iter().zip(given) {
        assert_eq!(pod.addresses(), addresses);
    }
    let new = Pod::new(&lab, "new", &agent);
    let addresses = new.addresses();
    assert!(traffic::ping_until(&pods[0].netns, addresses[0], PATIENCE).is_ok());
    succeeds(&pods[0].call("DEL"));
    assert_eq!(pod_ports(node).len(), 2);
}

#[test]
fn a_freed_address_cools_down_also_across_restarts() {
    let (lab, fabric) = one_node();
    let node = &fabric.nodes()[0];
    // Five for pods.
    let view = view(&fabric, 29);
    let start = || Agent::start_cooling(node, &view, Duration::from_mins(10));
    let agent = start();
    let (freed, dead) = (Pod::new(&lab, "freed", &agent), Pod::new(&lab, "dead", &agent));
    let resting = [freed.addresses()[0], dead.addresses()[0]];
    succeeds(&freed.call("DEL"));
    agent.stop().unwrap();
    // One dies while nobody looks.
    drop(dead);
    start().stop().unwrap();
    let agent = start();
    let pods = ["a", "b", "c"].map(|name| Pod::new(&lab, name, &agent));
    let given = pods.each_ref().map(|pod| pod.addresses()[0]);
    let error = freed.fails("ADD");
    let text = error["msg"].as_str().unwrap();
    assert!(text.contains("3 in use, 2 cooling down"), "{error}");
    assert!(!given.iter().any(|address| resting.contains(address)), "{given:?} {resting:?}");
}

#[test]
fn a_pod_that_is_made_anew_replaces_the_old_one() {
    let (lab, fabric) = one_node();
    let node = &fabric.nodes()[0];
    let agent = Agent::start(node, &view(&fabric, 24));
    let mut pod = Pod::new(&lab, "a", &agent);
    let old = pod.addresses();
    // The same pod in another sandbox, as after a crash of the runtime.
    let namespace = lab.netns("again").unwrap();
    let container = std::mem::replace(&mut pod.container, "another".to_owned());
    let before = std::mem::replace(&mut pod.netns, namespace);
    let new = pod.addresses();
    assert_eq!(pod_ports(node).len(), 1);
    assert_ne!(old, new);
    // The late DEL of the old one does not harm the new one.
    pod.container = container;
    succeeds(&pod.call_with("DEL", &format!("/run/netns/{}", before.name())));
    pod.container = "another".to_owned();
    assert_eq!(pod_ports(node).len(), 1);
    assert!(traffic::ping_until(&pod.netns, [10, 1, 1, 1].into(), PATIENCE).is_ok());
}

#[test]
fn a_switch_that_died_gets_its_flows_back() {
    let (lab, mut fabric) = one_node();
    let view = view(&fabric, 24);
    let agent = Agent::start(&fabric.nodes()[0], &view);
    let pods = ["a", "b"].map(|name| Pod::new(&lab, name, &agent));
    let given = pods.each_ref().map(Pod::addresses);
    let node = &mut fabric.nodes_mut()[0];
    node.kill_vswitchd();
    node.start_vswitchd().unwrap();
    for address in &given[1] {
        assert!(traffic::ping_until(&pods[0].netns, *address, PATIENCE).is_ok());
    }
    // The gateway is put right also after somebody took its address.
    fabric.nodes()[0].netns().ip("address flush dev osier0").unwrap();
    assert!(traffic::ping_until(&pods[0].netns, [10, 1, 1, 1].into(), PATIENCE).is_ok());
    let late = Pod::new(&lab, "late", &agent);
    let addresses = late.addresses();
    assert!(traffic::ping_until(&pods[0].netns, addresses[0], PATIENCE).is_ok());
}
