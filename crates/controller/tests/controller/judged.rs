//! What policies say of a connection: of nodes, of pods whose labels nobody said, of Services.

use crate::rig::{Rig, resource};
use serde_json::{Value, json};

fn workload(name: &str, node: &str, app: &str) -> Value {
    let mut workload = resource("Workload", name, &json!({"node": node}));
    workload["metadata"]["labels"] = json!({"app": app});
    workload
}

fn port(name: &str, node: &str, addresses: &[&str]) -> Value {
    resource("Port", name, &json!({"network": "pods", "node": node, "addresses": addresses}))
}

fn model() -> Vec<Value> {
    let node = |n: u8, own: &[&str]| {
        let blocks = [format!("10.1.{n}.0/24"), format!("fd01:0:0:{n}::/64")];
        let spec = json!({"tunnel": own[0], "addresses": own, "blocks": blocks});
        resource("Node", &format!("n{n}"), &spec)
    };
    let endpoints = |slice: &str, addresses: &[&str]| {
        let all: Vec<Value> = addresses.iter().map(|address| json!({"address": address})).collect();
        let ports = json!([{"name": "sql", "port": 7000}]);
        let spec = json!({"service": "shop:db", "ports": ports, "endpoints": all});
        resource("Endpoints", &format!("shop:{slice}"), &spec)
    };
    vec![
        resource(
            "Fabric",
            "default",
            &json!({"cluster": ["10.1.0.0/16", "fd01::/48"], "services": ["10.96.0.0/16"]}),
        ),
        node(1, &["192.0.2.1", "2001:db8::1"]),
        node(2, &["192.0.2.2", "2001:db8::2"]),
        node(3, &["192.0.2.3", "2001:db8::3"]),
        resource("Router", "default", &json!({})),
        resource("Network", "pods", &json!({"router": "default", "vni": 1, "reach": "routed"})),
        port("shop:db", "n1", &["10.1.1.5", "fd01:0:0:1::5"]),
        workload("shop:db", "n1", "db"),
        port("shop:web", "n2", &["10.1.2.5", "fd01:0:0:2::5"]),
        workload("shop:web", "n2", "web"),
        port("shop:back", "n2", &["10.1.2.6", "fd01:0:0:2::6"]),
        workload("shop:back", "n2", "back"),
        // Of these nobody says labels.
        port("shop:new", "n2", &["10.1.2.7", "fd01:0:0:2::7"]),
        port("bank:new", "n2", &["10.1.2.8", "fd01:0:0:2::8"]),
        resource(
            "NetworkPolicy",
            "shop:db",
            &json!({"podSelector": {"matchLabels": {"app": "db"}}, "ingress": [
                {"from": [{"podSelector": {"matchLabels": {"app": "web"}}}], "ports": [{"port": 7000}]},
                // The second node by both of its addresses, the third by one.
                {"from": [{"ipBlock": {"cidr": "192.0.2.2/32"}}, {"ipBlock": {"cidr": "2001:db8::2/127"}}]},
                {"from": [{"ipBlock": {"cidr": "10.1.2.8/32"}}]}]}),
        ),
        resource(
            "Service",
            "shop:db",
            &json!({"addresses": ["10.96.0.10"], "ports": [{"name": "sql", "port": 5432}]}),
        ),
        endpoints("both", &["10.1.1.5", "10.1.2.6"]),
    ]
}

fn asked(rig: &Rig, from: &str, to: &str, port: u16) -> (bool, String) {
    let body = json!({"from": from, "to": to, "port": port, "protocol": "tcp"});
    let answer = rig.send("POST", "/policy/test", &body).expect(200);
    (answer["passes"] == true, answer.to_string())
}

#[test]
fn both_sides_are_judged_as_switches_do() {
    let rig = Rig::new();
    rig.apply(&model());
    for (from, to, port, passes, words) in [
        ("shop:web", "shop:db", 7000, true, "allowed by shop:db ingress[0]"),
        ("shop:web", "shop:db", 7001, false, "no rule of shop:db allows it"),
        // A node by its own addresses, though its packets have its gateways'; in both families.
        ("n2", "shop:db", 7000, true, "allowed by shop:db ingress[1]"),
        ("192.0.2.2", "shop:db", 7000, true, "10.1.2.1"),
        ("n3", "shop:db", 7000, false, "allowed by shop:db ingress[1]"),
        ("2001:db8::3", "shop:db", 7000, true, "fd01:0:0:3::1"),
        ("192.0.2.3", "shop:db", 7000, false, "10.1.3.1"),
        ("n1", "shop:db", 7000, true, "a node always reaches its own pods"),
        // Whose labels are not known, where there are policies, and where there are none.
        ("shop:new", "shop:web", 80, false, "labels of shop:new are not known"),
        ("shop:web", "shop:new", 80, false, "labels of shop:new are not known"),
        ("n1", "shop:new", 80, false, "labels of shop:new are not known"),
        ("n2", "shop:new", 80, true, "a node always reaches its own pods"),
        ("bank:new", "shop:web", 80, true, "no policy is about its egress"),
        ("10.1.2.8", "shop:db", 80, true, "allowed by shop:db ingress[2]"),
        // A Service is who is behind it, at the port there: here one of them refuses.
        ("shop:back", "svc/shop:db", 5432, false, "to shop:db (10.1.1.5): "),
        ("shop:web", "svc/shop:db", 5432, true, "no policy is about its ingress"),
    ] {
        let (passed, said) = asked(&rig, from, to, port);
        assert_eq!(passed, passes, "{from} to {to}: {said}");
        assert!(said.contains(words), "{from} to {to}: {said}");
    }
    let refused = |to: &str, port: Value| {
        let body = json!({"from": "shop:web", "to": to, "port": port});
        rig.send("POST", "/policy/test", &body)
    };
    for (to, port, words) in [
        ("svc/shop:no", json!(80), "there is no Service shop:no"),
        ("svc/shop:db", json!(80), "has no port 80/tcp"),
        ("svc/shop:db", json!(null), "say which port"),
    ] {
        let answer = refused(to, port);
        assert!(answer.status / 100 == 4 && answer.body.contains(words), "{}", answer.body);
    }
    // A node that gets another address is another to policies, and back.
    for (own, passes) in [("192.0.2.9", false), ("192.0.2.2", true)] {
        let blocks = ["10.1.2.0/24", "fd01:0:0:2::/64"];
        let spec = json!({"tunnel": own, "addresses": [own], "blocks": blocks});
        rig.apply(&[resource("Node", "n2", &spec)]);
        let (passed, said) = asked(&rig, "n2", "shop:db", 7000);
        assert_eq!(passed, passes, "{said}");
    }
}
