//! Nodes without an agent beside nodes that have one.

use crate::rig::{Dial, PATIENCE, Rig};
use crate::tended::{MODEL, agent, plugin, pod};
use osier_testbed::traffic::ping_until;

/// `ipam-odl` is the pool of the network, whoever makes the pod's interface.
#[test]
fn ipam_odl_means_the_pool() {
    let rig = Rig::new(2, Rig::allowed());
    rig.apply(MODEL);
    let plugin = plugin();
    let _agent = agent(&rig, 1);
    rig.put_node(0);
    rig.make_bridge(0, Dial::Switch);
    let pool = r#"{"network":[{"network-id":"red","allocation-pool":[{"subnet":"10.30.0.0/24",
        "allocate-from":"10.30.0.10","allocate-to":"10.30.0.11","gateway":"10.30.0.1"}]}]}"#;
    let path = "/restconf/config/dhcp_allocation_pool:dhcp_allocation_pool/network/red";
    rig.put(path, pool);
    rig.put_pod(5, "tended", "red", 1, "");
    let network = format!("{}:red", rig.node(1).underlay());
    let more = format!(r#","network":"{network}","ipam":{{"type":"ipam-odl"}}"#);
    let (tended, address) = pod(&rig, &plugin, 1, &more);
    assert!(["10.30.0.10", "10.30.0.11"].contains(&address.to_string().as_str()), "{address}");
    let bare = rig.pod(4, "bare", "red", 0);
    bare.reaches(address);
    ping_until(&tended, bare.address, PATIENCE).unwrap();
}

#[test]
fn pods_of_nodes_with_and_without_agents_reach_one_another() {
    let rig = Rig::new(2, Rig::allowed());
    rig.apply(MODEL);
    let plugin = plugin();
    let _agent = agent(&rig, 1);
    let (tended, address) = pod(&rig, &plugin, 1, "");
    rig.put_node(0);
    rig.make_bridge(0, Dial::Switch);
    let bare = rig.pod(4, "bare", "red", 0);
    bare.reaches(address);
    ping_until(&tended, bare.address, PATIENCE).unwrap();
    // A switch that comes from the address of a node with an agent is not driven.
    rig.make_bridge(1, Dial::Switch);
    rig.await_log("which has an agent");
}
