//! What people see of it: conditions, the command line by a kubeconfig, kubectl's plugin.

use crate::world::{PATIENCE, World};
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

/// A pause is remembered in the cluster: a controller that starts finds it there.
pub(crate) fn pause(world: &World) {
    let query = r"jsonpath={.metadata.annotations.osier\.dev/paused}";
    let annotation = || world.cluster.kubectl(&["get", "node", "node-2", "-o", query]).unwrap();
    osier(world, &["node", "pause", "node-2"]);
    assert_eq!(annotation(), "true");
    for pod in world.parts("osier-controller") {
        world.cluster.kubectl(&["delete", &pod, "-n", "osier-system"]).unwrap();
    }
    world.wait_for_osier();
    let told = || match try_osier(world, &["status"]) {
        // It is no success: somebody should look.
        Ok(status) | Err(status) if status.contains("paused") => Ok(()),
        other => Err(format!("{other:?}")),
    };
    world.cluster.wait("a node that is still paused", PATIENCE, told).unwrap();
    osier(world, &["node", "resume", "node-2"]);
    assert_eq!(annotation(), "");
}

/// The command line as an administrator has it.
fn osier(world: &World, args: &[&str]) -> String {
    try_osier(world, args).unwrap_or_else(|said| panic!("{said}"))
}

fn try_osier(world: &World, args: &[&str]) -> Result<String, String> {
    let test = std::env::current_exe().unwrap();
    let program: PathBuf = test.parent().unwrap().parent().unwrap().join("osier");
    let mut command = Command::new(program);
    let output = command.args(args).env("KUBECONFIG", world.cluster.kubeconfig()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.success() {
        true => Ok(said),
        false => Err(format!("{said}{}", String::from_utf8_lossy(&output.stderr))),
    }
}
