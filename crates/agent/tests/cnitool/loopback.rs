//! The plugin under the name `loopback`, as older runtimes call it before any other.

use crate::lab::executables;
use osier_testbed::Lab;
use serde_json::{Value, json};
use std::io::Write;
use std::process::{Command, Output, Stdio};

fn call(plugin: &std::path::Path, command: &str, netns: &str, version: &str) -> Output {
    let config = json!({"cniVersion": version, "name": "cni-loopback", "type": "loopback"});
    let mut child = Command::new(plugin)
        .env("CNI_COMMAND", command)
        .env("CNI_CONTAINERID", "c")
        .env("CNI_NETNS", netns)
        .env("CNI_IFNAME", "lo")
        .env("CNI_PATH", "/opt/cni/bin")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(config.to_string().as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn lo_is_set_up_without_an_agent() {
    let lab = Lab::new().unwrap();
    let pod = lab.netns("pod").unwrap();
    pod.ip("link set lo down").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let plugin = folder.path().join("loopback");
    std::fs::copy(executables().join("osier-cni"), &plugin).unwrap();
    let netns = format!("/run/netns/{}", pod.name());
    for version in ["0.3.1", "1.0.0"] {
        let output = call(&plugin, "ADD", &netns, version);
        let said: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(output.status.success(), "{said}");
        assert_eq!(said["ips"][0]["address"], "127.0.0.1/8", "{said}");
    }
    assert!(pod.run(&["ping", "-c1", "-W5", "127.0.0.1"]).is_ok());
    for command in ["CHECK", "DEL"] {
        assert!(call(&plugin, command, &netns, "1.0.0").status.success(), "{command}");
    }
    let gone = call(&plugin, "ADD", "/run/netns/nobody-made-this", "1.0.0");
    assert!(!gone.status.success());
    assert!(call(&plugin, "DEL", "/run/netns/nobody-made-this", "1.0.0").status.success());
}
