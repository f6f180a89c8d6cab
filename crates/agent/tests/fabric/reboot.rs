//! A node's machine boots: what was made of interfaces and flows is gone, and the database's file
//! is not. The node is made whole from that, and pods of the old life are forgotten.

use crate::cluster::{Addressing, AgentProcess, Cluster};
use crate::lab::{PATIENCE, pod_links, pod_ports};
use osier_testbed::Signal;
use osier_testbed::traffic::ping_until;

/// Shows another boot id to what runs after it: all else of `/proc` and `/run` stays as it is.
const ANOTHER_BOOT: &str = "mount --bind \"$0\" /proc/sys/kernel/random/boot_id && exec \"$@\"";

#[test]
fn a_machine_that_boots_is_as_before_without_its_pods() {
    let mut cluster = Cluster::start(Addressing::Dual, 2);
    let far = cluster.pod(1, "far");
    let (far_addresses, gone) = (far.addresses(), cluster.pod(0, "gone"));
    let old = gone.addresses();
    // The path and the inode of its namespace are as before: only the boot tells that it is dead.
    let kept = cluster.pod(0, "kept");
    kept.add();
    ping_until(&far.netns, old[0], PATIENCE).unwrap();

    cluster.agents[0].end(Signal::SIGKILL);
    drop(gone);
    cluster.fabric.reboot(0).unwrap();
    for (address, length) in cluster.addressing.outer(1) {
        let node = cluster.fabric.nodes()[0].netns();
        let nodad = if address.is_ipv6() { "nodad" } else { "" };
        node.ip(&format!("address replace {address}/{length} dev br-phy {nodad}")).unwrap();
    }
    cluster.agents[0] = booted(&cluster);
    cluster.agents[0].wait_ready();

    let node = &cluster.fabric.nodes()[0];
    assert_eq!((pod_ports(node), pod_links(node)), (Vec::new(), 0));
    let flows = node.ovs().ofctl(&["dump-flows", "br-int"]).unwrap();
    // Whole words: an address may begin as another does.
    let mut words = flows.split([',', ' ', '=', '(', ')']);
    assert!(!words.any(|word| word.parse().is_ok_and(|word| old.contains(&word))), "{flows}");
    // Its gateway, its tunnel and its way to pods elsewhere are back.
    for address in &far_addresses {
        ping_until(node.netns(), *address, PATIENCE).unwrap();
    }
    // Addresses of the dead are free: here they need not cool down.
    let again = cluster.pod(0, "again");
    let given = again.addresses();
    assert_eq!(given, old);
    for address in &given {
        ping_until(&far.netns, *address, PATIENCE).unwrap();
        ping_until(node.netns(), *address, PATIENCE).unwrap();
    }
    // The one whose namespace is still there can be attached again, as any other.
    let kept = cluster.pod(0, "kept-again");
    kept.add();
    ping_until(&kept.netns, far_addresses[0], PATIENCE).unwrap();
}

/// An agent in another life of the machine.
fn booted(cluster: &Cluster) -> AgentProcess {
    let node = &cluster.fabric.nodes()[0];
    let boot_id = cluster.lab.dir().join("boot_id");
    std::fs::write(&boot_id, "00000000-0000-4000-8000-000000000002\n").unwrap();
    AgentProcess::unshared(node, |command| {
        command.args(["--mount", "--propagation", "slave", "sh", "-c", ANOTHER_BOOT]).arg(boot_id)
    })
}
