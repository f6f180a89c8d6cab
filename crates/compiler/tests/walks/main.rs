//! Every way that a packet can go, as a real switch traces it: through which tables, what the
//! datapath does in the end, and that it never begins anew more often than it may.
//!
//! The model is `tests/scenarios/walks`, seen from n1.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is the report")]
#![allow(unreachable_pub, dead_code, reason = "modules that tests share")]

mod gateway;
mod policies;
#[path = "../real_switch/mod.rs"]
mod real_switch;
#[path = "../scenario/mod.rs"]
mod scenario;
mod services;
mod trace;
mod ways;

use gateway::GATEWAY_WAYS;
use osier_testbed::{Fabric, Family, Lab, Node, Tunnel, wait_until};
use policies::POLICY_WAYS;
use scenario::Scenario;
use services::{SERVICE_WAYS, ServiceWay};
use std::time::Duration;
use trace::Trace;
use ways::{End, WAYS, Way};

const BRIDGE: &str = Node::INTEGRATION;

/// A node whose ports exist, and nothing else: traces need no traffic.
async fn switch(fabric: &Fabric, scenario: &str) {
    let node = &fabric.nodes()[0];
    let ovs = node.ovs();
    node.add_tunnel_port(Tunnel::Geneve, "osier-tun", 1).unwrap();
    let scenario = Scenario::read(&scenario::folder().join(scenario));
    let pods = scenario.attachments.iter().map(|at| (at.key.device.to_string(), at.ofport));
    let services = scenario.local.service_gateway.map(|ofport| ("osier-svc".to_owned(), ofport));
    for (name, ofport) in pods.chain([("osier0".to_owned(), 2)]).chain(services) {
        let number = format!("ofport_request={ofport}");
        let add = ["add-port", BRIDGE, &name, "--", "set", "interface", &name, "type=internal"];
        ovs.vsctl(&[&add[..], &[&number]].concat()).unwrap();
    }
    // Else the trace ends where the route or the neighbour entry of the other node is missing.
    let route = || ovs.appctl(&["ovs/route/lookup", "198.51.100.2"]).map(drop);
    wait_until("the switch to know the underlay", Duration::from_secs(30), route).unwrap();
    ovs.appctl(&["tnl/neigh/set", Node::PHYSICAL, "198.51.100.2", "02:00:00:00:00:02"]).unwrap();
    real_switch::program(ovs, BRIDGE, &scenario.compiler()).await;
}

#[tokio::test]
async fn packets_go_as_they_should() {
    let lab = Lab::new().unwrap();
    let fabric = Fabric::new(&lab, Family::Ipv4, 1).unwrap();
    switch(&fabric, "walks").await;
    let ovs = fabric.nodes()[0].ovs();
    let mut wrong = Vec::new();
    for way in WAYS {
        let text = ovs.appctl(&["ofproto/trace", "--names", BRIDGE, way.packet]).unwrap();
        let trace = Trace::parse(&text, BRIDGE);
        if let Err(problem) = judge(way, &trace) {
            wrong.push(format!("==== {}: {problem}\n{text}", way.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// At most three times the datapath begins anew, to whatever Service and back.
#[tokio::test]
async fn services_are_reached_in_few_steps() {
    tracked_ways("services", SERVICE_WAYS).await;
}

#[tokio::test]
async fn policies_grant_what_they_say_and_nothing_else() {
    tracked_ways("policies", POLICY_WAYS).await;
}

#[tokio::test]
async fn the_machine_leads_to_services_by_its_gateway() {
    tracked_ways("service-gateway", GATEWAY_WAYS).await;
}

async fn tracked_ways(scenario: &str, ways: &[ServiceWay]) {
    let lab = Lab::new().unwrap();
    let fabric = Fabric::new(&lab, Family::Ipv4, 1).unwrap();
    switch(&fabric, scenario).await;
    let ovs = fabric.nodes()[0].ovs();
    let mut wrong = Vec::new();
    for way in ways {
        let mut arguments = vec!["ofproto/trace", "--names", BRIDGE, way.packet];
        arguments.extend(way.states.iter().flat_map(|state| ["--ct-next", state]));
        let text = ovs.appctl(&arguments).unwrap();
        let trace = Trace::parse(&text, BRIDGE);
        let ends = way.ends.iter().any(|end| format!(",{}", trace.actions).contains(end));
        if !ends || trace.recirculations != way.recirculations || way.recirculations > 3 {
            let Trace { actions, recirculations, .. } = trace;
            wrong.push(format!("==== {}: {recirculations}, {actions}\n{text}", way.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn judge(way: &Way, trace: &Trace) -> Result<(), String> {
    if trace.tables != way.tables {
        return Err(format!("went through {:?}, not {:?}", trace.tables, way.tables));
    }
    let actions = trace.actions.as_str();
    let last = actions.rsplit(',').next().unwrap_or_default();
    let asks = actions.contains("controller_id=28531");
    let right = match way.end {
        End::Port(port) => last == port && !asks,
        End::Tunnel(vni) => {
            last == "uplink" && actions.contains(&format!("geneve(crit,vni={vni:#x},")) && !asks
        }
        End::Measured => actions.contains("check_pkt_len(size=1456,gt(sample") && asks,
        End::Ports(ports) => ports.iter().all(|port| actions.split(',').any(|a| a == *port)),
        End::Agent => asks && !actions.contains("tnl_push") && last.starts_with("max_len=1280"),
        End::Dropped => actions == "drop",
    };
    if !right {
        return Err(format!("ended in {actions}, not in {:?}", way.end));
    }
    if let Some(part) = way.with.iter().find(|part| !actions.contains(**part)) {
        return Err(format!("the datapath does {actions}, without {part}"));
    }
    // Three are the most on any path; without policies and Services nothing is tracked.
    match trace.recirculations {
        0 => Ok(()),
        n => Err(format!("the datapath began anew {n} times")),
    }
}
