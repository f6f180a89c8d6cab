//! Nodes without an agent beside nodes that have one.

use crate::rig::{Dial, PATIENCE, Rig};
use osier_testbed::traffic::ping_until;
use osier_testbed::{Netns, Process, wait_until};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

const MODEL: &str = r#"
apiVersion: osier.dev/v1alpha1
kind: Fabric
metadata: { name: default }
spec: { cluster: ["10.1.0.0/16"] }
---
apiVersion: osier.dev/v1alpha1
kind: Router
metadata: { name: default }
spec: { vrf: 0 }
---
apiVersion: osier.dev/v1alpha1
kind: Network
metadata: { name: pods }
spec: { vni: 1, router: default, reach: routed }
"#;

/// The plugin of agents, built where this test is.
fn plugin() -> PathBuf {
    let build = Command::new(env!("CARGO")).args(["build", "-q", "-p", "osier-cni"]).status();
    assert!(build.unwrap().success(), "the plugin cannot be built");
    PathBuf::from(env!("CARGO_BIN_EXE_osier")).with_file_name("osier-cni")
}

/// An agent on a node, once it serves.
fn agent(rig: &Rig, node: usize) -> Process {
    let (name, address) = (rig.node(node).name(), rig.node(node).underlay().to_string());
    let token = rig.osier(&["node", "token", name, "--address", &address]);
    let dir = rig.node(node).ovs().dir().display().to_string();
    let config = format!(
        "node = '{name}'\ndatapath = 'netdev'\novsdb = '{dir}/db.sock'\novs_run_dir = '{dir}'\n\
         cni_socket = '{dir}/cni.sock'\nstate_dir = '{dir}'\ncni_config = '{dir}/osier.conflist'\n\
         [controller]\naddress = '198.51.100.250:6646'\ntoken_file = '{dir}/token'\n"
    );
    std::fs::write(format!("{dir}/token"), token).unwrap();
    std::fs::write(format!("{dir}/agent.toml"), config).unwrap();
    let command = rig.node(node).netns().command(env!("CARGO_BIN_EXE_osier"));
    let process =
        command.args(["agent", "--config", &format!("{dir}/agent.toml")]).spawn().unwrap();
    let serves = || match Path::new(&format!("{dir}/cni.sock")).exists() {
        true => Ok(()),
        false => Err(process.stderr()),
    };
    wait_until("the agent", PATIENCE, serves).unwrap();
    process
}

/// A pod that an agent makes, with more in its configuration: its namespace and its address.
fn pod(rig: &Rig, plugin: &Path, node: usize, more: &str) -> (Netns, IpAddr) {
    let netns = rig.lab.netns("tended").unwrap();
    let socket = rig.node(node).ovs().dir().join("cni.sock");
    let config = format!(
        r#"{{"cniVersion":"1.1.0","name":"net","type":"osier","agentSocket":"{}"{more}}}"#,
        socket.display()
    );
    // A network that the agent has yet to hear of is a reason that passes.
    let mut address = None;
    wait_until("the pod", PATIENCE, || {
        let command = rig.node(node).netns().command(&plugin.display().to_string());
        let said = command
            .env("CNI_COMMAND", "ADD")
            .env("CNI_CONTAINERID", "tended")
            .env("CNI_NETNS", format!("/run/netns/{}", netns.name()))
            .env("CNI_IFNAME", "eth0")
            .env("CNI_ARGS", "IgnoreUnknown=1;K8S_POD_NAMESPACE=red;K8S_POD_NAME=tended")
            .env("CNI_PATH", "/opt/cni/bin")
            .input(config.clone())
            .output()
            .unwrap()
            .stdout;
        address = said.split('"').find_map(|word| word.strip_suffix("/32")?.parse().ok());
        address.map(drop).ok_or(said)
    })
    .unwrap();
    (netns, address.unwrap())
}

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
