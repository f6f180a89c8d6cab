//! The specification's error codes, each by what it is for; and what must succeed nevertheless.

use crate::invocation::{Invocation, failure};
use crate::lab::{PATIENCE, pod_ports};
use crate::runtime::Runtime;
use crate::verbs::is_clean;
use osier_testbed::wait_until;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

const CONTAINERS: [&str; 3] = ["ADD", "CHECK", "DEL"];

#[test]
fn code_1_is_for_versions() {
    let runtime = Runtime::new();
    let netns = runtime.lab.netns("a").unwrap();
    let call = Invocation::new(&runtime, "ADD", &netns);
    for version in ["0.0.1", "0.9.0", "1.2.0", "2.0.0", "newest", "1.1"] {
        let said = call.clone().with("cniVersion", version).fails(1);
        assert!(said.contains(version) && said.contains("1.1.0"), "{said}");
    }
    // Commands that a version has not.
    for (command, version) in [("CHECK", "0.3.1"), ("GC", "1.0.0"), ("STATUS", "1.0.0")] {
        let said = call.then(command).with("cniVersion", version).fails(1);
        assert!(said.contains(command), "{said}");
    }
    is_clean(&runtime);
    // The newest and the oldest are answered in their own words; an error is, too.
    let told = call.then("VERSION").with("cniVersion", "0.3.0").does();
    assert_eq!(told["cniVersion"], "0.3.0");
    let supported = told["supportedVersions"].as_array().unwrap();
    for version in ["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"] {
        assert!(supported.contains(&json!(version)), "{told}");
    }
    let told = failure(&call.with("cniVersion", "0.4.0").with("mtu", 1).run());
    assert_eq!((&told["code"], &told["cniVersion"]), (&json!(7), &json!("0.4.0")));
}

/// Our own members can all be honoured, given a view; those of an address plugin may not.
#[test]
fn code_2_is_for_what_cannot_be_done() {
    let runtime = Runtime::new();
    let netns = runtime.lab.netns("a").unwrap();
    let call = Invocation::new(&runtime, "ADD", &netns);
    let script = r#"#!/bin/sh
        cat >/dev/null
        echo '{"cniVersion": "1.0.0", "code": 2, "msg": "ipam.colour is not supported"}'
        exit 1"#;
    let plugins = runtime.lab.make_dir("more-plugins").unwrap();
    std::fs::write(plugins.join("refuses"), script).unwrap();
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(plugins.join("refuses"), executable).unwrap();
    let refused = call.clone().set("CNI_PATH", plugins).with("ipam", json!({"type": "refuses"}));
    assert!(refused.fails(2).contains("refuses: ipam.colour"));
    // A network may come with the next view; a number that differs does not change by itself.
    assert!(call.clone().with("network", "blue").fails(11).contains("blue"));
    let numbered = call.with("ovs", json!({"vxlan": "00042"}));
    assert!(numbered.fails(11).contains("42"));
    assert!(numbered.with("network", "pods").fails(7).contains("42"));
    is_clean(&runtime);
}

#[test]
fn code_3_is_for_containers_that_are_unknown() {
    let runtime = Runtime::new();
    let netns = runtime.lab.netns("a").unwrap();
    let call = Invocation::new(&runtime, "ADD", &netns);
    let result = call.does();
    let check = call.then("CHECK").with("prevResult", result);
    check.does();
    let other = check.clone().set("CNI_CONTAINERID", "another");
    assert!(other.fails(3).contains("not attached"));
    check.clone().set("CNI_IFNAME", "eth7").fails(3);
    call.then("DEL").does();
    check.fails(3);
}

#[test]
fn code_4_is_for_the_environment() {
    let runtime = Runtime::new();
    let netns = runtime.lab.netns("a").unwrap();
    let call = Invocation::new(&runtime, "ADD", &netns);
    for command in ["UPDATE", "add", "ADD ", "../ADD"] {
        assert!(call.then(command).fails(4).contains("CNI_COMMAND"), "{command}");
    }
    for command in CONTAINERS {
        for variable in ["CNI_CONTAINERID", "CNI_IFNAME", "CNI_NETNS"] {
            let call = call.then(command);
            if (command, variable) != ("DEL", "CNI_NETNS") {
                for call in [call.clone().without(variable), call.clone().set(variable, "")] {
                    assert!(call.fails(4).contains(variable), "{command} {variable}");
                }
            }
            for wrong in ["../../etc/passwd", "a b", "a\nb", "a/b", ".."] {
                let said = call.clone().set(variable, wrong).fails(4);
                assert!(said.contains(variable), "{command} {variable}={wrong:?}: {said}");
            }
        }
        let over_long = call.then(command).set("CNI_IFNAME", "sixteen-letters-");
        assert!(over_long.fails(4).contains("15 bytes"));
        let over_long = call.then(command).set("CNI_CONTAINERID", "c".repeat(4096));
        assert!(over_long.fails(4).contains("253"));
    }
    // What is no namespace, or the wrong one.
    for path in ["/run/netns/nonexistent", "/proc/self/ns/net", "/etc/hostname", "/"] {
        let said = call.clone().set("CNI_NETNS", path).fails(4);
        assert!(said.contains(path), "{said}");
    }
    // A namespace of another kind looks the same until it is used.
    let said = call.clone().set("CNI_NETNS", "/proc/self/ns/mnt").fails(4);
    assert!(said.contains("/proc/self/ns/mnt is no network namespace"), "{said}");
    // Only a delegate needs the path, and misses itself.
    let delegating = call.clone().with("ipam", json!({"type": "host-local"}));
    assert!(delegating.clone().without("CNI_PATH").fails(7).contains("CNI_PATH"));
    assert!(delegating.set("CNI_PATH", "/nowhere").fails(7).contains("host-local"));
    for wrong in ["K8S_POD_NAME", "=", "COLOUR=blue", "IP=10.1.1.300", "MAC=01:00:5e:00:00:01"] {
        assert!(call.clone().set("CNI_ARGS", wrong).fails(4).contains("CNI_ARGS"), "{wrong}");
    }
    is_clean(&runtime);
    call.without("CNI_PATH").does();
}

#[test]
fn codes_5_6_and_7_are_for_the_configuration() {
    let runtime = Runtime::new();
    let netns = runtime.lab.netns("a").unwrap();
    let call = Invocation::new(&runtime, "ADD", &netns);
    // A directory cannot be read.
    let directory = std::fs::File::open("/").unwrap();
    let output = call.command().stdin(Stdio::from(directory)).output().unwrap();
    assert_eq!(failure(&output)["code"], 5);
    for input in
        ["", "nonsense", "[]", "{", "{}}", "null", "{\"name\": 1, \"cniVersion\": \"1.1.0\"}"]
    {
        call.clone().input(input).fails(6);
    }
    for (member, value) in [
        ("name", json!(["net"])),
        ("mtu", json!("1400")),
        ("ipam", json!("host-local")),
        ("ipMasq", json!("true")),
        ("runtimeConfig", json!([])),
        ("prevResult", json!("none")),
    ] {
        assert!(call.clone().with(member, value).fails(6).contains(member), "{member}");
    }
    for (member, value) in [
        ("name", Value::Null),
        ("name", json!("a/b")),
        ("name", json!("..")),
        ("name", json!("n".repeat(254))),
        ("type", json!("bridge")),
        ("agentSocket", json!("cni.sock")),
        ("agentTimeout", json!(0)),
        ("mtu", json!(67)),
        ("bridge", json!("br-other")),
        ("ipam", json!({"type": "../../bin/sh"})),
        ("ipam", json!({"subnet": "10.0.0.0/8"})),
        ("runtimeConfig", json!({"ips": ["10.1.1.300"]})),
        ("runtimeConfig", json!({"mac": "01:00:5e:00:00:01"})),
        ("runtimeConfig", json!({"bandwidth": {"ingressBurst": 1}})),
        ("ovs", json!({"vxlan": 16_777_216})),
    ] {
        let said = call.clone().with(member, value.clone()).fails(7);
        assert!(said.contains(member), "{member} {value}: {said}");
    }
    // A CHECK without what ADD said.
    assert!(call.then("CHECK").fails(7).contains("prevResult"));
    is_clean(&runtime);
}

#[test]
fn code_11_when_the_agent_is_away_and_nothing_is_half_done() {
    let mut runtime = Runtime::new();
    let (first, second) = (runtime.lab.netns("a").unwrap(), runtime.lab.netns("b").unwrap());
    let there = Invocation::new(&runtime, "ADD", &first);
    let result = there.does();
    let before = pod_ports(runtime.node());
    runtime.stop_agent();
    let call = Invocation::new(&runtime, "ADD", &second);
    for command in ["ADD", "DEL", "GC"] {
        assert!(call.then(command).fails(11).contains("away"), "{command}");
    }
    there.then("CHECK").with("prevResult", result.clone()).fails(11);
    there.then("DEL").fails(11);
    call.then("STATUS").fails(50);
    call.then("VERSION").does();
    assert_eq!(pod_ports(runtime.node()), before);
    assert_eq!(second.ip("-brief link show type veth").unwrap(), "");
    // The runtime repeats it.
    runtime.start_agent();
    there.then("CHECK").with("prevResult", result).does();
    call.then("DEL").does();
    call.does();
    call.then("DEL").does();
    there.then("DEL").does();
    is_clean(&runtime);
}

#[test]
fn codes_50_and_51_are_for_status() {
    let mut runtime = Runtime::new();
    let netns = runtime.lab.netns("a").unwrap();
    let status = Invocation::new(&runtime, "STATUS", &netns);
    // It is about no container.
    let bare = ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"]
        .into_iter()
        .fold(status.clone(), Invocation::without);
    bare.does();
    // Who gives addresses has a say.
    let delegating = status.clone().with("ipam", json!({"type": "no-such-plugin"}));
    assert!(delegating.fails(50).contains("no-such-plugin"));
    status.clone().with("ipam", json!({"type": "static"})).does();
    // Without a switch pods are cut off.
    runtime.fabric.nodes_mut()[0].kill_vswitchd();
    let limited = || match failure(&status.run()) {
        told if told["code"] == 51 => Ok(()),
        told => Err(told.to_string()),
    };
    let seen = || if status.run().status.success() { Err("it is said to work") } else { Ok(()) };
    wait_until("the agent to miss the switch", PATIENCE, seen).unwrap();
    limited().unwrap();
    runtime.fabric.nodes_mut()[0].start_vswitchd().unwrap();
    let serves = || if status.run().status.success() { Ok(()) } else { Err("not yet") };
    wait_until("the agent to serve again", PATIENCE, serves).unwrap();
    runtime.stop_agent();
    status.fails(50);
}
