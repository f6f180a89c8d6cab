//! The API server goes away and comes back: nothing is deleted, and there is no storm.

use crate::agent::Agent;
use crate::controller::Controller;
use crate::election::holder;
use crate::server::{Server, turn, until};
use serde_json::{Value, json};
use std::time::Duration;

const USER: &str = ":osier-controller";

/// Requests for lists and watches so far.
fn lists(server: &Server) -> usize {
    let all = server.audited(USER);
    all.iter().filter(|(verb, _)| verb == "list" || verb == "watch").count()
}

#[test]
fn an_outage_deletes_nothing_and_ends_without_a_storm() {
    let turn = turn();
    let server = turn.server;
    server.node("a", Some("192.0.2.1"), &["10.244.1.0/24"]);
    server.node("b", Some("192.0.2.2"), &["10.244.2.0/24"]);
    turn.run(async || {
        let controller = Controller::start(server, 0).await;
        let agent = Agent::join(server, &[&controller], "a", "192.0.2.1").await;
        agent.following(1).await;
        let (_, term) = until("a leader", || holder(server));
        let received = agent.received();
        server.end();
        let mut state = agent.client.state();
        let alone = tokio::time::timeout(Duration::from_secs(30), state.wait_for(|s| !s.connected));
        alone.await.expect("leading ends").unwrap();
        // Long enough for many tries.
        tokio::time::sleep(Duration::from_secs(5)).await;
        let before = server.audited(USER).len();
        server.begin();
        agent.following((term + 1) << 32).await;
        assert_eq!(agent.received(), received, "the agent was sent something");
        // Quiet again: what is renewed is the lease.
        until("a quiet cluster", || {
            let then = lists(server);
            std::thread::sleep(Duration::from_secs(2));
            let now = lists(server);
            if then == now { Ok(()) } else { Err(format!("{then} and {now} lists")) }
        });
        let requests = server.audited(USER).split_off(before);
        assert!(requests.len() < 120, "{} requests: {requests:?}", requests.len());
        controller.stop().await;
    });
}

#[test]
fn a_compacted_past_is_listed_anew_and_what_went_is_noticed() {
    let turn = turn();
    let server = turn.server;
    server.node("a", Some("192.0.2.1"), &["10.244.1.0/24"]);
    server.node("b", Some("192.0.2.2"), &["10.244.2.0/24"]);
    turn.run(async || {
        let controller = Controller::with(server, 0, |config| {
            // It outlives the outage: what is tried here are the watches.
            config.lease.duration_seconds = 60;
            config.lease.renew_seconds = 50;
        })
        .await;
        let agent = Agent::join(server, &[&controller], "b", "192.0.2.2").await;
        agent.following(1).await;
        let (_, term) = until("a leader", || holder(server));
        server.end();
        // While nobody can tell, a node goes, and the past with it.
        let etcd = |what: &str, body: Value| -> Value {
            let url = format!("http://127.0.0.1:2379/v3/kv/{what}");
            let answer = server.netns.run(&["curl", "-sf", "-d", &body.to_string(), &url]).unwrap();
            serde_json::from_str(&answer).unwrap()
        };
        // "/registry/minions/b" as JSON has bytes.
        let gone = etcd("deleterange", json!({"key": "L3JlZ2lzdHJ5L21pbmlvbnMvYg=="}));
        assert_eq!(gone["deleted"], "1");
        etcd("compaction", json!({"revision": gone["header"]["revision"]}));
        server.begin();
        let mut state = agent.client.state();
        let refused = state.wait_for(|state| !state.connected);
        tokio::time::timeout(crate::server::PATIENCE, refused).await.expect("b is gone").unwrap();
        assert_eq!(until("a leader", || holder(server)).1, term, "it led on");
        server.node("c", Some("192.0.2.3"), &["10.244.3.0/24"]);
        Agent::join(server, &[&controller], "c", "192.0.2.3").await.following(1).await;
        controller.stop().await;
    });
}
