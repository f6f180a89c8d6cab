//! Random models and changes: the sum of deltas is a fresh view, for every node, and both are what
//! the plain definition says; what contradicts is refused and changes nothing.
#![allow(clippy::unwrap_used, reason = "a panic is the report")]

mod naive;

use naive::Objects;
use osier_model::{Change, Fabric, Key, NodeName, Object, View};
use osier_span::{Cluster, Delta};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const NODES: u8 = 4;
const ROUTERS: u8 = 3;
const NETWORKS: u8 = 5;
const PORTS: u8 = 9;
const SERVICES: u8 = 4;
const LAW: u8 = 4;

fn object(value: Value) -> Object {
    serde_json::from_value(value).unwrap()
}

/// Mostly right, sometimes in conflict: each value is from a small set.
fn node() -> impl Strategy<Value = Object> {
    (0..NODES, 0..12_u8, 0..12_u8).prop_map(|(n, mut tunnel, mut block)| {
        // As a rule its own.
        tunnel = if tunnel < NODES { tunnel } else { n };
        block = if block < NODES { block } else { n };
        object(json!({"kind": "node", "name": format!("n{n}"), "tunnel": format!("192.0.2.{}", tunnel + 1),
            "blocks": [format!("10.1.{block}.0/24")]}))
    })
}

fn router() -> impl Strategy<Value = Object> {
    (0..ROUTERS, 0..9_u8).prop_map(|(n, vrf)| {
        let vrf = if vrf < ROUTERS + 1 { vrf } else { n };
        object(json!({"kind": "router", "name": format!("r{n}"), "vrf": vrf}))
    })
}

fn network() -> impl Strategy<Value = Object> {
    (0..NETWORKS, 0..20_u8, 0..=ROUTERS, 0..3_u8).prop_map(|(n, vni, router, subnet)| {
        let vni = if vni < NETWORKS + 1 { vni + 1 } else { n + 1 };
        let mut value = json!({"kind": "network", "name": format!("l{n}"), "vni": vni,
            "reach": if n % 2 == 0 { "routed" } else { "bridged" }});
        if router < ROUTERS {
            value["router"] = json!(format!("r{router}"));
        }
        if subnet > 0 {
            let gateway = (router < ROUTERS && subnet > 1).then(|| "10.1.0.1".to_owned());
            value["subnets"] = json!([{"cidr": "10.1.0.0/16", "gateway": gateway}]);
        }
        object(value)
    })
}

fn port() -> impl Strategy<Value = Object> {
    (0..PORTS, 0..NODES, 0..NETWORKS, 1..40_u8, 0..20_u8).prop_map(|(n, node, network, ip, mac)| {
        object(json!({"kind": "port", "device": format!("p{n}"), "interface": "eth0",
            "network": format!("l{network}"), "node": format!("n{node}"),
            "mac": format!("0a:58:00:00:00:{:02x}", if mac < 4 { mac } else { n + 10 }),
            "addresses": [format!("10.1.{node}.{ip}")]}))
    })
}

fn service() -> impl Strategy<Value = Object> {
    (0..SERVICES, 0..20_u8, 0..=ROUTERS, 0..40_u8, 0..20_u8).prop_map(
        |(n, mut address, router, other, node_port)| {
            address = if address < SERVICES { address } else { n };
            let external = match other {
                // A pod's, a node's, another Service's.
                0 => vec!["10.1.1.7".to_owned()],
                1 => vec!["192.0.2.1".to_owned()],
                2..5 => vec![format!("10.96.0.{other}")],
                5..20 => vec![format!("198.51.100.{n}")],
                _ => Vec::new(),
            };
            let mut value = json!({"kind": "service", "name": format!("s{n}"),
                "addresses": [if other == 20 { "192.0.2.1".to_owned() } else { format!("10.96.0.{address}") }],
                "ports": [{"port": 80, "transport": if other % 2 == 0 { "tcp" } else { "udp" },
                    "node_port": (node_port < 10).then(|| 30000 + u16::from(node_port))}]});
            value[if n % 2 == 0 { "external" } else { "balanced" }] = json!(external);
            if router < ROUTERS {
                value["router"] = json!(format!("r{router}"));
            }
            if other == 30 {
                value["health_port"] = json!(30000);
            }
            object(value)
        },
    )
}

fn endpoints() -> impl Strategy<Value = Object> {
    (0..SERVICES, 0..3_u8, 0..9_u8).prop_map(|(service, slice, address)| {
        object(json!({"kind": "endpoints", "service": format!("s{service}"),
            "slice": format!("s{service}-{slice}"), "ports": [{"port": 8080}],
            "endpoints": [{"address": format!("10.1.0.{}", address + 1), "node": "n1"}]}))
    })
}

fn law() -> impl Strategy<Value = Object> {
    let members = prop::collection::btree_set(256..260_u32, 0..4);
    let selection = (0..LAW, members).prop_map(|(id, members)| {
        object(json!({"kind": "selection", "id": id, "members": members}))
    });
    let policy = (0..LAW, 0..LAW, 0..LAW, 0..5_u8).prop_map(|(n, subjects, peers, egress)| {
        let mut value = json!({"kind": "policy", "name": format!("shop:p{n}"), "subjects": subjects,
            "ingress": [{"peers": [{"selection": (peers + 1) % LAW}]}]});
        match egress {
            0 => {}
            1 => value["egress"] = json!([{}]),
            2 => {
                let port = json!({"range": {"first": 1, "last": 1}, "of": peers});
                value["egress"] = json!([{"ports": [port]}]);
            }
            _ => {
                let peers = json!([{"selection": peers}, {"block": {"cidr": "10.0.0.0/8"}}]);
                value["egress"] = json!([{"peers": peers}]);
            }
        }
        object(value)
    });
    let guard =
        (0..LAW).prop_map(|n| object(json!({"kind": "guard", "namespace": format!("space{n}")})));
    let workload = (0..PORTS, 0..=NODES, 256..260_u32).prop_map(|(n, node, identity)| {
        object(
            json!({"kind": "workload", "device": format!("shop:w{n}"), "node": format!("n{node}"),
            "identity": identity}),
        )
    });
    prop_oneof![3 => selection, 3 => policy, 1 => guard, 5 => workload]
}

fn lawless() -> impl Strategy<Value = Value> {
    prop_oneof![
        (0..LAW).prop_map(|id| json!({"kind": "selection", "name": id})),
        (0..LAW).prop_map(|n| json!({"kind": "policy", "name": format!("shop:p{n}")})),
        (0..LAW).prop_map(|n| json!({"kind": "guard", "name": format!("space{n}")})),
        (0..PORTS).prop_map(|n| json!({"kind": "workload", "name": format!("shop:w{n}")})),
        (0..PORTS).prop_map(|n| json!({"kind": "workload", "name": format!("shop:w{n}")})),
    ]
}

fn change() -> impl Strategy<Value = Change> {
    let put = prop_oneof![2 => node(), 2 => router(), 4 => network(), 8 => port(), 4 => service(), 4 => endpoints(), 12 => law()];
    let gone = prop_oneof![
        (0..NODES).prop_map(|n| json!({"kind": "node", "name": format!("n{n}")})),
        (0..ROUTERS).prop_map(|n| json!({"kind": "router", "name": format!("r{n}")})),
        (0..NETWORKS).prop_map(|n| json!({"kind": "network", "name": format!("l{n}")})),
        (0..PORTS).prop_map(
            |n| json!({"kind": "port", "name": {"device": format!("p{n}"), "interface": "eth0"}})
        ),
        (0..PORTS).prop_map(
            |n| json!({"kind": "port", "name": {"device": format!("p{n}"), "interface": "eth0"}})
        ),
        (0..SERVICES).prop_map(|n| json!({"kind": "service", "name": format!("s{n}")})),
        (0..SERVICES, 0..3_u8).prop_map(|(n, slice)| json!({"kind": "endpoints",
            "name": {"service": format!("s{n}"), "slice": format!("s{n}-{slice}")}})),
        lawless(),
        lawless(),
        lawless(),
    ];
    let gone = gone.prop_map(|key| Change::Delete(serde_json::from_value::<Key>(key).unwrap()));
    prop_oneof![3 => put.prop_map(Change::Put), 1 => gone]
}

fn batches() -> impl Strategy<Value = Vec<Vec<Change>>> {
    let batch = prop_oneof![
        6 => prop::collection::vec(change(), 1..3),
        2 => prop::collection::vec(change(), 3..10),
    ];
    prop::collection::vec(batch, 1..60)
}

/// A cluster in which most changes are right.
fn furnished() -> Vec<Change> {
    let mut objects = Vec::new();
    for n in 0..NODES {
        objects.push(json!({"kind": "node", "name": format!("n{n}"),
            "tunnel": format!("192.0.2.{}", n + 1), "blocks": [format!("10.1.{n}.0/24")]}));
    }
    for n in 0..ROUTERS {
        objects.push(json!({"kind": "router", "name": format!("r{n}"), "vrf": n}));
    }
    for n in 0..NETWORKS {
        objects.push(json!({"kind": "network", "name": format!("l{n}"), "vni": n + 1,
            "reach": if n % 2 == 0 { "routed" } else { "bridged" },
            "router": if n < 4 { json!(format!("r{}", n / 2)) } else { Value::Null }}));
    }
    objects.into_iter().map(|value| Change::Put(object(value))).collect()
}

fn advance(objects: &Objects, batch: &[Change]) -> Objects {
    let mut next = objects.clone();
    for change in batch {
        match change {
            Change::Put(object) => {
                next.insert(object.key(), object.clone());
            }
            Change::Delete(key) => {
                next.remove(key);
            }
        }
    }
    next
}

fn names(objects: &Objects) -> Vec<NodeName> {
    let name = |key: &Key| if let Key::Node(name) = key { Some(name.clone()) } else { None };
    objects.keys().filter_map(name).collect()
}

fn fabric() -> Fabric {
    serde_json::from_value(json!({"cluster": ["10.1.0.0/16"]})).unwrap()
}

/// A step tells the truth about what was.
fn check_steps(view: &View, delta: &Delta) -> Result<(), TestCaseError> {
    for step in &delta.steps {
        let key = step.key().unwrap();
        let was = view.object(&key);
        prop_assert_eq!(was.as_ref(), step.was.as_ref().map(|s| s.object()), "{}", key);
        let now = step.now.as_ref().map(|s| s.object());
        prop_assert_ne!(was.as_ref(), now, "{} does not change", key);
    }
    Ok(())
}

fn run(first: Vec<Change>, batches: Vec<Vec<Change>>) -> Result<(), TestCaseError> {
    let fabric = fabric();
    let mut cluster = Cluster::new(fabric.clone()).unwrap();
    let mut objects = Objects::new();
    let mut views: BTreeMap<NodeName, View> = BTreeMap::new();
    for batch in std::iter::once(first).chain(batches) {
        let next = advance(&objects, &batch);
        let applied = cluster.apply(batch);
        prop_assert_eq!(applied.is_ok(), naive::valid(&next, &objects), "{:?}", applied.err());
        if let Ok(deltas) = applied {
            objects = next;
            deltas.removed.iter().for_each(|name| assert!(views.remove(name).is_some()));
            for delta in &deltas.changed {
                let view = views.get_mut(&delta.node).unwrap();
                check_steps(view, delta)?;
                for change in delta.changes() {
                    view.apply(change).unwrap();
                }
            }
            for name in deltas.added {
                let view = cluster.view_of(&name).unwrap().view().unwrap();
                prop_assert!(views.insert(name, view).is_none());
            }
        }
        prop_assert_eq!(cluster.len(), objects.len());
        for (key, object) in &objects {
            prop_assert_eq!(cluster.get(key).map(|shared| shared.object()), Some(object));
        }
        for name in names(&objects) {
            let plain = naive::view(&objects, &name, &fabric);
            let fresh = cluster.view_of(&name).unwrap();
            prop_assert_eq!(&views[&name], &plain, "deltas of {}", name);
            prop_assert_eq!(fresh.view().unwrap(), plain, "view of {}", name);
            let count = fresh.view().unwrap().objects().count();
            prop_assert_eq!(fresh.objects.len(), count, "an object stands twice");
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn deltas_add_up_to_what_each_node_must_know(batches in batches()) {
        run(furnished(), batches)?;
    }

    #[test]
    fn so_they_do_from_nothing(batches in batches()) {
        run(Vec::new(), batches)?;
    }
}

fn put(json: Value) -> Change {
    Change::Put(object(json))
}

#[test]
fn the_default_network_is_the_compilers() {
    assert_eq!(osier_span::DEFAULT_VNI, osier_compiler::DEFAULT_VNI);
}

#[test]
fn errors_name_object_field_and_rival_and_change_nothing() {
    let mut cluster = Cluster::new(fabric()).unwrap();
    cluster.apply(furnished()).unwrap();
    let port = |device: &str, network: &str, node: &str, address: &str, mac: &str| {
        put(json!({"kind": "port", "device": device, "interface": "eth0", "network": network,
            "node": node, "mac": mac, "addresses": [address]}))
    };
    let mac = "0a:58:00:00:00:01";
    cluster.apply(vec![port("a", "l1", "n1", "10.1.1.5", mac)]).unwrap();
    let count = cluster.len();
    let delete = |key: Value| Change::Delete(serde_json::from_value(key).unwrap());
    for (change, said) in [
        (
            port("b", "l1", "n2", "10.1.1.5", "0a:58:00:00:00:02"),
            "port b: addresses[0]: 10.1.1.5 is port a's already",
        ),
        (
            port("b", "l1", "n2", "10.1.1.6", mac),
            "port b: mac: 0a:58:00:00:00:01 is port a's already",
        ),
        (port("b", "l9", "n2", "10.1.1.6", mac), "port b: network: there is no network l9"),
        (port("b", "l1", "n9", "10.1.1.6", mac), "port b: node: there is no node n9"),
        (
            port("b", "l0", "n2", "10.1.1.6", mac),
            "port b: addresses[0]: 10.1.1.6 is node n1's already",
        ),
        (
            put(json!({"kind": "router", "name": "r9", "vrf": 1})),
            "router r9: vrf: 1 is router r1's already",
        ),
        (
            put(json!({"kind": "network", "name": "l9", "vni": 2})),
            "network l9: vni: 2 is network l1's already",
        ),
        (
            put(json!({"kind": "network", "name": "l9", "vni": 9, "router": "r9"})),
            "network l9: router: there is no router r9",
        ),
        (
            put(
                json!({"kind": "network", "name": "l1", "vni": 2, "router": "r0", "reach": "routed"}),
            ),
            "network l1: reach: it cannot change while the network has ports, such as port a",
        ),
        (
            put(
                json!({"kind": "network", "name": "l1", "vni": 2, "subnets": [{"cidr": "10.2.0.0/24"}]}),
            ),
            "port a: addresses[0]: 10.1.1.5 is not a usable address of network l1",
        ),
        (
            put(
                json!({"kind": "node", "name": "n9", "tunnel": "192.0.2.9", "blocks": ["10.0.0.0/8"]}),
            ),
            "node n9: blocks[0]: 10.0.0.0/8 overlaps node n0",
        ),
        (
            put(json!({"kind": "node", "name": "n9", "tunnel": "192.0.2.1"})),
            "node n9: tunnel: 192.0.2.1 is node n0's already",
        ),
        (delete(json!({"kind": "network", "name": "l1"})), "network l1 cannot go: port a needs it"),
        (delete(json!({"kind": "node", "name": "n1"})), "node n1 cannot go: port a needs it"),
        (
            delete(json!({"kind": "router", "name": "r1"})),
            "router r1 cannot go: network l2 needs it",
        ),
    ] {
        refuses(&mut cluster, change, said);
        assert_eq!(cluster.len(), count);
    }
}

fn refuses(cluster: &mut Cluster, change: Change, said: &str) {
    let good = put(json!({"kind": "router", "name": "r8", "vrf": 8}));
    let refused = cluster.apply(vec![good, change]).unwrap_err().to_string();
    // Which network is named does not matter.
    assert_eq!(refused.replace("network l3 needs", "network l2 needs"), said);
}

#[test]
fn what_a_service_listens_on_is_its_own() {
    let mut cluster = Cluster::new(fabric()).unwrap();
    cluster.apply(furnished()).unwrap();
    let service = |name: &str, address: &str, port: u16, node_port: u16| {
        put(json!({"kind": "service", "name": name, "addresses": [address],
            "ports": [{"port": port, "node_port": node_port}]}))
    };
    cluster.apply(vec![service("shop:a", "10.96.0.1", 9, 30001)]).unwrap();
    let routed = json!({"kind": "service", "name": "x", "router": "r2", "ports": []});
    cluster.apply(vec![put(routed)]).unwrap();
    let delete =
        Change::Delete(serde_json::from_value(json!({"kind": "router", "name": "r2"})).unwrap());
    let count = cluster.len();
    for (change, said) in [
        (
            service("shop:b", "10.96.0.1", 9, 30002),
            "service shop:b: addresses[0]: 10.96.0.1:9/tcp is service shop:a's already",
        ),
        (
            service("shop:b", "10.96.0.2", 9, 30001),
            "service shop:b: ports[0].node_port: 30001/tcp is service shop:a's already",
        ),
        (
            service("shop:b", "10.1.2.9", 9, 30002),
            "service shop:b: addresses[0]: 10.1.2.9 is node n2's already",
        ),
        (
            service("shop:b", "192.0.2.1", 9, 30002),
            "service shop:b: addresses[0]: 192.0.2.1 is node n0's already",
        ),
        (
            put(json!({"kind": "service", "name": "x", "router": "r9", "ports": []})),
            "service x: router: there is no router r9",
        ),
        (delete, "router r2 cannot go: service x needs it"),
    ] {
        refuses(&mut cluster, change, said);
        assert_eq!(cluster.len(), count);
    }
}

#[test]
fn numbers_may_be_exchanged_in_one_change() {
    let mut cluster = Cluster::new(fabric()).unwrap();
    cluster.apply(furnished()).unwrap();
    let swap = vec![
        put(json!({"kind": "network", "name": "l2", "vni": 4, "router": "r1", "reach": "routed"})),
        put(json!({"kind": "network", "name": "l3", "vni": 3, "router": "r1", "reach": "bridged"})),
    ];
    assert!(cluster.apply(swap[..1].to_vec()).is_err());
    cluster.apply(swap).unwrap();
}
