//! Our side: a controller with its store, and an agent on a switch, as processes of their own.

use super::{PORT, TARGET, address, endpoints};
use crate::api::{Access, Client, RESOURCES};
use crate::controlled::{apply, await_converged, await_ready, resource, write_agent};
use crate::node::{cpu_of, daemon_pid};
use anyhow::{Context, Result};
use osier_testbed::{Fabric, Family, Lab, Netns, Node, Process};
use serde_json::{Value, json};
use std::fs;
use std::time::Duration;

/// A node with its controller, which knows so many Services.
pub(super) struct Ours {
    agent: Option<Process>,
    controller: Process,
    access: Access,
    fabric: Fabric,
    osier: String,
    _lab: Lab,
}

impl Ours {
    /// Starts it; the first Service and the last can be asked.
    pub(super) fn start(osier: &str, services: usize) -> Result<Self> {
        let lab = Lab::new()?;
        let fabric = Fabric::new(&lab, Family::Ipv4, 1)?;
        let node = &fabric.nodes()[0];
        let (dir, own) = (node.ovs().dir(), node.underlay());
        let state = dir.join("controller");
        fs::create_dir_all(&state)?;
        let config = state.join("controller.toml");
        let text = format!(
            "state_dir = '{}'\n[api]\nlisten = '{own}:6645'\n[fleet]\nlisten = '{own}:6646'\n",
            state.display()
        );
        fs::write(&config, text)?;
        let controller = node.netns().command(osier).args(["controller", "--config"]);
        let controller = controller.arg(config).spawn()?;
        await_ready(&controller)?;
        let access = Access::of(&state)?;
        let mut client = access.over(node.netns().tcp_connect(access.address)?)?;
        apply(&mut client, &model(node, services))?;
        let token = client.ask(
            "POST",
            &format!("{RESOURCES}/nodes/n1/token"),
            Some(&json!({"address": own})),
        )?;
        fs::write(dir.join("token"), token["token"].as_str().context("a token is text")?)?;
        write_agent(node)?;
        drop(client);
        let mut ours =
            Self { agent: None, controller, access, fabric, osier: osier.to_owned(), _lab: lab };
        ours.start_agent()?;
        ours.converged()?;
        Ok(ours)
    }

    fn node(&self) -> &Node {
        &self.fabric.nodes()[0]
    }

    pub(super) fn netns(&self) -> &Netns {
        self.node().netns()
    }

    /// Starts the agent.
    pub(super) fn start_agent(&mut self) -> Result<()> {
        let config = self.node().ovs().dir().join("agent.toml");
        let agent = self.netns().command(&self.osier).args(["agent", "--config"]).arg(config);
        self.agent = Some(agent.spawn()?);
        Ok(())
    }

    /// Ends the agent and empties the switch.
    pub(super) fn clear(&mut self) -> Result<()> {
        self.agent = None;
        let ovs = self.node().ovs();
        let bridge = format!("unix:{}", ovs.mgmt_socket("br-int").display());
        for what in ["del-flows", "del-groups"] {
            ovs.ofctl(&["-O", "OpenFlow15", what, &bridge])?;
        }
        Ok(())
    }

    /// Waits until the switch is as it should be.
    pub(super) fn converged(&self) -> Result<()> {
        let agent = self.agent.as_ref().context("there is no agent")?;
        await_converged(&mut self.client()?, agent)
    }

    /// A connection to the API.
    pub(super) fn client(&self) -> Result<Client<'_>> {
        self.access.over(self.netns().tcp_connect(self.access.address)?)
    }

    /// Another endpoint of a Service is the ready one.
    pub(super) fn change(client: &mut Client<'_>, service: usize, ready: usize) -> Result<()> {
        apply(client, &[slice(service, Some(ready))])
    }

    /// CPU time so far: of the agent and the switch, and of the controller, which works for all nodes.
    pub(super) fn cpu(&self) -> Result<(Duration, Duration)> {
        let dir = self.node().ovs().dir();
        let mut own = vec![daemon_pid(dir, "ovsdb-server")?, daemon_pid(dir, "ovs-vswitchd")?];
        own.extend(self.agent.as_ref().map(Process::pid));
        Ok((cpu_of(&own)?, cpu_of(&[self.controller.pid()])?))
    }

    /// How many flows and groups the switch has.
    pub(super) fn sizes(&self) -> Result<(usize, usize)> {
        let ovs = self.node().ovs();
        let bridge = format!("unix:{}", ovs.mgmt_socket("br-int").display());
        let count = |what: &str, start: &str| -> Result<usize> {
            let said = ovs.ofctl(&["-O", "OpenFlow15", what, &bridge])?;
            Ok(said.lines().filter(|line| line.contains(start)).count())
        };
        Ok((count("dump-flows", "cookie=")?, count("dump-groups", "group_id=")?))
    }
}

fn model(node: &Node, services: usize) -> Vec<Value> {
    let own = node.underlay();
    let mut items = vec![
        resource(
            "Fabric",
            "default",
            &json!({"cluster": ["10.1.0.0/16"], "services": ["10.96.0.0/14"]}),
        ),
        resource("Router", "default", &json!({"vrf": 0})),
        resource("Network", "pods", &json!({"vni": 1, "router": "default", "reach": "routed"})),
        resource(
            "Node",
            "n1",
            &json!({"tunnel": own, "addresses": [own], "blocks": ["10.1.1.0/24"]}),
        ),
    ];
    for number in 0..services {
        let ports = json!([{"name": "p", "transport": "udp", "port": PORT}]);
        let spec = json!({"addresses": [address(number)], "ports": ports});
        items.push(resource("Service", &format!("bench:s{number}"), &spec));
        let asked = [0, services - 1].contains(&number).then_some(0);
        items.push(slice(number, asked));
    }
    items
}

fn slice(number: usize, asked: Option<usize>) -> Value {
    let endpoint = |(address, ready): (String, bool)| {
        let state = if ready { "ready" } else { "unready" };
        json!({"address": address, "state": state})
    };
    let endpoints: Vec<Value> = endpoints(number, asked).into_iter().map(endpoint).collect();
    let ports = json!([{"name": "p", "transport": "udp", "port": TARGET}]);
    let spec =
        json!({"service": format!("bench:s{number}"), "ports": ports, "endpoints": endpoints});
    resource("Endpoints", &format!("bench:s{number}-a"), &spec)
}
