//! Every verb in every version, alone and in a list.

use crate::lab::{PATIENCE, addresses, pod_links, pod_ports};
use crate::runtime::Runtime;
use osier_testbed::{traffic, wait_until};
use serde_json::{Value, json};

const VERSIONS: [&str; 5] = ["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"];

/// Nothing of pods is on the node any more.
pub(crate) fn is_clean(runtime: &Runtime) {
    let clean = || match (pod_ports(runtime.node()), pod_links(runtime.node())) {
        (ports, 0) if ports.is_empty() => Ok(()),
        left => Err(format!("{left:?}")),
    };
    wait_until("ports and wires to be gone", PATIENCE, clean).unwrap();
}

/// What each version's result has, and has not.
fn has_the_form_of(version: &str, result: &Value, netns: &str) {
    assert_eq!(result["cniVersion"], version);
    let before_1 = version < "1.0.0";
    for ip in result["ips"].as_array().unwrap() {
        // Until 1.0.0 the family was a member.
        let family = if ip["address"].as_str().unwrap().contains(':') { "6" } else { "4" };
        assert_eq!(ip.get("version"), before_1.then(|| json!(family)).as_ref(), "{version}: {ip}");
        assert_eq!(ip["interface"], 1, "{version}");
        assert!(ip["gateway"].is_string(), "{version}");
    }
    let interfaces = result["interfaces"].as_array().unwrap();
    assert_eq!(interfaces.len(), 2, "{version}");
    assert_eq!(
        (&interfaces[1]["name"], &interfaces[1]["sandbox"]),
        (&json!("eth0"), &json!(netns))
    );
    assert!(interfaces[0].get("sandbox").is_none(), "{version}: {result}");
    for interface in interfaces {
        // The MTU came with 1.1.0.
        assert_eq!(interface.get("mtu").is_some(), version == "1.1.0", "{version}: {interface}");
    }
}

#[test]
fn a_containers_life_in_every_version() {
    let runtime = Runtime::new();
    for (n, version) in VERSIONS.into_iter().enumerate() {
        for alone in [true, false] {
            let case = format!("{version}, alone: {alone}");
            if alone {
                runtime.configure_alone(version, runtime.ours(json!({})));
            } else {
                runtime.configure(version, &[runtime.ours(json!({}))]);
            }
            let container = runtime.container(&format!("c{n}{alone}"));
            let result = container.does("add");
            has_the_form_of(version, &result, &container.path());
            let address = addresses(&result)[0];
            assert!(traffic::ping_until(runtime.node().netns(), address, PATIENCE).is_ok());
            if version < "0.4.0" {
                let said = container.fails("check");
                assert!(said.contains("CHECK"), "{case}: {said}");
            } else {
                container.does("check");
            }
            container.does("del");
            container.does("del");
            is_clean(&runtime);
        }
    }
}

#[test]
fn status_is_that_of_the_agent() {
    let mut runtime = Runtime::new();
    runtime.configure("1.1.0", &[runtime.ours(json!({}))]);
    runtime.container("a").does("status");
    runtime.stop_agent();
    let said = runtime.container("b").fails("status");
    assert!(said.contains("the agent is away"), "{said}");
}

#[test]
fn garbage_goes() {
    let runtime = Runtime::new();
    runtime.configure("1.1.0", &[runtime.ours(json!({}))]);
    let (a, b) = (runtime.container("a"), runtime.container("b"));
    a.does("add");
    b.does("add");
    assert_eq!(pod_ports(runtime.node()).len(), 2);
    // The tool itself deletes what it remembers; if it remembers nothing, there is only GC.
    runtime.forget();
    a.does("gc");
    is_clean(&runtime);
    a.does("add");
    b.does("gc");
    is_clean(&runtime);
}

#[test]
fn pods_and_wishes_come_through_the_tool() {
    let runtime = Runtime::new();
    let capabilities = json!({"capabilities": {"ips": true, "mac": true}});
    runtime.configure("1.1.0", &[runtime.ours(capabilities)]);
    let wishes = json!({"ips": ["10.1.1.77"], "mac": "02:11:22:33:44:55", "portMappings": []});
    let container = runtime
        .container("a")
        .wishing(&wishes)
        .named("IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-0");
    let result = container.does("add");
    assert_eq!(result["ips"][0]["address"], "10.1.1.77/32");
    assert_eq!(result["interfaces"][1]["mac"], "02:11:22:33:44:55");
    container.does("check");
    let column = ["get", "interface", &pod_ports(runtime.node())[0], "external_ids:iface-id"];
    let id = runtime.node().ovs().vsctl(&column).unwrap();
    assert!(id.contains("shop:web-0"), "{id}");
    assert!(traffic::ping_until(runtime.node().netns(), [10, 1, 1, 77].into(), PATIENCE).is_ok());
    container.does("del");
    // In a `CNI_ARGS` that does not say to ignore it, an unknown key is an error.
    let said = runtime.container("b").named("COLOUR=blue").fails("add");
    assert!(said.contains("COLOUR"), "{said}");
    is_clean(&runtime);
}
