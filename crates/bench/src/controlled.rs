//! A node under a real controller: `osier controller` with its embedded store, and `osier agent`
//! on a switch, joined with a token and certificates, as processes of their own.
//!
//! The model has a second node, which nobody runs: its ports are those that the first node must
//! know how to reach.

use anyhow::{Context, Result, ensure};
use osier_testbed::{Node, Process, wait_until};
use serde_json::{Value, json};
use std::cell::Cell;
use std::fs;
use std::time::Duration;

use crate::api::{Access, Client, RESOURCES};
use crate::change::SETTLED;
use crate::flows::FlowMonitor;
use crate::measure::{self, Cost};
use crate::node::{PATIENCE, cpu_of, daemon_pid};

/// Objects in one request.
const BULK: usize = 1000;

/// See the module.
pub(crate) struct Controlled<'a> {
    flows: FlowMonitor,
    agent: Process,
    controller: Process,
    access: Access,
    node: &'a Node,
    /// CPU time of each process for all changes so far, and how many they were.
    spent: Cell<([Duration; 4], u32)>,
}

impl<'a> Controlled<'a> {
    /// Starts it on a node, with so many ports on the other one.
    pub(crate) fn start(node: &'a Node, osier: &str, ports: usize) -> Result<Self> {
        let (dir, address) = (node.ovs().dir(), node.underlay());
        let state = dir.join("controller");
        fs::create_dir_all(&state)?;
        let config = state.join("controller.toml");
        let text = format!(
            "state_dir = '{}'\n[api]\nlisten = '{address}:6645'\n[fleet]\nlisten = '{address}:6646'\n",
            state.display()
        );
        fs::write(&config, text)?;
        let netns = node.netns();
        let controller =
            netns.command(osier).args(["controller", "--config"]).arg(config).spawn()?;
        await_ready(&controller)?;
        let access = Access::of(&state)?;
        let mut client = access.over(netns.tcp_connect(access.address)?)?;
        populate(&mut client, node, ports)?;
        let body = json!({"address": address});
        let token = client.ask("POST", &format!("{RESOURCES}/nodes/n1/token"), Some(&body))?;
        fs::write(dir.join("token"), token["token"].as_str().context("a token is text")?)?;
        let agent = netns.command(osier).args(["agent", "--config"]).arg(write_agent(node)?);
        let agent = agent.spawn()?;
        await_converged(&mut client, &agent)?;
        drop(client);
        let flows = FlowMonitor::start(dir)?;
        Ok(Self { flows, agent, controller, access, node, spent: Cell::default() })
    }

    /// One more port, from the write to the API until its flows are on the switch; then it is taken
    /// away again.
    pub(crate) fn change(&self, client: &mut Client<'_>, number: usize) -> Result<Cost> {
        let name = format!("shop:new-{number}");
        let before = self.daemons_cpu()?;
        let (mac, mut cost) = measure::operation(|| {
            let body = port(&name, "n2");
            let port = client.ask("POST", &format!("{RESOURCES}/ports"), Some(&body))?;
            let mac = port["status"]["mac"].as_str().context("a port gets a MAC")?.to_owned();
            self.flows.await_added(&mac)?;
            Ok(mac)
        })?;
        std::thread::sleep(SETTLED);
        cost.cpu += self.spend(before)?;
        let flows = self.node.ovs().ofctl(&["dump-flows", "br-int"])?;
        ensure!(flows.contains(&mac), "there is no flow for {mac}");
        client.ask("DELETE", &format!("{RESOURCES}/ports/{name}"), None)?;
        await_converged(client, &self.agent)?;
        Ok(cost)
    }

    /// Tells where time went, by change.
    pub(crate) fn tell(&self, about: &str) -> Result<()> {
        let page = self.client()?.text("GET", "/metrics", None)?;
        let value = |kind: &str| {
            let start = format!("osier_controller_commit_seconds_{kind} ");
            page.lines().find_map(|line| line.strip_prefix(&start)?.parse::<f64>().ok())
        };
        let mean = value("sum").zip(value("count")).map(|(sum, count)| sum / count);
        let mean = Duration::try_from_secs_f64(mean.context("commits are not told of")?)?;
        let (spent, changes) = self.spent.get();
        let [controller, agent, ovsdb, vswitchd] = spent.map(|cpu| cpu / changes.max(1));
        eprintln!("  {about}: the store took {mean:.2?} to commit, the disk's time included");
        eprintln!(
            "  {about}: of CPU, the controller took {controller:.2?}, the agent {agent:.2?}, \
             ovsdb-server {ovsdb:.2?}, ovs-vswitchd {vswitchd:.2?}"
        );
        let before = self.daemons_cpu()?;
        std::thread::sleep(SETTLED);
        let rest: Duration = self.daemons_cpu()?.iter().sum();
        let rest = rest.saturating_sub(before.iter().sum());
        eprintln!("  {about}: at rest all of them took {rest:.2?} in {SETTLED:?}");
        Ok(())
    }

    /// A connection to the API.
    pub(crate) fn client(&self) -> Result<Client<'_>> {
        self.access.over(self.node.netns().tcp_connect(self.access.address)?)
    }

    /// CPU time of each process so far.
    fn daemons_cpu(&self) -> Result<[Duration; 4]> {
        let dir = self.node.ovs().dir();
        let cpu = |process| cpu_of(&[process]);
        Ok([
            cpu(self.controller.pid())?,
            cpu(self.agent.pid())?,
            cpu(daemon_pid(dir, "ovsdb-server")?)?,
            cpu(daemon_pid(dir, "ovs-vswitchd")?)?,
        ])
    }

    /// CPU time of all of them since, which is remembered by process.
    fn spend(&self, before: [Duration; 4]) -> Result<Duration> {
        let (mut spent, changes) = self.spent.get();
        let mut all = Duration::ZERO;
        for ((spent, now), before) in spent.iter_mut().zip(self.daemons_cpu()?).zip(before) {
            *spent += now.saturating_sub(before);
            all += now.saturating_sub(before);
        }
        self.spent.set((spent, changes + 1));
        Ok(all)
    }
}

/// Waits until a controller says that it is ready.
pub(crate) fn await_ready(controller: &Process) -> Result<()> {
    wait_until("the controller", PATIENCE, || match controller.stdout() {
        said if said.lines().any(|line| line == "ready") => Ok(()),
        said => Err(said + &controller.stderr()),
    })?;
    Ok(())
}

/// Waits until the agent's switch is as the controller wants it.
pub(crate) fn await_converged(client: &mut Client<'_>, agent: &Process) -> Result<()> {
    let path = format!("{RESOURCES}/status");
    wait_until("the node to converge", PATIENCE, || {
        let status = client.ask("GET", &path, None).map_err(|error| error.to_string())?;
        let nodes = status["nodes"].as_array().cloned().unwrap_or_default();
        match nodes.iter().find(|node| node["name"] == "n1") {
            Some(node) if node["converged"] == true => Ok(()),
            node => Err(format!("{node:?}\n{}", agent.stderr())),
        }
    })?;
    Ok(())
}

/// Writes the configuration of an agent that follows the controller on its own machine.
pub(crate) fn write_agent(node: &Node) -> Result<std::path::PathBuf> {
    let dir = node.ovs().dir();
    let (run, name, address) = (dir.display(), node.name(), node.underlay());
    let text = format!(
        "node = '{name}'\ndatapath = 'netdev'\novsdb = '{}'\novs_run_dir = '{run}'\n\
         cni_socket = '{run}/cni.sock'\nstate_dir = '{run}'\nview = '{run}/view.yaml'\n\
         cni_config = '{run}/10-osier.conflist'\n\
         [controller]\naddress = '{address}:6646'\ntoken_file = '{run}/token'\n",
        node.ovs().db_socket().display(),
    );
    let path = dir.join("agent.toml");
    fs::write(&path, text)?;
    Ok(path)
}

/// Applies resources, a thousand at a time.
pub(crate) fn apply(client: &mut Client<'_>, items: &[Value]) -> Result<()> {
    for items in items.chunks(BULK) {
        client.ask("POST", &format!("{RESOURCES}/apply"), Some(&json!({"items": items})))?;
    }
    Ok(())
}

/// A resource.
pub(crate) fn resource(kind: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "osier.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// A port of the network `shop`.
pub(crate) fn port(name: &str, node: &str) -> Value {
    resource("Port", name, &json!({"network": "shop", "node": node}))
}

fn populate(client: &mut Client<'_>, node: &Node, ports: usize) -> Result<()> {
    let address = node.underlay();
    let mut items = vec![
        resource("Fabric", "default", &json!({"cluster": ["10.1.0.0/16"]})),
        resource("Router", "default", &json!({"vrf": 0})),
        resource("Network", "pods", &json!({"vni": 1, "router": "default", "reach": "routed"})),
        resource("Network", "shop", &json!({"subnets": [{"cidr": "10.5.0.0/16"}]})),
        resource("Node", "n1", &json!({"tunnel": address, "addresses": [address]})),
        resource("Node", "n2", &json!({"tunnel": "198.51.100.99"})),
        port("shop:here", "n1"),
    ];
    items.extend((1..=ports).map(|n| port(&format!("shop:p{n}"), "n2")));
    apply(client, &items)
}
