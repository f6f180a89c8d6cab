//! The configurations of the systems before ours, under their names.

use crate::lab::{NETWORKS, PATIENCE, addresses, pod_ports, port, rewrite_view, view};
use crate::runtime::{REFERENCE, Runtime};
use crate::verbs::is_clean;
use osier_testbed::{traffic, wait_until};
use serde_json::{Value, json};
use std::os::unix::net::UnixStream;

/// Attaches a container, sees it talk, and detaches it twice.
fn lives(runtime: &Runtime, name: &str) -> Value {
    lives_on(runtime, name, "br-int")
}

/// The same where the agent's bridge has another name.
fn lives_on(runtime: &Runtime, name: &str, bridge: &str) -> Value {
    let container =
        runtime.container(name).named("IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-0");
    let result = container.does("add");
    let node = runtime.node();
    assert!(traffic::ping_until(node.netns(), addresses(&result)[0], PATIENCE).is_ok());
    assert!(traffic::ping_until(&container.netns, node.underlay(), PATIENCE).is_ok());
    // No switch gets a master because of a file that was left over.
    assert_eq!(node.ovs().vsctl(&["get-manager"]).unwrap(), "");
    assert_eq!(node.ovs().vsctl(&["get-controller", bridge]).unwrap(), "");
    let ports = || node.ovs().vsctl(&["--no-wait", "list-ports", bridge]).unwrap();
    assert_eq!(ports().matches("veth").count(), 1, "{}", ports());
    // The lab made the first two.
    let foreign = |name: &&str| !["br-int", "br-phy", bridge].contains(name);
    assert_eq!(node.ovs().vsctl(&["list-br"]).unwrap().lines().find(foreign), None);
    container.does("del");
    // There a second DEL was error 100.
    container.does("del");
    is_clean(runtime);
    assert_eq!(ports().matches("veth").count(), 0, "{}", ports());
    result
}

/// As its set-up script writes it.
fn odlovs_cni_config(runtime: &Runtime, bridge: &str) -> Value {
    let data = runtime.lab.make_dir("leases").unwrap();
    json!({"type": "odlovs-cni", "agentSocket": runtime.socket(),
        "mgrPort": 6640, "mgrActive": true, "manager": "192.0.2.1", "ovsBridge": bridge,
        "ctlrPort": 6653, "ctlrActive": true, "controller": "192.0.2.1", "externalIntf": "enp0s9",
        "externalIp": "192.0.2.11", "clusterId": "00000000-0000-0000-0000-000000000001",
        "ipam": {"type": "host-local", "subnet": "10.1.1.0/24", "rangeStart": "10.1.1.10",
            "rangeEnd": "10.1.1.150", "routes": [{"dst": "0.0.0.0/0"}], "gateway": "10.1.1.1",
            "dataDir": data}})
}

#[test]
fn odlovs_cni() {
    let runtime = Runtime::new();
    let config = odlovs_cni_config(&runtime, "br-int");
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

/// The name that its documentation has: the agent is told the same one.
#[test]
fn odlovs_cni_on_its_own_bridge() {
    const BRIDGE: &str = "ovsbrk8s";
    let runtime = Runtime::on_bridge(BRIDGE);
    let config = odlovs_cni_config(&runtime, BRIDGE);
    runtime.configure_alone("0.3.0", config.clone());
    lives_on(&runtime, "a", BRIDGE);
    let mut other = config;
    (other["ovsBridge"], other["ipam"]) = (json!("br-int"), json!({}));
    runtime.configure_alone("0.3.0", other.clone());
    let said = runtime.container("b").fails("add");
    assert!(said.contains("ovsbrk8s") && said.contains("br-int"), "{said}");
    // Who names none takes what is there, and so both families.
    other.as_object_mut().unwrap().remove("ovsBridge");
    runtime.configure_alone("0.3.1", other);
    let result = lives_on(&runtime, "c", BRIDGE);
    assert_eq!(addresses(&result).len(), 2, "{result}");
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

/// Its other way to addresses: the plugin's daemon asks a server of the network.
#[test]
fn ovs_odl_with_dhcp() {
    let runtime = Runtime::new();
    let node = runtime.node();
    let rest = "mac: '02:00:00:00:00:02', addresses: [10.5.0.2]";
    let more = NETWORKS.to_owned() + &port("server", "eth0", "red-1", "n1", rest);
    rewrite_view(node, &(view(&runtime.fabric, 24) + &more));
    let named = |name: &str| {
        let said = format!("IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME={name}");
        runtime.container(name).named(&said)
    };
    let config = |ipam: Value| {
        json!({"type": "ovs-odl", "agentSocket": runtime.socket(), "isDefaultGateway": true,
            "ipMasq": true, "ovs": {"bridge": "br-int", "vxlan": "00031"}, "ipam": ipam})
    };
    runtime.configure_alone("0.3.1", config(json!({"type": "odl-ipam"})));
    let server = named("server");
    wait_until("the agent to know the network", PATIENCE, || match server.run("add") {
        output if output.status.success() => Ok(()),
        output => Err(output.stderr),
    })
    .unwrap();
    let leases = runtime.lab.dir().join("dnsmasq.leases");
    let flags = ["--no-daemon", "--conf-file=/dev/null", "--port=0", "--user=root", "--pid-file="];
    let range = "--dhcp-range=10.5.0.50,10.5.0.60,255.255.255.0,120s";
    let router = "--dhcp-option=option:router,10.5.0.1";
    let dnsmasq = server.netns.command("dnsmasq").args(flags).args([router, "--no-ping"]);
    let dnsmasq = dnsmasq.args(["--dhcp-authoritative", range]);
    let _dnsmasq = dnsmasq.arg(format!("--dhcp-leasefile={}", leases.display())).spawn().unwrap();
    let socket = runtime.lab.dir().join("dhcp.sock");
    let daemon = node.netns().command(&format!("{REFERENCE}/dhcp"));
    let _daemon = daemon.arg("daemon").arg("-socketpath").arg(&socket).spawn().unwrap();
    let listening = || UnixStream::connect(&socket).map(drop);
    wait_until("the daemon to listen", PATIENCE, listening).unwrap();

    runtime.configure_alone("0.3.1", config(json!({"type": "dhcp", "daemonSocketPath": socket})));
    let client = named("client");
    let result = client.does("add");
    let address = addresses(&result)[0];
    let leased = || std::fs::read_to_string(&leases).unwrap_or_default();
    assert!(leased().contains(&address.to_string()), "{result}: {}", leased());
    let routes = client.netns.ip("route").unwrap();
    assert!(routes.contains("default via 10.5.0.1 dev eth0"), "{routes}");
    assert!(traffic::ping_until(&client.netns, [10, 5, 0, 2].into(), PATIENCE).is_ok());
    assert!(traffic::ping_until(&server.netns, address, PATIENCE).is_ok());
    client.does("del");
    wait_until("the server to hear of it", PATIENCE, || match leased() {
        text if text.contains(&address.to_string()) => Err(text),
        _ => Ok(()),
    })
    .unwrap();
    client.does("del");
    server.does("del");
    is_clean(&runtime);
}
