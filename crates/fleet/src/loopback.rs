//! From the hub to the agent's view without a wire: whatever happens, and however often the agent
//! is cut off and comes back, it ends up with what its node must know.

use crate::client::held::{Gathered, Held};
use crate::client::{ViewContent, ViewUpdate};
use crate::server::parts::Parts;
use crate::wire::proto::from_controller::Message;
use crate::{HistoryLimits, Hub, Views};
use futures_util::{FutureExt, StreamExt};
use osier_model::{Change, Fabric, Key, NodeName, Object, View};
use osier_span::Cluster;
use proptest::prelude::*;
use serde_json::json;

#[derive(Debug, Clone)]
enum Step {
    Change(Vec<Change>),
    /// The agent hears all that there is, in one connection.
    Hear,
    /// It forgets what it has.
    Reinstall,
    /// The controller starts again: with the same model, or with that of a backup's epoch.
    Restart {
        epoch: u64,
    },
}

fn object(value: serde_json::Value) -> Object {
    serde_json::from_value(value).unwrap()
}

fn network() -> impl Strategy<Value = Object> {
    (0..3_u8, 0..4_u8).prop_map(|(n, vni)| {
        object(json!({"kind": "network", "name": format!("l{n}"), "vni": vni + 2}))
    })
}

fn port() -> impl Strategy<Value = Object> {
    (0..6_u8, 0..2_u8, 0..4_u8).prop_map(|(n, node, network)| {
        let network = if network == 3 { "pods".to_owned() } else { format!("l{network}") };
        object(json!({"kind": "port", "device": format!("p{n}"), "interface": "eth0",
            "network": network, "node": format!("n{node}"),
            "mac": format!("0a:58:00:00:00:{:02x}", n + 1), "addresses": [format!("10.1.{node}.{}", n + 5)]}))
    })
}

fn change() -> impl Strategy<Value = Change> {
    let gone = prop_oneof![
        (0..3_u8).prop_map(|n| json!({"kind": "network", "name": format!("l{n}")})),
        (0..6_u8).prop_map(
            |n| json!({"kind": "port", "name": {"device": format!("p{n}"), "interface": "eth0"}})
        ),
    ];
    let gone = gone.prop_map(|key| Change::Delete(serde_json::from_value::<Key>(key).unwrap()));
    prop_oneof![
        1 => network().prop_map(Change::Put),
        3 => port().prop_map(Change::Put),
        1 => gone,
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => prop::collection::vec(change(), 1..4).prop_map(Step::Change),
        4 => Just(Step::Hear),
        1 => Just(Step::Reinstall),
        1 => (1..3_u64).prop_map(|epoch| Step::Restart { epoch }),
    ];
    prop::collection::vec(step, 1..60)
}

fn first() -> Vec<Change> {
    let mut objects = vec![
        object(json!({"kind": "router", "name": "default", "vrf": 0})),
        object(
            json!({"kind": "network", "name": "pods", "vni": 1, "router": "default", "reach": "routed"}),
        ),
    ];
    for n in 0..3 {
        objects.push(object(json!({"kind": "network", "name": format!("l{n}"), "vni": n + 2})));
    }
    for n in 0..2 {
        objects.push(object(json!({"kind": "node", "name": format!("n{n}"),
            "tunnel": format!("192.0.2.{}", n + 1)})));
    }
    objects.into_iter().map(Change::Put).collect()
}

fn hub(epoch: u64, revision: u64, model: Vec<Change>) -> Hub {
    let limits = HistoryLimits { batches: 4, steps: 12 };
    let cluster = Cluster::new(Fabric::default()).unwrap();
    let hub = Hub::with_limits(cluster, 1, epoch, revision, limits);
    hub.apply(revision, model).unwrap();
    hub
}

/// An agent's side.
struct Agent {
    held: Held,
    view: Option<View>,
}

impl Agent {
    fn take(&mut self, update: ViewUpdate, node: &NodeName) {
        let changes = match update.content {
            ViewContent::Snapshot { fabric, objects } => {
                self.view = Some(View::new(node.clone(), fabric));
                objects.into_iter().map(Change::Put).collect()
            }
            ViewContent::Changes { changes, .. } => changes,
        };
        for change in changes {
            self.view.as_mut().unwrap().apply(change).unwrap();
        }
    }

    fn hear(&mut self, hub: &Hub, node: &NodeName) -> usize {
        let mut events = hub.follow(node, self.held.position()).unwrap();
        let mut heard = 0;
        while let Some(Some(event)) = events.next().now_or_never() {
            let mut gathered = Gathered::default();
            for message in Parts::new(event) {
                let Some(Message::Batch(mut batch)) = message.message else { unreachable!() };
                heard += batch.steps.len();
                if gathered.add(&mut batch).unwrap() {
                    let gathered = std::mem::take(&mut gathered);
                    let advanced = self.held.advance(gathered, hub.epoch(), &batch);
                    let (update, unread) = advanced.unwrap();
                    assert!(unread.is_empty());
                    self.take(update, node);
                }
            }
        }
        heard
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_agent_that_heard_everything_has_what_its_node_must_know(steps in steps()) {
        let node = NodeName::new("n0").unwrap();
        let mut agent = Agent { held: Held::default(), view: None };
        let mut model: Vec<Change> = first();
        let mut revision = 1;
        let mut hub = hub(1, revision, model.clone());
        for step in steps.into_iter().chain([Step::Hear]) {
            match step {
                Step::Change(changes) => {
                    if hub.apply(revision + 1, changes.clone()).is_ok() {
                        revision += 1;
                        model.extend(changes);
                    }
                }
                Step::Hear => {
                    agent.hear(&hub, &node);
                    let wanted = hub.view_of(&node).unwrap().view().unwrap();
                    prop_assert_eq!(agent.view.as_ref(), Some(&wanted));
                    prop_assert_eq!(agent.held.position().unwrap().digest, hub.wanted(&node).unwrap().digest);
                    prop_assert_eq!(agent.hear(&hub, &node), 0, "it has heard everything");
                }
                Step::Reinstall => agent = Agent { held: Held::default(), view: None },
                Step::Restart { epoch } => hub = self::hub(epoch, revision, model.clone()),
            }
        }
    }
}

#[test]
fn what_cannot_be_read_is_kept_told_and_read_after_an_upgrade() {
    let node = NodeName::new("n0").unwrap();
    let mut agent = Agent { held: Held::default(), view: None };
    let hub = hub(1, 1, first());
    agent.hear(&hub, &node);
    let new = r#"{"kind":"firework","name":"boom"}"#;
    let step = crate::wire::proto::Step { key: new.into(), put: Some(new.into()) };
    let mut digest = agent.held.digest;
    digest.toggle(crate::Digest::of(new.as_bytes()));
    let mut batch = crate::wire::proto::Batch {
        revision: 2,
        steps: vec![step],
        digest: digest.to_bytes(),
        ..Default::default()
    };
    let mut gathered = Gathered::default();
    assert!(gathered.add(&mut batch).unwrap());
    let (update, unread) = agent.held.advance(gathered, 1, &batch).unwrap();
    assert_eq!(unread.len(), 1);
    assert_eq!(update.content, ViewContent::Changes { fabric: None, changes: Vec::new() });
    assert_eq!(agent.held.objects[new.as_bytes()], new);
    assert_eq!(agent.held.unread.len(), 1);
}
