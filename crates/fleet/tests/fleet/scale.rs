//! Many agents in one process.

use crate::rig::{DEADLINE, hub_of, name, port, put};
use osier_fleet::HistoryLimits;
use osier_fleet::simulation::Simulation;
use osier_model::NodeName;
use serde_json::json;
use std::sync::Arc;

#[tokio::test]
async fn a_change_reaches_those_who_need_it_and_nobody_else() {
    let hub = hub_of(1, 1, HistoryLimits::default());
    let nodes: Vec<NodeName> = (10..110).map(|n| name(&format!("n{n}"))).collect();
    let objects = (10..110).map(|n| {
        put(json!({"kind": "node", "name": format!("n{n}"), "tunnel": format!("192.0.3.{n}"),
            "blocks": [format!("10.1.{n}.0/24")]}))
    });
    hub.apply(2, objects.collect()).unwrap();
    let mut simulation = Simulation::start(Arc::new(hub.clone())).unwrap();
    for node in &nodes {
        simulation.add(node.clone()).await;
    }
    let seen = simulation.seen();
    let reached = |nodes: Vec<NodeName>, revision| {
        let seen = Arc::clone(&seen);
        async move {
            let wait = seen.reached(&nodes, revision);
            tokio::time::timeout(DEADLINE, wait).await.expect("all agents hear of it");
        }
    };
    reached(nodes.clone(), 2).await;

    let blue =
        (10..20).map(|n| port(&format!("a{n}"), &format!("n{n}"), "blue", &format!("10.9.0.{n}")));
    hub.apply(3, blue.collect()).unwrap();
    reached(nodes[..10].to_vec(), 3).await;
    let heard = |node: &NodeName| simulation.state(node).unwrap().received;
    assert!(nodes[10..].iter().all(|node| heard(node).messages == 1));
    // Network blue, and its ten ports.
    assert!(nodes[..10].iter().all(|node| heard(node).objects == 106 + 11));
}
