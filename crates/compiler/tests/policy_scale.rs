//! 1,000 policies over 5,000 pods, 100 of them here: flows are a sum of what selectors select, a pod
//! costs its own, and pods elsewhere cost nothing.
#![allow(clippy::unwrap_used, reason = "a panic is the report")]

use osier_compiler::{Attachment, Compiled, Compiler, LocalPorts};
use osier_model::{
    Block, Change, Fabric, Identity, Limits, Mac, Object, Peer, Policy, PolicyRule, Port, PortKey,
    PortRange, RulePort, Selection, SelectionId, Transport,
};
use osier_openflow::port_no::PortNo;
use std::collections::BTreeSet;
use std::net::IpAddr;

const NAMESPACES: u16 = 50;
/// Of a namespace, each with ten pods.
const APPS: u16 = 10;
const HERE: u16 = 100;

fn put(object: Object) -> Change {
    Change::Put(object)
}

fn identity(namespace: u16, app: u16) -> u32 {
    Identity::FIRST.0 + u32::from(namespace * APPS + app)
}

fn selection(namespace: u16, app: u16) -> SelectionId {
    SelectionId(identity(namespace, app).into())
}

/// To or from one app of the namespace, at a port.
fn rule(namespace: u16, app: u16, port: u16) -> Vec<PolicyRule> {
    let range = Some(PortRange::one(port));
    let ports = Some(vec![RulePort { transport: Transport::Tcp, range, of: None }]);
    let peers = Some(vec![Peer::Selection(selection(namespace, app))]);
    vec![PolicyRule { peers, ports }]
}

fn law() -> Vec<Object> {
    let mut law = Vec::new();
    for (namespace, app) in (0..NAMESPACES).flat_map(|n| (0..APPS).map(move |a| (n, a))) {
        let members = BTreeSet::from([Identity(identity(namespace, app))]);
        let id = selection(namespace, app);
        law.push(Object::Selection(Selection { id, members, addresses: BTreeSet::new() }));
        let policy = |way: &str, ingress, egress| {
            let name = format!("ns{namespace}:{way}-{app}").parse().unwrap();
            Object::Policy(Policy { name, subjects: id, ingress, egress })
        };
        law.push(policy("in", Some(rule(namespace, (app + 1) % APPS, 8000 + app)), None));
        let to = (app + 2) % APPS;
        law.push(policy("out", None, Some(rule(namespace, to, 8000 + to))));
    }
    law
}

fn port(n: u16, identity: u32) -> Port {
    let [high, low] = n.to_be_bytes();
    let address = IpAddr::from([10, 1, high, low]);
    let device = format!("ns:p{n}").parse().unwrap();
    Port {
        key: PortKey { device, interface: "eth0".parse().unwrap() },
        network: "pods".parse().unwrap(),
        node: "n1".parse().unwrap(),
        mac: Mac::of(address),
        addresses: vec![address],
        identity: Identity(identity),
        limits: Limits::default(),
    }
}

fn attach(compiler: &mut Compiler, n: u16, identity: u32) -> Vec<Compiled> {
    let port = port(n, identity);
    let key = port.key.clone();
    let mut compiled = compiler.apply(put(Object::Port(port))).unwrap();
    let at = Attachment { ofport: PortNo(u32::from(n) + 10), tag: n.into(), mtu: None };
    compiled.extend(compiler.attach(key, at).unwrap());
    compiled
}

fn compiler() -> Compiler {
    let local = LocalPorts {
        gateway: PortNo(2),
        service_gateway: None,
        tunnel: PortNo(1),
        tunnel_mtu: None,
        connection_rate: Some(1000),
    };
    let mut compiler = Compiler::new("n1".parse().unwrap(), Fabric::default(), local);
    let network = "{ kind: network, name: pods, vni: 1, router: default, reach: routed }";
    for text in ["{ kind: router, name: default, vrf: 0 }", network] {
        compiler.apply(put(serde_saphyr::from_str(text).unwrap())).unwrap();
    }
    compiler
}

fn flows(compiler: &Compiler) -> usize {
    compiler.all().unwrap().iter().map(|compiled| compiled.plan.flows.len()).sum()
}

#[test]
fn flows_are_a_sum_and_pods_elsewhere_cost_none() {
    let mut compiler = compiler();
    for n in 0..HERE {
        attach(&mut compiler, n, Identity::FIRST.0 + 5 * u32::from(n));
    }
    let before = flows(&compiler);
    let law = law();
    for object in &law {
        compiler.apply(put(object.clone())).unwrap();
    }
    let with = flows(&compiler);
    println!("{before} flows without policies, {with} with 1,000");
    // A rule is one; of its subjects and peers those that matter here, shared; twenty ports.
    assert!(with - before <= 1000 + 2 * 500 + 2 * usize::from(HERE) * 2 + 2 * 20 + 100, "{with}");
    // A new pod of an identity that is here costs its own flows; of another, also what matches it.
    let known = attach(&mut compiler, 300, Identity::FIRST.0);
    assert_eq!(known.iter().filter(|c| !c.owner.to_string().starts_with("port")).count(), 0);
    let unknown = attach(&mut compiler, 301, Identity::FIRST.0 + 1);
    let more: usize = unknown.iter().map(|compiled| compiled.plan.flows.len()).sum();
    assert!(more <= 14, "{more}");
    // A pod elsewhere is not told at all while its identity is known; told again, it changes nothing.
    let again: Vec<Compiled> =
        law.iter().flat_map(|o| compiler.apply(put(o.clone())).unwrap()).collect();
    assert!(again.is_empty(), "{} owners", again.len());
    // All of it goes again.
    for object in law.iter().rev() {
        compiler.apply(Change::Delete(object.key())).unwrap();
    }
    assert_eq!(flows(&compiler), before + known[1].plan.flows.len() * 2);
}

#[test]
fn one_policy_has_ten_thousand_rules() {
    let mut compiler = compiler();
    attach(&mut compiler, 0, Identity::FIRST.0);
    let before = flows(&compiler);
    let rule = |n: u16| {
        let [high, low] = n.to_be_bytes();
        let cidr = format!("10.{high}.{low}.0/24").parse().unwrap();
        let peers = Some(vec![Peer::Block(Block { cidr, except: Vec::new() })]);
        let range = Some(PortRange::one(1 + n));
        let ports = Some(vec![RulePort { transport: Transport::Tcp, range, of: None }]);
        PolicyRule { peers, ports }
    };
    let subjects = SelectionId(1);
    let members = BTreeSet::from([Identity::FIRST]);
    let selection = Selection { id: subjects, members, addresses: BTreeSet::new() };
    compiler.apply(put(Object::Selection(selection))).unwrap();
    let policy = |rules| {
        let name = "ns0:many".parse().unwrap();
        put(Object::Policy(Policy { name, subjects, ingress: Some(rules), egress: None }))
    };
    let begun = std::time::Instant::now();
    compiler.apply(policy((0..10_000).map(rule).collect())).unwrap();
    let with = flows(&compiler) - before;
    println!("{with} flows for 10,000 rules, in {:?}", begun.elapsed());
    // A rule is its conjunction, its peer, its port, and that of its subject that they share.
    assert!((20_000..=40_100).contains(&with), "{with}");
    // One rule fewer costs that rule, not the others.
    let changed = compiler.apply(policy((0..9_999).map(rule).collect())).unwrap();
    assert!(changed.len() <= 8, "{} owners", changed.len());
    assert!(flows(&compiler) < with + before);
    // More than a node takes are not taken, and what was stays.
    let now = flows(&compiler);
    compiler.apply(policy((0..10_001).map(rule).collect())).unwrap_err();
    assert_eq!(flows(&compiler), now);
}
