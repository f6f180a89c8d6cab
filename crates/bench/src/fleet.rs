//! A large cluster under one controller: `osier controller` as a process with its embedded store,
//! and made-up agents in this one, which join with tokens and follow over mutual TLS.
//!
//! So memory and CPU are the controller's alone. Networks are of ten nodes each, whatever the size
//! of the cluster: a change is the business of ten nodes.

use crate::Suite;
use crate::api::{Access, RESOURCES};
use crate::controlled::{apply, await_ready, resource};
use crate::counted::Counted;
use crate::figure::{Amount, Figure, Goal, Wanted};
use crate::growth::settle;
use crate::measure::{Cost, Side, in_turns, median};
use crate::node::{PATIENCE, cpu_of, osier};
use anyhow::{Context, Result};
use nix::sys::signal::Signal;
use osier_fleet::Token;
use osier_fleet::client::{ClientOptions, ControllerClient, Credentials, TlsTransport, join};
use osier_testbed::{Lab, Process, wait_until};
use serde_json::{Value, json};
use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

const LARGE: usize = 1000;
const SMALL: usize = 100;
/// Ports of a node.
const PORTS: usize = 50;
/// Nodes of a network.
const NEIGHBOURS: usize = 10;
/// Changes that are measured together.
const CHANGES: usize = 500;
/// What the controller's memory is measured against, in bytes.
const MODEST: u64 = 1_000_000_000;

const GOALS: [Goal; 2] = [
    Goal {
        name: "ctl-memory",
        about: "resident memory of the controller with 1,000 agents and 50,000 ports, against 1 GB",
        wanted: Wanted::AtMost(1.0),
    },
    Goal {
        name: "ctl-change-growth",
        about: "one more port with 1,000 nodes and 50,000 ports against 100 and 5,000; the \
                controller's CPU",
        wanted: Wanted::AtMost(1.2),
    },
];

/// Both figures, of the same clusters.
pub(crate) const LARGE_CLUSTER: Suite = Suite { goals: &GOALS, run };

/// A controller and its agents.
struct Fleet {
    nodes: usize,
    agents: Vec<ControllerClient>,
    received: Arc<AtomicU64>,
    controller: Process,
    access: Access,
    lab: Lab,
}

fn run(rounds: usize) -> Result<Vec<Figure>> {
    eprintln!("ctl: controllers with {LARGE} and with {SMALL} nodes, {PORTS} ports each");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let osier = osier()?;
    let mut large = Fleet::start(&runtime, &osier, LARGE)?;
    let small = Fleet::start(&runtime, &osier, SMALL)?;
    let costs = in_turns(rounds, |side| match side {
        Side::Ours => large.changes(),
        Side::Rival => small.changes(),
    })?;
    let used = large.controller.usage()?.rss;
    large.restart(&osier)?;
    let cpu = |costs: &[Cost]| median(costs, |cost| cost.cpu);
    let (ours, rival) = (Amount::Memory(used), Amount::Memory(MODEST));
    Ok(vec![
        Figure { goal: &GOALS[0], ours, rival },
        Figure::times(&GOALS[1], cpu(&costs.ours), cpu(&costs.rival)),
    ])
}

impl Fleet {
    fn start(runtime: &Runtime, osier: &str, nodes: usize) -> Result<Self> {
        let begun = Instant::now();
        let lab = Lab::new()?;
        configure(lab.dir(), "127.0.0.1:0")?;
        let controller = spawn(&lab, osier)?;
        let agents_at = said(&controller, "agents: ")?;
        // Agents come back to where they were.
        configure(lab.dir(), &agents_at)?;
        let access = Access::of(lab.dir())?;
        let received = Arc::default();
        let agents = Vec::with_capacity(nodes);
        let mut fleet = Self { nodes, agents, received, controller, access, lab };
        let mut client = fleet.access.over(TcpStream::connect(fleet.access.address)?)?;
        apply(&mut client, &model(nodes))?;
        let rss = fleet.controller.usage()?.rss;
        eprintln!("  {nodes} nodes: told after {:.1?}, {} MB", begun.elapsed(), rss / 1_000_000);
        let mut agents = Vec::with_capacity(nodes);
        for node in 0..nodes {
            let path = format!("{RESOURCES}/nodes/node-{node}/token");
            let token = client.ask("POST", &path, Some(&json!({"address": "127.0.0.1"})))?;
            let token: Token = token["token"].as_str().context("a token is text")?.parse()?;
            let folder = fleet.lab.dir().join(format!("agent-{node}"));
            fs::create_dir(&folder)?;
            let received = Arc::clone(&fleet.received);
            // Only so many may join in a second.
            let agent = wait_until("a node to join", PATIENCE, || {
                let agent = agent(&agents_at, &token, &folder, Arc::clone(&received));
                runtime.block_on(agent).map_err(|error| format!("{error:#}"))
            })?;
            agents.push(agent);
        }
        drop(client);
        fleet.agents = agents;
        fleet.await_connected()?;
        settle(&fleet.controller)?;
        let rss = fleet.controller.usage()?.rss;
        eprintln!("  all of them follow after {:.1?}, {} MB", begun.elapsed(), rss / 1_000_000);
        Ok(fleet)
    }

    /// Ports, one by one, and then all of them taken away: what one cost the controller.
    fn changes(&self) -> Result<Cost> {
        settle(&self.controller)?;
        let mut client = self.access.over(TcpStream::connect(self.access.address)?)?;
        let received = self.received.load(Ordering::Relaxed);
        let (before, start) = (cpu_of(&[self.controller.pid()])?, Instant::now());
        for number in 0..CHANGES {
            // On the same nodes, however many others there are.
            let port = port(&format!("shop:new-{number}"), number % SMALL);
            client.ask("POST", &format!("{RESOURCES}/ports"), Some(&port))?;
        }
        let wall = start.elapsed();
        settle(&self.controller)?;
        let cpu = cpu_of(&[self.controller.pid()])?.saturating_sub(before);
        let received = self.received.load(Ordering::Relaxed) - received;
        eprintln!("  {} nodes: {} bytes to agents a change", self.nodes, received / CHANGES as u64);
        let gone = |number| json!({"kind": "Port", "name": format!("shop:new-{number}")});
        let gone: Vec<Value> = (0..CHANGES).map(gone).collect();
        client.ask("POST", &format!("{RESOURCES}/delete"), Some(&json!({"items": gone})))?;
        let each = u32::try_from(CHANGES)?;
        Ok(Cost { wall: wall / each, cpu: cpu / each })
    }

    /// Starts the controller again: how long until it serves, and until all agents follow again.
    fn restart(&mut self, osier: &str) -> Result<()> {
        self.controller.signal(Signal::SIGTERM)?;
        wait_until("the controller to end", PATIENCE, || {
            self.controller.exited().ok_or("it runs")
        })?;
        let begun = Instant::now();
        self.controller = spawn(&self.lab, osier)?;
        let ready = begun.elapsed();
        self.await_connected()?;
        let resources = said(&self.controller, "resources: ")?;
        eprintln!("  a full start: ready after {ready:.2?} (resources: {resources})");
        eprintln!("  all {} agents follow again after {:.2?}", self.nodes, begun.elapsed());
        settle(&self.controller)?;
        eprintln!("  then {} MB", self.controller.usage()?.rss / 1_000_000);
        Ok(())
    }

    /// Waits until all agents follow the controller of now.
    fn await_connected(&self) -> Result<()> {
        let path = format!("{RESOURCES}/status");
        let access = Access::of(self.lab.dir())?;
        let mut client = access.over(TcpStream::connect(access.address)?)?;
        wait_until("all agents to follow", PATIENCE, || {
            let status = client.ask("GET", &path, None).map_err(|error| error.to_string())?;
            let nodes = status["nodes"].as_array().cloned().unwrap_or_default();
            match nodes.iter().filter(|node| node["converged"] == true).count() {
                all if all == self.nodes => Ok(()),
                some => Err(format!("{some} of {}", self.nodes)),
            }
        })?;
        Ok(())
    }
}

/// Joins and follows. Whatever comes is applied at once.
async fn agent(
    controller: &str,
    token: &Token,
    folder: &Path,
    received: Arc<AtomicU64>,
) -> Result<ControllerClient> {
    let joined = join(controller, token, &Credentials::new(folder)).await?;
    let transport = TlsTransport::new(vec![controller.to_owned()], joined.tls, None);
    // A thousand agents on few cores may all be late.
    let patient = Duration::from_mins(2);
    let options =
        ClientOptions { keep_alive: (patient, patient), ..ClientOptions::new(token.node.clone()) };
    let counted = Arc::new(Counted { transport, received });
    let (client, mut updates) = ControllerClient::start(options, counted).await;
    let follower = client.clone();
    tokio::spawn(async move {
        while let Some(update) = updates.recv().await {
            follower.applied(update.position(), Vec::new());
        }
    });
    Ok(client)
}

fn configure(state: &Path, agents: &str) -> Result<()> {
    let text = format!(
        "state_dir = '{}'\n[api]\nlisten = '127.0.0.1:0'\n[fleet]\nlisten = '{agents}'\n\
         [limits]\nrequests_per_second = 100000\nburst = 100000\n",
        state.display()
    );
    Ok(fs::write(state.join("controller.toml"), text)?)
}

fn spawn(lab: &Lab, osier: &str) -> Result<Process> {
    let config = lab.dir().join("controller.toml");
    let command = lab.host().command(osier).args(["controller", "--config"]).arg(config);
    let controller = command.spawn()?;
    await_ready(&controller)?;
    Ok(controller)
}

/// What a controller said at its start.
fn said(controller: &Process, about: &str) -> Result<String> {
    let text = controller.stdout();
    let line = text.lines().find_map(|line| line.strip_prefix(about));
    Ok(line.with_context(|| format!("{about:?} is not in {text}"))?.to_owned())
}

fn model(nodes: usize) -> Vec<Value> {
    let mut items = vec![
        resource("Fabric", "default", &json!({"cluster": ["100.64.0.0/10"]})),
        resource("Router", "default", &json!({"vrf": 0})),
        resource("Network", "pods", &json!({"vni": 1, "router": "default", "reach": "routed"})),
    ];
    items.extend((0..nodes / NEIGHBOURS).map(|n| {
        resource("Network", &format!("net-{n}"), &json!({"subnets": [{"cidr": "10.5.0.0/16"}]}))
    }));
    items.extend((0..nodes).map(|n| {
        let address = format!("172.16.{}.{}", n >> 8, n & 255);
        resource("Node", &format!("node-{n}"), &json!({"tunnel": address}))
    }));
    for node in 0..nodes {
        items.extend((0..PORTS).map(|n| port(&format!("shop:web-{node}-{n}"), node)));
    }
    items
}

fn port(name: &str, node: usize) -> Value {
    let network = format!("net-{}", node / NEIGHBOURS);
    resource("Port", name, &json!({"network": network, "node": format!("node-{node}")}))
}
