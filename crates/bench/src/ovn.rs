//! OVN with one node, as Debian ships it: the databases, `ovn-northd`, `ovn-controller` and a
//! switch of their own, all reached by sockets in the lab's directory.
//!
//! Where ports are compared it gets what costs it least: one logical switch, no routers, no ACLs, ports
//! that nobody binds but one, so that the node needs the switch's flows.

use anyhow::{Context, Result, ensure};
use osier_testbed::{Node, OvsdbServer, Process, wait_until};
use serde_json::{Value, json};
use std::cell::Cell;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use crate::measure::{self, Cost};
use crate::node::{PATIENCE, cpu_of, daemon_pid};

const PROGRAMS: [&str; 3] = ["ovn-northd", "ovn-controller", "ovn-nbctl"];
const SCHEMAS: &str = "/usr/share/ovn";
/// Ports in one command.
const BULK: usize = 1000;

/// See the module.
pub(crate) struct Ovn<'a> {
    // Clients go before their servers.
    controller: Process,
    northd: Process,
    north: OvsdbServer,
    south: OvsdbServer,
    node: &'a Node,
    /// How many ports it has beside the node's own.
    ports: Cell<usize>,
}

impl<'a> Ovn<'a> {
    /// Starts it on a node, with so many ports beside the node's own.
    pub(crate) fn with_ports(node: &'a Node, ports: usize) -> Result<Self> {
        let ovn = Self::start(node)?;
        ovn.populate(ports)?;
        Ok(ovn)
    }

    /// Starts it on a node, with nothing in it.
    pub(crate) fn start(node: &'a Node) -> Result<Self> {
        for program in PROGRAMS {
            let found = Command::new(program).arg("--version").output();
            let how = "scripts/install-packages ovn-central ovn-host";
            ensure!(found.is_ok(), "{program} is missing: {how}");
        }
        let (netns, ovs) = (node.netns(), node.ovs());
        let database = |name, schema| {
            OvsdbServer::builder(netns, name).start(&Path::new(SCHEMAS).join(schema))
        };
        let north = database("ovn-nb", "ovn-nb.ovsschema")?;
        let south = database("ovn-sb", "ovn-sb.ovsschema")?;
        let unix = |server: &OvsdbServer| format!("unix:{}", server.socket().display());
        let northd = ovs
            .tool("ovn-northd")
            .env("OVN_RUNDIR", ovs.dir())
            .args([format!("--ovnnb-db={}", unix(&north)), format!("--ovnsb-db={}", unix(&south))])
            .spawn()?;
        let (remote, address) = (unix(&south), node.underlay());
        ovs.vsctl(&[
            "set",
            "Open_vSwitch",
            ".",
            "external_ids:system-id=n1",
            &format!("external_ids:ovn-remote=\"{remote}\""),
            "external_ids:ovn-encap-type=geneve",
            &format!("external_ids:ovn-encap-ip={address}"),
            "external_ids:ovn-bridge-datapath-type=netdev",
        ])?;
        let controller = ovs
            .tool("ovn-controller")
            .env("OVN_RUNDIR", ovs.dir())
            .arg(format!("unix:{}", ovs.db_socket().display()))
            .spawn()?;
        wait_until("ovn-controller's bridge", PATIENCE, || ovs.vsctl(&["br-exists", "br-int"]))?;
        Ok(Self { controller, northd, north, south, node, ports: Cell::new(0) })
    }

    fn populate(&self, ports: usize) -> Result<()> {
        let ovs = self.node.ovs();
        ovs.vsctl(&[
            "add-port",
            "br-int",
            "here",
            "--",
            "set",
            "Interface",
            "here",
            "type=internal",
            "external_ids:iface-id=here",
        ])?;
        let mut command = self.nbctl("none");
        command.args(["ls-add", "shop"]);
        add_port(&mut command, "here", 0);
        measure::command(&mut command)?;
        self.grow(ports)?;
        self.bound(&["here".to_owned()])
    }

    /// Waits until ports are bound to the node, and it has their flows.
    pub(crate) fn bound(&self, ports: &[String]) -> Result<()> {
        for port in ports {
            wait_until("OVN to bind the node's port", PATIENCE, || {
                let said = self.nbctl("none").args(["lsp-get-up", port]).output();
                match said.map(|said| String::from_utf8_lossy(&said.stdout).into_owned()) {
                    Ok(said) if said.trim() == "up" => Ok(()),
                    said => Err(format!("{said:?}\n{}", self.controller.stderr())),
                }
            })?;
        }
        self.sync()
    }

    /// Waits until the node has the flows of all that was written.
    pub(crate) fn sync(&self) -> Result<()> {
        measure::command(self.nbctl("hv").arg("sync")).map(drop)
    }

    /// Writes to the northbound database, all or nothing, as a client of its protocol does (RFC 7047,
    /// section 4.1.3): what came of each operation.
    pub(crate) fn transact(&self, operations: &[Value]) -> Result<Value> {
        let mut params = vec![json!("OVN_Northbound")];
        params.extend_from_slice(operations);
        let mut stream = UnixStream::connect(self.north.socket())?;
        let request = json!({"method": "transact", "params": params, "id": 0});
        stream.write_all(request.to_string().as_bytes())?;
        let mut answers = serde_json::Deserializer::from_reader(&stream).into_iter::<Value>();
        let answer = answers.next().context("OVN's database hung up")??;
        let results = answer["result"].as_array().context("a transaction has results")?;
        let refused = results.iter().find(|result| !result["error"].is_null());
        ensure!(refused.is_none() && answer["error"].is_null(), "OVN's database: {answer}");
        Ok(answer["result"].clone())
    }

    /// As many ports as this, if there are fewer, and the node has their flows.
    pub(crate) fn grow(&self, ports: usize) -> Result<()> {
        let first = self.ports.get() + 1;
        for bulk in (first..=ports).collect::<Vec<_>>().chunks(BULK) {
            let mut command = self.nbctl("none");
            for n in bulk {
                add_port(&mut command, &format!("p{n}"), *n);
            }
            measure::command(&mut command)?;
        }
        self.ports.set(self.ports.get().max(ports));
        self.sync()
    }

    /// One more port, until the node has its flows; then it is taken away again.
    pub(crate) fn change(&self, number: usize) -> Result<Cost> {
        let name = format!("new{number}");
        let before = self.daemons_cpu()?;
        let mut command = self.nbctl("hv");
        add_port(&mut command, &name, number);
        let mut cost = measure::command(&mut command)?;
        std::thread::sleep(super::change::SETTLED);
        cost.cpu += self.daemons_cpu()?.saturating_sub(before);
        let flows = self.node.ovs().ofctl(&["dump-flows", "br-int"])?;
        ensure!(flows.contains(&mac(number)), "OVN has no flow for {}", mac(number));
        measure::command(self.nbctl("hv").args(["lsp-del", &name]))?;
        Ok(cost)
    }

    /// `ovn-nbctl`, which waits for nobody or for the node, but not for ever.
    fn nbctl(&self, wait: &str) -> Command {
        let mut command = Command::new("ovn-nbctl");
        command.arg(format!("--db=unix:{}", self.north.socket().display()));
        command.args([format!("--wait={wait}"), "--timeout=60".to_owned()]);
        command
    }

    /// CPU time of all its daemons so far.
    pub(crate) fn daemons_cpu(&self) -> Result<std::time::Duration> {
        let ovs = self.node.ovs();
        let server = |server: &OvsdbServer| daemon_pid(server.dir(), "ovsdb-server");
        let pids = [
            self.controller.pid(),
            self.northd.pid(),
            server(&self.north)?,
            server(&self.south)?,
            daemon_pid(ovs.dir(), "ovsdb-server")?,
            daemon_pid(ovs.dir(), "ovs-vswitchd")?,
        ];
        cpu_of(&pids).context("a daemon of OVN has ended")
    }
}

fn add_port(command: &mut Command, name: &str, number: usize) {
    let address = format!("{} 10.5.{}.{}", mac(number), number / 250, 2 + number % 250);
    command.args(["--", "lsp-add", "shop", name, "--", "lsp-set-addresses", name, &address]);
}

fn mac(number: usize) -> String {
    format!("0a:58:0a:05:{:02x}:{:02x}", number >> 8, number & 255)
}
