//! Agents and switches come and go under traffic; machines boot.

use crate::cluster::{Addressing, AgentProcess, Cluster, config_of};
use crate::lab::{PATIENCE, Pod, executables, pod_ports};
use crate::watch::{Placed, Watch};
use osier_testbed::traffic::ping_until;
use osier_testbed::{Node, Signal};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Two nodes, two pods on the first and one on the second.
fn two_nodes() -> (Cluster, [Placed; 3]) {
    let cluster = Cluster::start(Addressing::Dual, 2);
    let pods = [("here", 0), ("beside", 0), ("far", 1)].map(|(name, node)| {
        let pod = cluster.pod(node, name);
        let given = pod.addresses();
        (pod, given)
    });
    (cluster, pods)
}

fn watch([here, beside, far]: &[Placed; 3]) -> Watch {
    Watch::start(&[(here, beside), (here, far), (far, here)])
}

/// A pod that comes now reaches others: the agent works.
fn newcomer(cluster: &Cluster, name: &str, others: &[Placed; 3]) -> Pod {
    let pod = cluster.pod(0, name);
    pod.add();
    for (_, addresses) in others {
        ping_until(&pod.netns, addresses[0], PATIENCE).unwrap();
    }
    pod
}

#[test]
fn nobody_notices_that_an_agent_goes_and_comes() {
    let (mut cluster, pods) = two_nodes();
    let executable = copy_of_the_agent(&cluster);
    let config = config_of(&cluster.fabric.nodes()[0]);
    // They stay: an interface that goes makes a userspace switch forget its tunnels for a moment
    // (docs/agent.md), whatever agents do.
    let mut newcomers = Vec::new();
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        let watch = watch(&pods);
        cluster.agents[0].end(signal);
        watch.wait_for_more(50);
        cluster.start_agent(0);
        watch.wait_for_more(100);
        let seen = watch.stop();
        eprintln!("{signal}: {} pings, longest gap {:?}", seen.sent(), seen.longest_gap());
        seen.assert_nothing_lost(signal.as_str());
        newcomers.push(newcomer(&cluster, &format!("after-{}", signal as i32), &pods));
    }
    // Now from a file that is replaced under the running agent, as a package does.
    cluster.agents[0].end(Signal::SIGTERM);
    let node = &cluster.fabric.nodes()[0];
    cluster.agents[0] = AgentProcess::run(node, &config, &executable);
    cluster.agents[0].wait_ready();
    let watch = watch(&pods);
    replace(&executable);
    cluster.agents[0].end(Signal::SIGTERM);
    cluster.agents[0] = AgentProcess::run(node, &config, &executable);
    cluster.agents[0].wait_ready();
    watch.wait_for_more(100);
    let seen = watch.stop();
    eprintln!("upgrade: {} pings, longest gap {:?}", seen.sent(), seen.longest_gap());
    seen.assert_nothing_lost("upgrade");
    newcomer(&cluster, "after-upgrade", &pods);
}

/// It must not take the pods that the other is making for leftovers of a dead one.
#[test]
fn an_agent_too_many_changes_nothing() {
    let (cluster, pods) = two_nodes();
    let node = &cluster.fabric.nodes()[0];
    let watch = watch(&pods);
    let mut second = AgentProcess::again(node);
    let mut made = Vec::new();
    // Pods come all the time that it takes to see that it is one too many.
    while second.process.exited().is_none() {
        let pod = cluster.pod(0, &format!("new{}", made.len()));
        let given = pod.addresses();
        made.push((pod, given));
        all_are_there(node, &made);
    }
    let said = second.process.stderr();
    assert!(said.contains("another agent serves"), "{said}");
    watch.stop().assert_nothing_lost("second agent");
    all_are_there(node, &made);
    for (_, given) in &made {
        ping_until(&pods[0].0.netns, given[0], PATIENCE).unwrap();
    }
}

/// Pods of a node have their flows and ports.
fn all_are_there(node: &Node, pods: &[Placed]) {
    let flows = node.ovs().ofctl(&["dump-flows", "br-int"]).unwrap();
    for (pod, given) in pods {
        let known = given.iter().all(|address| flows.contains(&address.to_string()));
        assert!(known, "{} has no flows:\n{flows}", pod.name);
    }
    assert!(pod_ports(node).len() >= pods.len(), "{:?}", pod_ports(node));
}

fn copy_of_the_agent(cluster: &Cluster) -> PathBuf {
    let copy = cluster.lab.dir().join("osier-agent");
    fs::copy(executables().join("osier"), &copy).unwrap();
    copy
}

/// Puts another file in the place of an executable; what is behind an ELF's sections is nobody's.
fn replace(executable: &Path) {
    let new = executable.with_extension("new");
    let mut bytes = fs::read(executable).unwrap();
    bytes.extend(b"another version");
    fs::write(&new, bytes).unwrap();
    fs::set_permissions(&new, fs::metadata(executable).unwrap().permissions()).unwrap();
    fs::rename(&new, executable).unwrap();
}

/// The longest time without an answer while `ovs-vswitchd` is killed and started again at once.
const GAP: Duration = Duration::from_millis(600);

#[test]
fn a_switch_that_is_killed_comes_back_and_connections_live() {
    let (mut cluster, pods) = two_nodes();
    // Twice, so that a switch that came back so comes back again. How long it takes is told by the best:
    // a machine that is busy with other tests adds to it and never takes away, so a third is tried.
    let mut best = Duration::MAX;
    for round in 1..=3 {
        if round == 3 && best <= GAP {
            break;
        }
        let watch = watch(&pods);
        let node = &mut cluster.fabric.nodes_mut()[0];
        node.kill_vswitchd();
        node.start_vswitchd().unwrap();
        watch.wait_for_more(50);
        let seen = watch.stop();
        eprintln!(
            "vswitchd killed, round {round}: longest gap of pings {:?}, of TCP {:?}",
            seen.longest_gap(),
            seen.longest_pause(),
        );
        best = best.min(seen.longest_gap());
    }
    assert!(best <= GAP, "the best of three gaps was {best:?}");
    newcomer(&cluster, "after", &pods);
}
