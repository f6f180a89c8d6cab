//! One leads, however controllers and the API server come and go.

use crate::agent::Agent;
use crate::controller::Controller;
use crate::server::{NAMESPACE, Server, turn, until};
use std::time::Duration;

/// Who holds the lease, and how often it changed hands.
pub(crate) fn holder(server: &Server) -> Result<(String, u64), String> {
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases");
    let spec = server.get(&format!("{path}/osier-controller"))["spec"].clone();
    let holder = spec["holderIdentity"].as_str().filter(|holder| !holder.is_empty());
    let holder = holder.ok_or_else(|| spec.to_string())?.to_owned();
    Ok((holder, spec["leaseTransitions"].as_u64().unwrap_or(0)))
}

#[test]
fn another_leads_when_one_is_killed_or_stopped_and_agents_miss_nothing() {
    let turn = turn();
    let server = turn.server;
    server.node("a", Some("192.0.2.1"), &["10.244.1.0/24"]);
    turn.run(async || {
        let one = Controller::start(server, 0).await;
        let (first, term) = until("a leader", || holder(server));
        let two = Controller::start(server, 1).await;
        let agent = Agent::join(server, &[&one, &two], "a", "192.0.2.1").await;
        let seen = agent.following(term << 32).await;
        assert_eq!(seen >> 32, term);
        let announced = until("two lines", || {
            let map =
                server.get(&format!("/api/v1/namespaces/{NAMESPACE}/configmaps/osier-controllers"));
            let lines = map["data"]["addresses"].as_str().unwrap_or_default().to_owned();
            if lines.lines().count() == 2 { Ok(lines) } else { Err(lines) }
        });
        assert_eq!(announced, "192.0.2.100:6646\n192.0.2.100:6656\n");
        let received = agent.received();
        one.kill().await;
        let seen = agent.following((term + 1) << 32).await;
        let (second, next) = holder(server).unwrap();
        assert!(second != first && next > term && seen >> 32 == next, "{second} {next} {seen}");
        // Its view is the same: nothing is sent anew.
        assert_eq!(agent.received(), received);

        // One that stops gives the lease back.
        let three = Controller::start(server, 0).await;
        two.stop().await;
        let seen = agent.following((next + 1) << 32).await;
        assert_eq!(agent.received(), received);
        assert!(seen >> 32 > next);
        three.stop().await;
    });
}

#[test]
fn a_leader_that_cannot_renew_ends_before_another_begins() {
    let turn = turn();
    let server = turn.server;
    server.node("a", Some("192.0.2.1"), &["10.244.1.0/24"]);
    turn.run(async || {
        let controller = Controller::start(server, 0).await;
        let (_, term) = until("a leader", || holder(server));
        let agent = Agent::join(server, &[&controller], "a", "192.0.2.1").await;
        agent.following(term << 32).await;
        // It neither answers nor refuses.
        server.signal(osier_testbed::Signal::SIGSTOP);
        let mut state = agent.client.state();
        let alone = state.wait_for(|state| !state.connected);
        let alone = tokio::time::timeout(Duration::from_secs(30), alone).await;
        let is_alone = alone.is_ok();
        drop(alone);
        server.signal(osier_testbed::Signal::SIGCONT);
        assert!(is_alone, "a leader without a lease went on");
        // On its return a new term begins, and nothing is sent anew.
        let received = agent.received();
        let seen = agent.following((term + 1) << 32).await;
        assert!(seen >> 32 > term);
        assert_eq!(agent.received(), received);
        controller.stop().await;
    });
}
