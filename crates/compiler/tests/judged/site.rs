//! Two nodes with real switches, which follow a world step by step, and trace packets.

use crate::reference::{Probe, Who};
use crate::resolve::{Told, node_name};
use crate::world::{NODES, World};
use osier_compiler::{Attachment, Compiled, Compiler, LocalPorts, Owner, Plan};
use osier_model::{Change, Fabric as Settings, Key, Mac, Object, PortKey, Transport};
use osier_openflow::flow::{Flow, FlowMod};
use osier_openflow::message::{BundleFlags, Message, TlvCommand, TlvTableMod};
use osier_openflow::meter::MeterMod;
use osier_openflow::port_no::PortNo;
use osier_openflow::session::{Endpoint, Options, Session};
use osier_testbed::{Fabric, Node, Ovs, Tunnel, wait_until};
use std::collections::BTreeMap;
use std::time::Duration;

const BRIDGE: &str = Node::INTEGRATION;
const LOCAL: LocalPorts = LocalPorts {
    gateway: PortNo(2),
    service_gateway: None,
    tunnel: PortNo(1),
    tunnel_mtu: None,
    connection_rate: None,
};
/// The most that a path may take.
const RECIRCULATIONS: usize = 3;

/// A node's compiler, and what its switch has of it.
pub struct Site {
    compiler: Compiler,
    session: Session,
    has: BTreeMap<Owner, Plan>,
    told: BTreeMap<Key, Object>,
}

/// Which pod has a port.
fn number(key: &PortKey) -> usize {
    key.device.as_str().strip_prefix("ns:p").unwrap().parse().unwrap()
}

fn ofport(pod: usize) -> u32 {
    10 + u32::try_from(pod).unwrap()
}

impl Site {
    pub async fn new(node: &Node, world: &World) -> Self {
        let ovs = node.ovs();
        node.add_tunnel_port(Tunnel::Geneve, "osier-tun", 1).unwrap();
        let pods = (0..world.pods.len())
            .filter(|pod| node_name(world.pods[*pod].node).as_str() == node.name());
        let pods: Vec<_> = pods.map(|pod| (format!("p{pod}"), ofport(pod))).collect();
        for (name, number) in pods.into_iter().chain([("osier0".to_owned(), 2)]) {
            let number = format!("ofport_request={number}");
            let add = ["add-port", BRIDGE, &name, "--", "set", "interface", &name, "type=internal"];
            ovs.vsctl(&[&add[..], &[&number]].concat()).unwrap();
        }
        know_the_others(node, ovs);
        let endpoint: Endpoint =
            format!("unix:{}", ovs.mgmt_socket(BRIDGE).display()).parse().unwrap();
        let (session, _) = Session::connect(&endpoint, Options::default()).await.unwrap();
        let name = node.name().parse().unwrap();
        let compiler = Compiler::new(name, Settings::default(), LOCAL);
        let mut site = Self { compiler, session, has: BTreeMap::new(), told: BTreeMap::new() };
        let first = site.compiler.all().unwrap();
        site.prepare(&first).await;
        site.take(first).await;
        site
    }

    /// What no bundle takes.
    async fn prepare(&self, first: &[Compiled]) {
        let maps: Vec<_> = first.iter().flat_map(|c| c.plan.tlvs.clone()).collect();
        let mut messages =
            vec![Message::TlvTableMod(TlvTableMod { command: TlvCommand::Add, maps })];
        let meters = first.iter().flat_map(|c| c.plan.meters.clone());
        messages.extend(meters.map(|meter| Message::MeterMod(MeterMod::add(meter))));
        self.session.batch(messages).await.unwrap();
    }

    /// The switch gets what differs.
    async fn take(&mut self, compiled: Vec<Compiled>) {
        let (mut gone, mut come) = (Vec::new(), Vec::new());
        // Of several steps of one owner the last counts.
        let last: BTreeMap<Owner, Plan> = compiled.into_iter().map(|c| (c.owner, c.plan)).collect();
        for (owner, plan) in last {
            let before = self.has.remove(&owner).unwrap_or_default();
            let same = |one: &Flow, other: &Flow| {
                (one.table, one.priority, &one.matching)
                    == (other.table, other.priority, &other.matching)
            };
            let left =
                before.flows.iter().filter(|old| !plan.flows.iter().any(|new| same(old, new)));
            gone.extend(left.map(|flow| {
                FlowMod::delete_strict(flow.table, flow.priority, flow.matching.clone())
            }));
            come.extend(plan.flows.iter().cloned().map(FlowMod::add));
            self.has.insert(owner, plan);
        }
        let all: Vec<Message> = gone.into_iter().chain(come).map(Message::FlowMod).collect();
        self.session.bundle(BundleFlags::ATOMIC | BundleFlags::ORDERED, &all).await.unwrap();
    }

    /// Follows to what it is told now, step by step.
    pub async fn follow(&mut self, fixed: &[Object], told: &Told, node: usize) {
        let all = fixed.iter().chain(&told.law).chain(&told.ports[node]);
        let now: BTreeMap<Key, Object> = all.map(|o| (o.key(), o.clone())).collect();
        let gone = self.told.keys().rev().filter(|key| !now.contains_key(*key));
        let come = now.iter().filter(|(key, object)| self.told.get(*key) != Some(*object));
        let come: Vec<Change> = come.map(|(_, object)| Change::Put(object.clone())).collect();
        let mut compiled = Vec::new();
        for key in gone.cloned().collect::<Vec<_>>() {
            if let Key::Port(port) = &key {
                compiled.extend(self.compiler.detach(port).unwrap());
            }
            compiled.extend(self.compiler.apply(Change::Delete(key)).unwrap());
        }
        for change in come {
            compiled.extend(self.compiler.apply(change.clone()).unwrap());
            if let Change::Put(Object::Port(port)) = change
                && !self.told.contains_key(&Key::Port(port.key.clone()))
            {
                let tag = ofport(number(&port.key));
                let at = Attachment { ofport: PortNo(tag), tag, mtu: None };
                compiled.extend(self.compiler.attach(port.key, at).unwrap());
            }
        }
        self.told = now;
        self.take(compiled).await;
    }
}

/// Else a trace ends where the route or the neighbour of the other node is missing.
fn know_the_others(node: &Node, ovs: &Ovs) {
    for other in 1..=NODES {
        let address = format!("198.51.100.{other}");
        if address != node.underlay().to_string() {
            let route = || ovs.appctl(&["ovs/route/lookup", &address]).map(drop);
            wait_until("the switch to know the underlay", Duration::from_secs(30), route).unwrap();
            let mac = format!("02:00:00:00:00:0{other}");
            ovs.appctl(&["tnl/neigh/set", Node::PHYSICAL, &address, &mac]).unwrap();
        }
    }
}

/// Whether a probe arrives, as the switches of all nodes trace it, and how.
pub fn arrives(fabric: &Fabric, world: &World, probe: &Probe) -> (bool, String) {
    let node_of = |who: Who| match who {
        Who::Pod(pod) => Some(world.pods[pod].node),
        Who::Node(node) => Some(node),
        Who::Outside(_) => None,
    };
    let (from, to) = (probe.from.sends(world, probe.ipv6), probe.to.receives(world, probe.ipv6));
    let first = node_of(probe.from).or(node_of(probe.to)).unwrap();
    let (in_port, mac, gateway) = match probe.from {
        Who::Pod(pod) => (format!("p{pod}"), Mac::of(world.pods[pod].addresses[0]), Mac::GATEWAY),
        _ => ("osier0".to_owned(), Mac::GATEWAY, Mac::FABRIC),
    };
    let wanted = match probe.to {
        Who::Pod(pod) => format!("p{pod}"),
        _ => "osier0".to_owned(),
    };
    let six = if probe.ipv6 { "6" } else { "" };
    let field = if probe.ipv6 { "ipv6" } else { "nw" };
    let carried = match probe.port {
        None if probe.ipv6 => "icmp6,icmpv6_type=128".to_owned(),
        None => "icmp,icmp_type=8".to_owned(),
        Some((transport, port)) => {
            let name = format!("{transport:?}").to_lowercase();
            let ports = if transport == Transport::Sctp { "sctp" } else { name.as_str() };
            format!("{name}{six},{ports}_src=40000,{ports}_dst={port}")
        }
    };
    let packet = format!(
        "dl_src={mac},dl_dst={gateway},{carried},{field}_src={from},{field}_dst={to},nw_ttl=64"
    );
    let mut text = String::new();
    let mut sent = trace(fabric, first, &format!("in_port={in_port},{packet}"), &mut text);
    if sent.contains("tnl_push") {
        let (_, option) = sent.split_once("len=4,").unwrap_or_else(|| panic!("{text}"));
        let option = option.split('}').next().unwrap().to_owned();
        let (own, other) = (first + 1, NODES - first);
        let packet =
            packet.replace(&format!("dl_dst={gateway}"), &format!("dl_dst={}", Mac::GATEWAY));
        let tunnelled = format!(
            "in_port=osier-tun,tun_src=198.51.100.{own},tun_dst=198.51.100.{other},tun_id=1,\
             tun_metadata0={option},{packet}"
        );
        sent = trace(fabric, NODES - 1 - first, &tunnelled, &mut text);
    }
    (sent.rsplit(',').next() == Some(&wanted), text)
}

/// What the datapath of a node does with a packet at last.
fn trace(fabric: &Fabric, node: usize, packet: &str, text: &mut String) -> String {
    let ovs = fabric.nodes()[node].ovs();
    let new = ["--ct-next", "trk,new"].repeat(RECIRCULATIONS);
    let arguments = [&["ofproto/trace", "--names", BRIDGE, packet][..], &new].concat();
    let said = ovs.appctl(&arguments).unwrap();
    text.push_str(&said);
    let parts: Vec<&str> =
        said.lines().filter_map(|line| line.strip_prefix("Datapath actions: ")).collect();
    assert!(parts.len() <= RECIRCULATIONS + 1, "it begins anew too often:\n{said}");
    (*parts.last().unwrap_or_else(|| panic!("{said}"))).to_owned()
}
