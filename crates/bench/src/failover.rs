//! The active one of two controllers is killed: how long until the next change is on the nodes, one with an
//! agent and one without.
//!
//! Both controllers are as shipped, on three members of etcd; the client asks whoever answers. No rival
//! runs beside: the goal itself stands on its side.

use crate::Suite;
use crate::api::{Access, RESOURCES};
use crate::controlled::{apply, await_ready, port, resource};
use crate::figure::{Figure, Goal, Wanted};
use crate::flows::FlowMonitor;
use crate::node::{PATIENCE, osier};
use crate::rest::make_bridge;
use anyhow::{Context, Result};
use osier_testbed::{Etcd, Fabric, Family, Lab, Netns, Node, Process, wait_until};
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const AT_MOST: Duration = Duration::from_secs(5);
const BRIDGE: &str = "br-int";
const SETTLED: Duration = Duration::from_secs(1);

const FAILOVER_GOAL: Goal = Goal {
    name: "failover",
    about: "the active controller killed: until the next change is on a node with an agent and on one \
            without, median, against 5 s",
    wanted: Wanted::AtMost(1.0),
};

/// Another controller takes over.
pub(crate) const FAILOVER: Suite = Suite { goals: &[FAILOVER_GOAL], run };

/// A controller, or the place of one.
struct Seat {
    netns: Netns,
    state: PathBuf,
    process: Option<Process>,
}

fn run(rounds: usize) -> Result<Vec<Figure>> {
    eprintln!("failover: two controllers on three members of etcd, two nodes");
    let osier = osier()?;
    let lab = Lab::new()?;
    let fabric = Fabric::new(&lab, Family::Ipv4, 2)?;
    let machine = plug(&lab, &fabric, "etcd", 240)?;
    let etcd = Etcd::start(&machine, [198, 51, 100, 240].into())?;
    let mut seats = [Seat::new(&lab, &fabric, 250, &etcd)?, Seat::new(&lab, &fabric, 251, &etcd)?];
    seats[0].launch(&osier)?;
    seats[0].lead()?;
    populate(&seats[0], &fabric)?;
    let _agent = start_agent(&seats[0], &fabric.nodes()[0], &osier)?;
    make_bridge(&fabric.nodes()[1], &["198.51.100.250", "198.51.100.251"])?;
    let nodes = fabric.nodes().iter();
    let flows =
        nodes.map(|node| await_bridge(node).and_then(|()| FlowMonitor::start(node.ovs().dir())));
    let flows = flows.collect::<Result<Vec<_>>>()?;
    // Monitors say not when they begin.
    std::thread::sleep(SETTLED);
    change(&seats[0], 0, &flows)?;
    let mut times = Vec::new();
    for round in 1..=rounds {
        let (active, next) = ((round + 1) % 2, round % 2);
        seats[next].launch(&osier)?;
        seats[next].waits()?;
        // It has looked at the election by then.
        std::thread::sleep(SETTLED);
        let died = Instant::now();
        seats[active].process = None;
        seats[next].lead()?;
        let led = died.elapsed();
        let seen = change(&seats[next], round, &flows)?;
        let took: Vec<Duration> = seen.iter().map(|seen| *seen - died).collect();
        eprintln!(
            "  round {round}: {led:.2?} until another led; its change was there in {took:.2?}"
        );
        times.extend(took.into_iter().max());
    }
    times.sort();
    let median = *times.get(times.len() / 2).context("there is a round")?;
    Ok(vec![Figure::times(&FAILOVER_GOAL, median, AT_MOST)])
}

// === impl Seat ===

impl Seat {
    fn new(lab: &Lab, fabric: &Fabric, number: u8, etcd: &Etcd) -> Result<Self> {
        let netns = plug(lab, fabric, &format!("c{number}"), number)?;
        let state = lab.make_dir(&format!("controller{number}"))?;
        let own = format!("198.51.100.{number}");
        let text = format!(
            "state_dir = '{}'\n[api]\nlisten = '{own}:6645'\n[fleet]\nlisten = '{own}:6646'\n\
             [etcd]\nmembers = {:?}\n[switches]\nallow = ['198.51.100.0/24']\n",
            state.display(),
            etcd.urls()
        );
        fs::write(state.join("controller.toml"), text)?;
        Ok(Self { netns, state, process: None })
    }

    fn launch(&mut self, osier: &str) -> Result<()> {
        let config = self.state.join("controller.toml");
        let command = self.netns.command(osier).args(["controller", "--config"]).arg(config);
        self.process = Some(command.spawn()?);
        Ok(())
    }

    fn process(&self) -> Result<&Process> {
        self.process.as_ref().context("there is a process")
    }

    /// Waits until it waits.
    fn waits(&self) -> Result<()> {
        let process = self.process()?;
        wait_until("a standby", PATIENCE, || match process.stdout() {
            said if said.contains("waiting to lead") => Ok(()),
            said => Err(said + &process.stderr()),
        })?;
        Ok(())
    }

    /// Waits until it leads.
    fn lead(&self) -> Result<()> {
        await_ready(self.process()?)
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Value> {
        let access = Access::of(&self.state)?;
        let mut client = access.over(self.netns.tcp_connect(access.address)?)?;
        client.ask(method, path, Some(body))
    }
}

/// A machine on the underlay.
fn plug(lab: &Lab, fabric: &Fabric, name: &str, number: u8) -> Result<Netns> {
    let (netns, segment) = (lab.netns(name)?, fabric.segment());
    segment.ip(&format!("link add p{number} type veth peer name eth0 netns {}", netns.name()))?;
    segment.ip(&format!("link set p{number} master {} up", Fabric::SEGMENT))?;
    netns.ip(&format!("address add 198.51.100.{number}/24 dev eth0"))?;
    // The nodes' switches take packets as they are: checksums must be there.
    netns.run(&["ethtool", "-K", "eth0", "tx", "off"])?;
    netns.ip("link set eth0 up")?;
    Ok(netns)
}

/// Both nodes have a port of one network, so both have to know of its others.
fn populate(seat: &Seat, fabric: &Fabric) -> Result<()> {
    let mut items = vec![
        resource("Fabric", "default", &json!({"cluster": ["10.1.0.0/16"]})),
        resource("Router", "default", &json!({"vrf": 0})),
        resource("Network", "pods", &json!({"vni": 1, "router": "default", "reach": "routed"})),
        resource("Network", "shop", &json!({"subnets": [{"cidr": "10.5.0.0/16"}]})),
        resource("Node", "elsewhere", &json!({"tunnel": "198.51.100.99"})),
    ];
    for node in fabric.nodes() {
        let (name, own) = (node.name(), node.underlay());
        items.push(resource("Node", name, &json!({"tunnel": own, "addresses": [own]})));
        items.push(port(&format!("shop:{name}"), name));
    }
    let access = Access::of(&seat.state)?;
    apply(&mut access.over(seat.netns.tcp_connect(access.address)?)?, &items)
}

fn start_agent(seat: &Seat, node: &Node, osier: &str) -> Result<Process> {
    let (dir, name, own) = (node.ovs().dir(), node.name(), node.underlay());
    let path = format!("{RESOURCES}/nodes/{name}/token");
    let token = seat.ask("POST", &path, &json!({"address": own}))?;
    fs::write(dir.join("token"), token["token"].as_str().context("a token is text")?)?;
    let run = dir.display();
    let text = format!(
        "node = '{name}'\ndatapath = 'netdev'\novsdb = '{}'\novs_run_dir = '{run}'\n\
         cni_socket = '{run}/cni.sock'\nstate_dir = '{run}'\nview = '{run}/view.yaml'\n\
         cni_config = '{run}/10-osier.conflist'\n[controller]\n\
         address = ['198.51.100.250:6646', '198.51.100.251:6646']\ntoken_file = '{run}/token'\n",
        node.ovs().db_socket().display(),
    );
    fs::write(dir.join("agent.toml"), text)?;
    let command =
        node.netns().command(osier).args(["agent", "--config"]).arg(dir.join("agent.toml"));
    Ok(command.spawn()?)
}

fn await_bridge(node: &Node) -> Result<()> {
    let driven = || match node.ovs().ofctl(&["-O", "OpenFlow15", "dump-flows", BRIDGE]) {
        Ok(flows) if flows.contains("table=220") => Ok(()),
        Ok(flows) => Err(flows),
        Err(error) => Err(error.to_string()),
    };
    wait_until("a driven switch", PATIENCE, driven)?;
    Ok(())
}

/// One more port, until all nodes have its flows: when each was seen to have them.
fn change(seat: &Seat, number: usize, flows: &[FlowMonitor]) -> Result<Vec<Instant>> {
    let made = seat.ask(
        "POST",
        &format!("{RESOURCES}/ports"),
        &port(&format!("shop:new-{number}"), "elsewhere"),
    )?;
    let mac = made["status"]["mac"].as_str().context("a port gets a MAC")?;
    let awaited = |flows: &FlowMonitor| flows.await_added(mac).map(|()| Instant::now());
    flows.iter().map(awaited).collect()
}
