//! The engine, without a network: random writes against a plain model, and restarts.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is the report")]

use osier_controller::{
    AllocationRules, Effect, Engine, Metrics, Operation, Started, Write, WriteError,
};
use osier_model::{Key as ModelKey, Object, View};
use osier_resource::{Kind, Modelled, Resource};
use osier_store::{Memory, Query, Store};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// What a random writer does.
#[derive(Debug, Clone)]
enum Step {
    Put(Value),
    Delete(Kind, String),
    Together(Vec<Value>),
    Restart,
}

fn resource(kind: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "osier.dev/v1alpha1", "kind": kind,
        "metadata": {"name": name}, "spec": spec,
    })
}

fn node() -> impl Strategy<Value = Value> {
    (0..4_u8, prop::option::of(0..3_u8)).prop_map(|(n, block)| {
        let mut spec = json!({"tunnel": format!("192.0.2.{}", n + 1)});
        if let Some(block) = block {
            spec["blocks"] = json!([format!("10.1.{block}.0/24")]);
        }
        resource("Node", &format!("n{n}"), &spec)
    })
}

fn router() -> impl Strategy<Value = Value> {
    (0..3_u8, prop::option::of(1..4_u16))
        .prop_map(|(n, vrf)| resource("Router", &format!("r{n}"), &json!({"vrf": vrf})))
}

fn pool() -> impl Strategy<Value = Value> {
    (0..2_u8, 28..31_u8).prop_map(|(n, length)| {
        resource("Pool", &format!("p{n}"), &json!({"cidr": format!("10.5.{n}.0/{length}")}))
    })
}

fn network() -> impl Strategy<Value = Value> {
    let vni = prop::option::of(prop_oneof![1..4_u32, 4096..4100_u32]);
    let pools = prop::option::of(0..3_u8);
    (0..4_u8, vni, prop::option::of(0..3_u8), 0..3_u8, pools).prop_map(
        |(n, vni, router, subnet, pool)| {
            let mut spec =
                json!({"vni": vni, "subnets": [{"cidr": format!("10.5.{subnet}.0/28")}]});
            if let Some(router) = router {
                spec["router"] = format!("r{router}").into();
            }
            if let Some(pool) = pool {
                spec["pools"] = json!([format!("p{pool}")]);
            }
            resource("Network", &format!("net{n}"), &spec)
        },
    )
}

fn port() -> impl Strategy<Value = Value> {
    let address = prop::option::of((0..3_u8, 1..6_u8));
    (0..12_u8, 0..4_u8, 0..4_u8, address).prop_map(|(n, network, node, address)| {
        let mut spec = json!({"network": format!("net{network}"), "node": format!("n{node}")});
        if let Some((subnet, host)) = address {
            spec["addresses"] = json!([format!("10.5.{subnet}.{host}")]);
        }
        resource("Port", &format!("ns:pod{n}"), &spec)
    })
}

fn service() -> impl Strategy<Value = Value> {
    (0..6_u8, prop::option::of(0..8_u8), 80..82_u16).prop_map(|(n, address, port)| {
        let mut spec = json!({"ports": [{"port": port}]});
        if let Some(address) = address {
            spec["addresses"] = json!([format!("10.96.0.{address}")]);
        }
        resource("Service", &format!("ns:svc{n}"), &spec)
    })
}

fn endpoints() -> impl Strategy<Value = Value> {
    (0..6_u8, 0..6_u8, 1..9_u8).prop_map(|(n, service, address)| {
        let endpoints = json!([{"address": format!("10.1.0.{address}")}]);
        let spec = json!({"service": format!("ns:svc{service}"), "ports": [{"port": 8080}],
            "endpoints": endpoints});
        resource("Endpoints", &format!("ns:slice{n}"), &spec)
    })
}

fn fabric() -> impl Strategy<Value = Value> {
    (0..2_u8).prop_map(|n| {
        let cluster = [json!(["10.1.0.0/21"]), json!(["10.1.0.0/22", "fd01::/60"])];
        let services = [json!([]), json!(["10.96.0.0/29", "fd96::/125"])];
        let n = usize::from(n);
        let spec = json!({"cluster": cluster[n], "services": services[n]});
        resource("Fabric", "default", &spec)
    })
}

fn any_resource() -> impl Strategy<Value = Value> {
    prop_oneof![
        2 => node(),
        1 => router(),
        1 => pool(),
        3 => network(),
        6 => port(),
        3 => service(),
        2 => endpoints(),
        1 => fabric(),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let deletion = any_resource().prop_map(|value| {
        let kind = value["kind"].as_str().unwrap().parse().unwrap();
        Step::Delete(kind, value["metadata"]["name"].as_str().unwrap().to_owned())
    });
    prop_oneof![
        12 => any_resource().prop_map(Step::Put),
        4 => deletion,
        4 => prop::collection::vec(any_resource(), 1..6).prop_map(Step::Together),
        1 => Just(Step::Restart),
    ]
}

async fn start(store: &Arc<Memory>) -> Started {
    let rules = AllocationRules { cool_down: Duration::ZERO, ..AllocationRules::default() };
    let store = Arc::clone(store) as Arc<dyn Store>;
    Engine::start(store, rules, Metrics::default()).await.unwrap()
}

/// All resources, by key.
async fn stored(store: &Memory) -> BTreeMap<String, Resource> {
    let page = store.list(Query::under("").limit(10_000)).await.unwrap();
    let read = |key: &str, entry: &osier_store::Entry| {
        Kind::of_key(key)?;
        let resource = Resource::from_stored(&entry.value, entry.modified.0).unwrap();
        Some((key.to_owned(), resource))
    };
    page.entries.iter().filter_map(|(key, entry)| read(key.as_str(), entry)).collect()
}

fn views(engine: &Engine) -> BTreeMap<String, View> {
    let names = engine.hub().node_names();
    let view = |name| engine.hub().view_of(name).unwrap().view().unwrap();
    names.iter().map(|name| (name.to_string(), view(name))).collect()
}

/// What must hold of all that is stored, whatever was written.
fn check(stored: &BTreeMap<String, Resource>, engine: &Engine) {
    let (mut vnis, mut vrfs) = (BTreeSet::new(), BTreeSet::new());
    let mut listeners = BTreeSet::new();
    let (mut addresses, mut blocks) = (BTreeSet::new(), Vec::<ipnet::IpNet>::new());
    for resource in stored.values() {
        let modelled = resource.to_model().unwrap();
        let Modelled::Object(object) = modelled else { continue };
        assert_eq!(engine.hub().get(&object.key()).unwrap().object(), &object);
        match object {
            Object::Network(network) => assert!(vnis.insert(network.vni), "{network:?}"),
            Object::Router(router) => assert!(vrfs.insert(router.vrf), "{router:?}"),
            Object::Node(node) => {
                for block in node.blocks {
                    let apart =
                        |other: &ipnet::IpNet| !other.contains(&block) && !block.contains(other);
                    assert!(blocks.iter().all(apart), "{block}");
                    blocks.push(block);
                }
            }
            Object::Port(port) => {
                for address in port.addresses {
                    assert!(addresses.insert((port.network.clone(), address)), "{address}");
                }
            }
            // Who chooses an address may share it with another, but for its ports.
            Object::Service(service) => {
                for (address, port) in
                    service.addresses.iter().flat_map(|a| service.ports.iter().map(move |p| (a, p)))
                {
                    assert!(listeners.insert((*address, port.port)), "{address}");
                }
            }
            Object::Endpoints(_)
            | Object::Selection(_)
            | Object::Policy(_)
            | Object::Guard(_)
            | Object::Workload(_) => {}
        }
    }
}

async fn run(steps: Vec<Step>) {
    let store = Arc::new(Memory::new(osier_store::Epoch(7), osier_store::History::default()));
    let mut started = start(&store).await;
    for step in steps {
        let engine = &started.engine;
        let before = stored(&store).await;
        let write = match &step {
            Step::Put(value) => vec![apply(value)],
            Step::Together(values) => values.iter().map(apply).collect(),
            Step::Delete(kind, name) => {
                vec![Operation::Delete { kind: *kind, name: name.clone(), version: None }]
            }
            Step::Restart => {
                let (views_before, term) = (views(engine), started.term);
                drop(started.engine);
                started.task.await.unwrap().unwrap();
                started = start(&store).await;
                assert!(started.term > term);
                assert_eq!(views(&started.engine), views_before);
                continue;
            }
        };
        let dry = Write { operations: write.clone(), dry_run: true };
        let dry = engine.write(dry).await;
        assert_eq!(stored(&store).await, before, "a dry run stores nothing");
        let done = engine.write(Write { operations: write, dry_run: false }).await;
        assert_eq!(dry.is_ok(), done.is_ok(), "{step:?}: {dry:?} {done:?}");
        let now = stored(&store).await;
        match (&step, &done) {
            (_, Err(_)) => assert_eq!(now, before, "{step:?} was refused, and changed something"),
            (Step::Delete(kind, name), Ok(_)) => assert!(!now.contains_key(&kind.key(name))),
            (_, Ok(written)) => {
                for outcome in &written.outcomes {
                    let resource = outcome.resource.as_ref().unwrap();
                    let is = &now[&resource.key()];
                    assert_eq!(is, resource);
                    let was_there = before.contains_key(&resource.key());
                    assert_eq!(outcome.effect == Effect::Created, !was_there);
                }
            }
        }
        if let (Step::Delete(kind, name), Err(error)) = (&step, &done) {
            let is_missing = matches!(error, WriteError::NotFound { .. });
            assert_eq!(is_missing, !before.contains_key(&kind.key(name)), "{error}");
        }
        check(&now, engine);
    }
    let last = views(&started.engine);
    drop(started.engine);
    started.task.await.unwrap().unwrap();
    assert_eq!(views(&start(&store).await.engine), last);
}

fn apply(value: &Value) -> Operation {
    Operation::Apply(Box::new(Resource::from_value(value).unwrap()))
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn writes_leave_a_model_that_a_restart_reads(steps in prop::collection::vec(step(), 1..60)) {
        runtime().block_on(run(steps));
    }
}

/// In one write, who says what it wants gets it, wherever it stands.
#[test]
fn who_names_a_block_gets_it_before_who_takes_any() {
    runtime().block_on(async {
        let store = Arc::new(Memory::new(osier_store::Epoch(7), osier_store::History::default()));
        let Started { engine, .. } = start(&store).await;
        let operations = [
            resource("Fabric", "default", &json!({"cluster": ["10.1.0.0/21"]})),
            resource("Node", "n1", &json!({"tunnel": "192.0.2.2"})),
            resource("Node", "n0", &json!({"tunnel": "192.0.2.1", "blocks": ["10.1.0.0/24"]})),
        ];
        let operations = operations.iter().map(apply).collect();
        engine.write(Write { operations, dry_run: false }).await.unwrap();
        check(&stored(&store).await, &engine);
    });
}

/// Many at once share commits, and none gets what another has.
#[test]
fn writers_at_once_get_different_addresses() {
    runtime().block_on(async {
        let store = Arc::new(Memory::new(osier_store::Epoch(7), osier_store::History::default()));
        let Started { engine, .. } = start(&store).await;
        let subnets = json!({"subnets": [{"cidr": "10.5.0.0/22"}, {"cidr": "fd05::/64"}]});
        for value in [
            resource("Node", "n0", &json!({"tunnel": "192.0.2.1"})),
            resource("Network", "net0", &subnets),
        ] {
            engine.write(Write::one(apply(&value))).await.unwrap();
        }
        let writers = (0..200).map(|n| {
            let engine = engine.clone();
            tokio::spawn(async move {
                let spec = json!({"network": "net0", "node": "n0"});
                let value = resource("Port", &format!("ns:pod{n}"), &spec);
                let written = engine.write(Write::one(apply(&value))).await.unwrap();
                let key = osier_resource::port_key(&format!("ns:pod{n}")).unwrap();
                let object = engine.hub().get(&ModelKey::Port(key)).unwrap();
                let Object::Port(port) = object.object() else { panic!("no port") };
                assert_eq!(port.addresses.len(), 2);
                (port.addresses.clone(), written.position.revision)
            })
        });
        let (mut addresses, mut revisions) = (BTreeSet::new(), BTreeSet::new());
        for writer in writers.collect::<Vec<_>>() {
            let (given, revision) = writer.await.unwrap();
            for address in given {
                assert!(addresses.insert(address), "{address} was given twice");
            }
            revisions.insert(revision);
        }
        assert_eq!(addresses.len(), 400);
        println!("200 writes in {} commits", revisions.len());
    });
}

/// Services get addresses of the fabric's, also of a prefix that is new, and none that is another's.
#[test]
fn services_get_addresses_of_the_fabric() {
    runtime().block_on(async {
        let store = Arc::new(Memory::new(osier_store::Epoch(7), osier_store::History::default()));
        let Started { engine, .. } = start(&store).await;
        let write = async |kind: &str, name: &str, spec: Value| {
            let written = engine.write(Write::one(apply(&resource(kind, name, &spec)))).await?;
            Ok::<_, WriteError>(match written.outcomes.into_iter().next().unwrap().resource {
                Some(Resource::Service(service)) => service.status.addresses,
                _ => Vec::new(),
            })
        };
        let ports = json!([{"port": 80}]);
        let chosen = json!({"ports": ports, "addresses": ["10.96.0.1"]});
        write("Service", "ns:a", chosen).await.unwrap();
        assert_eq!(
            write("Service", "ns:none", json!({"ports": ports})).await.unwrap(),
            [] as [std::net::IpAddr; 0]
        );
        let fabric = json!({"services": ["10.96.0.0/30", "fd96::/112"]});
        write("Fabric", "default", fabric).await.unwrap();
        let given = write("Service", "ns:b", json!({"ports": ports})).await.unwrap();
        let text: Vec<String> = given.iter().map(ToString::to_string).collect();
        assert_eq!(text, ["10.96.0.2", "fd96::1"], "10.96.0.1 is another's");
        assert_eq!(
            write("Service", "ns:b", json!({"ports": [{"port": 81}]})).await.unwrap(),
            given
        );
        let full = write("Service", "ns:c", json!({"ports": ports})).await.unwrap_err();
        assert!(matches!(full, WriteError::Exhausted { .. }), "{full}");
        for name in ["ns:a", "ns:b"] {
            let name = name.to_owned();
            let delete = Operation::Delete { kind: Kind::Service, name, version: None };
            engine.write(Write::one(delete)).await.unwrap();
        }
        assert_eq!(write("Service", "ns:c", json!({"ports": ports})).await.unwrap().len(), 2);
    });
}

/// A change in a large cluster costs what it costs in a small one; here only that it is not wrong.
#[test]
fn a_freed_number_is_given_again_only_when_it_is_free() {
    runtime().block_on(async {
        let store = Arc::new(Memory::new(osier_store::Epoch(7), osier_store::History::default()));
        let Started { engine, .. } = start(&store).await;
        let network = |name: &str, spec: Value| apply(&resource("Network", name, &spec));
        let write = async |operation| engine.write(Write::one(operation)).await;
        write(network("a", json!({"vni": 4096}))).await.unwrap();
        write(network("b", json!({}))).await.unwrap();
        let vni = |resource: Option<Resource>| match resource {
            Some(Resource::Network(network)) => network.status.vni.unwrap().get(),
            other => panic!("{other:?}"),
        };
        let written = write(network("b", json!({"reach": "routed"}))).await.unwrap();
        assert_eq!(vni(written.outcomes[0].resource.clone()), 4097, "it keeps its number");
        let refused = write(network("c", json!({"vni": 4097}))).await.unwrap_err();
        let cause = std::error::Error::source(&refused).unwrap().to_string();
        assert_eq!(cause, "network c: vni: 4097 is network b's already");
        for n in 0..10 {
            let written = write(network(&format!("d{n}"), json!({}))).await.unwrap();
            assert_eq!(vni(written.outcomes[0].resource.clone()), 4098 + n);
        }
    });
}
