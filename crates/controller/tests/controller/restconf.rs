//! RESTCONF as its clients use it: curl stands for the watcher, with the same head and bodies.

use crate::rig::{Answer, Rig, resource, until};
use osier_controller::config::{Config, PlainConfig, RestconfConfig};
use osier_controller::credentials::{self, Role};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

const LOCAL: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A controller with RESTCONF, and a watcher's credential.
struct Coe {
    rig: Rig,
    password: String,
}

fn uid(n: u32) -> String {
    format!("00000000-0000-0000-0000-{n:012}")
}

fn pod(n: u32, name: &str, host: Option<&str>, address: Option<&str>) -> Value {
    let mut pod = json!({
        "uid": uid(n), "cluster-id": uid(1), "name": name, "network-NS": "shop",
        "port-mac-address": "",
        "interface": [{"uid": uid(n), "network-id": uid(0), "network-type": "VXLAN"}],
    });
    if let Some(host) = host {
        pod["host-ip-address"] = host.into();
    }
    if let Some(address) = address {
        pod["interface"][0]["ip-address"] = address.into();
    }
    json!({"pods": [pod]})
}

impl Coe {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut RestconfConfig)) -> Self {
        Self::configured(|config| change(config.restconf.as_mut().unwrap()))
    }

    fn configured(change: impl FnOnce(&mut Config)) -> Self {
        let rig = Rig::with(|config| {
            let restconf = RestconfConfig { listen: LOCAL, ..RestconfConfig::default() };
            config.restconf = Some(restconf);
            change(config);
        });
        let password = credentials::add(&rig.config.credentials(), "watcher", Role::Write).unwrap();
        let coe = Self { rig, password };
        until("the credential is known", || {
            (coe.send("GET", "/restconf/config/pod:coe", None).status != 401).then_some(())
        });
        coe
    }

    fn call(&self, path: &str, arguments: &[&str], body: Option<&Value>) -> Answer {
        let url = format!("https://{}{path}", self.rig.restconf.0.unwrap());
        let user = format!("watcher:{}", self.password);
        let mut all = vec!["--user", &user, "-H", "Content-Type: application/json"];
        all.extend_from_slice(arguments);
        self.rig.curl_at(&url, &all, body.map(Value::to_string).as_deref())
    }

    fn send(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        self.call(path, &["-X", method, "-A", "Go-http-client/1.1"], body)
    }

    fn put(&self, path: &str, body: &Value) {
        let answer = self.send("PUT", path, Some(body));
        assert_eq!((answer.status, answer.body.as_str()), (200, ""), "{path}: {}", answer.body);
    }

    fn node(&self, n: u32, name: &str, address: &str) {
        let body = json!({"k8s-node:k8s-nodes": [{
            "k8s-node:uid": uid(n), "k8s-node:cluster-id": uid(1), "k8s-node:host-name": name,
            "k8s-node:internal-ip-address": address}]});
        self.put(&format!("/restconf/config/k8s-node:k8s-nodes-info/k8s-nodes/{}", uid(n)), &body);
    }

    fn put_pod(&self, n: u32, name: &str, host: Option<&str>, address: Option<&str>) {
        self.put(&pod_path(n), &pod(n, name, host, address));
    }

    fn names(&self, plural: &str) -> Vec<String> {
        let list = self.rig.get(&format!("/{plural}")).expect(200);
        let name = |item: &Value| item["metadata"]["name"].as_str().unwrap().to_owned();
        list["items"].as_array().unwrap().iter().map(name).collect()
    }
}

fn pod_path(n: u32) -> String {
    format!("/restconf/config/pod:coe/pods/{}", uid(n))
}

/// The error of RFC 8040 that an answer has: its tag, path and message.
fn error(answer: &Answer, status: u16) -> (String, String, String) {
    let body = answer.expect(status);
    let error = &body["ietf-restconf:errors"]["error"][0];
    let text = |member: &str| error[member].as_str().unwrap_or_default().to_owned();
    (text("error-tag"), text("error-path"), text("error-message"))
}

#[test]
fn a_pods_life_is_ports_networks_and_routers() {
    let coe = Coe::new();
    coe.put(
        "/restconf/config/k8s-cluster:k8s-clusters-info/",
        &json!({"k8s-clusters-info": {"k8s-clusters": [{"cluster-id": uid(1)}]}}),
    );
    coe.node(2, "n1", "192.0.2.11");
    coe.put_pod(3, "web", None, None);
    assert_eq!(coe.names("networks"), [""; 0]);
    coe.put_pod(3, "web", Some("192.0.2.11"), Some("10.11.1.4"));
    assert_eq!(coe.names("networks"), ["192.0.2.11:shop"]);
    assert_eq!(coe.names("routers"), ["default", "shop"]);
    let port = coe.rig.get("/ports/shop:web").expect(200);
    assert_eq!(port["status"]["addresses"], json!(["10.11.1.4"]));
    assert_eq!(port["spec"]["node"], "n1");

    // Under the names that operators know.
    let view = |path: &str| coe.send("GET", path, None).expect(200);
    let elan = view("/restconf/operational/elan:elan-instances");
    assert_eq!(elan["elan-instances"]["elan-instance"][0]["elan-instance-name"], "192.0.2.11:shop");
    let vpn = view("/rests/data/l3vpn:vpn-interfaces/vpn-interface=shop%3Aweb");
    assert_eq!(vpn["l3vpn:vpn-interface"][0]["adjacency"][0]["ip_address"], "10.11.1.4/32");
    let state = view("/restconf/operational/ietf-interfaces:interfaces-state");
    assert_eq!(state["interfaces-state"]["interface"][0]["name"], "shop:web");
    let refused = coe.send("PUT", "/restconf/config/elan:elan-instances", Some(&json!({"x": 1})));
    assert_eq!(error(&refused, 405).0, "operation-not-supported");

    // Every watcher of a daemon set says the same, and each deletes.
    for _ in 0..2 {
        let answer = coe.send("DELETE", &pod_path(3), None);
        assert_eq!((answer.status, answer.body.as_str()), (200, ""));
    }
    assert_eq!(coe.names("ports"), [""; 0]);
    assert_eq!(coe.names("networks"), [""; 0]);
    assert_eq!(coe.names("routers"), [""; 0]);
    assert_eq!(coe.names("nodes"), ["n1"]);
}

#[test]
fn data_and_model_survive_a_restart() {
    let mut coe = Coe::new();
    coe.node(2, "n1", "192.0.2.11");
    coe.put_pod(3, "web", Some("192.0.2.11"), Some("10.11.1.4"));
    let before = coe.send("GET", &pod_path(3), None).expect(200);
    coe.rig.config.restconf.as_mut().unwrap().listen = coe.rig.restconf.0.unwrap();
    coe.rig.stop();
    coe.rig.start();
    assert_eq!(coe.send("GET", &pod_path(3), None).expect(200), before);
    let revision =
        |coe: &Coe| coe.rig.get("/ports").expect(200)["metadata"]["resourceVersion"].clone();
    let revision_before = revision(&coe);
    coe.put_pod(3, "web", Some("192.0.2.11"), Some("10.11.1.4"));
    assert_eq!(revision(&coe), revision_before, "who says the same again changes nothing");
    coe.send("DELETE", &pod_path(3), None);
    assert_eq!(coe.names("ports"), [""; 0]);
}

#[test]
fn a_service_with_both_spellings_of_endpoints() {
    let coe = Coe::new();
    coe.node(2, "n1", "192.0.2.11");
    coe.put_pod(3, "db", Some("192.0.2.11"), Some("10.11.1.4"));
    let service = json!({"service:services": [{
        "service:uid": uid(4), "service:cluster-id": uid(1), "service:name": "db",
        "service:cluster-ip-address": "10.96.0.9", "service:network-NS": "shop",
        "service:ingress-ip-address": [""],
        "service:service-ports": [{"service:name": "", "service:port": 5432,
            "service:target-port": "sql", "service:node-port": 0}]}]});
    let at = format!("/restconf/config/service:service-information/services/{}", uid(4));
    coe.put(&at, &service);
    let endpoints = json!({"service:endpoints": [{
        "service:uid": uid(5), "service:cluster-id": uid(1), "service:name": "db",
        "service:network-NS": "shop",
        "service:endpoint-addresses": [{"service:ip-address": "10.11.1.4",
            "service:host-name": "", "service:node-name": null}],
        "service:endpoint-ports": [{"service:name": "", "service:port": 15432}]}]});
    coe.put(&format!("/restconf/config/service:endpoints-info/endpoints/{}", uid(5)), &endpoints);
    assert_eq!(coe.rig.get("/services/shop:db").expect(200)["status"]["ready"], 1);
    let floating = coe.send("GET", "/restconf/operational/odl-nat:floating-ip-info", None);
    assert_eq!(
        floating.expect(200)["floating-ip-info"]["router-ports"],
        json!([{"router-id": "shop", "ports": [{"port-name": "shop:db",
            "internal-to-external-port-map": [
                {"internal-ip": "10.11.1.4", "external-ip": "10.96.0.9"}]}]}])
    );
    // The other spelling: the Service names the pod. It is attached, and removed again.
    coe.send(
        "DELETE",
        &format!("/restconf/config/service:endpoints-info/endpoints/{}", uid(5)),
        None,
    );
    assert_eq!(coe.rig.get("/services/shop:db").expect(200)["status"]["ready"], 0);
    let attach = json!({"services": [{"uid": uid(4), "endpoints": [uid(3)]}]});
    assert_eq!(coe.send("PATCH", &at, Some(&attach)).status, 200);
    assert_eq!(coe.rig.get("/services/shop:db").expect(200)["status"]["ready"], 1);
    coe.send("DELETE", &pod_path(3), None);
    assert_eq!(coe.rig.get("/services/shop:db").expect(200)["status"]["ready"], 0);
    let counted = coe.rig.get("//metrics").body;
    assert!(
        counted.contains("osier_controller_restconf_normalised_total{rule=\"empty\"} 1"),
        "{counted}"
    );
    assert!(counted.contains("osier_controller_restconf_normalised_total{rule=\"null\"} 1"));
}

#[test]
fn rfc_8040_tells_what_is_new_and_keeps_to_tags() {
    let coe = Coe::new();
    let at = format!("/rests/data/pod:coe/pods={}", uid(3));
    let body = pod(3, "web", None, None);
    assert_eq!(coe.send("PUT", &at, Some(&body)).status, 201);
    assert_eq!(coe.send("PUT", &at, Some(&body)).status, 204);
    let read = coe.send("GET", &at, None);
    assert_eq!(read.expect(200)["pod:pods"][0]["name"], "web");
    let head = read.head.to_lowercase();
    assert!(head.contains("content-type: application/yang-data+json"), "{head}");
    let tag = head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap().to_owned();
    let unchanged = format!("If-None-Match: {tag}");
    assert_eq!(coe.call(&at, &["-H", &unchanged], None).status, 304);
    let others = "If-Match: \"another\"";
    let stale = coe.call(&at, &["-X", "DELETE", "-H", others], None);
    assert_eq!(error(&stale, 412).0, "operation-failed");
    let only_new = coe.call(&at, &["-X", "PUT", "-H", "If-None-Match: *"], Some(&body));
    assert_eq!(only_new.status, 412);
    let mine = format!("If-Match: {tag}");
    let patch = json!({"pod:pods": [{"uid": uid(3), "name": "db"}]});
    assert_eq!(coe.call(&at, &["-X", "PATCH", "-H", &mine], Some(&patch)).status, 204);

    let made = coe.send("POST", "/rests/data/pod:coe", Some(&pod(4, "new", None, None)));
    assert_eq!(made.status, 201);
    let location = format!("location: /rests/data/pod:coe/pods={}", uid(4));
    assert!(made.head.to_lowercase().contains(&location), "{}", made.head);
    let twice = coe.send("POST", "/rests/data/pod:coe", Some(&pod(4, "new", None, None)));
    assert_eq!(error(&twice, 409).0, "data-exists");
    let missing = coe.send(
        "PATCH",
        &format!("/rests/data/pod:coe/pods={}", uid(9)),
        Some(&pod(9, "x", None, None)),
    );
    assert_eq!(error(&missing, 404).0, "data-missing");
    assert_eq!(coe.send("DELETE", &at, None).status, 204);
    assert_eq!(coe.send("DELETE", &at, None).status, 204);
    assert_eq!(error(&coe.send("GET", &at, None), 404).0, "data-missing");
    assert_eq!(
        coe.send("GET", "/rests/data", None).expect(200)["ietf-restconf:data"]["pod:coe"]["pods"]
            [0]["uid"],
        uid(4)
    );
    assert!(coe.send("GET", "/rests/modules/pod.yang", None).body.starts_with("module pod {"));
}

#[test]
fn bad_input_is_refused_with_its_place_and_changes_nothing() {
    let coe = Coe::new();
    coe.node(2, "n1", "192.0.2.11");
    coe.node(7, "n2", "192.0.2.12");
    coe.put_pod(3, "web", Some("192.0.2.11"), Some("10.11.1.4"));
    let before = coe.send("GET", "/rests/data", None).body;
    let networks = coe.names("networks");
    let at = pod_path(4);
    let path = format!("/pod:coe/pods[uid='{}']", uid(4));
    let with = |member: &str, value: Value| {
        let mut body = pod(4, "db", Some("192.0.2.11"), Some("10.11.1.5"));
        body["pods"][0][member] = value;
        body
    };
    for (body, status, tag, place) in [
        (pod(5, "db", None, None), 400, "bad-element", path.clone()),
        (with("labels", json!({})), 400, "unknown-element", format!("{path}[1]")),
        (
            with("host-ip-address", json!("192.0.2.300")),
            400,
            "invalid-value",
            format!("{path}[1]/host-ip-address"),
        ),
        (
            with("name", json!("a/b")),
            400,
            "invalid-value",
            format!("/pod:coe/pods={}/name", uid(4)),
        ),
        (
            pod(4, "far", Some("192.0.2.12"), Some("10.11.1.4")),
            409,
            "in-use",
            format!("/pod:coe/pods={}/interface/ip-address", uid(4)),
        ),
    ] {
        let answer = coe.send("PUT", &at, Some(&body));
        let (found, at, said) = error(&answer, status);
        assert_eq!((found.as_str(), &at), (tag, &place), "{said}");
        assert!(!said.is_empty());
    }
    let broken = coe.rig.curl_at(
        &format!("https://{}{at}", coe.rig.restconf.0.unwrap()),
        &["-X", "PUT", "--user", &format!("watcher:{}", coe.password)],
        Some("{\"pods\": ["),
    );
    assert_eq!(broken.status, 415, "curl says that it is a form");
    let broken = coe.call(&at, &["-X", "PUT"], Some(&json!("pods")));
    assert_eq!(error(&broken, 400).0, "malformed-message");
    assert_eq!(error(&coe.send("GET", "/rests/data/pod:nothing", None), 404).0, "data-missing");
    assert_eq!(
        error(&coe.send("PUT", "/restconf/operational/pod:coe", Some(&json!({}))), 405).0,
        "operation-not-supported"
    );
    let large = with("name", json!("x".repeat(9 << 20)));
    assert_eq!(error(&coe.send("PUT", &at, Some(&large)), 413).0, "too-big");
    assert_eq!(coe.send("GET", "/rests/data", None).body, before);
    assert_eq!(coe.names("networks"), networks);
}

#[test]
fn pools_that_give_what_is_anothers_are_refused_and_change_nothing() {
    let coe = Coe::new();
    let fabric = json!({"cluster": ["10.1.0.0/16"], "services": ["10.96.0.0/16"]});
    coe.rig.apply(&[resource("Fabric", "default", &fabric)]);
    coe.rig.apply(&[resource("Pool", "theirs", &json!({"cidr": "10.9.0.0/24"}))]);
    let node = |n: u32, address: &str, block: &str| {
        json!({"k8s-nodes": [{"uid": uid(n), "host-name": format!("n{n}"),
            "internal-ip-address": address, "pod-cidr": block}]})
    };
    let nodes = |n| format!("/restconf/config/k8s-node:k8s-nodes-info/k8s-nodes/{}", uid(n));
    coe.put(&nodes(2), &node(2, "192.0.2.11", "10.11.1.0/24"));
    let pool = |id: &str, subnets: &[&str]| {
        let pools: Vec<Value> = subnets.iter().map(|subnet| json!({"subnet": subnet})).collect();
        json!({"network": [{"network-id": id, "allocation-pool": pools}]})
    };
    let of = "/restconf/config/dhcp_allocation_pool:dhcp_allocation_pool";
    let path = |id: &str| format!("{of}/network/{id}");
    coe.put(&path("pod-pool"), &pool("pod-pool", &["10.30.0.0/24", "fd30::/64"]));
    let before = coe.send("GET", "/rests/data", None).body;
    let pools = coe.names("pools");
    for (subnet, status, said) in [
        ("10.30.0.128/25", 409, "overlap in what they give out"),
        ("10.9.0.0/28", 400, "10.9.0.1 is given out by pool theirs, too"),
        (
            "10.11.0.0/16",
            400,
            "10.11.1.0, which it gives out, is of the block 10.11.1.0/24 of node n2",
        ),
        ("10.1.5.0/24", 400, "which nodes' blocks are taken from"),
        ("10.96.5.0/24", 400, "is of the fabric's services 10.96.0.0/16"),
        ("192.0.2.0/24", 400, "192.0.2.11, which it gives out, is node n2's own"),
    ] {
        for id in ["shop", "service-pool"] {
            let answer = coe.send("PUT", &path(id), Some(&pool(id, &["10.40.0.0/24", subnet])));
            let (_, at, found) = error(&answer, status);
            assert!(found.contains(said), "{found}");
            assert!(at.starts_with("/dhcp_allocation_pool:dhcp_allocation_pool/network"), "{at}");
            assert!(at.contains(id), "{at}");
        }
    }
    let answer = coe.send("PUT", &nodes(3), Some(&node(3, "192.0.2.12", "10.30.0.0/24")));
    let (_, at, found) = error(&answer, 400);
    assert!(found.contains("10.30.0.1 of 10.30.0.0/24 is given out by pool pod-pool"), "{found}");
    assert!(at.starts_with("/k8s-node:k8s-nodes-info"), "{at}");
    assert_eq!(coe.send("GET", "/rests/data", None).body, before);
    assert_eq!(coe.names("pools"), pools);
    // In the place of what it was, it may have the same addresses.
    coe.put(&path("pod-pool"), &pool("pod-pool", &["10.30.0.0/25", "fd30::/64"]));
    assert_eq!(coe.names("pools"), ["pod-pool:10.30.0.0-25", "pod-pool:fd30::-64", "theirs"]);
}

#[test]
fn nobody_comes_in_without_a_credential_or_in_the_clear_from_elsewhere() {
    let coe = Coe::with(|config| {
        config.plain =
            Some(PlainConfig { listen: LOCAL, allow: vec!["127.0.0.1/32".parse().unwrap()] });
    });
    let url = format!("https://{}{}", coe.rig.restconf.0.unwrap(), pod_path(3));
    for user in ["", "admin:admin", &format!("admin:{}", coe.password), "watcher:osier_x_y"] {
        let mut arguments = vec!["-X", "PUT", "-H", "Content-Type: application/json"];
        if !user.is_empty() {
            arguments.extend(["--user", user]);
        }
        let answer =
            coe.rig.curl_at(&url, &arguments, Some(&pod(3, "web", None, None).to_string()));
        assert_eq!(error(&answer, 401).0, "access-denied");
        assert!(answer.head.to_lowercase().contains("www-authenticate: basic"), "{}", answer.head);
    }
    let reader = credentials::add(&coe.rig.config.credentials(), "reader", Role::Read).unwrap();
    let reader = format!("reader:{reader}");
    let answer = until("the reader is known", || {
        let answer = coe.rig.curl_at(&url, &["-X", "DELETE", "--user", &reader], None);
        (answer.status != 401).then_some(answer)
    });
    assert_eq!(error(&answer, 403).0, "access-denied");

    let plain = format!("http://{}/restconf/config/pod:coe", coe.rig.restconf.1.unwrap());
    let user = format!("watcher:{}", coe.password);
    assert_eq!(coe.rig.curl_at(&plain, &["--user", &user], None).status, 404, "nothing is there");
    let elsewhere = ["--user", &user, "--interface", "127.0.0.2"];
    assert_eq!(coe.rig.curl_at(&plain, &elsewhere, None).status, 0, "it is not talked to");
    assert_eq!(Coe::new().rig.restconf.1, None, "off until it is asked for");
}

/// Over TLS and in the clear: who says half of a request is not waited for, and half is nothing.
#[test]
fn slow_requests_end_and_change_nothing() {
    let coe = Coe::configured(|config| {
        (config.limits.request_seconds, config.limits.header_seconds) = (2, 2);
        let allow = vec!["127.0.0.1/32".parse().unwrap()];
        config.restconf.as_mut().unwrap().plain = Some(PlainConfig { listen: LOCAL, allow });
    });
    let body = pod(3, "web", None, None).to_string();
    let (path, length, credential) = (pod_path(3), body.len() + 1000, &coe.password);
    let begun = format!(
        "PUT {path} HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer {credential}\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    for sent in ["", &begun[..20], &begun] {
        let mut stream = TcpStream::connect(coe.rig.restconf.1.unwrap()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.write_all(sent.as_bytes()).unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).expect("it is ended");
        assert!(said.is_empty() || said.starts_with("HTTP/1.1 408"), "{said}");
    }
    let padded = format!("{body}{}", " ".repeat(2000));
    let url = format!("https://{}{path}", coe.rig.restconf.0.unwrap());
    let user = format!("watcher:{credential}");
    let slow = ["-X", "PUT", "-H", "Content-Type: application/json", "--limit-rate", "20"];
    let answer = coe.rig.curl_at(&url, &[&slow[..], &["--user", &user]].concat(), Some(&padded));
    assert!(matches!(answer.status, 408 | 0), "{answer:?}");
    let found = until("an answer", || {
        Some(coe.send("GET", &path, None).status).filter(|status| matches!(status, 200 | 404))
    });
    assert_eq!(found, 404, "half of it was taken");
}

#[test]
fn what_a_client_no_longer_names_after_its_restart_goes() {
    let coe = Coe::with(|config| config.heal_seconds = 1);
    let begin = json!({"k8s-clusters-info": {"k8s-clusters": [{"cluster-id": uid(1)}]}});
    let start = || coe.put("/restconf/config/k8s-cluster:k8s-clusters-info/", &begin);
    coe.node(2, "n1", "192.0.2.11");
    coe.put_pod(3, "stays", Some("192.0.2.11"), Some("10.11.1.4"));
    coe.put_pod(4, "goes", Some("192.0.2.11"), Some("10.11.1.5"));
    // A script beside the watcher, with the same credential.
    let by_hand = pod(5, "gateway", Some("192.0.2.11"), Some("10.11.1.254"));
    let answer = coe.call(&pod_path(5), &["-X", "PUT", "-A", "curl/8.0"], Some(&by_hand));
    assert_eq!(answer.status, 200);
    start();
    coe.put_pod(3, "stays", Some("192.0.2.11"), Some("10.11.1.4"));
    until("the pod goes", || (coe.names("ports") == ["shop:gateway", "shop:stays"]).then_some(()));
    assert_eq!(coe.names("nodes"), ["n1"], "of the nodes it said nothing");
    let counted = coe.rig.get("//metrics").body;
    assert!(counted.contains("osier_controller_restconf_healed_total 1"), "{counted}");
}

/// The operator's own routers and nodes are used, and never deleted; his networks are not touched.
#[test]
fn what_others_made_stays_theirs() {
    let coe = Coe::new();
    coe.put_pod(3, "web", Some("192.0.2.11"), Some("10.11.1.4"));
    assert_eq!(coe.names("ports"), [""; 0], "its node is not known");
    coe.rig.apply(&[
        resource("Node", "agent1", &json!({"tunnel": "192.0.2.11"})),
        resource("Router", "office", &json!({})),
    ]);
    let port = until("the pod has its port", || {
        let port = coe.rig.get("/ports/shop:web");
        (port.status == 200).then(|| port.expect(200))
    });
    assert_eq!(port["spec"]["node"], "agent1");
    coe.send("DELETE", &pod_path(3), None);
    assert_eq!(coe.names("nodes"), ["agent1"]);
    assert_eq!(coe.names("routers"), ["office"]);
    coe.rig.apply(&[resource("Network", "192.0.2.11:shop", &json!({}))]);
    let refused =
        coe.send("PUT", &pod_path(3), Some(&pod(3, "web", Some("192.0.2.11"), Some("10.11.1.4"))));
    let said = error(&refused, 409).2;
    assert_eq!(said, "Network 192.0.2.11:shop is there already, and was not made here");
    assert_eq!(error(&coe.send("GET", &pod_path(3), None), 404).0, "data-missing");
}
