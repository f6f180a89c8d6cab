//! What repeats, what is gone already, and what CHECK and GC find.

use crate::invocation::Invocation;
use crate::lab::{PATIENCE, addresses, pod_ports};
use crate::runtime::Runtime;
use crate::verbs::is_clean;
use osier_testbed::{traffic, wait_until};
use serde_json::json;

#[test]
fn adding_twice_is_adding_once() {
    let runtime = Runtime::new();
    let netns = runtime.lab.netns("a").unwrap();
    let call = Invocation::new(&runtime, "ADD", &netns);
    let first = call.does();
    assert_eq!(call.does(), first);
    assert_eq!(pod_ports(runtime.node()).len(), 1);
    assert!(traffic::ping_until(runtime.node().netns(), addresses(&first)[0], PATIENCE).is_ok());
    // Other addresses than it has are given only by force.
    let other = call.clone().with("runtimeConfig", json!({"ips": ["10.1.1.77"]}));
    assert!(other.fails(7).contains("forceAddress"));
    assert_eq!(call.does(), first);
    let forced = other.with("forceAddress", true).does();
    assert_eq!(forced["ips"][0]["address"], "10.1.1.77/32");
    assert_eq!(pod_ports(runtime.node()).len(), 1);
    assert!(traffic::ping_until(runtime.node().netns(), [10, 1, 1, 77].into(), PATIENCE).is_ok());
    call.then("DEL").does();
    is_clean(&runtime);
}

#[test]
fn an_interface_of_somebody_else_is_left_alone() {
    let runtime = Runtime::new();
    let netns = runtime.lab.netns("a").unwrap();
    netns.ip("link add eth0 type veth peer name other").unwrap();
    let before = netns.ip("-brief link").unwrap();
    let call = Invocation::new(&runtime, "ADD", &netns);
    let said = call.fails(100);
    assert!(said.contains("eth0") && said.contains("exists"), "{said}");
    is_clean(&runtime);
    // Nor does the DEL that follows take it away.
    call.then("DEL").does();
    assert_eq!(netns.ip("-brief link").unwrap(), before);
    // Beside it there is room.
    call.clone().set("CNI_IFNAME", "net1").does();
    call.set("CNI_IFNAME", "net1").then("DEL").does();
    is_clean(&runtime);
}

#[test]
fn what_is_gone_is_deleted_already() {
    let runtime = Runtime::new();
    let netns = runtime.lab.netns("a").unwrap();
    let call = Invocation::new(&runtime, "ADD", &netns);
    // Unknown, and with all that it may come with.
    call.then("DEL").does();
    call.then("DEL").set("CNI_CONTAINERID", "unknown").without("CNI_NETNS").does();
    let results = [json!("nonsense"), json!({"ips": [{"address": "10.1.1.9/32"}]})];
    for result in results {
        call.then("DEL").with("prevResult", result).does();
    }
    // A wish that ADD refused does not keep a pod for ever.
    for (member, value) in [
        ("mtu", json!("large")),
        ("runtimeConfig", json!({"ips": ["nowhere"]})),
        ("ipam", json!({"type": "no-such-plugin"})),
        ("ipam", json!({"type": "../sh"})),
    ] {
        let wrong = call.clone().with(member, value.clone());
        assert!(!wrong.run().status.success(), "{member} {value}");
        wrong.then("DEL").does();
    }
    call.does();
    call.then("DEL").does();
    call.then("DEL").does();
    // Without a namespace, as when its process died first.
    call.does();
    call.then("DEL").set("CNI_NETNS", "").does();
    is_clean(&runtime);
    call.does();
    drop(netns);
    call.then("DEL").does();
    call.then("DEL").does();
    is_clean(&runtime);
}

#[test]
fn check_finds_what_was_changed() {
    let runtime = Runtime::new();
    let node = runtime.node();
    let netns = runtime.lab.netns("a").unwrap();
    let call = Invocation::new(&runtime, "ADD", &netns);
    let result = call.does();
    let host = result["interfaces"][0]["name"].as_str().unwrap();
    let address = addresses(&result)[0];
    let check = call.then("CHECK").with("prevResult", result.clone());
    check.does();

    // An address that ADD never gave.
    let mut other = result.clone();
    other["ips"][0]["address"] = json!("10.1.1.200/32");
    assert!(check.clone().with("prevResult", other).fails(103).contains("10.1.1.200"));
    // The address, the interface's state, its Ethernet address, the interface.
    netns.ip(&format!("address del {address}/32 dev eth0")).unwrap();
    assert!(check.fails(103).contains(&address.to_string()));
    netns.ip(&format!("address add {address}/32 dev eth0")).unwrap();
    check.does();
    netns.ip("link set eth0 down").unwrap();
    assert!(check.fails(103).contains("eth0"));
    // An ADD puts it right: the routes went with the state.
    let result = call.does();
    let check = check.with("prevResult", result.clone());
    check.does();
    netns.ip("link set eth0 address 02:00:00:00:00:99").unwrap();
    assert!(check.fails(103).contains("Ethernet"));
    let result = call.does();
    let check = check.with("prevResult", result.clone());
    check.does();

    // The switch's end of the wire.
    node.netns().ip(&format!("link set {host} down")).unwrap();
    assert!(check.fails(103).contains("eth0 is down"));
    node.netns().ip(&format!("link set {host} up")).unwrap();
    let works = || match check.run() {
        output if output.status.success() => Ok(()),
        output => Err(String::from_utf8_lossy(&output.stdout).into_owned()),
    };
    wait_until("the wire to work", PATIENCE, works).unwrap();

    netns.ip("link del eth0").unwrap();
    assert!(check.fails(103).contains("eth0"));
    call.then("DEL").does();
    is_clean(&runtime);
}

/// Flows and ports that somebody deletes are put back before anybody has to CHECK.
#[test]
fn what_is_deleted_at_the_switch_comes_back() {
    let runtime = Runtime::new();
    let node = runtime.node();
    let netns = runtime.lab.netns("a").unwrap();
    let call = Invocation::new(&runtime, "ADD", &netns);
    let result = call.does();
    let address = addresses(&result)[0];
    let check = call.then("CHECK").with("prevResult", result);
    let well = || {
        let works = || match check.run() {
            output if output.status.success() => Ok(()),
            output => Err(String::from_utf8_lossy(&output.stdout).into_owned()),
        };
        wait_until("the attachment to be whole", PATIENCE, works).unwrap();
        assert!(traffic::ping_until(node.netns(), address, PATIENCE).is_ok());
    };
    node.ovs().ofctl(&["del-flows", "br-int"]).unwrap();
    well();
    node.ovs().vsctl(&["del-port", &pod_ports(node)[0]]).unwrap();
    well();
}

#[test]
fn garbage_is_what_is_not_listed() {
    let runtime = Runtime::new();
    let names = ["a", "b", "c"];
    let netns = names.map(|name| runtime.lab.netns(name).unwrap());
    let calls = netns.each_ref().map(|netns| Invocation::new(&runtime, "ADD", netns));
    let results = calls.each_ref().map(Invocation::does);
    let gc = calls[0].then("GC").without("CNI_CONTAINERID").without("CNI_NETNS");
    let gc = gc.without("CNI_IFNAME");
    let id = |n: usize| format!("container-{}", netns[n].name());
    // A list that cannot be understood deletes nothing.
    for wrong in [
        json!("all"),
        json!([1]),
        json!([{"containerID": id(0)}]),
        json!([{"containerID": "../x", "ifname": "eth0"}]),
    ] {
        let refused = gc.clone().with("cni.dev/valid-attachments", wrong.clone()).run();
        assert!(!refused.status.success(), "{wrong}");
    }
    assert_eq!(pod_ports(runtime.node()).len(), 3);
    // Another network's attachments are its own.
    let other = gc.clone().with("name", "other").with("cni.dev/valid-attachments", json!([]));
    other.does();
    assert_eq!(pod_ports(runtime.node()).len(), 3);
    // The interface counts as well as the container.
    gc.with(
        "cni.dev/valid-attachments",
        json!([{"containerID": id(0), "ifname": "eth0"}, {"containerID": id(1), "ifname": "eth9"}]),
    )
    .does();
    assert_eq!(pod_ports(runtime.node()).len(), 1);
    calls[0].then("CHECK").with("prevResult", results[0].clone()).does();
    for n in [1, 2] {
        calls[n].then("CHECK").with("prevResult", results[n].clone()).fails(3);
    }
}
