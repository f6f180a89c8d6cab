//! A lab's controller: a machine of its own on the underlay, with nothing but `osier controller`.
//!
//! It is used as its administrator would use it, by the command line: the model is applied, and a
//! token made for each node.

use crate::error::LabError;
use crate::layout::ControllerLayout;
use crate::programs::{Programs, in_path};
use crate::spec::LabSpec;
use crate::view;
use osier_testbed::{Command, Fabric, Lab, Netns, Node, Process, wait_until};
use serde::Deserialize;
use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long it may take to be ready, on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);
/// Where agents and users find it.
const FLEET_PORT: u16 = 6646;
/// Its interface in the segment, and its own.
const PLUG: &str = "controller";
const INTERFACE: &str = "eth0";
const ETHTOOL: &str = "ethtool";

/// See the module.
#[derive(Debug)]
pub(crate) struct Controller {
    process: Process,
    netns: Netns,
    address: IpAddr,
    dir: PathBuf,
    osier: PathBuf,
}

/// What a controller tells its own machine's root.
#[derive(Debug, Deserialize)]
struct Admin {
    server: String,
    ca: String,
    credential: String,
}

impl Controller {
    /// Starts it, and waits until it answers.
    pub(crate) fn start(
        lab: &Lab,
        fabric: &Fabric,
        spec: &LabSpec,
        programs: &Programs,
    ) -> Result<Self, LabError> {
        if in_path(ETHTOOL).is_none() {
            let (programs, packages) = (vec![ETHTOOL.to_owned()], ETHTOOL.to_owned());
            return Err(LabError::ProgramsMissing { programs, packages });
        }
        let netns = lab.netns("controller")?;
        let address = plug(fabric, &netns, spec)?;
        let dir = lab.dir().join("controller");
        let failed = |action, path: &Path| {
            let path = path.to_owned();
            move |source| LabError::File { action, path, source }
        };
        fs::create_dir_all(&dir).map_err(failed("make", &dir))?;
        let config = dir.join("controller.toml");
        let any: IpAddr = if address.is_ipv4() { [0; 4].into() } else { [0_u16; 8].into() };
        let text = format!(
            "state_dir = '{0}'\ncluster = '{1}'\n[api]\nlisten = '{2}:6645'\naddresses = ['{address}']\n\
             [fleet]\nlisten = '{2}:{FLEET_PORT}'\n",
            dir.display(),
            spec.name,
            bracketed(any),
        );
        fs::write(&config, text).map_err(failed("write", &config))?;
        let osier = programs.osier.clone();
        let command = netns.command(&osier.display().to_string());
        let process = command.args(["controller", "--config"]).arg(&config).spawn()?;
        let mut controller = Self { process, netns, address, dir, osier };
        controller.await_ready()?;
        Ok(controller)
    }

    fn await_ready(&mut self) -> Result<(), LabError> {
        let waited = wait_until("the controller", PATIENCE, || -> Result<_, String> {
            if let Some(status) = self.process.exited() {
                return Ok(Err(format!("ended ({status})")));
            }
            take_credential(&self.dir).map_err(|error| error.to_string())?;
            let asked = self.osier(&["get", "nodes"]).run().map_err(|error| error.to_string())?;
            drop(asked);
            Ok(Ok(()))
        });
        let problem = match waited {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(problem)) => problem,
            Err(late) => format!("is not ready after {:.0?} ({})", late.waited, late.last),
        };
        let log = self.process.stderr();
        Err(LabError::Agent { node: "the controller".to_owned(), problem, log })
    }

    /// The command line, as its administrator uses it.
    pub(crate) fn osier(&self, arguments: &[&str]) -> Command {
        let mut command = self.netns.command(&self.osier.display().to_string());
        for (name, value) in self.layout().environment() {
            command = command.env(&name, value);
        }
        command.args(arguments.iter().copied())
    }

    /// Tells it of the lab: the fabric, the default network, and all nodes.
    pub(crate) fn tell(&self, spec: &LabSpec, nodes: &[IpAddr]) -> Result<(), LabError> {
        self.osier(&["apply", "-f", "-"]).input(view::resources(spec, nodes)).run()?;
        Ok(())
    }

    /// Applies a file of the user's.
    pub(crate) fn apply(&self, file: &Path) -> Result<(), LabError> {
        let text = fs::read_to_string(file).map_err(|source| LabError::File {
            action: "read",
            path: file.to_owned(),
            source,
        })?;
        self.osier(&["apply", "-f", "-"]).input(text).run()?;
        Ok(())
    }

    /// A token for a node.
    pub(crate) fn token(&self, node: &Node) -> Result<String, LabError> {
        let address = node.underlay().to_string();
        Ok(self.osier(&["node", "token", node.name(), "--address", &address]).run()?)
    }

    /// The ports that pods shall have: name and node.
    pub(crate) fn ports(&self) -> Result<Vec<(String, String)>, LabError> {
        let text = self.osier(&["get", "ports", "-o", "json"]).run()?;
        let list: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let port = |item: &serde_json::Value| {
            let name = item["metadata"]["name"].as_str()?.to_owned();
            Some((name, item["spec"]["node"].as_str()?.to_owned()))
        };
        Ok(items.iter().filter_map(port).collect())
    }

    /// Where agents find it.
    pub(crate) fn agents_address(&self) -> String {
        format!("{}:{FLEET_PORT}", bracketed(self.address))
    }

    /// What is where.
    pub(crate) fn layout(&self) -> ControllerLayout {
        let (netns, dir) = (self.netns.name().to_owned(), self.dir.clone());
        let server = fs::read_to_string(dir.join("server")).unwrap_or_default();
        ControllerLayout { netns, address: self.address, dir, server }
    }
}

/// Puts what the command line needs into files of its own: anew at each start of the controller.
pub(crate) fn take_credential(dir: &Path) -> std::io::Result<()> {
    let text = fs::read_to_string(dir.join("admin.toml"))?;
    let admin: Admin = toml::from_str(&text).map_err(std::io::Error::other)?;
    for (name, text) in [("ca.pem", &admin.ca), ("credential", &admin.credential)] {
        private(&dir.join(name), text)?;
    }
    fs::write(dir.join("server"), &admin.server)
}

/// Plugs its namespace into the underlay, beside the nodes.
fn plug(fabric: &Fabric, netns: &Netns, spec: &LabSpec) -> Result<IpAddr, LabError> {
    let (address, length): (IpAddr, u8) = match spec.family.has_ipv4() {
        true => ([198, 51, 100, 250].into(), 24),
        false => ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 250].into(), 64),
    };
    let (segment, name) = (fabric.segment(), netns.name());
    segment.ip(&format!("link add {PLUG} type veth peer name {INTERFACE} netns {name}"))?;
    segment.ip(&format!("link set {PLUG} master {} up", Fabric::SEGMENT))?;
    // Two machines never have it: there is nothing to wait for.
    let nodad = if address.is_ipv6() { " nodad" } else { "" };
    netns.ip(&format!("address add {address}/{length} dev {INTERFACE}{nodad}"))?;
    // The nodes' switches take packets as they are: checksums must be there.
    netns.run(&[ETHTOOL, "-K", INTERFACE, "tx", "off"])?;
    netns.ip(&format!("link set {INTERFACE} up"))?;
    Ok(address)
}

fn bracketed(address: IpAddr) -> String {
    match address {
        IpAddr::V4(v4) => v4.to_string(),
        IpAddr::V6(v6) => format!("[{v6}]"),
    }
}

/// A file that only root reads.
fn private(path: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write as _;
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}
