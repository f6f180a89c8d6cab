//! The configurations of the systems before ours, under their names.

use crate::lab::{PATIENCE, addresses, pod_ports};
use crate::runtime::Runtime;
use crate::verbs::is_clean;
use osier_testbed::traffic;
use serde_json::{Value, json};

/// Attaches a container, sees it talk, and detaches it twice.
fn lives(runtime: &Runtime, name: &str) -> Value {
    let container =
        runtime.container(name).named("IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-0");
    let result = container.does("add");
    let node = runtime.node();
    assert!(traffic::ping_until(node.netns(), addresses(&result)[0], PATIENCE).is_ok());
    assert!(traffic::ping_until(&container.netns, node.underlay(), PATIENCE).is_ok());
    // No switch gets a master because of a file that was left over.
    assert_eq!(node.ovs().vsctl(&["get-manager"]).unwrap(), "");
    assert_eq!(node.ovs().vsctl(&["get-controller", "br-int"]).unwrap(), "");
    let foreign = |name: &&str| !["br-int", "br-phy"].contains(name);
    assert_eq!(node.ovs().vsctl(&["list-br"]).unwrap().lines().find(foreign), None);
    container.does("del");
    // There a second DEL was error 100.
    container.does("del");
    is_clean(runtime);
    result
}

#[test]
fn odlovs_cni() {
    let runtime = Runtime::new();
    let data = runtime.lab.make_dir("leases").unwrap();
    // As its set-up script writes it.
    let config = json!({"type": "odlovs-cni", "agentSocket": runtime.socket(),
        "mgrPort": 6640, "mgrActive": true, "manager": "192.0.2.1", "ovsBridge": "br-int",
        "ctlrPort": 6653, "ctlrActive": true, "controller": "192.0.2.1", "externalIntf": "enp0s9",
        "externalIp": "192.0.2.11", "clusterId": "00000000-0000-0000-0000-000000000001",
        "ipam": {"type": "host-local", "subnet": "10.1.1.0/24", "rangeStart": "10.1.1.10",
            "rangeEnd": "10.1.1.150", "routes": [{"dst": "0.0.0.0/0"}], "gateway": "10.1.1.1",
            "dataDir": data}});
    for version in ["0.3.0", "0.3.1", "0.4.0"] {
        runtime.configure_alone(version, config.clone());
        let result = lives(&runtime, &format!("a{}", version.replace('.', "")));
        assert_eq!(result["routes"][0]["dst"], "0.0.0.0/0");
    }
    // Empty addresses are as good as none; another bridge is not ours.
    let mut empty = config.clone();
    (empty["manager"], empty["mgrActive"]) = (json!(""), json!(false));
    (empty["externalIntf"], empty["externalIp"]) = (json!(""), json!(""));
    runtime.configure_alone("0.3.0", empty);
    lives(&runtime, "b");
    let mut other = config;
    other["ovsBridge"] = json!("ovsbrk8s");
    runtime.configure_alone("0.3.0", other);
    let said = runtime.container("c").fails("add");
    assert!(said.contains("ovsbrk8s") && said.contains("br-int"), "{said}");
    assert_eq!(pod_ports(runtime.node()), Vec::<String>::new());
}

#[test]
fn odlcoe() {
    let runtime = Runtime::new();
    let settings = json!({"manager": "192.0.2.1", "mgrPort": 6640, "mgrActive": true,
        "ovsBridge": "br-int", "controller": "192.0.2.1", "ctlrPort": 6653, "ctlrActive": true,
        "vtepIps": ["192.0.2.11", "192.0.2.12"], "isMaster": false});
    for (name, member) in [
        ("a", json!({"ovsConfig": settings})),
        ("b", json!({"runtimeConfig": {"ovsConfig": settings}})),
    ] {
        let mut plugin = json!({"type": "odlcoe", "agentSocket": runtime.socket()});
        plugin.as_object_mut().unwrap().extend(member.as_object().unwrap().clone());
        let portmap = json!({"type": "portmap", "capabilities": {"portMappings": true}});
        runtime.configure("0.3.1", &[plugin, portmap]);
        lives(&runtime, name);
    }
}

#[test]
fn ovs_odl() {
    let runtime = Runtime::new();
    let config = |vxlan: Value| {
        json!({"type": "ovs-odl", "agentSocket": runtime.socket(), "isDefaultGateway": true,
            "forceAddress": false, "ipMasq": true, "hairpinMode": true,
            "ovs": {"bridge": "br-int", "vxlan": vxlan}, "ipam": {"type": "ipam-odl"}})
    };
    for vxlan in [json!("1"), json!("00001"), json!(1)] {
        runtime.configure_alone("0.3.1", config(vxlan));
        lives(&runtime, "a");
    }
    runtime.configure_alone("0.3.1", config(json!("00042")));
    let said = runtime.container("b").fails("add");
    assert!(said.contains("42"), "{said}");
    // Without a default route the pod keeps to its node.
    let mut config = config(json!(1));
    config["isDefaultGateway"] = json!(false);
    runtime.configure_alone("0.3.1", config);
    let container = runtime.container("c");
    let result = container.does("add");
    assert_eq!(result.get("routes"), None, "{result}");
    assert!(!container.netns.ip("route").unwrap().contains("default"));
    container.does("del");
    is_clean(&runtime);
}
