//! Nodes of Kubernetes become nodes of the model, and hear how they are.

use crate::agent::Agent;
use crate::controller::Controller;
use crate::server::{Server, Turn, turn, until};
use serde_json::{Value, json};

/// A condition of a node.
fn network(server: &Server, node: &str) -> Result<(String, String), String> {
    let node = server.get(&format!("/api/v1/nodes/{node}"));
    let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let is = conditions.into_iter().find(|condition| condition["type"] == "NetworkUnavailable");
    let is = is.ok_or_else(|| node["status"].to_string())?;
    let text = |field: &str| is[field].as_str().unwrap_or_default().to_owned();
    Ok((text("status"), text("reason")))
}

/// Events of an object, as `kubectl` has them.
pub(crate) fn events(server: &Server, object: &str) -> Vec<(String, String)> {
    let all = server.get("/apis/events.k8s.io/v1/events");
    let of = all["items"].as_array().cloned().unwrap_or_default();
    let own = of.into_iter().filter(|event| event["regarding"]["name"] == object);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    own.map(|event| (text(&event["reason"]), text(&event["note"]))).collect()
}

fn event(server: &Server, object: &str, reason: &str) -> String {
    until(&format!("an event {reason} of {object}"), || {
        let events = events(server, object);
        let found = events.iter().find(|(found, _)| found == reason);
        found.map(|(_, note)| note.clone()).ok_or_else(|| format!("{events:?}"))
    })
}

#[test]
fn nodes_are_followed_and_hear_how_they_are() {
    let turn = turn();
    let server = turn.server;
    server.node("a", Some("192.0.2.1"), &["10.244.1.0/24", "fd00:244:1::/64"]);
    server.node("b", Some("192.0.2.2"), &["10.244.2.0/24"]);
    let taint = [
        "taint",
        "node",
        "a",
        "node.osier.dev/agent-not-ready=:NoSchedule",
        "other=kept:NoSchedule",
    ];
    server.kubectl(&taint).unwrap();
    turn.run(async || {
        let controller = Controller::start(server, 0).await;
        let a = Agent::join(server, &[&controller], "a", "192.0.2.1").await;
        a.following(1).await;
        until("a network of a", || match network(server, "a")? {
            is if is == ("False".to_owned(), "OsierReady".to_owned()) => Ok(()),
            is => Err(format!("{is:?}")),
        });
        until("a without our taint, and with the other", || {
            let node = server.get("/api/v1/nodes/a");
            let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
            let keys: Vec<&Value> = taints.iter().map(|taint| &taint["key"]).collect();
            if keys == [&json!("other")] { Ok(()) } else { Err(node["spec"].to_string()) }
        });
        until("b told that its agent is not there", || match network(server, "b")? {
            is if is == ("True".to_owned(), "OsierAgentNotConnected".to_owned()) => Ok(()),
            is => Err(format!("{is:?}")),
        });
        gone_and_back(&turn, &controller, &a).await;
        controller.stop().await;
    });
}

/// A node goes, and comes back with another address.
async fn gone_and_back(turn: &Turn, controller: &Controller, a: &Agent) {
    let server = turn.server;
    let b = Agent::join(server, &[controller], "b", "192.0.2.2").await;
    b.following(1).await;
    server.kubectl(&["delete", "node", "b"]).unwrap();
    tokio::time::timeout(
        crate::server::PATIENCE,
        b.client.state().wait_for(|state| !state.connected),
    )
    .await
    .expect("a node that is gone is refused")
    .unwrap();
    drop(b);
    server.node("b", Some("192.0.2.3"), &["10.244.2.0/24"]);
    let before = a.received();
    let b = Agent::join(server, &[controller], "b", "192.0.2.3").await;
    b.following(1).await;
    assert!(a.received() >= before);
}

#[test]
fn what_is_wrong_with_a_node_is_said_and_the_rest_goes_on() {
    let turn = turn();
    let server = turn.server;
    server.node("fine", Some("192.0.2.1"), &["10.244.1.0/24"]);
    server.node("nowhere", None, &["10.244.2.0/24"]);
    server.node("twin", Some("192.0.2.3"), &["10.244.1.0/25"]);
    server.node("under", Some("192.0.2.4"), &["192.0.2.0/24"]);
    server.node("bare", Some("192.0.2.5"), &[]);
    server.node("broken", Some("192.0.2.6"), &["10.244.6.0/24"]);
    let annotate = ["annotate", "node", "broken", "osier.dev/tunnel-address=tomorrow"];
    server.kubectl(&annotate).unwrap();
    turn.run(async || {
        let controller = Controller::start(server, 0).await;
        let fine = Agent::join(server, &[&controller], "fine", "192.0.2.1").await;
        fine.following(1).await;
        let said = [
            ("nowhere", "NodeWithoutAddress", "InternalIP"),
            ("twin", "NodeRefused", "10.244.1.0/2"),
            ("under", "PodCIDROverlapsNodes", "192.0.2.0/24"),
            ("bare", "NodeWithoutPodCIDR", "podCIDRs"),
            ("broken", "BadAnnotation", "tomorrow"),
        ];
        for (node, reason, word) in said {
            let note = event(server, node, reason);
            assert!(note.contains(word), "{node}: {note}");
        }
        // Nobody is told the same twice.
        for (node, ..) in said {
            assert_eq!(events(server, node).len(), 1, "{:?}", events(server, node));
        }
        // And counted.
        let token = server.token("osier-viewer", &json!({"audiences": ["osier-controller"]}));
        let header = format!("Authorization: Bearer {token}");
        let url = format!("https://192.0.2.100:{}/metrics", controller.config.api.listen.port());
        let metrics = server.netns.run(&["curl", "-sk", "-H", &header, &url]).unwrap();
        for (_, reason, _) in said {
            let line = format!("osier_controller_kubernetes_problems{{kind=\"{reason}\"}} 1");
            assert!(metrics.lines().any(|found| found == line), "{line}: {metrics}");
        }
        server.kubectl(&["annotate", "node", "broken", "osier.dev/tunnel-address-"]).unwrap();
        server.address("nowhere", "192.0.2.2");
        for (node, machine) in [("broken", "192.0.2.6"), ("nowhere", "192.0.2.2")] {
            Agent::join(server, &[&controller], node, machine).await.following(1).await;
        }
        controller.stop().await;
    });
}
