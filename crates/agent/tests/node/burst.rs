//! Many at once.

use crate::lab::{Agent, Pod, addresses, one_node, pod_ports, succeeds, view};
use osier_testbed::traffic;
use std::collections::BTreeSet;
use std::net::IpAddr;

const PODS: usize = 32;

#[test]
fn pods_that_come_at_once_share_the_work() {
    let (lab, fabric) = one_node();
    let node = &fabric.nodes()[0];
    let agent = Agent::start(node, &view(&fabric, 24));
    let pods: Vec<Pod> = (0..PODS).map(|n| Pod::new(&lab, &format!("p{n}"), &agent)).collect();
    let given: Vec<Vec<IpAddr>> = std::thread::scope(|scope| {
        let calls: Vec<_> = pods.iter().map(|pod| scope.spawn(|| addresses(&pod.add()))).collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    let all: BTreeSet<IpAddr> = given.iter().flatten().copied().collect();
    assert_eq!(all.len(), 2 * PODS, "an address was given twice");
    assert_eq!(pod_ports(node).len(), PODS);
    for to in &given[1..] {
        let first = traffic::ping(&pods[0].netns, to[1], 1).unwrap();
        assert_eq!(first.received, 1, "{} does not answer", to[1]);
    }
    std::thread::scope(|scope| {
        for pod in &pods {
            scope.spawn(|| succeeds(&pod.call("DEL")));
        }
    });
    assert_eq!(pod_ports(node), Vec::<String>::new());
    let flows = node.ovs().ofctl(&["dump-flows", "br-int"]).unwrap();
    assert!(!flows.contains("10.1.1.9"), "flows of pods were left:\n{flows}");
}
