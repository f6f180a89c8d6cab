//! A whole lab, as a guard: nodes, agents, pods. It goes when its owner drops it or dies.

use crate::controller::Controller;
use crate::error::LabError;
use crate::health::{self, Health, NodeHealth, PodHealth, Report};
use crate::layout::{Layout, NodeLayout, PodLayout};
use crate::pod::{Pod, agent_socket};
use crate::programs::Programs;
use crate::spec::LabSpec;
use crate::view;
use osier_testbed::traffic::ping_until;
use osier_testbed::{Fabric, Lab, Node, Process, Timeout, wait_until};
use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// How long an agent may take until it serves, or a node until it answers, on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);
/// How many lines of an agent's log an error shows.
const LOG_LINES: usize = 10;

/// Nodes with a switch and an agent each, and pods.
///
/// Fields are dropped in their order: pods first, the underlay last.
#[derive(Debug)]
pub struct Playground {
    pods: Vec<Pod>,
    agents: Vec<Process>,
    controller: Option<Controller>,
    fabric: Fabric,
    spec: LabSpec,
    programs: Programs,
    lab: Lab,
}

impl Playground {
    /// How many steps [`Self::build`] tells of.
    pub fn steps(spec: &LabSpec) -> u16 {
        let controller = u16::from(spec.controller) + u16::from(spec.apply.is_some());
        2 + controller + 2 * u16::from(spec.nodes) + spec.pods
    }

    /// Makes all of it in an empty lab, and tells each step before it is taken.
    pub fn build(
        lab: Lab,
        spec: &LabSpec,
        programs: Programs,
        mut step: impl FnMut(String),
    ) -> Result<Self, LabError> {
        step("underlay".to_owned());
        let fabric = Fabric::new(&lab, spec.family.underlay(), 0)?;
        let (pods, agents, spec) = (Vec::new(), Vec::new(), spec.clone());
        let controller = None;
        let mut playground = Self { pods, agents, controller, fabric, spec, programs, lab };
        for n in 1..=playground.spec.nodes {
            step(format!("n{n}: switch"));
            let node = playground.fabric.add_node()?;
            let dir = node.ovs().dir().to_owned();
            name_control_socket(&dir).map_err(|source| LabError::File {
                action: "make a link in",
                path: dir,
                source,
            })?;
        }
        if playground.spec.controller {
            step("controller".to_owned());
            playground.start_controller()?;
        }
        playground.start_agents(&mut step)?;
        step("nodes meet".to_owned());
        playground.introduce_nodes()?;
        for pod in 0..playground.spec.pods {
            let index = playground.spec.node_of(pod);
            let node = &playground.fabric.nodes()[index];
            let name = format!("pod{}", pod + 1);
            step(format!("{name} on {}", node.name()));
            let pod = Pod::attach(&playground.programs.plugin, "default", &name, index, node)?;
            playground.pods.push(pod);
        }
        if let Some(file) = playground.spec.apply.clone() {
            step(format!("pods of {}", file.display()));
            playground.apply(&file)?;
        }
        Ok(playground)
    }

    /// The nodes and their underlay.
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// What is where.
    pub fn layout(&self) -> Layout {
        let node = |(n, node): (u8, &Node)| NodeLayout {
            name: node.name().to_owned(),
            netns: node.netns().name().to_owned(),
            address: node.underlay(),
            blocks: view::blocks(self.spec.family, n),
            dir: node.ovs().dir().to_owned(),
        };
        let pod = |pod: &Pod| PodLayout {
            name: pod.name.clone(),
            node: self.fabric.nodes()[pod.node].name().to_owned(),
            netns: pod.netns.name().to_owned(),
            addresses: pod.addresses(),
        };
        let mut layout = empty_layout(&self.lab, &self.spec);
        layout.controller = self.controller.as_ref().map(Controller::layout);
        layout.nodes = (1..).zip(self.fabric.nodes()).map(node).collect();
        layout.pods = self.pods.iter().map(pod).collect();
        layout
    }

    /// How each part is.
    pub fn report(&mut self) -> Report {
        let node = |(node, agent): (&Node, &mut Process)| {
            let (database, switch) = health::switch(node);
            let agent = match agent.exited() {
                Some(status) => Health::Bad(format!("it ended ({status})")),
                None => health::agent(node),
            };
            NodeHealth { name: node.name().to_owned(), database, switch, agent }
        };
        let nodes = self.fabric.nodes().iter().zip(&mut self.agents).map(node).collect();
        let plugin = &self.programs.plugin;
        let pod = |pod: &Pod| PodHealth {
            name: pod.name.clone(),
            network: pod.check(plugin, &self.fabric.nodes()[pod.node]).into(),
        };
        Report { nodes, pods: self.pods.iter().map(pod).collect() }
    }

    /// Lets each switch learn the others' addresses in the underlay, so that a pod's first packet
    /// to another node is not lost to that. Switches learn from replies to their node's own
    /// questions; so nodes ask one after the other, having forgotten what they overheard.
    fn introduce_nodes(&self) -> Result<(), LabError> {
        for node in self.fabric.nodes() {
            node.netns().ip(&format!("neighbour flush dev {}", Node::PHYSICAL))?;
            let others = self.fabric.nodes().iter().filter(|other| other.name() != node.name());
            let greet = |to: IpAddr| move || ping_until(node.netns(), to, PATIENCE);
            let met: Vec<Result<(), Timeout>> = thread::scope(|scope| {
                let threads: Vec<_> =
                    others.map(|other| scope.spawn(greet(other.underlay()))).collect();
                threads.into_iter().map(|t| t.join().expect("it does not panic")).collect()
            });
            met.into_iter().collect::<Result<(), Timeout>>()?;
        }
        Ok(())
    }

    fn start_controller(&mut self) -> Result<(), LabError> {
        let controller = Controller::start(&self.lab, &self.fabric, &self.spec, &self.programs)?;
        let addresses: Vec<IpAddr> = self.fabric.nodes().iter().map(Node::underlay).collect();
        controller.tell(&self.spec, &addresses)?;
        self.controller = Some(controller);
        Ok(())
    }

    /// Tells the controller of a file, and makes a pod of each port that it has then.
    fn apply(&mut self, file: &Path) -> Result<(), LabError> {
        let Some(controller) = &self.controller else { return Ok(()) };
        controller.apply(file)?;
        for (name, node) in controller.ports()? {
            let found = self.fabric.nodes().iter().position(|other| other.name() == node);
            // A pod's first interface; others are no pods of their own.
            let pod = name.split_once(':').filter(|(_, pod)| !pod.contains(':'));
            let (Some(index), Some((namespace, pod))) = (found, pod) else { continue };
            if namespace == "default" {
                continue;
            }
            let node = &self.fabric.nodes()[index];
            let plugin = &self.programs.plugin;
            // The port is in the node's view a moment after the controller has it.
            let attached = wait_until("the pod's network", PATIENCE, || {
                Pod::attach(plugin, namespace, pod, index, node).map_err(|error| error.to_string())
            })?;
            self.pods.push(attached);
        }
        Ok(())
    }

    /// All are started, then all are waited for: they need not wait for one another.
    fn start_agents(&mut self, step: &mut impl FnMut(String)) -> Result<(), LabError> {
        let addresses: Vec<IpAddr> = self.fabric.nodes().iter().map(Node::underlay).collect();
        let view = view::view(&self.spec, &addresses);
        for node in self.fabric.nodes() {
            let dir = node.ovs().dir();
            let mut config = view::agent_config(node.name(), dir);
            if let Some(controller) = &self.controller {
                config += &view::with_controller(&controller.agents_address(), dir);
                write(&dir.join("token"), &controller.token(node)?)?;
            } else {
                write(&dir.join("view.yaml"), &view)?;
            }
            let path = write(&dir.join("agent.toml"), &config)?;
            let osier = self.programs.osier.display().to_string();
            let agent = node.netns().command(&osier).args(["agent", "--config"]).arg(path);
            self.agents.push(agent.spawn()?);
        }
        for (node, agent) in self.fabric.nodes().iter().zip(&mut self.agents) {
            step(format!("{}: agent", node.name()));
            await_agent(node, agent)?;
        }
        Ok(())
    }
}

/// The facts of a lab in which there is nothing yet.
pub(crate) fn empty_layout(lab: &Lab, spec: &LabSpec) -> Layout {
    Layout {
        spec: spec.clone(),
        id: lab.id().to_owned(),
        dir: lab.dir().to_owned(),
        keeper: std::process::id(),
        controller: None,
        nodes: Vec::new(),
        pods: Vec::new(),
    }
}

/// Waits until an agent serves and says that it is well.
fn await_agent(node: &Node, agent: &mut Process) -> Result<(), LabError> {
    let what = format!("the agent of {}", node.name());
    let waited = wait_until(&what, PATIENCE, || {
        if let Some(status) = agent.exited() {
            return Ok(Err(format!("ended ({status})")));
        }
        if !agent_socket(node).exists() {
            return Err("it does not listen".to_owned());
        }
        match health::agent(node) {
            Health::Ok => Ok(Ok(())),
            Health::Bad(why) => Err(why),
        }
    });
    let problem = match waited {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(problem)) => problem,
        Err(late) => format!("is not ready after {:.0?} ({})", late.waited, late.last),
    };
    let said = agent.stderr();
    let skip = said.lines().count().saturating_sub(LOG_LINES);
    let log = said.lines().skip(skip).collect::<Vec<_>>().join("\n");
    Err(LabError::Agent { node: node.name().to_owned(), problem, log })
}

/// Gives the daemon's control socket the name under which `ovs-appctl` looks for it by itself.
fn name_control_socket(dir: &Path) -> std::io::Result<()> {
    let pid = fs::read_to_string(dir.join("ovs-vswitchd.pid"))?;
    symlink("ovs-vswitchd.ctl", dir.join(format!("ovs-vswitchd.{}.ctl", pid.trim())))
}

fn write(path: &Path, text: &str) -> Result<PathBuf, LabError> {
    fs::write(path, text).map_err(|source| LabError::File {
        action: "write",
        path: path.to_owned(),
        source,
    })?;
    Ok(path.to_owned())
}
