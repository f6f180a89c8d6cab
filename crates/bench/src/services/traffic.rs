//! Connections and throughput through a Service, against the same pods without one; and what Services
//! cost a node in flows.

use super::PORT;
use crate::Suite;
use crate::connect::{self, CLIENTS, SECONDS};
use crate::figure::{Amount, Figure, Goal, Wanted};
use crate::measure::{Number, Side, in_turns, middle_number};
use crate::node::{Cluster, PATIENCE};
use crate::runtime::{Plugin, Pod};
use anyhow::{Context, Result};
use osier_testbed::{Netns, traffic, wait_until};
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Pods that answer.
const SERVERS: usize = 3;
/// What iperf3 listens on.
const IPERF: u16 = 5201;
/// Where pods are reached by the Service, and where without: what comes from the first may be an answer of
/// a connection that the tracker still remembers, from the same port of the client.
const TARGET: u16 = 8080;
const DIRECT: u16 = 8081;
/// Clients take turns, so that none comes to use a port again: as long as the datapath in `ovs-vswitchd`
/// (3.1) remembers the connection before, it gives the next one another.
const TURNS: usize = 6;
const SERVICES: usize = 200;
/// Flows that a flow for each Service and each endpoint would be.
const EACH: f64 = 800.0;

const GOALS: [Goal; 3] = [
    Goal {
        name: "svc-connect",
        about: "TCP connections a second through a Service of 3 pods, against the pods themselves",
        wanted: Wanted::AtLeast(0.8),
    },
    Goal {
        name: "svc-path",
        about: "TCP through a Service, against the pod itself; throughput by iperf3",
        wanted: Wanted::AtLeast(0.9),
    },
    Goal {
        name: "svc-flows",
        about: "flows that 200 Services of 3 endpoints add to a node, against 800",
        wanted: Wanted::AtMost(0.5),
    },
];

const BY_GATEWAY: Goal = Goal {
    name: "gateway-path",
    about: "TCP through a Service that the machine leads to, by its service gateway, against the switch; throughput by iperf3",
    wanted: Wanted::Nothing,
};

/// Who leads to a Service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leads {
    Switch,
    /// By a rule such as kube-proxy's.
    Machine,
}

/// The one against the other, each on a node of its own.
pub(crate) const GATEWAY: Suite = Suite { goals: &[BY_GATEWAY], run: run_gateway };

fn run_gateway(rounds: usize) -> Result<Vec<Figure>> {
    eprintln!("gateway-path: one TCP stream, {SECONDS} s at a time");
    let (ours, rival) = (Stage::new(Leads::Machine)?, Stage::new(Leads::Switch)?);
    let path = in_turns(rounds, |side| {
        let stage = if side == Side::Ours { &ours } else { &rival };
        stage.throughput(address(1)?)
    })?;
    let rate = |numbers| Amount::Rate(middle_number(numbers));
    Ok(vec![Figure { goal: &BY_GATEWAY, ours: rate(path.ours), rival: rate(path.rival) }])
}

/// All three, of one node.
pub(crate) const TRAFFIC: Suite = Suite { goals: &GOALS, run };

fn run(rounds: usize) -> Result<Vec<Figure>> {
    eprintln!("svc-connect: {CLIENTS} clients, {SECONDS} s at a time");
    let stage = Stage::new(Leads::Switch)?;
    let connect = in_turns(rounds, |side| stage.connections(side))?;
    stage.tell_costs()?;
    let path = in_turns(rounds, |side| {
        stage.throughput(if side == Side::Ours { address(1)? } else { stage.servers[0].1 })
    })?;
    let flows = stage.flows_of_many()?;
    let count = |numbers| Amount::Count(middle_number(numbers));
    let rate = |numbers| Amount::Rate(middle_number(numbers));
    Ok(vec![
        Figure { goal: &GOALS[0], ours: count(connect.ours), rival: count(connect.rival) },
        Figure { goal: &GOALS[1], ours: rate(path.ours), rival: rate(path.rival) },
        Figure { goal: &GOALS[2], ours: Amount::Count(flows), rival: Amount::Count(EACH) },
    ])
}

/// Clients and servers, pods of one node.
struct Stage {
    clients: Vec<Netns>,
    turn: AtomicUsize,
    servers: Vec<(Netns, IpAddr)>,
    view: String,
    _pods: Vec<Pod>,
    cluster: Cluster,
}

impl Stage {
    fn new(leads: Leads) -> Result<Self> {
        let cluster = Cluster::start(1)?;
        let pods = Pod::make(cluster.lab(), "s", SERVERS + TURNS * CLIENTS)?;
        let plugin = Plugin::ours(&cluster, 0);
        let mut all = Vec::new();
        for pod in &pods {
            all.push((pod.netns.clone(), plugin.address(pod)?));
        }
        let clients = all.split_off(SERVERS).into_iter().map(|(netns, _)| netns).collect();
        for (netns, address) in &all {
            connect::serve(netns, SocketAddr::new(*address, TARGET))?;
            connect::serve(netns, SocketAddr::new(*address, DIRECT))?;
        }
        let path = cluster.node(0).ovs().dir().join("view.yaml");
        let mut fabric = "cluster: [10.1.0.0/16], services: [10.96.0.0/16]".to_owned();
        if leads == Leads::Machine {
            fabric += ", service_gateway: true";
        }
        let view = std::fs::read_to_string(path)?.replace("cluster: [10.1.0.0/16]", &fabric);
        let turn = AtomicUsize::new(0);
        let stage = Self { clients, turn, servers: all, view, _pods: pods, cluster };
        let addresses: Vec<IpAddr> = stage.servers.iter().map(|(_, address)| *address).collect();
        let mut services = service(0, PORT, TARGET, &addresses)?;
        services += &service(1, IPERF, IPERF, &addresses[..1])?;
        if leads == Leads::Machine {
            stage.lead_by_machine(&addresses)?;
        }
        stage.tell(&services)?;
        let to = SocketAddr::new(address(0)?, PORT);
        wait_until("the Service", PATIENCE, || stage.clients[0].tcp_connect(to))?;
        Ok(stage)
    }

    fn tell(&self, services: &str) -> Result<()> {
        let path = self.cluster.node(0).ovs().dir().join("view.yaml");
        let beside = path.with_extension("new");
        std::fs::write(&beside, format!("{}{services}", self.view))?;
        Ok(std::fs::rename(beside, path)?)
    }

    /// Rules that lead to the two Services, as kube-proxy has them.
    fn lead_by_machine(&self, servers: &[IpAddr]) -> Result<()> {
        let first = servers.first().context("there is a server")?;
        let rule = |number, port, target| {
            let address = address(number)?;
            Ok::<_, anyhow::Error>(format!(
                "ip daddr {address} tcp dport {port} dnat to {first}:{target};"
            ))
        };
        let rules = rule(0, PORT, TARGET)? + &rule(1, IPERF, IPERF)?;
        let chain = "type nat hook prerouting priority dstnat;";
        let table = format!("table ip proxy {{ chain services {{ {chain} {rules} }}; }}");
        self.cluster.node(0).netns().run(&["nft", &table])?;
        Ok(())
    }

    /// Of one stream to the first server, by an address.
    fn throughput(&self, to: IpAddr) -> Result<Number> {
        let (server, _) = self.servers.first().context("there is a server")?;
        Ok(Number(traffic::iperf_tcp(&self.clients[0], server, to, SECONDS)?.mbit_per_second))
    }

    /// Connections a second.
    fn connections(&self, side: Side) -> Result<Number> {
        let to: Vec<SocketAddr> = match side {
            Side::Ours => vec![SocketAddr::new(address(0)?, PORT)],
            Side::Rival => self.servers.iter().map(|(_, a)| SocketAddr::new(*a, DIRECT)).collect(),
        };
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % TURNS;
        connect::rate(&self.clients[turn * CLIENTS..][..CLIENTS], &to)
    }

    /// What the switch has of connections through the Service, and what one costs it.
    fn tell_costs(&self) -> Result<()> {
        let ovs = self.cluster.node(0).ovs();
        let number = |text: &str, name: &str| {
            let rest = text.lines().find_map(|line| line.trim().strip_prefix(name))?;
            rest.split_whitespace().next()?.parse::<f64>().ok()
        };
        let stats = || ovs.appctl(&["dpif-netdev/pmd-stats-show"]);
        let lines = |text: &str| u32::try_from(text.lines().count()).map(f64::from);
        let megaflows = || Ok::<_, anyhow::Error>(lines(&ovs.appctl(&["dpctl/dump-flows"])?)?);
        let (before, cached) = (stats()?, megaflows()?);
        let made = self.connections(Side::Ours)?.0 * f64::from(SECONDS);
        let (after, cached) = (stats()?, megaflows()? - cached);
        let each = |name: &str| {
            let [before, after] = [&before, &after].map(|text| number(text, name));
            after.zip(before).map_or(f64::NAN, |(after, before)| (after - before) / made)
        };
        let bridge = format!("unix:{}", ovs.mgmt_socket("br-int").display());
        let groups = ovs.ofctl(&["-O", "OpenFlow15", "dump-groups", &bridge])?;
        let groups = groups.lines().filter(|line| line.contains("group_id=")).count();
        eprintln!(
            "  a connection through the Service: {:.2} packets, {:.2} recirculations, {:.3} upcalls, \
             {:.4} megaflows; {groups} groups in all",
            each("packets received:"),
            each("packet recirculations:"),
            each("miss with success upcall:"),
            cached / made,
        );
        Ok(())
    }

    /// How many flows many Services add.
    fn flows_of_many(&self) -> Result<f64> {
        let ovs = self.cluster.node(0).ovs();
        let bridge = format!("unix:{}", ovs.mgmt_socket("br-int").display());
        let flows =
            || -> Result<String> { Ok(ovs.ofctl(&["-O", "OpenFlow15", "dump-flows", &bridge])?) };
        self.tell("")?;
        let is_there = |number: usize, there: bool| {
            let text = format!("nw_dst={},", super::address(number));
            wait_until("the switch to follow", PATIENCE, || match flows() {
                Ok(flows) if flows.contains(&text) == there => Ok(flows.lines().count()),
                Ok(_) => Err("not yet".to_owned()),
                Err(error) => Err(error.to_string()),
            })
        };
        let before = is_there(0, false)?;
        let mut services = String::new();
        let addresses: Vec<IpAddr> = self.servers.iter().map(|(_, address)| *address).collect();
        for number in 0..SERVICES {
            services += &service(number, PORT, TARGET, &addresses)?;
        }
        self.tell(&services)?;
        let after = is_there(SERVICES - 1, true)?;
        eprintln!("  {before} flows without Services, {after} with {SERVICES}");
        #[allow(clippy::cast_precision_loss, reason = "small numbers")]
        Ok((after - before) as f64)
    }
}

fn address(number: usize) -> Result<IpAddr> {
    Ok(super::address(number).parse()?)
}

/// A Service of these pods, for a view.
fn service(number: usize, port: u16, target: u16, endpoints: &[IpAddr]) -> Result<String> {
    let mut text = String::new();
    let address = address(number)?;
    writeln!(
        text,
        "- {{ kind: service, name: s{number}, addresses: [{address}], ports: [{{ name: p, port: {port} }}] }}"
    )?;
    let endpoints: Vec<String> = endpoints.iter().map(|a| format!("{{ address: {a} }}")).collect();
    writeln!(
        text,
        "- {{ kind: endpoints, service: s{number}, slice: a, ports: [{{ name: p, port: {target} }}], \
         endpoints: [{}] }}",
        endpoints.join(", ")
    )?;
    Ok(text)
}
