//! Nodes and pods that are objects of the API server only: nobody runs them.

use anyhow::{Context, Result, ensure};
use osier_kubelab::Cluster;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::time::Duration;

const PODS: &str = "/api/v1/namespaces/default/pods";

/// A request with a body: method, path, object.
type Request = (&'static str, String, Value);

/// Makes so many nodes with so many running pods each.
pub(super) fn make(cluster: &Cluster, nodes: usize, pods: usize) -> Result<()> {
    let each_node = 0..nodes;
    send(
        cluster,
        each_node.clone().map(|node| ("POST", "/api/v1/nodes".to_owned(), object(node))),
    )?;
    let path = |node| format!("/api/v1/nodes/sim-{node}/status");
    send(cluster, each_node.clone().map(|node| ("PATCH", path(node), addresses(node))))?;
    let each_pod = each_node.flat_map(|node| (0..pods).map(move |pod| (node, pod)));
    send(cluster, each_pod.clone().map(|(node, n)| ("POST", PODS.to_owned(), pod(node, n))))?;
    let path = |node, n| format!("{PODS}/{}/status", name(node, n));
    send(cluster, each_pod.map(|(node, n)| ("PATCH", path(node, n), running(node, n))))
}

fn object(node: usize) -> Value {
    let range = format!("10.64.{}.0/24", 100 + node);
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("sim-{node}")},
        "spec": {"podCIDR": range, "podCIDRs": [range]},
    })
}

fn addresses(node: usize) -> Value {
    let address = format!("172.22.0.{}", 100 + node);
    json!({"status": {"addresses": [{"type": "InternalIP", "address": address}]}})
}

fn name(node: usize, number: usize) -> String {
    format!("web-{:08x}-{node:03}-{number:03}", node * 7919)
}

fn pod(node: usize, number: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name(node, number),
            "labels": {"app": format!("web-{node}"), "pod-template-hash": format!("{node:08x}")},
        },
        "spec": {
            "nodeName": format!("sim-{node}"),
            "automountServiceAccountToken": false,
            "containers": [{"name": "web", "image": "example.org/web:1"}],
        },
    })
}

fn running(node: usize, number: usize) -> Value {
    let address = format!("10.64.{}.{}", 100 + node, 2 + number);
    json!({"status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}})
}

/// Sends requests from the control plane's own machine, many at once.
fn send(cluster: &Cluster, requests: impl Iterator<Item = Request>) -> Result<()> {
    let pki = cluster.kubeconfig().parent().context("a file is in a folder")?.display();
    let mut config = String::new();
    let mut count = 0;
    for (method, path, body) in requests {
        count += 1;
        let form = if method == "PATCH" { "merge-patch+json" } else { "json" };
        let body = body.to_string().replace('\\', "\\\\").replace('"', "\\\"");
        write!(
            config,
            "{}request = {method}\nurl = \"https://127.0.0.1:6443{path}\"\ndata = \"{body}\"\n\
             header = \"Content-Type: application/{form}\"\ncacert = {pki}/ca.crt\n\
             cert = {pki}/admin.crt\nkey = {pki}/admin.key\noutput = /dev/null\n\
             write-out = \"%{{http_code}}\\n\"\nsilent\n",
            if count > 1 { "next\n" } else { "" },
        )?;
    }
    let curl = cluster.control_plane().command("curl")?;
    let curl = curl.args(["--parallel", "--parallel-max", "40", "--config", "-"]).input(config);
    let codes = curl.deadline(Duration::from_mins(3)).run()?;
    let good = codes.lines().filter(|code| code.starts_with('2')).count();
    ensure!(
        good == count,
        "{good} of {count} requests were granted: {}",
        codes.lines().last().unwrap_or_default()
    );
    Ok(())
}
