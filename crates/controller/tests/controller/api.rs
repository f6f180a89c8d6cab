//! What the API does when it is used well.

use crate::rig::{Rig, resource, until};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};

fn cluster() -> Vec<Value> {
    let subnets = json!([{"cidr": "10.5.0.0/24", "gateway": "10.5.0.1"}]);
    vec![
        resource("Port", "shop:web", &json!({"network": "blue", "node": "n1"})),
        resource("Network", "blue", &json!({"router": "shop", "subnets": subnets})),
        resource("Router", "shop", &json!({})),
        resource("Node", "n1", &json!({"tunnel": "192.0.2.1"})),
        resource("Node", "n2", &json!({"tunnel": "192.0.2.2"})),
        resource("Fabric", "default", &json!({"cluster": ["10.1.0.0/16", "fd01::/48"]})),
    ]
}

#[test]
fn a_resource_lives_and_dies() {
    let rig = Rig::new();
    let network = resource("Network", "blue", &json!({"subnets": [{"cidr": "10.5.0.0/24"}]}));
    let made = rig.send("POST", "/networks", &network).expect(201);
    assert_eq!(made["status"]["vni"], 4096);
    assert_eq!(made["metadata"]["generation"], 1);
    let version = made["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    assert_eq!(rig.get("/networks/blue").expect(200), made);
    rig.send("POST", "/networks", &network).refused(409, "Conflict");

    let patch = json!({"metadata": {"labels": {"tenant": "shop"}}, "spec": {"reach": "routed"}});
    let patched = rig.send("PATCH", "/networks/blue", &patch).expect(200);
    assert_eq!(patched["spec"]["reach"], "routed");
    assert_eq!(patched["status"]["vni"], 4096);
    assert_eq!(patched["metadata"]["generation"], 2);

    // Whoever read it before is told.
    let mut mine = made.clone();
    mine["spec"]["reach"] = "bridged".into();
    let said = rig.send("PUT", "/networks/blue", &mine).refused(409, "Conflict");
    assert!(said.contains("read it again"), "{said}");
    let if_match = format!("If-Match: \"{version}\"");
    rig.curl("/networks/blue", &["-X", "DELETE", "-H", &if_match], None).refused(409, "Conflict");
    rig.send("PUT", "/networks/blue?dryRun=true", &network).expect(200);
    assert_eq!(rig.get("/networks/blue").expect(200), patched, "a dry run changes nothing");

    rig.curl("/networks/blue", &["-X", "DELETE"], None).expect(200);
    rig.get("/networks/blue").refused(404, "NotFound");
    rig.curl("/networks/blue", &["-X", "DELETE"], None).refused(404, "NotFound");
}

#[test]
fn applying_allocates_what_is_left_out() {
    let rig = Rig::new();
    let dry = rig.send("POST", "/apply", &json!({"items": cluster(), "dryRun": true})).expect(200);
    assert_eq!(dry["items"][0]["result"], "created");
    assert_eq!(rig.get("/ports").expect(200)["items"], json!([]));
    let applied = rig.apply(&cluster());
    assert_eq!(
        applied["items"][0],
        json!({"kind": "Port", "name": "shop:web", "result": "created"})
    );
    let again = rig.apply(&cluster());
    assert!(again["items"].as_array().unwrap().iter().all(|i| i["result"] == "unchanged"));
    assert_eq!(again["resourceVersion"], applied["resourceVersion"], "nothing was stored");

    let port = rig.get("/ports/shop:web").expect(200);
    assert_eq!(port["status"]["addresses"], json!(["10.5.0.2"]));
    assert_eq!(port["status"]["mac"], "0a:58:0a:05:00:02");
    let blocks =
        |name: &str| rig.get(&format!("/nodes/{name}")).expect(200)["status"]["blocks"].clone();
    assert_eq!(blocks("n1"), json!(["10.1.0.0/24", "fd01::/64"]));
    assert_eq!(blocks("n2"), json!(["10.1.1.0/24", "fd01:0:0:1::/64"]));
    assert_eq!(rig.get("/routers/shop").expect(200)["status"]["vrf"], 1);

    // All or nothing, and the reason names object and field.
    let bad = json!({"items": [
        resource("Router", "good", &json!({})),
        resource("Port", "shop:db", &json!({"network": "green", "node": "n1"})),
    ]});
    let answer = rig.send("POST", "/apply", &bad);
    let said = answer.refused(422, "Invalid");
    assert_eq!(said, "Port shop:db: spec.network: there is no network green");
    assert_eq!(
        answer.expect(422)["error"]["details"],
        json!([{"object": "Port shop:db", "field": "spec.network", "problem": "there is no network green"}])
    );
    rig.get("/routers/good").refused(404, "NotFound");

    let gone = json!({"items": [{"kind": "Network", "name": "blue"}]});
    let said = rig.send("POST", "/delete", &gone).refused(409, "InUse");
    assert_eq!(said, "network blue cannot go: port shop:web needs it");
    let gone = json!({"items": [
        {"kind": "Network", "name": "blue"}, {"kind": "ports", "name": "shop:web"},
    ]});
    let deleted = rig.send("POST", "/delete", &gone).expect(200);
    assert_eq!(deleted["items"][0]["result"], "deleted");
}

#[test]
fn pools_are_given_out_and_run_dry() {
    let rig = Rig::new();
    let network = json!({"subnets": [{"cidr": "10.5.0.0/24"}], "pools": ["few"]});
    let said = rig.send("POST", "/networks", &resource("Network", "blue", &network));
    assert_eq!(said.refused(422, "Invalid"), "Network blue: spec.pools[0]: there is no pool few");
    rig.apply(&[
        resource("Pool", "few", &json!({"cidr": "10.5.0.8/29", "exclude": ["10.5.0.12/30"]})),
        resource("Network", "blue", &network),
        resource("Node", "n1", &json!({"tunnel": "192.0.2.1"})),
    ]);
    let port = |name: &str| resource("Port", name, &json!({"network": "blue", "node": "n1"}));
    for (name, address) in [("a:1", "10.5.0.9"), ("a:2", "10.5.0.10"), ("a:3", "10.5.0.11")] {
        let made = rig.send("POST", "/ports", &port(name)).expect(201);
        assert_eq!(made["status"]["addresses"], json!([address]));
    }
    let said = rig.send("POST", "/ports", &port("a:4")).refused(409, "Exhausted");
    assert!(said.contains("network blue has no free address"), "{said}");
    let pool = rig.get("/pools/few").expect(200);
    assert_eq!(pool["status"], json!({"used": 3, "capacity": "3"}));
    rig.curl("/pools/few", &["-X", "DELETE"], None).refused(409, "InUse");
    rig.curl("/ports/a:2", &["-X", "DELETE"], None).expect(200);
    let made = rig.send("POST", "/ports", &port("a:5")).expect(201);
    assert_eq!(made["status"]["addresses"], json!(["10.5.0.10"]));
}

#[test]
fn lists_come_in_pages_and_by_label() {
    let rig = Rig::new();
    let router = |n: usize| {
        let mut router = resource("Router", &format!("r{n:02}"), &json!({}));
        let color = if n.is_multiple_of(2) { "even" } else { "odd" };
        router["metadata"]["labels"] = json!({"color": color});
        router
    };
    rig.apply(&(0..25).map(router).collect::<Vec<_>>());
    let (mut names, mut path) = (Vec::new(), "/routers?limit=10".to_owned());
    loop {
        let page = rig.get(&path).expect(200);
        assert_eq!(page["kind"], "RouterList");
        let items = page["items"].as_array().unwrap();
        names.extend(items.iter().map(|i| i["metadata"]["name"].as_str().unwrap().to_owned()));
        let Some(token) = page["metadata"]["continue"].as_str() else { break };
        path = format!("/routers?limit=10&continue={token}");
        // What comes later is not on later pages: they are of one moment.
        rig.apply(&[router(99)]);
    }
    assert_eq!(names, (0..25).map(|n| format!("r{n:02}")).collect::<Vec<_>>());
    let odd = rig.get("/routers?labelSelector=color%3Dodd&limit=5").expect(200);
    assert_eq!(odd["items"].as_array().unwrap().len(), 5);
    assert!(odd["metadata"]["continue"].is_string());
    rig.get("/routers?labelSelector=a%20b").refused(400, "Malformed");
    rig.get("/routers?continue=nonsense").refused(400, "Malformed");
    rig.get("/routers?limit=many").refused(400, "Malformed");
}

#[test]
fn a_watch_tells_what_happens() {
    let rig = Rig::new();
    rig.apply(&[resource("Router", "before", &json!({}))]);
    let list = rig.get("/routers").expect(200);
    let version = list["metadata"]["resourceVersion"].as_str().unwrap();
    let mut watch = rig.watching(&format!("/routers?watch=true&resourceVersion={version}"));
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut next = || -> Value {
        loop {
            let event: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
            if event["type"] != "BOOKMARK" {
                return event;
            }
        }
    };
    rig.apply(&[resource("Router", "one", &json!({}))]);
    let added = next();
    assert_eq!(
        (&added["type"], &added["object"]["metadata"]["name"]),
        (&json!("ADDED"), &json!("one"))
    );
    rig.send("PATCH", "/routers/one", &json!({"spec": {"vrf": 9}})).expect(200);
    let modified = next();
    assert_eq!(
        (&modified["type"], &modified["object"]["spec"]["vrf"]),
        (&json!("MODIFIED"), &json!(9))
    );
    rig.curl("/routers/one", &["-X", "DELETE"], None).expect(200);
    assert_eq!(next()["type"], "DELETED");
    watch.kill().unwrap();
    watch.wait().unwrap();

    let compacted = format!("/routers?watch=true&resourceVersion={}", "0000000000000001-3");
    rig.get(&compacted).refused(410, "Gone");
}

#[test]
fn the_controller_tells_about_itself() {
    let rig = Rig::new();
    assert_eq!(rig.anonymous("//healthz", &[], None).status, 200);
    assert_eq!(rig.anonymous("//readyz", &[], None).status, 200);
    for path in ["//version", "//metrics", "//openapi.json"] {
        rig.anonymous(path, &[], None).refused(401, "Unauthorized");
    }
    let document = rig.get("//openapi.json").expect(200);
    assert_eq!(document["openapi"], "3.1.0");
    assert!(document["paths"]["/apis/osier.dev/v1alpha1/ports/{name}"]["patch"].is_object());
    let metrics = rig.get("//metrics").body;
    for name in ["osier_controller_requests_total", "osier_controller_certificate_expiry_seconds"] {
        assert!(metrics.contains(name), "{metrics}");
    }
    rig.apply(&cluster());
    let status = rig.get("/status").expect(200);
    assert_eq!(status["controller"]["leader"], true);
    assert!(status["controller"]["certificateExpiry"].is_string());
    assert_eq!(status["nodes"][0]["name"], "n1");
    assert_eq!(status["nodes"][0]["connected"], false);
    let paused = rig.curl("/nodes/n1/pause", &["-X", "POST"], None).expect(200);
    assert_eq!(paused["paused"], true);
    assert_eq!(rig.get("/status").expect(200)["nodes"][0]["paused"], true);
    rig.curl("/nodes/n9/pause", &["-X", "POST"], None).refused(404, "NotFound");
}

#[test]
fn http_2_and_http_1_are_spoken() {
    let rig = Rig::new();
    for (flag, says) in [("--http1.1", "HTTP/1.1 200"), ("--http2", "HTTP/2 200")] {
        let answer = rig.curl("/status", &[flag], None);
        assert!(answer.head.starts_with(says), "{}", answer.head);
    }
}

#[test]
fn a_restart_forgets_nothing() {
    let mut rig = Rig::new();
    rig.apply(&cluster());
    rig.curl("/nodes/n2/pause", &["-X", "POST"], None).expect(200);
    let status = rig.get("/status").expect(200);
    let before = rig.get("/ports/shop:web").expect(200);
    rig.stop();
    rig.start();
    assert_eq!(rig.get("/ports/shop:web").expect(200), before);
    let now = rig.get("/status").expect(200);
    let term = |status: &Value| status["controller"]["term"].as_u64().unwrap();
    assert!(term(&now) > term(&status));
    assert_eq!(now["nodes"][1]["paused"], true);
    // Numbers that were given before are not given again.
    let router = rig.send("POST", "/routers", &resource("Router", "next", &json!({}))).expect(201);
    assert_eq!(router["status"]["vrf"], 2);
    // The administrator of the machine gets in with what the controller left.
    let admin = std::fs::read_to_string(rig.config.admin()).unwrap();
    let admin: Value = toml_value(&admin);
    rig.credential = admin["credential"].as_str().unwrap().to_owned();
    until("the administrator's credential", || (rig.get("/status").status == 200).then_some(()));
}

fn toml_value(text: &str) -> Value {
    let value: toml::Table = text.parse().unwrap();
    serde_json::to_value(value).unwrap()
}
