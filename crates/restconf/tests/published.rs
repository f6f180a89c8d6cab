//! The published modules against a foreign reader, libyang's `yanglint`; and data that we print
//! against the modules.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is the report")]

use osier_restconf::{Datastore, Edit, Flavour, Method, Path, Schema, View, Views, show, show_all};
use serde_json::{Value, json};
use std::process::Command;

const YANG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/yang");

fn yanglint(arguments: &[&str]) -> Result<(), String> {
    let output = Command::new("yanglint")
        .args(["-p", YANG])
        .args(arguments)
        .output()
        .expect("yanglint is of the Debian package libyang-tools: scripts/install-packages");
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

fn files() -> Vec<String> {
    let name = |module: &str| format!("{YANG}/{module}.yang");
    Schema::get().modules().iter().map(|module| name(&module.name)).collect()
}

fn check(kind: &str, data: &Value) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data.json");
    std::fs::write(&file, data.to_string()).unwrap();
    let files = files();
    let mut arguments = vec!["-t", kind];
    arguments.extend(files.iter().map(String::as_str));
    arguments.push(file.to_str().unwrap());
    yanglint(&arguments).unwrap_or_else(|error| panic!("{error}\n{data:#}"));
}

#[test]
fn a_foreign_reader_takes_every_module() {
    let files = files();
    let in_folder = std::fs::read_dir(YANG).unwrap().count();
    assert_eq!(files.len(), in_folder, "each file is served");
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    yanglint(&files).unwrap();
    let wrong = tempfile::tempdir().unwrap();
    let file = wrong.path().join("wrong.yang");
    std::fs::write(&file, "module wrong { prefix w; }").unwrap();
    yanglint(&[file.to_str().unwrap()]).unwrap_err();
}

/// What clients send that strict YANG refuses comes out as YANG that a foreign reader takes.
#[test]
fn what_is_kept_is_valid_for_a_foreign_reader() {
    let uid = |n: u32| format!("00000000-0000-0000-0000-{n:012}");
    let mut data = Datastore::default();
    for (path, body) in [
        (
            format!("/restconf/config/pod:coe/pods/{}", uid(1)),
            json!({"pods": [{
                "uid": uid(1), "cluster-id": uid(9), "name": "web", "host-ip-address": "192.0.2.1",
                "network-NS": "shop", "port-mac-address": "",
                "interface": [{"uid": uid(1), "ip-address": "10.0.0.1", "network-id": uid(0),
                               "network-type": "VXLAN"}]}]}),
        ),
        (
            format!("/restconf/config/service:service-information/services/{}", uid(2)),
            json!({"service:services": [{
                "service:uid": uid(2), "service:cluster-id": uid(9), "service:name": "db",
                "service:cluster-ip-address": "", "service:network-NS": "shop",
                "service:ingress-ip-address": ["", "192.0.2.80"],
                "service:service-ports": [{"service:name": "", "service:port": 80,
                    "service:target-port": "http", "service:node-port": 0}]}]}),
        ),
        (
            format!("/restconf/config/service:endpoints-info/endpoints/{}", uid(3)),
            json!({"service:endpoints": [{
                "service:uid": uid(3), "service:cluster-id": uid(9), "service:name": "db",
                "service:network-NS": "shop", "service:endpoint-addresses": [
                    {"service:ip-address": "10.0.0.1", "service:host-name": "",
                     "service:node-name": null}],
                "service:endpoint-ports": [{"service:name": "", "service:port": 6443}]}]}),
        ),
        (
            "/restconf/config/k8s-cluster:k8s-clusters-info/".to_owned(),
            json!({"k8s-clusters-info": {"k8s-clusters": [{"cluster-id": uid(9)}]}}),
        ),
        (
            "/restconf/config/k8s:k8s".to_owned(),
            json!({"k8s": {"network-policies": {"network-policy": [{
                "uuid": uid(4), "name": "deny", "network-policy-spec": {
                    "policy-types": ["ingress"],
                    "ingress": [{"network-policy-ingress-rule": {
                        "ingress-ports": [{"network-policy-port": {"protocol": "TCP", "port": 80}}],
                        "from": [{"network-policy-peer": {"peer-pod-selector": {
                            "match-labels": [{"key": "app", "value": "web"}]}}}]}}]}}]}}}),
        ),
    ] {
        let path = Path::parse(&path).unwrap();
        let edited =
            Edit { method: Method::Put, path: &path, body: Some(&body) }.of(&data).unwrap();
        data.apply(&edited.changes);
    }
    let all = show_all(Flavour::Rfc8040, data.all());
    check("config", &all["ietf-restconf:data"]);
}

#[test]
fn views_are_valid_for_a_foreign_reader() {
    let resource = |kind: &str, name: &str, spec: Value, status: Value| {
        let value = json!({"apiVersion": "osier.dev/v1alpha1", "kind": kind,
            "metadata": {"name": name}, "spec": spec, "status": status});
        serde_json::from_value(value).unwrap()
    };
    let views = Views::new(vec![
        resource("Router", "shop", json!({}), json!({"vrf": 1})),
        resource("Network", "192.0.2.1:shop", json!({"router": "shop"}), json!({"vni": 4096})),
        resource(
            "Port",
            "shop:web",
            json!({"network": "192.0.2.1:shop", "node": "n1", "addresses": ["10.0.0.1", "fd00::1"]}),
            json!({"mac": "0a:58:0a:00:00:01"}),
        ),
        resource("Service", "shop:db", json!({"addresses": ["10.96.0.1"]}), json!({})),
        resource(
            "Endpoints",
            "shop:db-1",
            json!({"service": "shop:db", "endpoints": [{"address": "10.0.0.1"}]}),
            json!({}),
        ),
    ]);
    let roots: Vec<_> = Schema::get().roots().filter(|root| !root.is_config).collect();
    let mut all = serde_json::Map::new();
    for root in &roots {
        let path = Path::parse(&format!("/rests/data/{}:{}", root.module, root.name)).unwrap();
        let view = View::of(&path.steps).unwrap();
        let body = show(Flavour::Rfc8040, &path.steps[0], views.container(view));
        all.extend(body.as_object().unwrap().clone());
    }
    assert_eq!(all.len(), 7);
    assert_eq!(
        all["odl-nat:floating-ip-info"]["router-ports"],
        json!([{"router-id": "shop", "ports": [{"port-name": "shop:web",
            "internal-to-external-port-map": [
                {"internal-ip": "10.0.0.1", "external-ip": "10.96.0.1"}]}]}])
    );
    assert_eq!(all["l3vpn:vpn-interfaces"]["vpn-interface"][0]["vpn-instance-name"], "shop");
    check("get", &Value::Object(all));
}
