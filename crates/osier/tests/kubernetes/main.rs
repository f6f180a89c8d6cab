//! The binary in a cluster: the controller with a real API server, and `osier` and `kubectl osier`
//! that find it by kubeconfig.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is the report")]

#[path = "../../../kubernetes/tests/kubernetes/pki.rs"]
mod pki;
#[allow(dead_code, reason = "other tests need more of it")]
#[path = "../../../kubernetes/tests/kubernetes/server.rs"]
mod server;

use osier_testbed::{Process, Signal};
use serde_json::{Value, json};
use server::{NAMESPACE, PATIENCE, Server, program, turn, until};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const OSIER: &str = env!("CARGO_BIN_EXE_osier");

fn controller(server: &Server, folder: &Path) -> Process {
    let kubeconfig = server.account("osier-controller");
    let (state, kubeconfig) = (folder.join("state"), kubeconfig.display().to_string());
    let text = format!(
        "state_dir = '{}'\n[api]\nlisten = '0.0.0.0:6645'\n[fleet]\nlisten = '0.0.0.0:6646'\n\
         [kubernetes]\nkubeconfig = '{kubeconfig}'\nadvertise = '192.0.2.100'\n",
        state.display(),
    );
    let config = folder.join("controller.toml");
    std::fs::write(&config, text).unwrap();
    let command = server.netns.command(OSIER).args(["controller", "--config"]);
    command.arg(config).spawn().unwrap()
}

/// What nobody else does here: a Service that leads to the controller's pod.
fn service(server: &Server) {
    let object = |kind: &str, name: &str, more: Value| {
        let mut object = json!({"apiVersion": "v1", "kind": kind,
            "metadata": {"name": name, "namespace": NAMESPACE}});
        object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        server.apply(&object.to_string());
    };
    let ports = json!([{"name": "api", "port": 6645}]);
    object("Service", "osier-controller", json!({"spec": {"ports": ports}}));
    pod(server, NAMESPACE, "controller", "192.0.2.100", true);
    let pod = json!({"kind": "Pod", "name": "controller", "namespace": NAMESPACE});
    let address = json!({"ip": "192.0.2.100", "targetRef": pod});
    let subset = json!({"addresses": [address], "ports": ports});
    object("Endpoints", "osier-controller", json!({"subsets": [subset]}));
}

fn pod(server: &Server, namespace: &str, name: &str, address: &str, is_host: bool) {
    let pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"nodeName": "a", "hostNetwork": is_host,
            "containers": [{"name": "one", "image": "some"}]}});
    server.apply(&pod.to_string());
    let status = json!({"status": {"phase": "Running", "podIP": address,
        "podIPs": [{"ip": address}]}});
    let args =
        ["patch", "pod", name, "-n", namespace, "--subresource=status", "--type=merge", "-p"];
    let status = status.to_string();
    let args: Vec<&str> = args.into_iter().chain([status.as_str()]).collect();
    server.kubectl(&args).unwrap();
}

/// What a command says, well or not.
fn said(server: &Server, program: &str, args: &[&str], env: &[(&str, &Path)]) -> (bool, String) {
    let mut command = server.netns.command(program).args(args).deadline(PATIENCE);
    for (name, value) in env {
        command = command.env(name, value.as_os_str());
    }
    let output = command.output().unwrap();
    (output.status.success(), format!("{}{}", output.stdout, output.stderr))
}

#[test]
fn people_find_the_controller_by_their_kubeconfig() {
    let turn = turn();
    let server = turn.server;
    let folder = TempDir::new().unwrap();
    server.node("a", Some("192.0.2.1"), &["10.244.1.0/24"]);
    pod(server, "default", "web", "10.244.1.7", false);
    service(server);
    let mut running = controller(server, folder.path());
    let admin = server.admin();
    let kubeconfig = ["--kubeconfig", admin.to_str().unwrap()];
    let osier = |args: &[&str]| said(server, OSIER, &[args, &kubeconfig].concat(), &[]);
    let table = until("pods", || match osier(&["get", "pods", "-A"]) {
        (true, table) => Ok(table),
        (false, error) => Err(format!("{error}\n{}", running.stderr())),
    });
    let web: Vec<&str> =
        table.lines().find(|line| line.contains("web")).unwrap().split_whitespace().collect();
    assert_eq!(web, ["default", "web", "a", "10.244.1.7", "Running", "Unknown"], "{table}");
    assert!(
        table.lines().any(|line| line.contains("controller") && line.contains("Host")),
        "{table}"
    );
    let (_, nodes) = osier(&["get", "nodes"]);
    assert!(nodes.contains("192.0.2.1"), "{nodes}");
    // Nobody is at the node: that is not well, and said.
    let (is_well, status) = osier(&["status"]);
    assert!(!is_well && status.contains("not connected"), "{status}");
    let manifest = folder.path().join("net.yaml");
    std::fs::write(
        &manifest,
        "apiVersion: osier.dev/v1alpha1\nkind: Network\nmetadata: {name: x}\n",
    )
    .unwrap();
    let (is_well, refused) = osier(&["apply", "-f", manifest.to_str().unwrap()]);
    assert!(!is_well && refused.contains("kubectl apply"), "{refused}");
    as_plugin(server, folder.path(), &admin);
    let stopped = running.stop(Signal::SIGTERM, PATIENCE).unwrap();
    assert!(stopped.success(), "{}", running.stderr());
}

/// `kubectl` finds it by its name.
fn as_plugin(server: &Server, folder: &Path, admin: &Path) {
    std::os::unix::fs::symlink(OSIER, folder.join("kubectl-osier")).unwrap();
    let path = PathBuf::from(format!("{}:/usr/bin:/bin", folder.display()));
    let env = [("PATH", path.as_path()), ("KUBECONFIG", admin), ("HOME", folder)];
    let (is_well, table) = said(server, &program("kubectl"), &["osier", "get", "pods"], &env);
    assert!(is_well && table.contains("10.244.1.7"), "{table}");
    assert!(!table.contains("controller"), "other namespaces: {table}");
    let (_, help) = said(server, &program("kubectl"), &["osier", "get", "--help"], &env);
    assert!(help.contains("Usage: kubectl osier get"), "{help}");
}

/// Not a figure, but where it is looked at: `cargo test --release -p osier --test kubernetes -- --ignored`.
#[test]
#[ignore = "it takes minutes"]
fn a_large_cluster_fits_in_memory() {
    let turn = turn();
    let server = turn.server;
    let folder = TempDir::new().unwrap();
    let create = |path: &str, count: usize, body: &Value| {
        let file = folder.path().join("body.json");
        std::fs::write(&file, body.to_string()).unwrap();
        server.post_many(path, count, &file);
    };
    server.node("a", Some("192.0.2.1"), &["10.244.1.0/24"]);
    let mut node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"generateName": "n-"}});
    node["spec"] = json!({});
    create("/api/v1/nodes", 1000, &node);
    let labels: serde_json::Map<String, Value> =
        (0..10).map(|n| (format!("label-{n}"), json!("some-value"))).collect();
    let container = json!({"name": "one", "image": "some", "env": (0..20).map(|n| json!({
        "name": format!("VARIABLE_{n}"), "value": "some value of it"})).collect::<Vec<_>>()});
    let pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"generateName": "pod-", "labels": labels},
        "spec": {"nodeName": "a", "containers": [container.clone(), container]}});
    let mut pod = pod;
    pod["spec"]["containers"][1]["name"] = json!("two");
    let running = controller(server, folder.path());
    until("a leader", || match running.stderr() {
        log if log.contains("leading term") => Ok(()),
        log => Err(log),
    });
    let empty = running.usage().unwrap();
    create("/api/v1/namespaces/default/pods", 5000, &pod);
    std::thread::sleep(std::time::Duration::from_secs(10));
    let full = running.usage().unwrap();
    drop(running);
    let again = controller(server, folder.path());
    until("a leader", || match again.stderr() {
        log if log.contains("leading term") => Ok(()),
        log => Err(log),
    });
    std::thread::sleep(std::time::Duration::from_secs(5));
    let listed = again.usage().unwrap();
    println!("1,001 nodes: {empty:?}; and 5,000 pods: {full:?}; listed anew: {listed:?}");
    assert!(listed.rss < 200 << 20);
}
