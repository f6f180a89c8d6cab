//! Our side where a cluster's whole model matters: a controller with its store, and an agent on a switch,
//! as processes of their own. What the model says is not known here.

use crate::api::{Access, Client, RESOURCES};
use crate::controlled::{apply, await_converged, await_ready, write_agent};
use crate::node::{cpu_of, daemon_pid};
use anyhow::{Context, Result};
use osier_testbed::{Fabric, Family, Lab, Netns, Node, Process};
use serde_json::{Value, json};
use std::fs;
use std::time::Duration;

/// A node, `n1`, with its controller.
pub(crate) struct Managed {
    agent: Option<Process>,
    controller: Process,
    access: Access,
    fabric: Fabric,
    osier: String,
    lab: Lab,
}

impl Managed {
    /// Starts it with a model, which says of what kind the node is, too.
    pub(crate) fn start(osier: &str, model: impl FnOnce(&Node) -> Vec<Value>) -> Result<Self> {
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
        apply(&mut client, &model(node))?;
        let token = client.ask(
            "POST",
            &format!("{RESOURCES}/nodes/n1/token"),
            Some(&json!({"address": own})),
        )?;
        fs::write(dir.join("token"), token["token"].as_str().context("a token is text")?)?;
        write_agent(node)?;
        drop(client);
        let mut ours =
            Self { agent: None, controller, access, fabric, osier: osier.to_owned(), lab };
        ours.start_agent()?;
        ours.converged()?;
        Ok(ours)
    }

    pub(crate) fn node(&self) -> &Node {
        &self.fabric.nodes()[0]
    }

    pub(crate) fn netns(&self) -> &Netns {
        self.node().netns()
    }

    pub(crate) fn lab(&self) -> &Lab {
        &self.lab
    }

    /// Starts the agent.
    pub(crate) fn start_agent(&mut self) -> Result<()> {
        let config = self.node().ovs().dir().join("agent.toml");
        let agent = self.netns().command(&self.osier).args(["agent", "--config"]).arg(config);
        self.agent = Some(agent.spawn()?);
        Ok(())
    }

    /// Ends the agent and empties the switch.
    pub(crate) fn clear(&mut self) -> Result<()> {
        self.agent = None;
        let ovs = self.node().ovs();
        let bridge = format!("unix:{}", ovs.mgmt_socket("br-int").display());
        for what in ["del-flows", "del-groups"] {
            ovs.ofctl(&["-O", "OpenFlow15", what, &bridge])?;
        }
        Ok(())
    }

    /// Waits until the switch is as it should be.
    pub(crate) fn converged(&self) -> Result<()> {
        let agent = self.agent.as_ref().context("there is no agent")?;
        await_converged(&mut self.client()?, agent)
    }

    /// A connection to the API.
    pub(crate) fn client(&self) -> Result<Client<'_>> {
        self.access.over(self.netns().tcp_connect(self.access.address)?)
    }

    /// CPU time so far: of the agent and the switch, and of the controller, which works for all nodes.
    pub(crate) fn cpu(&self) -> Result<(Duration, Duration)> {
        let dir = self.node().ovs().dir();
        let mut own = vec![daemon_pid(dir, "ovsdb-server")?, daemon_pid(dir, "ovs-vswitchd")?];
        own.extend(self.agent.as_ref().map(Process::pid));
        Ok((cpu_of(&own)?, cpu_of(&[self.controller.pid()])?))
    }

    /// How many flows and groups the switch has.
    pub(crate) fn sizes(&self) -> Result<(usize, usize)> {
        let ovs = self.node().ovs();
        let bridge = format!("unix:{}", ovs.mgmt_socket("br-int").display());
        let count = |what: &str, start: &str| -> Result<usize> {
            let said = ovs.ofctl(&["-O", "OpenFlow15", what, &bridge])?;
            Ok(said.lines().filter(|line| line.contains(start)).count())
        };
        Ok((count("dump-flows", "cookie=")?, count("dump-groups", "group_id=")?))
    }
}
