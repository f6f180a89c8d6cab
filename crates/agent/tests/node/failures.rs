//! What cannot be done is said, and nothing of it stays.

use crate::lab::{Agent, PATIENCE, Pod, failed, one_node, pod_links, pod_ports, succeeds, view};
use osier_testbed::wait_until;
use std::os::unix::fs::PermissionsExt;

#[test]
fn a_namespace_that_is_none_leaves_nothing_behind() {
    let (lab, fabric) = one_node();
    let node = &fabric.nodes()[0];
    let agent = Agent::start(node, &view(&fabric, 24));
    let pod = Pod::new(&lab, "a", &agent);
    // The plugin itself sees that nothing is there; a file that is no namespace only the agent.
    assert_eq!(failed(&pod.call_with("ADD", "/run/netns/nonexistent"))["code"], 4);
    let error = failed(&pod.call_with("ADD", "/etc/hostname"));
    assert!(error["code"] == 100 || error["code"] == 4, "{error}");
    assert_eq!(pod_ports(node), Vec::<String>::new());
    assert_eq!(pod_links(node), 0);
    // An interface of that name is in the pod already.
    pod.netns.ip("link add eth0 type veth peer name other").unwrap();
    let error = pod.fails("ADD");
    assert!(error["msg"].as_str().unwrap().contains("the kernel refused"), "{error}");
    assert_eq!((pod_ports(node).len(), pod_links(node)), (0, 0));
    pod.netns.ip("link del eth0").unwrap();
    pod.add();
    assert_eq!((pod_ports(node).len(), pod_links(node)), (1, 1));
}

#[test]
fn a_full_block_is_said_and_a_freed_address_is_given_again() {
    let (lab, fabric) = one_node();
    let node = &fabric.nodes()[0];
    // Four addresses: the network, the gateway, one pod, the broadcast.
    let agent = Agent::start(node, &view(&fabric, 30));
    let (first, second) = (Pod::new(&lab, "a", &agent), Pod::new(&lab, "b", &agent));
    let given = first.addresses();
    let error = second.fails("ADD");
    assert_eq!(error["code"], 101);
    assert!(error["msg"].as_str().unwrap().contains("10.1.1.0/30 has no free address"), "{error}");
    assert_eq!(pod_ports(node).len(), 1);
    succeeds(&first.call("DEL"));
    succeeds(&first.call("DEL"));
    assert_eq!(second.addresses()[0], given[0]);
    let links = || match pod_links(node) {
        1 => Ok(()),
        n => Err(format!("{n} links")),
    };
    wait_until("the wire of the first to be gone", PATIENCE, links).unwrap();
}

#[test]
fn wrong_wishes_are_refused() {
    let (lab, fabric) = one_node();
    let node = &fabric.nodes()[0];
    let agent = Agent::start(node, &view(&fabric, 24));
    let mode = std::fs::metadata(&agent.socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut pod = Pod::new(&lab, "a", &agent);
    for (member, value, code, said) in [
        ("bridge", "other0".into(), 7, "bridge other0"),
        ("network", "blue".into(), 11, "no network blue"),
        ("runtimeConfig", serde_json::json!({"ips": ["192.0.2.1"]}), 101, "none of this node's"),
        ("ovs", serde_json::json!({"vxlan": 42}), 11, "no network with VNI 42"),
    ] {
        pod.config[member] = value;
        let error = pod.fails("ADD");
        assert_eq!(error["code"], code, "{error}");
        assert!(error["msg"].as_str().unwrap().contains(said), "{error}");
        pod.config.as_object_mut().unwrap().remove(member);
    }
    assert_eq!(pod_ports(node), Vec::<String>::new());
    pod.add();
}

#[test]
fn a_view_without_this_node_is_waited_for() {
    let (lab, fabric) = one_node();
    let node = &fabric.nodes()[0];
    let good = view(&fabric, 24);
    let agent = Agent::launch(node, &good.replace("name: n1", "name: other"));
    let pod = Pod::new(&lab, "a", &agent);
    assert_eq!(pod.fails("ADD")["code"], 11);
    std::fs::write(node.ovs().dir().join("view.yaml"), &good).unwrap();
    let status = || match pod.call("STATUS") {
        output if output.status.success() => Ok(()),
        output => Err(String::from_utf8_lossy(&output.stdout).into_owned()),
    };
    wait_until("the agent to serve", PATIENCE, status).unwrap();
    pod.add();
    // A second agent on one socket is one too many.
    let second = Agent::launch(node, &good);
    let error = second.stop_by_itself();
    assert!(error.to_string().contains("another agent serves"), "{error}");
}
