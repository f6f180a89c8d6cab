//! What the controller asks agents, and agents the controller.

use crate::agent::Agent;
use crate::rig::{Rig, resource, until};
use osier_fleet::{AttachError, AttachRequest};
use osier_model::NetworkName;
use osier_resource::port_key;
use serde_json::json;

fn rig() -> Rig {
    let rig = Rig::new();
    let port = |node: &str| json!({"network": "blue", "node": node});
    rig.apply(&[
        resource("Node", "n1", &json!({"tunnel": "192.0.2.1"})),
        resource("Node", "n2", &json!({"tunnel": "192.0.2.2"})),
        resource("Network", "blue", &json!({"subnets": [{"cidr": "10.5.0.0/24"}]})),
        resource("Port", "shop:web", &port("n1")),
        resource("Port", "shop:db", &port("n2")),
    ]);
    rig
}

/// Asks until the agent's ear is there.
fn ready(rig: &Rig, node: &str) {
    until("the agent to be asked", || {
        (rig.get(&format!("/nodes/{node}/diagnostics")).status == 200).then_some(())
    });
}

#[test]
fn a_packet_is_traced_across_nodes() {
    let rig = rig();
    let trace = |from: &str, to: &str| {
        rig.send("POST", "/trace", &json!({"from": from, "to": to})).expect(200)
    };
    let nobody = trace("shop:web", "shop:db");
    assert_eq!(
        (&nobody["verdict"], &nobody["reason"]),
        (&json!("unknown"), &json!("node n1 is not connected"))
    );
    let _agents = [Agent::join(&rig, "n1"), Agent::join(&rig, "n2")];
    ready(&rig, "n1");
    ready(&rig, "n2");
    for (from, to) in [("shop:web", "shop:db"), ("shop/web", "10.5.0.2"), ("10.5.0.1", "shop:db")] {
        let journey = trace(from, to);
        assert_eq!(journey["verdict"], "delivered", "{journey}");
        assert_eq!(journey["reason"], "it reaches port shop:db on node n2");
        let nodes: Vec<&str> = journey["hops"]
            .as_array()
            .unwrap()
            .iter()
            .map(|h| h["node"].as_str().unwrap())
            .collect();
        assert_eq!(nodes, ["n1", "n2"]);
        assert_eq!(journey["hops"][1]["raw"], "as node n2 says");
        assert_eq!(journey["hops"][0]["tables"][0]["name"], "ingress");
    }
    let dropped = trace("shop:web", "10.5.0.99");
    assert_eq!(dropped["verdict"], "dropped");
    let said = "dropped by network blue on node n1 in table 20 (route): nobody has 10.5.0.99";
    assert_eq!(dropped["reason"], said);
    for (from, to) in
        [("shop:nobody", "shop:db"), ("shop:web", "shop:nobody"), ("shop:web", "fd00::1")]
    {
        rig.send("POST", "/trace", &json!({"from": from, "to": to})).refused(422, "Invalid");
    }
}

#[test]
fn nodes_are_captured_checked_and_paused() {
    let mut rig = rig();
    rig.get("/ports/shop:web/capture").refused(503, "Unavailable");
    rig.get("/nodes/n9/diagnostics").refused(404, "NotFound");
    let _agent = Agent::join(&rig, "n1");
    ready(&rig, "n1");
    assert_eq!(rig.get("/nodes/n1/diagnostics").expect(200)["flows"], "flows of n1");
    let capture = rig.get("/ports/shop:web/capture?count=7&seconds=1");
    assert_eq!((capture.status, capture.body.as_str()), (200, "7 packets of shop:web"));
    assert!(capture.head.contains("application/vnd.tcpdump.pcap"), "{}", capture.head);
    rig.get("/ports/shop:web/capture?count=0").refused(422, "Invalid");
    rig.get("/ports/shop:nobody/capture").refused(404, "NotFound");
    let checks = rig.get("/check").expect(200);
    let checks = checks["checks"].as_array().unwrap();
    let find = |name: &str, node: &str| {
        checks.iter().find(|check| check["name"] == name && check["node"] == node).unwrap()
    };
    assert_eq!(find("clock", "n1")["result"], "warning");
    assert_eq!(find("converged", "n2")["result"], "failed");
    let paused = rig.curl("/nodes/n1/pause", &["-X", "POST"], None).expect(200);
    assert_eq!((&paused["paused"], &paused["done"]), (&json!(true), &json!(true)));
    let away = rig.curl("/nodes/n2/pause", &["-X", "POST"], None).expect(200);
    assert_eq!(
        (&away["done"], &away["problem"]),
        (&json!(false), &json!("node n2 is not connected"))
    );
    let resumed = rig.curl("/nodes/n1/resume", &["-X", "POST"], None).expect(200);
    assert_eq!((&resumed["paused"], &resumed["done"]), (&json!(false), &json!(true)));
    rig.stop();
}

#[test]
fn agents_get_ports_that_are_recorded_first() {
    let rig = rig();
    let agents = [Agent::join(&rig, "n1"), Agent::join(&rig, "n2")];
    let generation = std::cell::Cell::new(5);
    let request = |name: &str, network: &str| AttachRequest {
        key: port_key(name).unwrap(),
        network: NetworkName::new(network).unwrap(),
        mac: None,
        addresses: Vec::new(),
        generation: generation.get(),
    };
    let attach = |n: usize, name: &str, network: &str| {
        until("an answer", || {
            let request = request(name, network);
            let asked = agents[n].client.attach(&request);
            match rig.runtime.block_on(asked) {
                // Not connected yet.
                Err(AttachError::Later(_)) => None,
                answer => Some(answer),
            }
        })
    };
    let port = attach(0, "shop:cache", "blue").unwrap();
    assert_eq!(port.addresses, ["10.5.0.3".parse::<std::net::IpAddr>().unwrap()]);
    assert_eq!(attach(0, "shop:cache", "blue").unwrap(), port, "the same again");
    let stored = rig.get("/ports/shop:cache").expect(200);
    assert_eq!(stored["status"]["addresses"], json!(["10.5.0.3"]));
    assert_eq!(stored["spec"]["node"], "n1");
    let said = attach(1, "shop:cache", "blue").unwrap_err().to_string();
    assert_eq!(said, "port shop:cache is node n1's already");
    assert!(attach(0, "shop:other", "green").is_err());
    // What a user made is found, and stays.
    assert_eq!(attach(0, "shop:web", "blue").unwrap().addresses[0].to_string(), "10.5.0.1");
    let detach = |n: usize, name: &str| {
        let (key, generation) = (port_key(name).unwrap(), generation.get());
        rig.runtime.block_on(agents[n].client.detach(&key, generation)).unwrap()
    };
    detach(1, "shop:cache");
    rig.get("/ports/shop:cache").expect(200);
    // A request that was under way for too long takes nothing of the life after it.
    generation.set(6);
    assert_eq!(attach(0, "shop:cache", "blue").unwrap(), port, "the same again");
    generation.set(5);
    detach(0, "shop:cache");
    rig.get("/ports/shop:cache").expect(200);
    generation.set(6);
    let revision = detach(0, "shop:cache");
    rig.get("/ports/shop:cache").refused(404, "NotFound");
    assert_eq!(detach(0, "shop:cache"), revision, "what is gone is gone");
    detach(0, "shop:web");
    rig.get("/ports/shop:web").expect(200);
}
