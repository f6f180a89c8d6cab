//! Random namespaces, workloads and policies, said in any order, piece by piece and taken back: what
//! the roster makes of them judges as a plain evaluator over labels does, a roster that heard all of
//! it at once judges the same, and no number ever stands for two things.
#![allow(clippy::unwrap_used, reason = "a panic is the report")]

use osier_model::{
    Block, Change, Direction, Identity, Isolation, Key, Labels, Law, Node, Object, Party, Peer,
    PortChoice, Saying, StatedPeer, StatedPolicy, StatedRule, StatedWorkload, Statement,
    StatementKey, Talk, Transport, Verdict,
};
use osier_span::{Resolution, Roster, Traits};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

const NAMESPACES: [&str; 3] = ["a", "b", "c"];
const KEYS: [&str; 3] = ["app", "tier", "env"];
const VALUES: [&str; 3] = ["x", "y", "z"];

fn labels() -> impl Strategy<Value = Labels> {
    let label = (0..3_usize, 0..3_usize);
    prop::collection::vec(label, 0..3).prop_map(|labels| {
        labels.into_iter().map(|(k, v)| (KEYS[k].to_owned(), VALUES[v].to_owned())).collect()
    })
}

fn selector() -> impl Strategy<Value = osier_model::Selector> {
    let expression = (0..3_usize, 0..4_u8, prop::collection::vec(0..3_usize, 1..3));
    (labels(), prop::collection::vec(expression, 0..2)).prop_map(|(labels, expressions)| {
        let expression = |(key, operator, values): (usize, u8, Vec<usize>)| {
            let operator = ["In", "NotIn", "Exists", "DoesNotExist"][usize::from(operator)];
            let values: Vec<&str> = values.into_iter().map(|v| VALUES[v]).collect();
            let values = if operator.ends_with("In") { json!(values) } else { json!([]) };
            json!({"key": KEYS[key], "operator": operator, "values": values})
        };
        let expressions: Vec<Value> = expressions.into_iter().map(expression).collect();
        serde_json::from_value(json!({"matchLabels": labels, "matchExpressions": expressions}))
            .unwrap()
    })
}

fn workload() -> impl Strategy<Value = Statement> {
    let ports = prop::collection::vec((0..2_usize, 80..82_u16), 0..2);
    (0..3_usize, 0..4_u8, labels(), ports).prop_map(|(namespace, n, labels, ports)| {
        let named = |(name, port): (usize, u16)| osier_model::NamedPort {
            name: ["web", "admin"][name].to_owned(),
            transport: Transport::Tcp,
            port,
        };
        Statement::Workload(StatedWorkload {
            device: format!("{}:p{n}", NAMESPACES[namespace]).parse().unwrap(),
            node: Some("n1".parse().unwrap()),
            labels,
            ports: ports.into_iter().map(named).collect(),
        })
    })
}

fn rule() -> impl Strategy<Value = StatedRule> {
    let peer = (prop::option::of(selector()), selector())
        .prop_map(|(namespaces, labels)| StatedPeer::Workloads { namespaces, labels });
    let port = prop_oneof![
        Just(PortChoice::Any),
        (80..82_u16).prop_map(|p| PortChoice::Numbers(osier_model::PortRange::one(p))),
        (0..2_usize).prop_map(|n| PortChoice::Named(["web", "admin"][n].to_owned())),
    ];
    let port = port.prop_map(|port| osier_model::StatedPort { transport: Transport::Tcp, port });
    let peers = prop::option::of(prop::collection::vec(peer, 0..3));
    let ports = prop::option::of(prop::collection::vec(port, 0..3));
    (peers, ports).prop_map(|(peers, ports)| StatedRule { peers, ports })
}

fn policy() -> impl Strategy<Value = Statement> {
    let rules = || prop::option::of(prop::collection::vec(rule(), 0..3));
    (0..3_usize, 0..3_u8, selector(), rules(), rules()).prop_map(
        |(namespace, n, subjects, ingress, egress)| {
            let name = format!("{}:q{n}", NAMESPACES[namespace]).parse().unwrap();
            Statement::Policy(StatedPolicy { name, subjects, ingress, egress })
        },
    )
}

fn namespace() -> impl Strategy<Value = Statement> {
    (0..3_usize, labels()).prop_map(|(n, labels)| {
        let name = NAMESPACES[n].parse().unwrap();
        Statement::Namespace(osier_model::StatedNamespace { name, labels })
    })
}

fn saying() -> impl Strategy<Value = Saying> {
    let statement = || prop_oneof![4 => workload(), 2 => policy(), 1 => namespace()];
    prop_oneof![
        3 => statement().prop_map(Saying::Put),
        1 => statement().prop_map(|s| Saying::Delete(s.key())),
        1 => prop::option::of(prop::collection::btree_set(0..3_usize, 0..2)).prop_map(|apart| {
            let name = |n: usize| NAMESPACES[n].parse().unwrap();
            Saying::Apart(apart.map(|shared| Isolation { shared: shared.into_iter().map(name).collect() }))
        }),
    ]
}

/// What was said, and what nodes know of it.
#[derive(Default)]
struct World {
    said: BTreeMap<StatementKey, Statement>,
    objects: BTreeMap<Key, Object>,
    numbers: BTreeMap<Identity, Arc<Traits>>,
    apart: Option<Isolation>,
}

impl World {
    fn hear(&mut self, roster: &mut Roster, sayings: Vec<Saying>) {
        for saying in &sayings {
            match saying {
                Saying::Put(said) => drop(self.said.insert(said.key(), said.clone())),
                Saying::Delete(key) => drop(self.said.remove(key)),
                Saying::Apart(apart) => self.apart.clone_from(apart),
                Saying::Node(_) | Saying::NodeGone(_) => {}
            }
        }
        let Resolution { changes, given, .. } = roster.hear(sayings);
        for (identity, traits) in given {
            let before = self.numbers.insert(identity, traits);
            assert!(before.is_none(), "{identity:?} was given twice");
        }
        for change in changes {
            match change {
                Change::Put(object) => drop(self.objects.insert(object.key(), object)),
                Change::Delete(key) => drop(self.objects.remove(&key)),
            }
        }
    }

    fn workloads(&self) -> impl Iterator<Item = &StatedWorkload> {
        self.said
            .values()
            .filter_map(|s| if let Statement::Workload(w) = s { Some(w) } else { None })
    }

    fn policies(&self) -> impl Iterator<Item = &StatedPolicy> {
        self.said.values().filter_map(|s| if let Statement::Policy(p) = s { Some(p) } else { None })
    }

    /// By numbers, as nodes do.
    fn by_identity(&self, from: &StatedWorkload, to: &StatedWorkload, port: u16) -> (bool, bool) {
        let (mut policies, mut selections) = (BTreeMap::new(), BTreeMap::new());
        for object in self.objects.values().cloned() {
            match object {
                Object::Policy(policy) => drop(policies.insert(policy.name.clone(), policy)),
                Object::Selection(selection) => drop(selections.insert(selection.id, selection)),
                _ => {}
            }
        }
        let party = |w: &StatedWorkload| {
            let known = match &self.objects[&Key::Workload(w.device.clone())] {
                Object::Workload(known) => known.identity,
                _ => Identity::ANY,
            };
            Party { identity: known, address: "10.0.0.1".parse().unwrap() }
        };
        let talk = Talk { from: party(from), to: party(to), port: Some((Transport::Tcp, port)) };
        let judged = Law { policies: &policies, selections: &selections }.judge(&talk);
        let passes = |verdict: &Verdict| !matches!(verdict, Verdict::Denied(_));
        (passes(&judged.egress), passes(&judged.ingress))
    }

    /// By labels, rule by rule.
    fn by_labels(&self, from: &StatedWorkload, to: &StatedWorkload, port: u16) -> (bool, bool) {
        let side = |direction, subject: &StatedWorkload, peer: &StatedWorkload| {
            let about: Vec<_> = self
                .policies()
                .filter(|p| p.namespace() == subject.device.namespace())
                .filter(|p| p.subjects.takes(&subject.labels) && p.rules(direction).is_some())
                .collect();
            let lets = |policy: &&StatedPolicy| {
                let rules = policy.rules(direction).unwrap();
                rules.iter().any(|rule| self.lets(policy, rule, peer, to, port))
            };
            // Policies add to what is let in where namespaces are apart.
            let apart = direction == Direction::Ingress && self.are_apart(subject);
            let near = apart && (self.are_near(subject, peer));
            about.is_empty() && !apart || near || about.iter().any(lets)
        };
        (side(Direction::Egress, from, to), side(Direction::Ingress, to, from))
    }

    /// Whether others' workloads are kept from a workload.
    fn are_apart(&self, workload: &StatedWorkload) -> bool {
        let namespace = workload.device.namespace().unwrap();
        self.apart.as_ref().is_some_and(|apart| !apart.shared.contains(&namespace))
    }

    /// Whether one reaches the other although namespaces are apart.
    fn are_near(&self, one: &StatedWorkload, other: &StatedWorkload) -> bool {
        let namespace = other.device.namespace();
        one.device.namespace() == namespace
            || self.apart.as_ref().is_some_and(|apart| apart.shared.contains(&namespace.unwrap()))
    }

    fn lets(
        &self,
        policy: &StatedPolicy,
        rule: &StatedRule,
        peer: &StatedWorkload,
        to: &StatedWorkload,
        port: u16,
    ) -> bool {
        let namespace = peer.device.namespace().unwrap();
        let around = match self.said.get(&StatementKey::Namespace(namespace.clone())) {
            Some(Statement::Namespace(said)) => said.labels.clone(),
            _ => Labels::new(),
        };
        let is_peer = |stated: &StatedPeer| match stated {
            StatedPeer::Workloads { namespaces, labels } => {
                let there = match namespaces {
                    Some(like) => like.takes(&around),
                    None => policy.namespace().as_ref() == Some(&namespace),
                };
                there && labels.takes(&peer.labels)
            }
            StatedPeer::Block(_) | StatedPeer::Nodes => false,
        };
        let is_port = |stated: &osier_model::StatedPort| match &stated.port {
            PortChoice::Any => true,
            PortChoice::Numbers(range) => range.contains(port),
            PortChoice::Named(name) => to.ports.iter().any(|p| p.name == *name && p.port == port),
        };
        rule.peers.as_ref().is_none_or(|peers| peers.iter().any(is_peer))
            && rule.ports.as_ref().is_none_or(|ports| ports.iter().any(is_port))
    }

    fn check(&self) -> Result<(), TestCaseError> {
        for from in self.workloads() {
            for to in self.workloads() {
                for port in [80, 81] {
                    let (plain, known) =
                        (self.by_labels(from, to, port), self.by_identity(from, to, port));
                    prop_assert_eq!(known, plain, "{} to {}:{}", from.device, to.device, port);
                }
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn numbers_judge_as_labels_do(batches in prop::collection::vec(prop::collection::vec(saying(), 1..4), 1..25)) {
        let (mut roster, mut world) = (Roster::default(), World::default());
        for batch in batches {
            world.hear(&mut roster, batch);
            world.check()?;
        }
        // A start: what was given is recalled, and all is said at once.
        let mut again = Roster::default();
        for (identity, traits) in &world.numbers {
            again.recall(*identity, traits.as_ref().clone());
        }
        let mut fresh = World::default();
        let said = world.said.values().cloned().map(Saying::Put);
        fresh.hear(&mut again, said.chain([Saying::Apart(world.apart.clone())]).collect());
        fresh.check()?;
        for workload in world.workloads() {
            let (was, now) = (roster.identity_of(&workload.device), again.identity_of(&workload.device));
            // Those that were split have one of their numbers; others keep theirs.
            let same = roster.traits_of(was.unwrap()) == again.traits_of(now.unwrap());
            prop_assert!(same, "{}", workload.device);
        }
        prop_assert!(fresh.numbers.is_empty(), "nobody needed a new number");
    }
}

#[test]
fn who_left_is_remembered_and_who_is_alike_costs_nothing() {
    let mut roster = Roster::default();
    let put = |n: u32, labels: Value| {
        Saying::Put(Statement::Workload(StatedWorkload {
            device: format!("shop:p{n}").parse().unwrap(),
            node: Some("n1".parse().unwrap()),
            labels: serde_json::from_value(labels).unwrap(),
            ports: Vec::new(),
        }))
    };
    let subjects: osier_model::Selector =
        serde_json::from_value(json!({"matchLabels": {"app": "web"}})).unwrap();
    let name = "shop:web".parse().unwrap();
    let policy = StatedPolicy { name, subjects, ingress: Some(Vec::new()), egress: None };
    roster.hear(vec![
        Saying::Put(Statement::Policy(policy)),
        put(1, json!({"app": "web", "n": "1"})),
    ]);
    let identity = roster.identity_of(&"shop:p1".parse().unwrap());
    // Another like it, and its going, is known to its node alone.
    let told = roster.hear(vec![put(2, json!({"app": "web", "n": "2"}))]);
    assert_eq!((told.changes.len(), told.given.len()), (1, 0));
    let gone =
        |n: u32| Saying::Delete(StatementKey::Workload(format!("shop:p{n}").parse().unwrap()));
    assert_eq!(roster.hear(vec![gone(1)]).changes.len(), 1);
    assert_eq!(roster.hear(vec![gone(2)]).changes.len(), 1);
    roster.hear(vec![put(3, json!({"app": "web"}))]);
    assert_eq!(roster.identity_of(&"shop:p3".parse().unwrap()), identity);
    // Many who are no longer there are forgotten, and their numbers are not given to others.
    let mut retired = Vec::new();
    for n in 10..1000 {
        roster.hear(vec![put(n, json!({"app": n.to_string()}))]);
        retired.extend(roster.hear(vec![gone(n)]).retired);
    }
    assert!(retired.len() > 800 && !retired.contains(&identity.unwrap()), "{}", retired.len());
}

/// That there is a node, with addresses of its own and blocks.
fn node(name: &str, own: &[&str], blocks: &[&str]) -> Saying {
    Saying::Node(Box::new(Node {
        name: name.parse().unwrap(),
        tunnel: own[0].parse().unwrap(),
        addresses: own.iter().map(|address| address.parse().unwrap()).collect(),
        blocks: blocks.iter().map(|block| block.parse().unwrap()).collect(),
        zone: None,
    }))
}

/// That there is a policy about all, with these blocks in both directions.
fn policy_of_blocks(name: &str, blocks: Value) -> Saying {
    let blocks: Vec<Block> = serde_json::from_value(blocks).unwrap();
    let peers: Vec<StatedPeer> = blocks.into_iter().map(StatedPeer::Block).collect();
    let rules = || Some(vec![StatedRule { peers: Some(peers.clone()), ports: None }]);
    let (name, subjects) = (name.parse().unwrap(), osier_model::Selector::default());
    Saying::Put(Statement::Policy(StatedPolicy {
        name,
        subjects,
        ingress: rules(),
        egress: rules(),
    }))
}

/// Whether a policy lets an address in, and whether it lets out to it.
fn lets(world: &World, name: &str, address: &str) -> (bool, bool) {
    let address = address.parse().unwrap();
    let Object::Policy(policy) = &world.objects[&Key::Policy(name.parse().unwrap())] else {
        unreachable!("no policy");
    };
    policy.validate().unwrap();
    let has = |rules: &Option<Vec<osier_model::PolicyRule>>| {
        let peers = rules.iter().flatten().flat_map(|rule| rule.peers.iter().flatten());
        let mut blocks = peers.filter_map(|peer| match peer {
            Peer::Block(block) => Some(block),
            Peer::Selection(_) => None,
        });
        blocks.any(|block| block.contains(address))
    };
    (has(&policy.ingress), has(&policy.egress))
}

/// What comes from a node has its gateway's address: it is let in by blocks that have the node's own,
/// and not by those that except it, whichever came first, policy or node.
#[test]
fn blocks_mean_nodes_by_their_own_addresses() {
    let policy = policy_of_blocks;
    let mut roster = Roster::default();
    let mut world = World::default();
    world.hear(
        &mut roster,
        vec![
            policy("shop:one", json!([{"cidr": "192.0.2.1/32"}])),
            policy("shop:but", json!([{"cidr": "0.0.0.0/0", "except": ["192.0.2.1/32"]}])),
            policy("shop:out", json!([{"cidr": "0.0.0.0/0", "except": ["10.1.0.0/16"]}])),
            policy("shop:six", json!([{"cidr": "2001:db8::/64"}])),
        ],
    );
    assert_eq!(lets(&world, "shop:one", "10.1.1.1"), (false, false));
    assert_eq!(lets(&world, "shop:but", "10.1.1.1"), (true, true));
    let (v4, v6) = ("10.1.1.0/24", "fd01:1::/64");
    world.hear(
        &mut roster,
        vec![
            node("n1", &["192.0.2.1"], &[v4, v6]),
            node("n2", &["192.0.2.2", "2001:db8::2"], &["10.1.2.0/24", "fd01:2::/64"]),
        ],
    );
    assert_eq!(lets(&world, "shop:one", "10.1.1.1"), (true, false));
    // It has no other address by which it could be named.
    assert_eq!(lets(&world, "shop:one", "fd01:1::1"), (true, false));
    assert_eq!(lets(&world, "shop:one", "10.1.2.1"), (false, false));
    assert_eq!(lets(&world, "shop:but", "10.1.1.1"), (false, true));
    assert_eq!(lets(&world, "shop:but", "10.1.1.2"), (true, true));
    assert_eq!(lets(&world, "shop:but", "10.1.2.1"), (true, true));
    assert_eq!(lets(&world, "shop:out", "10.1.1.1"), (true, false));
    assert_eq!(lets(&world, "shop:out", "10.1.1.2"), (false, false));
    assert_eq!(lets(&world, "shop:six", "fd01:2::1"), (true, false));
    assert_eq!(lets(&world, "shop:six", "fd01:1::1"), (false, false));
    assert_eq!(lets(&world, "shop:six", "10.1.2.1"), (false, false));
    // Another address of a node, another block, the same again, and none.
    world.hear(&mut roster, vec![node("n2", &["192.0.2.1"], &["10.1.3.0/24"])]);
    assert_eq!(lets(&world, "shop:one", "10.1.3.1"), (true, false));
    assert_eq!(lets(&world, "shop:one", "10.1.2.1"), (false, false));
    assert_eq!(lets(&world, "shop:six", "fd01:2::1"), (false, false));
    let again = roster.hear(vec![node("n1", &["192.0.2.1"], &[v4, v6])]);
    assert!(again.changes.is_empty(), "{:?}", again.changes);
    let elsewhere = roster.hear(vec![node("n9", &["203.0.113.9"], &["10.1.9.0/24"])]).changes;
    assert!(elsewhere.iter().all(|change| !format!("{change:?}").contains("shop:one")));
    world.hear(&mut roster, vec![Saying::NodeGone("n1".parse().unwrap())]);
    assert_eq!(lets(&world, "shop:one", "10.1.1.1"), (false, false));
    assert_eq!(lets(&world, "shop:but", "10.1.1.1"), (true, true));
    assert_eq!(lets(&world, "shop:one", "10.1.3.1"), (true, false));
    // A policy that comes later knows them.
    world.hear(&mut roster, vec![policy("shop:late", json!([{"cidr": "192.0.2.0/30"}]))]);
    assert_eq!(lets(&world, "shop:late", "10.1.3.1"), (true, false));
    // And one that no longer names them is left alone.
    world.hear(&mut roster, vec![policy("shop:late", json!([]))]);
    let gone = roster.hear(vec![Saying::NodeGone("n2".parse().unwrap())]).changes;
    assert!(gone.iter().all(|change| !format!("{change:?}").contains("shop:late")), "{gone:?}");
}
