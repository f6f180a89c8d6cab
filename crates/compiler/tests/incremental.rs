//! Any sequence of changes gives what compiling its end from nothing gives.
#![allow(clippy::unwrap_used, reason = "a panic is the report")]

use osier_compiler::{Attachment, Compiled, Compiler, LocalPorts, Owner, Plan};
use osier_model::{
    Block, Change, Endpoint, EndpointPort, EndpointState, Endpoints, EndpointsKey, Fabric,
    Identity, Key, Limit, Limits, Locality, Mac, Network, NetworkName, Node, NodeName, Object,
    Peer, Policy, PolicyMode, PolicyRule, Port, PortKey, PortRange, Reach, Router, RouterName,
    RulePort, Selection, SelectionId, Service, ServiceName, ServicePort, Subnet, Transport, Vni,
    VrfId,
};
use osier_openflow::port_no::PortNo;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::net::IpAddr;

const LOCAL: LocalPorts = LocalPorts {
    gateway: PortNo(2),
    service_gateway: None,
    tunnel: PortNo(1),
    tunnel_mtu: Some(1442),
    connection_rate: Some(1000),
};

/// A node with a service gateway, by which the machine leads to Services if `led` says so.
fn with_gateway(led: Option<bool>) -> (Fabric, LocalPorts) {
    let fabric = Fabric { service_gateway: led == Some(true), ..fabric() };
    (fabric, LocalPorts { service_gateway: led.map(|_| PortNo(3)), ..LOCAL })
}

fn fabric() -> Fabric {
    let policy = PolicyMode { rejudge: true, log: true };
    Fabric { services: vec!["10.96.0.0/16".parse().unwrap()], policy, ..Fabric::default() }
}

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
    fn node()(n in 0..4_u8, v6: bool, blocks in 0..3_u8, zone in prop::option::of(0..2_u8)) -> Object {
        let zone = zone.map(|zone| format!("z{zone}"));
        let tunnel = if v6 { format!("2001:db8::{}", n + 1) } else { format!("192.0.2.{}", n + 1) };
        let blocks = (0..blocks).map(|b| format!("10.{b}.{n}.0/24").parse().unwrap()).collect();
        let tunnel: IpAddr = tunnel.parse().unwrap();
        Object::Node(Node { name: node_name(n), tunnel, addresses: vec![tunnel], blocks, zone })
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
            dhcp_servers: Vec::new(),
            dhcp: None,
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

fn service_name(n: u8) -> ServiceName {
    ServiceName::new(&format!("ns:s{n}")).unwrap()
}

/// Those of the outside are nodes' own, if the nodes are there.
fn service_address(v6: bool, outside: bool, n: u8) -> IpAddr {
    match (v6, outside) {
        (false, false) => [10, 96, 0, n].into(),
        (false, true) => [192, 0, 2, n].into(),
        (true, false) => [0xfd96, 0, 0, 0, 0, 0, 0, n.into()].into(),
        (true, true) => [0x2001, 0xdb8, 0, 0, 0, 0, 0, n.into()].into(),
    }
}

fn locality() -> impl Strategy<Value = Locality> {
    prop_oneof![Just(Locality::Cluster), Just(Locality::Local)]
}

prop_compose! {
    // Addresses of the outside are shared by several.
    fn service()(n in 0..5_u8, v6: bool, dual: bool, outside in prop::option::of(1..3_u8), router in prop::option::of(0..3_u8),
        ports in 1..3_u16, node_port: bool, affinity: bool, internal in locality(), external in locality(), ranges: bool) -> Object {
        let families = if dual { vec![false, true] } else { vec![v6] };
        let outside: Vec<IpAddr> = outside.into_iter().flat_map(|o| families.iter().map(move |v6| service_address(*v6, true, o))).collect();
        let port = |i: u16| ServicePort {
            name: format!("p{i}"),
            transport: if i == 0 { Transport::Tcp } else { Transport::Udp },
            // Each has ports of its own, so that no two have the same at one address.
            port: 100 * u16::from(n) + i + 1,
            node_port: node_port.then_some(30000 + 10 * u16::from(n) + i),
        };
        Object::Service(Service {
            name: service_name(n),
            router: router.map(router_name),
            addresses: families.iter().map(|v6| service_address(*v6, false, n + 1)).collect(),
            balanced: outside.iter().filter(|_| ranges).copied().collect(),
            external: outside.iter().filter(|_| !ranges).copied().collect(),
            ports: (0..ports).map(port).collect(),
            affinity: affinity.then_some(10800),
            internal_traffic: internal,
            external_traffic: external,
            source_ranges: if ranges { vec!["192.0.2.0/24".parse().unwrap()] } else { vec![] },
            health_port: None,
        })
    }
}

prop_compose! {
    fn endpoints()(n in 0..5_u8, slice in 0..3_u8, v6: bool, target in 0..2_u16, count in prop_oneof![9 => 0..4_u8, 1 => Just(60)], node in 0..3_u8, state in 0..3_u8, zoned: bool) -> Object {
        let endpoint = |i: u8| Endpoint {
            address: address(v6, 10 * (slice + 1), i),
            node: Some(node_name((node + i) % 3)),
            state: [EndpointState::Ready, EndpointState::Terminating, EndpointState::Unready][usize::from((state + i) % 3)],
            weight: 1 + u16::from(i) % 3,
            zones: if zoned { vec![format!("z{}", i % 2)] } else { vec![] },
            nodes: vec![],
        };
        let port = |i: u16, transport| EndpointPort { name: format!("p{i}"), transport, port: 8080 + target + i };
        Object::Endpoints(Endpoints {
            key: EndpointsKey { service: service_name(n), slice: format!("s{slice}").parse().unwrap() },
            ports: vec![port(0, Transport::Tcp), port(1, Transport::Udp)],
            endpoints: (0..count).map(endpoint).collect(),
        })
    }
}

prop_compose! {
    fn selection()(id in 0..5_u64, members in prop::collection::btree_set(0..4_u32, 0..4), address in prop::option::of(0..3_u8)) -> Object {
        let members = members.into_iter().map(Identity).collect();
        let addresses = address.map(address_of).into_iter().collect();
        Object::Selection(Selection { id: SelectionId(id), members, addresses })
    }
}

fn address_of(last: u8) -> IpAddr {
    address(last == 0, 7, last)
}

fn rules() -> impl Strategy<Value = Option<Vec<PolicyRule>>> {
    let block = (0..3_u8, prop::option::of(0..3_u8)).prop_map(|(n, except)| {
        let except = except.map(|e| format!("10.{n}.{e}.0/24").parse().unwrap());
        let cidr = format!("10.{n}.0.0/16").parse().unwrap();
        if n == 2 && except.is_none() {
            return Peer::Block(Block { cidr: "0.0.0.0/0".parse().unwrap(), except: vec![] });
        }
        Peer::Block(Block { cidr, except: except.into_iter().collect() })
    });
    let peer =
        prop_oneof![2 => (0..5_u64).prop_map(|id| Peer::Selection(SelectionId(id))), 1 => block];
    let range = prop::option::of((1..4_u16, 0..9_u16)).prop_map(|range| {
        range.map(|(first, more)| PortRange { first: 80 * first, last: 80 * first + more })
    });
    let transport = prop_oneof![Just(Transport::Tcp), Just(Transport::Udp), Just(Transport::Sctp)];
    let of = prop::option::weighted(0.3, (0..5_u64).prop_map(SelectionId));
    let port =
        (transport, range, of).prop_map(|(transport, range, of)| RulePort { transport, range, of });
    let peers = prop::option::weighted(0.8, prop::collection::vec(peer, 0..3));
    let ports = prop::option::weighted(0.8, prop::collection::vec(port, 0..3));
    let rule = (peers, ports).prop_map(|(peers, ports)| PolicyRule { peers, ports });
    prop::option::of(prop::collection::vec(rule, 0..3))
}

prop_compose! {
    fn policy()(n in 0..4_u8, subjects in 0..5_u64, ingress in rules(), egress in rules()) -> Object {
        let name = format!("ns:p{n}").parse().unwrap();
        Object::Policy(Policy { name, subjects: SelectionId(subjects), ingress, egress })
    }
}

fn object() -> impl Strategy<Value = Object> {
    let router = (0..3_u8)
        .prop_map(|n| Object::Router(Router { name: router_name(n), vrf: VrfId(n.into()) }));
    prop_oneof![
        2 => node(), 1 => router, 2 => network(), 5 => port(), 3 => service(), 3 => endpoints(),
        4 => selection(), 4 => policy(),
    ]
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
    fn increments_equal_a_full_compile(
        steps in prop::collection::vec(step(), 1..60),
        led: Option<bool>,
    ) {
        let (fabric, local) = with_gateway(led);
        let mut compiler = Compiler::new(node_name(0), fabric.clone(), local);
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
        // No two clauses of policies are one flow to the switch: the later would replace the other.
        let mut matched = std::collections::HashSet::new();
        for (owner, plan) in full.iter().filter(|(owner, _)| matches!(owner, Owner::Article(_))) {
            for flow in &plan.flows {
                let at = (flow.table, flow.priority, flow.matching.clone());
                prop_assert!(matched.insert(at), "{}: {:?}", owner, flow.matching);
            }
        }
        // A new compiler that is told the end alone, in another order, makes the same flows, with
        // the same cookies: a restarted agent changes nothing.
        let mut again = Compiler::new(node_name(0), fabric, local);
        for (key, at) in attached {
            again.attach(key, at).unwrap();
        }
        let mut objects: Vec<Object> = compiler.view().objects().collect();
        objects.reverse();
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
        dhcp_servers: vec![],
        dhcp: None,
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
        // Ingress, IP and ARP in the spoof guard, one route, the way to itself by a Service, and its
        // connections in both directions.
        assert_eq!(compiled[0].plan.flows.len(), 7);
    }
}

/// A change of an endpoint costs its Service's group, and no flow, however many others there are;
/// and Services that are alike share all but one flow.
#[test]
fn a_service_costs_one_flow() {
    let mut compiler = Compiler::new(node_name(0), fabric(), LOCAL);
    let flows = |compiler: &Compiler| -> usize {
        compiler.all().unwrap().iter().map(|compiled| compiled.plan.flows.len()).sum()
    };
    let before = flows(&compiler);
    let slice = |n: u8, count: u8| {
        let endpoint = |i| Endpoint {
            address: [10, 1, n, i].into(),
            node: None,
            state: EndpointState::Ready,
            weight: 1,
            zones: vec![],
            nodes: vec![],
        };
        Change::Put(Object::Endpoints(Endpoints {
            key: EndpointsKey { service: service_name(n), slice: "s".parse().unwrap() },
            ports: vec![EndpointPort {
                name: String::new(),
                transport: Transport::Tcp,
                port: 8080,
            }],
            endpoints: (0..count).map(endpoint).collect(),
        }))
    };
    for n in 0..200 {
        let text = format!(
            "{{ kind: service, name: 'ns:s{n}', addresses: [10.96.0.{n}], ports: [{{ port: 80 }}] }}"
        );
        compiler.apply(Change::Put(serde_saphyr::from_str(&text).unwrap())).unwrap();
        compiler.apply(slice(n, 3)).unwrap();
    }
    let added = flows(&compiler) - before;
    assert!(added <= 200 + 20, "{added} flows for 200 Services");
    let compiled = compiler.apply(slice(7, 4)).unwrap();
    assert_eq!(compiled.len(), 1);
    assert_eq!((compiled[0].plan.flows.len(), compiled[0].plan.groups.len()), (1, 1));
    assert_eq!(flows(&compiler) - before, added);
}
