//! Any sequence of changes gives what compiling its end from nothing gives.
#![allow(clippy::unwrap_used, reason = "a panic is the report")]

use osier_compiler::{Attachment, Compiled, Compiler, LocalPorts, Owner, Plan};
use osier_model::{
    Change, Fabric, Identity, Key, Limit, Limits, Mac, Network, NetworkName, Node, NodeName,
    Object, Port, PortKey, Reach, Router, RouterName, Subnet, Vni, VrfId,
};
use osier_openflow::port_no::PortNo;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::net::IpAddr;

const LOCAL: LocalPorts =
    LocalPorts { gateway: PortNo(2), tunnel: PortNo(1), tunnel_mtu: Some(1442) };

#[derive(Debug, Clone)]
enum Step {
    Apply(Change),
    Attach(PortKey, Attachment),
    Detach(PortKey),
}

fn node_name(n: u8) -> NodeName {
    NodeName::new(&format!("n{n}")).unwrap()
}

fn network_name(n: u8) -> NetworkName {
    NetworkName::new(&format!("net{n}")).unwrap()
}

fn router_name(n: u8) -> RouterName {
    RouterName::new(&format!("r{n}")).unwrap()
}

fn port_key(n: u8) -> PortKey {
    PortKey { device: format!("ns:pod{n}").parse().unwrap(), interface: "eth0".parse().unwrap() }
}

fn address(v6: bool, third: u8, last: u8) -> IpAddr {
    match v6 {
        false => [10, 1, third, last.max(2)].into(),
        true => [0xfd01, 0, 0, third.into(), 0, 0, 0, u16::from(last.max(2))].into(),
    }
}

prop_compose! {
    fn node()(n in 0..4_u8, v6: bool, blocks in 0..3_u8) -> Object {
        let tunnel = if v6 { format!("2001:db8::{}", n + 1) } else { format!("192.0.2.{}", n + 1) };
        let blocks = (0..blocks).map(|b| format!("10.{b}.{n}.0/24").parse().unwrap()).collect();
        let tunnel: IpAddr = tunnel.parse().unwrap();
        Object::Node(Node { name: node_name(n), tunnel, addresses: vec![tunnel], blocks, zone: None })
    }
}

prop_compose! {
    fn network()(n in 0..4_u8, router in prop::option::of(0..3_u8), routed: bool, gateway: bool) -> Object {
        let cidr = format!("10.1.{n}.0/24").parse().unwrap();
        let gateway = (gateway && router.is_some()).then(|| address(false, n, 254));
        Object::Network(Network {
            name: network_name(n),
            vni: Vni::new(u32::from(n) + 1).unwrap(),
            router: router.map(router_name),
            reach: if routed { Reach::Routed } else { Reach::Bridged },
            subnets: vec![Subnet { cidr, gateway }],
        })
    }
}

prop_compose! {
    fn port()(n in 0..8_u8, network in 0..4_u8, node in 0..4_u8, v6: bool, id in 0..3_u32, limited in 0..4_u8) -> Object {
        let addresses = vec![address(v6, network, n)];
        let mac = Mac::of(addresses[0]);
        let (key, network, node) = (port_key(n), network_name(network), node_name(node));
        let rate = |on: bool| on.then_some(Limit { rate: 1_000_000, burst: None });
        let limits = Limits { ingress: rate(limited & 1 != 0), egress: rate(limited & 2 != 0) };
        let identity = Identity(id);
        Object::Port(Port { key, network, node, mac, addresses, identity, limits })
    }
}

fn object() -> impl Strategy<Value = Object> {
    let router = (0..3_u8)
        .prop_map(|n| Object::Router(Router { name: router_name(n), vrf: VrfId(n.into()) }));
    prop_oneof![2 => node(), 1 => router, 2 => network(), 5 => port()]
}

fn step() -> impl Strategy<Value = Step> {
    let attach = (0..8_u8, 1..4_u32).prop_map(|(n, life)| {
        let tag = 8 * life + u32::from(n);
        Step::Attach(
            port_key(n),
            Attachment { ofport: PortNo(u32::from(n) + 10), tag, mtu: Some(1500) },
        )
    });
    prop_oneof![
        6 => object().prop_map(|o| Step::Apply(Change::Put(o))),
        2 => object().prop_map(|o| Step::Apply(Change::Delete(o.key()))),
        2 => attach,
        1 => (0..8_u8).prop_map(|n| Step::Detach(port_key(n))),
    ]
}

/// The plans of owners that want something.
fn wanted(compiled: impl IntoIterator<Item = Compiled>, into: &mut BTreeMap<Owner, Plan>) {
    for Compiled { owner, plan } in compiled {
        match plan == Plan::default() {
            true => into.remove(&owner),
            false => into.insert(owner, plan),
        };
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn increments_equal_a_full_compile(steps in prop::collection::vec(step(), 1..60)) {
        let mut compiler = Compiler::new(node_name(0), Fabric::default(), LOCAL);
        let (mut incremental, mut attached) = (BTreeMap::new(), BTreeMap::new());
        wanted(compiler.all().unwrap(), &mut incremental);
        for step in steps {
            let compiled = match step {
                Step::Apply(change) => compiler.apply(change).unwrap(),
                Step::Attach(key, at) => {
                    attached.insert(key.clone(), at);
                    compiler.attach(key, at).unwrap()
                }
                Step::Detach(key) => {
                    attached.remove(&key);
                    compiler.detach(&key).unwrap()
                }
            };
            for each in &compiled {
                for flow in &each.plan.flows {
                    prop_assert_eq!(compiler.owner_of(flow.cookie), Some(each.owner.clone()));
                }
            }
            wanted(compiled, &mut incremental);
        }
        let mut full = BTreeMap::new();
        wanted(compiler.all().unwrap(), &mut full);
        prop_assert_eq!(&incremental, &full);
        // A new compiler that is told the end alone, in another order, makes the same flows, with
        // the same cookies: a restarted agent changes nothing.
        let mut again = Compiler::new(node_name(0), Fabric::default(), LOCAL);
        for (key, at) in attached {
            again.attach(key, at).unwrap();
        }
        let view = compiler.view();
        let objects = view.ports().values().rev().cloned().map(Object::Port)
            .chain(view.networks().values().rev().cloned().map(Object::Network))
            .chain(view.routers().values().rev().cloned().map(Object::Router))
            .chain(view.nodes().values().rev().cloned().map(Object::Node));
        for object in objects {
            again.apply(Change::Put(object)).unwrap();
        }
        let mut anew = BTreeMap::new();
        wanted(again.all().unwrap(), &mut anew);
        prop_assert_eq!(anew, full);
    }
}

/// A change of one port costs its own flows, however many others there are.
#[test]
fn a_port_costs_its_own_flows() {
    let mut compiler = Compiler::new(node_name(0), Fabric::default(), LOCAL);
    let put = |object| Change::Put(object);
    compiler.apply(put(Object::Router(Router { name: router_name(0), vrf: VrfId(0) }))).unwrap();
    let network = Network {
        name: network_name(0),
        vni: Vni::new(1).unwrap(),
        router: Some(router_name(0)),
        reach: Reach::Routed,
        subnets: vec![],
    };
    compiler.apply(put(Object::Network(network))).unwrap();
    for n in 0..=200_u8 {
        let addresses = vec![address(false, 9, n)];
        let mac = Mac::of(addresses[0]);
        let (key, network, node) = (port_key(n), network_name(0), node_name(0));
        let (identity, limits) = (Identity::ANY, Limits::default());
        let port = Port { key, network, node, mac, addresses, identity, limits };
        compiler.apply(put(Object::Port(port))).unwrap();
        let at = Attachment { ofport: PortNo(u32::from(n) + 10), tag: n.into(), mtu: None };
        let compiled = compiler.attach(port_key(n), at).unwrap();
        assert_eq!(compiled.len(), 1);
        assert_eq!(compiled[0].owner, Owner::from(Key::Port(port_key(n))));
        // Ingress, IP and ARP in the spoof guard, one route.
        assert_eq!(compiled[0].plan.flows.len(), 4);
    }
}
