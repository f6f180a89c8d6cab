//! A large cluster in one process: prints what the hub needs, and what a change costs.
//!
//! `cargo run --release -p osier-fleet --example thousand -- [NODES] [PORTS A NODE] [agents]`

use osier_fleet::Hub;
use osier_fleet::simulation::Simulation;
use osier_model::{Change, Fabric, NodeName, Object};
use osier_span::Cluster;
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};

type Failure = Box<dyn std::error::Error>;

fn put(value: serde_json::Value) -> Result<Change, Failure> {
    Ok(Change::Put(serde_json::from_value::<Object>(value)?))
}

/// Resident memory of this process, in MB.
fn resident() -> Result<u64, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmRSS")).ok_or("no VmRSS")?;
    let kilobytes: u64 = line.split_whitespace().nth(1).ok_or("no number")?.parse()?;
    Ok(kilobytes / 1024)
}

/// CPU time of this process, in clock ticks of 10 ms.
fn cpu() -> Result<Duration, Failure> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let rest = stat.rsplit(')').next().ok_or("no fields")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
    Ok(Duration::from_millis(ticks * 10))
}

/// Every tenth port is of a network of a tenant: networks of ten nodes each.
fn port(nodes: u32, node: u32, number: u32) -> Result<Change, Failure> {
    let mut value = json!({"kind": "port", "device": format!("shop:web-{node}-{number}"),
        "interface": "eth0", "node": format!("node-{node}"), "network": "pods",
        "mac": format!("0a:58:{:02x}:{:02x}:00:{number:02x}", node >> 8, node & 255),
        "addresses": [format!("10.{}.{}.{}", node >> 8, node & 255, number + 2)]});
    if number % 10 == 9 {
        value["network"] = json!(format!("tenant-{}", node % nodes.div_ceil(10)));
    }
    put(value)
}

fn model(nodes: u32, ports: u32) -> Result<Vec<Change>, Failure> {
    let mut changes = vec![
        put(json!({"kind": "router", "name": "default", "vrf": 0}))?,
        put(
            json!({"kind": "network", "name": "pods", "vni": 1, "router": "default", "reach": "routed"}),
        )?,
    ];
    for tenant in 0..nodes.div_ceil(10) {
        changes.push(put(
            json!({"kind": "network", "name": format!("tenant-{tenant}"), "vni": tenant + 100}),
        )?);
    }
    for node in 0..nodes {
        changes.push(put(json!({"kind": "node", "name": format!("node-{node}"),
            "tunnel": format!("172.16.{}.{}", node >> 8, node & 255),
            "blocks": [format!("10.{}.{}.0/24", node >> 8, node & 255)]}))?);
        for number in 0..ports {
            changes.push(port(nodes, node, number)?);
        }
    }
    Ok(changes)
}

/// Makes a change many times, on one node after the other.
fn changes(hub: &Hub, nodes: u32, first: u64, network: &str) -> Result<u64, Failure> {
    let count = 2000;
    let (begun, spent) = (Instant::now(), cpu()?);
    let mut revision = first;
    let mut told: u32 = 0;
    for round in 0..count {
        let node = round % nodes;
        let tenant = format!("tenant-{}", node % nodes.div_ceil(10));
        let network = if network == "tenant" { tenant.as_str() } else { network };
        let device = round % 500;
        let host = 100 + device / nodes;
        // It differs each time, and nobody else's.
        let mac = format!("0a:59:{:02x}:{:02x}:{:02x}:00", round / 500, device >> 8, device & 255);
        let change = put(json!({"kind": "port", "device": format!("shop:new-{device}"),
            "interface": "eth0", "node": format!("node-{node}"), "network": network, "mac": mac,
            "addresses": [format!("10.{}.{}.{host}", node >> 8, node & 255)]}))?;
        revision += 1;
        told += u32::try_from(hub.apply(revision, vec![change])?.changed.len())?;
    }
    let (wall, spent) = (begun.elapsed(), cpu()?.saturating_sub(spent));
    println!(
        "a port on {network}: {:?} of wall, {:?} of CPU, {:.1} nodes told",
        wall / count,
        spent / count,
        f64::from(told) / f64::from(count)
    );
    Ok(revision)
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, usual: u32| arguments.get(at).map_or(Ok(usual), |text| text.parse());
    let (nodes, ports) = (number(0, 1000)?, number(1, 50)?);
    let changes_in = model(nodes, ports)?;
    let before = resident()?;
    let (begun, spent) = (Instant::now(), cpu()?);
    let hub = Hub::new(Cluster::new(Fabric::default())?, 1, 1, 0);
    let objects = changes_in.len();
    hub.apply(1, changes_in)?;
    println!(
        "{objects} objects: loaded in {:?}, {:?} of CPU; {} MB resident ({before} MB before, with the model as input)",
        begun.elapsed(),
        cpu()?.saturating_sub(spent),
        resident()?
    );
    let mut revision = changes(&hub, nodes, 1, "pods")?;
    revision = changes(&hub, nodes, revision, "tenant")?;
    if arguments.get(2).is_none_or(|word| word != "agents") {
        return Ok(());
    }
    let (begun, spent) = (Instant::now(), cpu()?);
    let mut simulation = Simulation::start(Arc::new(hub.clone()))?;
    let names: Vec<NodeName> =
        (0..nodes).map(|node| NodeName::new(&format!("node-{node}"))).collect::<Result<_, _>>()?;
    for name in &names {
        simulation.add(name.clone()).await;
    }
    simulation.seen().reached(&names, revision).await;
    println!(
        "{nodes} agents have their first view after {:?}, {:?} of CPU; {} MB with all of them",
        begun.elapsed(),
        cpu()?.saturating_sub(spent),
        resident()?
    );
    let messages = |simulation: &Simulation| -> u64 {
        names.iter().filter_map(|n| Some(simulation.state(n)?.received.messages)).sum()
    };
    let (begun, spent, heard) = (Instant::now(), cpu()?, messages(&simulation));
    let change = put(json!({"kind": "node", "name": "node-new", "tunnel": "172.31.0.1"}))?;
    hub.apply(revision + 1, vec![change])?;
    simulation.seen().reached(&names, revision + 1).await;
    println!(
        "one more node: all {nodes} agents have applied it after {:?}, {:?} of CPU, {} messages",
        begun.elapsed(),
        cpu()?.saturating_sub(spent),
        messages(&simulation) - heard
    );
    Ok(())
}
