//! Nodes: they join with a token, follow their views, and outlive restarts and restored backups.

use crate::agent::{Agent, token};
use crate::rig::{Rig, resource, until};
use osier_fleet::client::{Credentials, JoinError, join};
use osier_fleet::{Report, Token};
use serde_json::{Value, json};

fn node_status(rig: &Rig, name: &str) -> Value {
    let status = rig.get("/status").expect(200);
    let nodes = status["nodes"].as_array().unwrap();
    nodes.iter().find(|node| node["name"] == name).cloned().unwrap_or_default()
}

#[test]
fn a_node_joins_follows_and_outlives_the_controller() {
    let mut rig = Rig::new();
    rig.apply(&[
        resource("Fabric", "default", &json!({"cluster": ["10.1.0.0/16"]})),
        resource("Node", "n1", &json!({"tunnel": "192.0.2.1"})),
        resource("Router", "shop", &json!({})),
        resource(
            "Network",
            "blue",
            &json!({"router": "shop", "subnets": [{"cidr": "10.5.0.0/24"}]}),
        ),
    ]);
    let token = token(&rig, "n1", "127.0.0.1");
    let folder = tempfile::tempdir().unwrap();
    let (fleet, credentials) = (rig.fleet.to_string(), Credentials::new(folder.path()));
    let joined = rig.runtime.block_on(join(&fleet, &token, &credentials)).unwrap();
    let configuration = joined.configuration;
    assert_eq!(configuration.blocks[0].cidr.to_string(), "10.1.0.0/24");
    assert_eq!(configuration.blocks[0].gateway.to_string(), "10.1.0.1");

    let agent = Agent::follow(&rig, "n1", folder.path());
    let port = |name: &str| resource("Port", name, &json!({"network": "blue", "node": "n1"}));
    rig.apply(&[port("shop:web")]);
    until("the port in the view", || agent.has("shop:web").then_some(()));
    let status = until("convergence", || {
        let status = node_status(&rig, "n1");
        (status["converged"] == true).then_some(status)
    });
    assert_eq!((&status["connected"], &status["version"]), (&json!(true), &json!("test 1")));
    let node = rig.get("/nodes/n1").expect(200);
    assert_eq!(node["status"]["agentVersion"], "test 1");
    assert_eq!(node["status"]["conditions"][0]["type"], "Ready");
    assert_eq!(node["status"]["conditions"][0]["status"], "True");

    rig.stop();
    until("the agent to notice", || (!agent.client.state().borrow().connected).then_some(()));
    assert!(agent.has("shop:web"), "it works on without the controller");
    rig.start();
    rig.apply(&[port("shop:db")]);
    until("the next port in the view", || agent.has("shop:db").then_some(()));
    assert!(agent.client.state().borrow().received.snapshots <= 2);
}

#[test]
fn a_token_is_for_one_node_one_address_and_one_use() {
    let rig = Rig::new();
    let join = |token: &Token| {
        let folder = tempfile::tempdir().unwrap();
        let (fleet, credentials) = (rig.fleet.to_string(), Credentials::new(folder.path()));
        rig.runtime.block_on(join(&fleet, token, &credentials))
    };
    let elsewhere = token(&rig, "n1", "192.0.2.77");
    assert!(matches!(join(&elsewhere), Err(JoinError::Refused(_))));
    rig.get("/nodes/n1").refused(404, "NotFound");
    // A node on loopback cannot be made: tunnels do not end there.
    assert!(matches!(join(&token(&rig, "n1", "127.0.0.1")), Err(JoinError::Refused(_))));
    rig.get("/nodes/n1").refused(404, "NotFound");
    rig.apply(&[resource("Node", "n1", &json!({"tunnel": "192.0.2.1"}))]);
    let good = token(&rig, "n1", "127.0.0.1");
    assert!(matches!(join(&elsewhere), Err(JoinError::Refused(_))), "the new one replaces it");
    join(&good).unwrap();
    assert!(matches!(join(&good), Err(JoinError::Refused(_))), "it is used up");
    // Who was removed does not come back with it.
    rig.curl("/nodes/n1", &["-X", "DELETE"], None).expect(200);
    assert!(matches!(join(&good), Err(JoinError::Refused(_))));
    rig.get("/nodes/n1").refused(404, "NotFound");
    // What is kept of it is a hash.
    let store = std::fs::read(rig.config.store()).unwrap();
    let secret = good.reveal().split('.').nth(1).unwrap().to_owned();
    assert!(!store.windows(secret.len()).any(|window| window == secret.as_bytes()));
}

#[test]
fn a_restored_backup_is_noticed() {
    let mut rig = Rig::new();
    rig.apply(&[
        resource("Node", "n1", &json!({"tunnel": "192.0.2.1"})),
        resource("Network", "blue", &json!({"subnets": [{"cidr": "10.5.0.0/24"}]})),
    ]);
    let agent = Agent::join(&rig, "n1");
    let port = |name: &str| resource("Port", name, &json!({"network": "blue", "node": "n1"}));
    rig.apply(&[port("shop:kept")]);
    let backup = rig.curl("/backup", &["-X", "POST"], None).expect(201);
    rig.apply(&[port("shop:lost")]);
    until("the view", || (agent.has("shop:kept") && agent.has("shop:lost")).then_some(()));
    let list = rig.get("/ports").expect(200);
    // Several starts: the term that the agent has seen is higher than the backup's.
    for _ in 0..3 {
        rig.stop();
        rig.start();
    }
    rig.stop();
    std::fs::copy(backup["path"].as_str().unwrap(), rig.config.store()).unwrap();
    rig.start();
    rig.get("/ports/shop:lost").refused(404, "NotFound");
    until("the agent to forget", || {
        (agent.has("shop:kept") && !agent.has("shop:lost")).then_some(())
    });
    let old = list["metadata"]["resourceVersion"].as_str().unwrap();
    rig.get(&format!("/ports?watch=true&resourceVersion={old}")).refused(410, "Gone");
    until("convergence", || (node_status(&rig, "n1")["converged"] == true).then_some(()));
}

#[test]
fn what_a_node_said_before_a_restore_says_nothing_of_what_came_after_it() {
    let mut rig = Rig::with(|config| config.allocation.cool_down_seconds = 600);
    rig.apply(&[
        resource("Node", "n1", &json!({"tunnel": "192.0.2.1"})),
        resource("Network", "blue", &json!({"subnets": [{"cidr": "10.5.0.0/24"}]})),
    ]);
    let agent = Agent::join(&rig, "n1");
    let before = until("the view", || Some(agent.epoch()).filter(|epoch| *epoch != 0));
    agent.client.report(Report { affirmed: Some(before), ..Report::default() });
    let backup = rig.curl("/backup", &["-X", "POST"], None).expect(201);
    rig.stop();
    std::fs::copy(backup["path"].as_str().unwrap(), rig.config.store()).unwrap();
    rig.start();
    // It comes back, says again what it said last, and has applied what it is told now.
    let after = until("the other history", || Some(agent.epoch()).filter(|epoch| *epoch != before));
    until("convergence", || (node_status(&rig, "n1")["converged"] == true).then_some(()));
    let port = resource("Port", "shop:new", &json!({"network": "blue", "node": "n1"}));
    let body = json!({"items": [port]});
    let said = rig.send("POST", "/apply", &body).refused(503, "Unavailable");
    assert!(said.contains("restored") && said.contains("n1"), "{said}");
    agent.client.report(Report { affirmed: Some(after), ..Report::default() });
    until("the address to be given", || {
        (rig.send("POST", "/apply", &body).status == 200).then_some(())
    });
}
