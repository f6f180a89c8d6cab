//! Nodes that have an agent, and their pods.

use crate::rig::{PATIENCE, Rig};
use osier_testbed::{Netns, Process, wait_until};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// The default network, which agents' pods are of.
pub(crate) const MODEL: &str = r#"
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
pub(crate) fn plugin() -> PathBuf {
    let build = osier_testbed::cargo().args(["build", "-q", "-p", "osier-cni"]).status();
    assert!(build.unwrap().success(), "the plugin cannot be built");
    PathBuf::from(env!("CARGO_BIN_EXE_osier")).with_file_name("osier-cni")
}

/// An agent on a node, once it serves.
pub(crate) fn agent(rig: &Rig, node: usize) -> Process {
    let (name, address) = (rig.node(node).name(), rig.node(node).underlay().to_string());
    let token = rig.osier(&["node", "token", name, "--address", &address]);
    let dir = rig.node(node).ovs().dir().display().to_string();
    let controllers: Vec<String> =
        rig.seats.iter().map(|seat| format!("{}:6646", seat.address)).collect();
    let config = format!(
        "node = '{name}'\ndatapath = 'netdev'\novsdb = '{dir}/db.sock'\novs_run_dir = '{dir}'\n\
         cni_socket = '{dir}/cni.sock'\nstate_dir = '{dir}'\ncni_config = '{dir}/osier.conflist'\n\
         [controller]\naddress = {controllers:?}\ntoken_file = '{dir}/token'\n"
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
pub(crate) fn pod(rig: &Rig, plugin: &Path, node: usize, more: &str) -> (Netns, IpAddr) {
    pod_called("tended", rig, plugin, node, more)
}

/// The same, of this name.
pub(crate) fn pod_called(
    name: &str,
    rig: &Rig,
    plugin: &Path,
    node: usize,
    more: &str,
) -> (Netns, IpAddr) {
    let netns = rig.lab.netns(name).unwrap();
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
            .env("CNI_CONTAINERID", name)
            .env("CNI_NETNS", format!("/run/netns/{}", netns.name()))
            .env("CNI_IFNAME", "eth0")
            .env("CNI_ARGS", format!("IgnoreUnknown=1;K8S_POD_NAMESPACE=red;K8S_POD_NAME={name}"))
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
