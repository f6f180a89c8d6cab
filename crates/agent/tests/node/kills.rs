//! The real agent, killed at any moment: pods that were told of their addresses keep them, and
//! nothing is left of those that were not.

use crate::lab::{
    PATIENCE, Pod, addresses, configure, executables, one_node, pod_links, pod_ports, succeeds,
    view,
};
use osier_testbed::{Node, Process, Signal, traffic, traffic::Pinger, wait_until};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

const ROUNDS: u64 = 8;
const PODS: usize = 6;

fn start(node: &Node, config: &Path) -> Process {
    let osier = executables().join("osier");
    let command = node.netns().command(osier.to_str().unwrap());
    command.args(["agent".as_ref(), "--config".as_ref(), config.as_os_str()]).spawn().unwrap()
}

fn ready(agent: &Process, pod: &Pod) {
    let status = || match pod.call("STATUS") {
        output if output.status.success() => Ok(()),
        _ => Err(agent.stderr()),
    };
    wait_until("the agent to serve", PATIENCE, status).unwrap();
}

#[test]
fn an_agent_that_is_killed_leaves_nothing_half_made() {
    let (lab, fabric) = one_node();
    let node = &fabric.nodes()[0];
    let config = configure(node, &view(&fabric, 24));
    let socket = node.ovs().dir().join("cni.sock");
    let mut agent = start(node, &config);
    let steady = ["s0", "s1"].map(|name| Pod::at(&lab, name, &socket));
    ready(&agent, &steady[0]);
    let given = steady.each_ref().map(Pod::addresses);
    let flows = || node.ovs().ofctl(&["dump-flows", "br-int"]).unwrap().lines().count();
    let (flows_before, links_before) = (flows(), pod_links(node));
    traffic::ping_until(&steady[0].netns, given[1][0], PATIENCE).unwrap();
    let pinger = Pinger::start(&steady[0].netns, given[1][0]).unwrap();

    let pods: Vec<Pod> = (0..PODS).map(|n| Pod::at(&lab, &format!("p{n}"), &socket)).collect();
    for round in 0..ROUNDS {
        let outputs: Vec<_> = std::thread::scope(|scope| {
            let calls: Vec<_> = pods.iter().map(|pod| scope.spawn(|| pod.call("ADD"))).collect();
            // Not to wait for anything: the moment is what differs from round to round.
            std::thread::sleep(Duration::from_millis(7 * round));
            agent.signal(Signal::SIGKILL).unwrap();
            agent.wait(PATIENCE).unwrap();
            calls.into_iter().map(|call| call.join().unwrap()).collect()
        });
        agent = start(node, &config);
        ready(&agent, &steady[0]);
        let told: Vec<IpAddr> = outputs
            .iter()
            .filter(|output| output.status.success())
            .flat_map(|output| addresses(&succeeds(output)))
            .collect();
        let add = |pod: &Pod| match pod.call("ADD") {
            output if output.status.success() => addresses(&succeeds(&output)),
            output => {
                let said = String::from_utf8_lossy(&output.stdout);
                panic!("round {round}: {}: {said}\n{}", pod.name, agent.stderr());
            }
        };
        let again: Vec<Vec<IpAddr>> = pods.iter().map(add).collect();
        let unique: BTreeSet<IpAddr> = again.iter().chain(&given).flatten().copied().collect();
        assert_eq!(unique.len(), 2 * (PODS + 2), "round {round}: an address was given twice");
        assert!(told.iter().all(|address| unique.contains(address)), "round {round}: {told:?}");
        for pod in &pods {
            succeeds(&pod.call("DEL"));
        }
        assert_eq!(pod_ports(node).len(), 2, "round {round}");
        assert_eq!(flows(), flows_before, "round {round}");
        let links = || match pod_links(node) {
            n if n == links_before => Ok(()),
            n => Err(format!("{n} links")),
        };
        wait_until("the wires to be gone", PATIENCE, links).unwrap();
    }
    let loss = pinger.stop().unwrap();
    assert_eq!(loss.lost, 0, "{loss:?}");
    agent.stop(Signal::SIGTERM, PATIENCE).unwrap();
    assert!(!socket.exists());
}
