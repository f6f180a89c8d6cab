//! Views on their way to agents, over loopback with TLS.

use crate::rig::{Agent, Rig, hub_of, name, options, port};
use osier_fleet::client::{LinkState, Received};
use osier_fleet::server::ServerOptions;
use osier_fleet::{HistoryLimits, Report};
use osier_model::{Change, Key};
use std::sync::Arc;
use std::time::Duration;

fn received(agent: &Agent) -> Received {
    agent.client.state().borrow().received
}

fn same_view(rig: &Rig, agent: &Agent, node: &str) {
    let wanted = rig.hub.view_of(&name(node)).unwrap().view().unwrap();
    assert_eq!(agent.view().unwrap(), wanted, "the view of {node}");
}

fn delete_port(device: &str) -> Change {
    let key = serde_json::json!({"kind": "port", "name": {"device": device, "interface": "eth0"}});
    Change::Delete(serde_json::from_value::<Key>(key).unwrap())
}

#[tokio::test]
async fn each_node_hears_what_it_must_know_and_tells_how_it_is() {
    let rig = Rig::start(hub_of(1, 1, HistoryLimits::default())).await;
    let (one, two) = (rig.agent("n1").await, rig.agent("n2").await);
    rig.heard.converged("n1", 1).await;
    rig.heard.converged("n2", 1).await;
    same_view(&rig, &one, "n1");
    let before = received(&two);

    rig.hub.apply(2, vec![port("a", "n1", "blue", "10.9.0.1")]).unwrap();
    rig.hub.apply(3, vec![port("p", "n1", "pods", "10.1.1.9")]).unwrap();
    rig.heard.converged("n1", 3).await;
    same_view(&rig, &one, "n1");
    assert_eq!(received(&two), before, "n2 has nothing in these networks");

    rig.hub.apply(4, vec![port("b", "n2", "blue", "10.9.0.2")]).unwrap();
    rig.heard.converged("n1", 4).await;
    rig.heard.converged("n2", 4).await;
    same_view(&rig, &one, "n1");
    same_view(&rig, &two, "n2");
    assert_eq!(rig.hub.wanted(&name("n2")).unwrap().revision, 4);

    rig.hub.apply(5, vec![delete_port("b")]).unwrap();
    rig.heard.converged("n2", 5).await;
    same_view(&rig, &two, "n2");

    let mut report = Report::default();
    report.versions.insert("agent".to_owned(), "1".to_owned());
    one.client.report(report.clone());
    let heard = |heard: &crate::rig::Heard| heard.reports.lock().unwrap().contains_key(&name("n1"));
    rig.heard.until("a report", heard).await;
    assert_eq!(rig.heard.reports.lock().unwrap()[&name("n1")], report);

    // Nobody speaks for another.
    let Change::Put(osier_model::Object::Port(foreign)) = port("x", "n3", "blue", "10.9.0.3")
    else {
        unreachable!()
    };
    report.ports.push(foreign);
    one.client.report(report);
    one.problem("a port of another node").await;
}

#[tokio::test]
async fn a_node_that_was_cut_off_gets_only_what_it_missed() {
    let rig = Rig::start(hub_of(1, 1, HistoryLimits::default())).await;
    let agent = rig.agent("n1").await;
    let many: Vec<_> =
        (1..250).map(|n| port(&format!("a{n}"), "n1", "pods", &format!("10.1.1.{n}"))).collect();
    rig.hub.apply(2, many).unwrap();
    rig.heard.converged("n1", 2).await;
    let (whole, bytes) = (received(&agent), agent.transport.received());

    agent.transport.cut(true);
    agent.problem("cannot be reached").await;
    rig.hub.apply(3, vec![delete_port("a7")]).unwrap();
    rig.hub.apply(4, vec![port("b", "n1", "blue", "10.9.0.1")]).unwrap();
    agent.transport.cut(false);
    rig.heard.converged("n1", 4).await;
    same_view(&rig, &agent, "n1");
    let after = received(&agent);
    assert_eq!(after.snapshots, whole.snapshots, "no second snapshot");
    // One gone, network blue and its port.
    assert_eq!(after.objects - whole.objects, 3);
    let again = agent.transport.received() - bytes;
    assert!(again * 5 < bytes, "{again} bytes for the difference, {bytes} for the whole");
}

#[tokio::test]
async fn who_missed_more_than_is_kept_gets_everything_once() {
    let rig = Rig::start(hub_of(1, 1, HistoryLimits { batches: 2, steps: 100 })).await;
    let agent = rig.agent("n1").await;
    rig.heard.converged("n1", 1).await;
    agent.transport.cut(true);
    agent.problem("cannot be reached").await;
    for n in 2..8 {
        let one = port(&format!("a{n}"), "n1", "pods", &format!("10.1.1.{n}"));
        rig.hub.apply(n, vec![one]).unwrap();
    }
    agent.transport.cut(false);
    rig.heard.converged("n1", 7).await;
    same_view(&rig, &agent, "n1");
    assert_eq!(received(&agent).snapshots, 2);
}

#[tokio::test]
async fn a_slow_node_holds_up_nobody_and_catches_up() {
    let rig = Rig::start(hub_of(1, 1, HistoryLimits { batches: 50, steps: 5000 })).await;
    let (slow, quick) = (rig.agent("n1").await, rig.agent("n2").await);
    rig.hub
        .apply(2, vec![port("a", "n1", "blue", "10.9.0.1"), port("b", "n2", "blue", "10.9.0.2")])
        .unwrap();
    rig.heard.converged("n1", 2).await;
    rig.heard.converged("n2", 2).await;
    slow.pause(true);
    // More than its history, its queues and its connection can hold.
    for round in 3..300 {
        let many = (10..60)
            .map(|n| port(&format!("a{n}"), "n2", "blue", &format!("10.9.{}.{n}", round % 200)));
        rig.hub.apply(round, many.collect()).unwrap();
        if round % 25 == 0 {
            rig.heard.converged("n2", round).await;
        }
    }
    rig.heard.converged("n2", 299).await;
    same_view(&rig, &quick, "n2");
    assert!(rig.heard.applied.lock().unwrap()[&name("n1")].revision < 299);
    slow.pause(false);
    rig.heard.converged("n1", 299).await;
    same_view(&rig, &slow, "n1");
    assert_eq!(received(&quick).snapshots, 1);
}

#[tokio::test]
async fn a_new_leader_is_followed_without_a_new_view_and_an_old_one_refused() {
    let folder = tempfile::tempdir().unwrap();
    let cached = || osier_fleet::client::ClientOptions {
        cache: Some(folder.path().join("view")),
        ..options("n1")
    };
    let mut rig = Rig::start(hub_of(5, 1, HistoryLimits::default())).await;
    let agent = Agent::start(cached(), rig.transport("n1")).await;
    rig.heard.converged("n1", 1).await;
    let (authority, at) = (Arc::clone(&rig.authority), rig.address.to_string());
    rig.stop().await;

    // The same model, no history, another epoch: only the digest says that nothing happened.
    let next = hub_of(6, 2, HistoryLimits::default());
    let mut rig = Rig::with(next, Arc::clone(&authority), &at, ServerOptions::default()).await;
    rig.heard.converged("n1", 1).await;
    assert_eq!(received(&agent).snapshots, 1);
    assert_eq!(agent.client.state().borrow().term, 6);
    rig.stop().await;

    let old = hub_of(5, 1, HistoryLimits::default());
    old.apply(9, vec![port("lost", "n1", "pods", "10.1.1.7")]).unwrap();
    let mut rig = Rig::with(old, Arc::clone(&authority), &at, ServerOptions::default()).await;
    agent.problem("has seen term 6; this controller leads 5").await;
    let transport = Arc::clone(&agent.transport);
    let view = agent.view();
    agent.stop().await;

    // Also after a restart.
    let agent = Agent::start(cached(), transport).await;
    agent.problem("has seen term 6; this controller leads 5").await;
    assert_eq!(agent.view(), view, "from disk");
    assert!(rig.heard.applied.lock().unwrap().is_empty());
    rig.stop().await;
}

#[tokio::test]
async fn an_agent_starts_alone_from_its_view_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("view");
    let cached =
        |node| osier_fleet::client::ClientOptions { cache: Some(path.clone()), ..options(node) };
    let rig = Rig::start(hub_of(1, 1, HistoryLimits::default())).await;
    let agent = Agent::start(cached("n1"), rig.transport("n1")).await;
    rig.heard.converged("n1", 1).await;
    let (transport, view) = (Arc::clone(&agent.transport), agent.view());
    agent.stop().await;

    transport.cut(true);
    let agent = Agent::start(cached("n1"), Arc::clone(&transport)).await;
    agent.problem("cannot be reached").await;
    let has_view = async {
        while agent.view().is_none() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(crate::rig::DEADLINE, has_view).await.expect("a view from disk");
    assert_eq!(agent.view(), view);
    agent.stop().await;

    // What is damaged or another's is not believed; the controller has it all.
    let other = Agent::start(cached("n2"), rig.transport("n2")).await;
    rig.heard.converged("n2", 1).await;
    assert_eq!(received(&other).snapshots, 1);
    other.stop().await;
    let mut bytes = std::fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let other = Agent::start(cached("n2"), rig.transport("n2")).await;
    rig.heard.converged("n2", 1).await;
    let whole = |state: &LinkState| state.received.snapshots == 1;
    let mut state = other.client.state();
    tokio::time::timeout(crate::rig::DEADLINE, state.wait_for(whole)).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_removed_node_hears_no_more() {
    let rig = Rig::start(hub_of(1, 1, HistoryLimits::default())).await;
    let agent = rig.agent("n4").await;
    rig.heard.converged("n4", 1).await;
    rig.hub.apply(2, vec![Change::Delete(Key::Node(name("n4")))]).unwrap();
    agent.problem("there is no node n4").await;
    assert!(agent.view().is_some(), "the last view stays");
}

#[tokio::test]
async fn a_changed_fabric_reaches_every_node() {
    let rig = Rig::start(hub_of(1, 1, HistoryLimits::default())).await;
    let agent = rig.agent("n1").await;
    rig.heard.converged("n1", 1).await;
    let fabric = serde_json::json!({"tunnel": "vxlan", "cluster": ["10.1.0.0/16"]});
    rig.hub.set_fabric(2, serde_json::from_value(fabric).unwrap()).unwrap();
    rig.heard.converged("n1", 2).await;
    assert_eq!(received(&agent).snapshots, 2);
}
