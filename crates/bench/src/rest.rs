//! Pods that a client of RESTCONF makes one by one, on a switch without an agent, against ports of OVN.
//!
//! Ours takes from the PUT, over a connection that is kept, until the switch itself has told of the pod's
//! flows, and then comes the next; all of them count. `ovn-nbctl --wait=hv` takes ever longer, so it is
//! asked for a few ports at a few sizes on the way, in the middle of equal parts, whose mean is that of
//! all.

use crate::Suite;
use crate::api::{Access, Client};
use crate::controlled::await_ready;
use crate::figure::{Figure, Goal, Wanted};
use crate::flows::FlowMonitor;
use crate::node::{PATIENCE, osier};
use crate::ovn::Ovn;
use anyhow::Result;
use osier_testbed::{Fabric, Family, Lab, Node, Process, wait_until};
use serde_json::{Value, json};
use std::fs;
use std::time::{Duration, Instant};

/// Pods of a round: five rounds, unless it is said otherwise, are 10,000.
const PODS: usize = 2000;
/// Sizes at which the rival is asked, and how often at each.
const PARTS: usize = 4;
const SAMPLES: usize = 8;
const BRIDGE: &str = "br-int";
const CLUSTER: &str = "00000000-0000-0000-0000-000000000001";
/// The node that nobody runs, which has the pods.
const ELSEWHERE: &str = "198.51.100.99";

const PODS_GOAL: Goal = Goal {
    name: "rest-pods",
    about: "10,000 pods PUT one by one (--rounds N: 2,000 a round), each until its flows are on the \
            switch, against `ovn-nbctl --wait=hv` for a port beside as many; wall",
    wanted: Wanted::AtMost(0.1),
};

/// Pods over RESTCONF.
pub(crate) const REST_PODS: Suite = Suite { goals: &[PODS_GOAL], run };

/// A controller that drives a switch.
struct Driven<'a> {
    flows: FlowMonitor,
    _controller: Process,
    access: Access,
    node: &'a Node,
}

fn run(rounds: usize) -> Result<Vec<Figure>> {
    let pods = rounds * PODS;
    eprintln!("rest-pods: a switch of ours and one of OVN, {pods} pods each");
    let osier = osier()?;
    let labs = [Lab::new()?, Lab::new()?];
    let fabric = |lab| Fabric::new(lab, Family::Ipv4, 1);
    let [fabric, other] = [fabric(&labs[0])?, fabric(&labs[1])?];
    let ours = Driven::start(&fabric.nodes()[0], &osier)?;
    let mut client = ours.client()?;
    let part = pods / PARTS;
    let (mut spent, mut rival_spent) = (Duration::ZERO, Duration::ZERO);
    let rival = Ovn::with_ports(&other.nodes()[0], 0)?;
    for at in 0..PARTS {
        let begun = Instant::now();
        for n in at * part..(at + 1) * part {
            ours.put(&mut client, n)?;
        }
        let took = begun.elapsed();
        spent += took;
        let middle = at * part + part / 2;
        rival.grow(middle)?;
        let mut asked = Duration::ZERO;
        for sample in 0..=SAMPLES {
            let cost = rival.change(pods + at * (SAMPLES + 1) + sample)?;
            // The first warms it up.
            asked += if sample == 0 { Duration::ZERO } else { cost.wall };
        }
        let each = |time: Duration, count: usize| time / u32::try_from(count).unwrap_or(1).max(1);
        let (mine, theirs) = (each(took, part), each(asked, SAMPLES));
        eprintln!(
            "  pods up to {}: {mine:.2?} each; OVN beside {middle}: {theirs:.2?}",
            (at + 1) * part
        );
        rival_spent += theirs;
    }
    let mean = spent / u32::try_from(part * PARTS).unwrap_or(1).max(1);
    Ok(vec![Figure::times(&PODS_GOAL, mean, rival_spent / 4)])
}

// === impl Driven ===

impl<'a> Driven<'a> {
    fn start(node: &'a Node, osier: &str) -> Result<Self> {
        let (dir, own) = (node.ovs().dir(), node.underlay());
        let state = dir.join("controller");
        fs::create_dir_all(&state)?;
        let config = state.join("controller.toml");
        let text = format!(
            "state_dir = '{}'\n[api]\nlisten = '{own}:6645'\n[fleet]\nlisten = '{own}:6646'\n\
             [restconf]\nlisten = '{own}:8443'\n[switches]\nallow = ['{own}/32', '127.0.0.1/32']\n\
             [limits]\nrequests_per_second = 100000\nburst = 100000\n",
            state.display()
        );
        fs::write(&config, text)?;
        let controller =
            node.netns().command(osier).args(["controller", "--config"]).arg(config).spawn()?;
        await_ready(&controller)?;
        let access = Access::of(&state)?.at_port(8443);
        make_bridge(node, &[&node.underlay().to_string()])?;
        let flows = FlowMonitor::start(dir)?;
        let driven = Self { flows, _controller: controller, access, node };
        let mut client = driven.client()?;
        put_node(&mut client, 1, node.name(), &own.to_string(), "10.11.0.0/24")?;
        put_node(&mut client, 2, "elsewhere", ELSEWHERE, "10.32.0.0/16")?;
        driven.put_here(&mut client)?;
        drop(client);
        Ok(driven)
    }

    fn client(&self) -> Result<Client<'_>> {
        self.access.over(self.node.netns().tcp_connect(self.access.address)?)
    }

    /// A pod of the switch itself, so that it has to know how to reach the others.
    fn put_here(&self, client: &mut Client<'_>) -> Result<()> {
        let ids = [
            "external_ids:iface-id=\"shop:here\"",
            "external_ids:attached-mac=\"0a:00:00:00:00:01\"",
        ];
        let add = ["add-port", BRIDGE, "here", "--", "set", "interface", "here", "type=internal"];
        self.node.ovs().vsctl(&[&add[..], &ids[..]].concat())?;
        let own = self.node.underlay().to_string();
        put_pod(client, 0xffff_ffff, "here", &own, "10.11.0.4", "0a:00:00:00:00:01")?;
        let there = || match self.node.ovs().ofctl(&["-O", "OpenFlow15", "dump-flows", BRIDGE]) {
            Ok(flows) if flows.contains("10.11.0.4") => Ok(()),
            Ok(_) => Err("its flows are not there".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        wait_until("the first pod", PATIENCE, there)?;
        Ok(())
    }

    /// One more pod, until the switch has told of a flow that leads to it.
    fn put(&self, client: &mut Client<'_>, n: usize) -> Result<()> {
        let mac = format!("0a:58:0a:20:{:02x}:{:02x}", (n >> 8) & 255, n & 255);
        let address = format!("10.32.{}.{}", n / 250, 2 + n % 250);
        put_pod(client, n, &format!("p{n}"), ELSEWHERE, &address, &mac)?;
        self.flows.await_added(&format!("nw_dst={address} "))
    }
}

/// What COE's plugin leaves: a bridge, and managers and controllers at these addresses.
pub(crate) fn make_bridge(node: &Node, controllers: &[&str]) -> Result<()> {
    let ovs = node.ovs();
    let add = ["--may-exist", "add-br", BRIDGE, "--", "set", "bridge", BRIDGE];
    ovs.vsctl(&[&add[..], &["datapath_type=netdev"]].concat())?;
    for (command, port) in [(&["set-manager"][..], 6640), (&["set-controller", BRIDGE], 6653)] {
        let at = |address| format!("tcp:{address}:{port}");
        let targets: Vec<String> = controllers.iter().map(at).collect();
        let targets = targets.iter().map(String::as_str);
        ovs.vsctl(&command.iter().copied().chain(targets).collect::<Vec<_>>())?;
    }
    Ok(())
}

fn uid(n: usize) -> String {
    format!("00000000-0000-0000-0000-{n:012x}")
}

fn put_node(
    client: &mut Client<'_>,
    n: usize,
    name: &str,
    address: &str,
    pods: &str,
) -> Result<()> {
    let id = uid(n);
    let body = json!({"k8s-node:k8s-nodes": [{"k8s-node:uid": id, "k8s-node:cluster-id": CLUSTER,
        "k8s-node:host-name": name, "k8s-node:pod-cidr": pods, "k8s-node:internal-ip-address": address}]});
    put(client, &format!("k8s-node:k8s-nodes-info/k8s-nodes/{id}"), &body)
}

fn put_pod(
    client: &mut Client<'_>,
    n: usize,
    name: &str,
    host: &str,
    address: &str,
    mac: &str,
) -> Result<()> {
    let id = uid(n);
    let body = json!({"pods": [{"uid": id, "cluster-id": CLUSTER, "name": name,
        "host-ip-address": host, "network-NS": "shop", "port-mac-address": mac,
        "interface": [{"uid": id, "ip-address": address,
            "network-id": "00000000-0000-0000-0000-000000000000", "network-type": "VXLAN"}]}]});
    put(client, &format!("pod:coe/pods/{id}"), &body)
}

fn put(client: &mut Client<'_>, path: &str, body: &Value) -> Result<()> {
    client.text("PUT", &format!("/restconf/config/{path}"), Some(body)).map(drop)
}
