//! What people see of it: conditions, the command line by a kubeconfig, kubectl's plugin.

use crate::world::World;
use std::path::PathBuf;
use std::process::Command;

pub(crate) fn are_told(world: &World) {
    let query = "jsonpath={.items[*].status.conditions[?(@.type=='NetworkUnavailable')].status}";
    let said = world.cluster.kubectl(&["get", "nodes", "-o", query]).unwrap();
    assert_eq!(said, "False False");
    let status = osier(world, &["status"]);
    assert!(status.contains("node-1") && status.contains("node-2"), "{status}");
    let pods = osier(world, &["get", "pods", "-A"]);
    assert!(pods.contains("default") && pods.contains("node-2"), "{pods}");
    let trace = osier(world, &["trace", "pod/a", "pod/b"]);
    assert!(trace.contains("node-1") && trace.contains("node-2"), "{trace}");
}

/// The command line as an administrator has it.
fn osier(world: &World, args: &[&str]) -> String {
    let test = std::env::current_exe().unwrap();
    let program: PathBuf = test.parent().unwrap().parent().unwrap().join("osier");
    let mut command = Command::new(program);
    let output = command.args(args).env("KUBECONFIG", world.cluster.kubeconfig()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    said
}
