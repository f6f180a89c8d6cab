//! A whole Open vSwitch: `ovsdb-server` and `ovs-vswitchd` with the userspace datapath.
//!
//! The datapath's devices live in the namespace of its daemon, so a switch in a namespace of its own
//! meets no other. Everything is asked of it by its own tools, never by our code: this is the oracle.

use std::fmt::Write as _;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::thread::panicking;

use crate::command::{Command, CommandError};
use crate::daemon::{Daemon, DaemonError, accepts};
use crate::netns::Netns;
use crate::ovsdb_server::OvsdbServer;
use crate::process::Usage;

const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";
const MANAGERS: &str = "db:Open_vSwitch,Open_vSwitch,manager_options";
const PROTOCOLS: &str = "OpenFlow10,OpenFlow11,OpenFlow12,OpenFlow13,OpenFlow14,OpenFlow15";

/// What a bridge does with packets while no controller tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailMode {
    /// Nothing: only installed flows count. There are none at first.
    Secure,
    /// It is a learning switch.
    Standalone,
}

/// A switch in a namespace. A panicking owner makes it print itself before it goes.
#[derive(Debug)]
pub struct Ovs {
    vswitchd: Daemon,
    database: OvsdbServer,
}

impl Ovs {
    /// Starts an empty switch in `netns`, in the lab's subdirectory `name`.
    ///
    /// Not in the host's namespace: the datapath's devices survive its daemon, and only with their
    /// namespace do they surely go. Its sockets are reached from any namespace.
    pub fn start(netns: &Netns, name: &str) -> Result<Self, DaemonError> {
        if netns.is_host() {
            return Err(DaemonError::Host);
        }
        let database =
            OvsdbServer::builder(netns, name).remote(MANAGERS).start(Path::new(SCHEMA))?;
        let vswitchd = Daemon::new("ovs-vswitchd", netns.clone(), database.dir().to_owned());
        let mut ovs = Self { vswitchd, database };
        // One thread of each kind is enough for a test, and its start is cheaper.
        ovs.vsctl_command()
            .args(["--no-wait", "--", "init", "--", "set", "Open_vSwitch", "."])
            .args(["other_config:n-handler-threads=1", "other_config:n-revalidator-threads=1"])
            .run()?;
        ovs.start_vswitchd()?;
        Ok(ovs)
    }

    /// The namespace it lives in.
    pub fn netns(&self) -> &Netns {
        self.vswitchd.netns()
    }

    /// Its directory: sockets, logs, the database.
    pub fn dir(&self) -> &Path {
        self.vswitchd.dir()
    }

    /// The database's socket.
    pub fn db_socket(&self) -> PathBuf {
        self.database.socket()
    }

    /// The socket of `ovs-appctl` for `ovs-vswitchd`.
    pub fn unixctl(&self) -> PathBuf {
        self.vswitchd.unixctl()
    }

    /// The OpenFlow socket of a bridge, which works without any controller configured.
    pub fn mgmt_socket(&self, bridge: &str) -> PathBuf {
        self.dir().join(format!("{bridge}.mgmt"))
    }

    /// The database's server.
    pub fn database(&self) -> &OvsdbServer {
        &self.database
    }

    /// Adds a bridge of the userspace datapath that speaks all versions of OpenFlow.
    pub fn add_bridge(&self, name: &str, fail_mode: FailMode) -> Result<(), CommandError> {
        let fail_mode = match fail_mode {
            FailMode::Secure => "secure",
            FailMode::Standalone => "standalone",
        };
        self.vsctl_command()
            .args(["add-br", name, "--", "set", "bridge", name, "datapath_type=netdev"])
            .args([format!("fail_mode={fail_mode}"), format!("protocols={PROTOCOLS}")])
            .run()
            .map(drop)
    }

    /// Runs `ovs-vsctl`; waits for `ovs-vswitchd` to follow, as that does.
    pub fn vsctl(&self, args: &[&str]) -> Result<String, CommandError> {
        self.vsctl_command().args(args).run()
    }

    /// Runs `ovs-ofctl` with OpenFlow 1.5.
    pub fn ofctl(&self, args: &[&str]) -> Result<String, CommandError> {
        self.ofctl_command().args(args).run()
    }

    /// Adds flows, one a line, in one bundle.
    pub fn add_flows(&self, bridge: &str, flows: &str) -> Result<(), CommandError> {
        let command = self.ofctl_command().args(["--bundle", "add-flows", bridge, "-"]);
        command.input(flows).run().map(drop)
    }

    /// Runs `ovs-appctl` on `ovs-vswitchd`.
    pub fn appctl(&self, args: &[&str]) -> Result<String, CommandError> {
        self.vswitchd.appctl(args)
    }

    /// Any other tool, with the switch's directory in its environment.
    pub fn tool(&self, program: &str) -> Command {
        self.vswitchd.tool(program)
    }

    /// Kills `ovs-vswitchd` with SIGKILL: flows and connections are gone, the devices
    /// of internal ports stay.
    pub fn kill_vswitchd(&mut self) {
        self.vswitchd.kill();
    }

    /// Starts `ovs-vswitchd` and waits until each bridge of the database is served.
    pub fn start_vswitchd(&mut self) -> Result<(), DaemonError> {
        let socket = format!("unix:{}", self.db_socket().display());
        // No kernel module is asked for, and none is missed in the log.
        let args = [socket.clone(), "--disable-system".to_owned()];
        // Asked for once it starts, so that it starts at once.
        let mut bridges = None;
        self.vswitchd.start(&args, |daemon| {
            if bridges.is_none() {
                let list =
                    daemon.tool("ovs-vsctl").arg("--timeout=20").arg(format!("--db={socket}"));
                bridges = Some(list.arg("list-br").run().map_err(|e| e.to_string())?);
            }
            let mut names = bridges.iter().flat_map(|names| names.lines());
            names.try_for_each(|bridge| accepts(&daemon.dir().join(format!("{bridge}.mgmt"))))
        })
    }

    /// Stops `ovs-vswitchd` without ending it.
    pub fn pause_vswitchd(&self) -> io::Result<()> {
        self.vswitchd.pause()
    }

    /// Lets `ovs-vswitchd` go on.
    pub fn resume_vswitchd(&self) -> io::Result<()> {
        self.vswitchd.resume()
    }

    /// Kills the database's server with SIGKILL. Until it is back, `ovs-vswitchd` answers no
    /// OpenFlow, and its userspace datapath does not forward: both wait for its main loop, which
    /// waits for the database's lock.
    pub fn kill_ovsdb(&mut self) {
        self.database.kill();
    }

    /// Starts the database's server again.
    pub fn start_ovsdb(&mut self) -> Result<(), DaemonError> {
        self.database.start()
    }

    /// Starts both daemons, which were killed, in another namespace. Their sockets are gone, as from
    /// a directory in memory.
    pub(crate) fn boot_in(&mut self, netns: &Netns) -> Result<(), DaemonError> {
        for entry in self.dir().read_dir().into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_socket()) {
                // One that stays refuses, which is as good.
                let _ = std::fs::remove_file(entry.path());
            }
        }
        self.database.move_to(netns);
        self.vswitchd.move_to(netns);
        self.start_ovsdb()?;
        self.start_vswitchd()
    }

    /// CPU time and memory of `ovs-vswitchd` since its last start.
    pub fn vswitchd_usage(&self) -> io::Result<Usage> {
        self.vswitchd.usage()
    }

    /// CPU time and memory of the database's server since its last start.
    pub fn ovsdb_usage(&self) -> io::Result<Usage> {
        self.database.usage()
    }

    /// The log of `ovs-vswitchd` since its first start.
    pub fn log(&self) -> String {
        self.vswitchd.log()
    }

    /// The names of the bridges in the database.
    pub fn bridges(&self) -> Result<Vec<String>, CommandError> {
        let names = self.vsctl(&["list-br"])?;
        Ok(names.lines().map(str::to_owned).collect())
    }

    /// Everything one wants to see of a switch after a failure, as its own tools show it.
    pub fn report(&self) -> String {
        let mut report = format!("==== switch in {} ====\n", self.dir().display());
        let mut section = |title: &str, text: Result<String, CommandError>| {
            let text = text.unwrap_or_else(|e| e.to_string());
            // Writing to a string cannot fail.
            let _ = writeln!(report, "---- {title}\n{}", text.trim_end());
        };
        section("ovs-vsctl show", self.vsctl(&["--no-wait", "show"]));
        for bridge in self.served_bridges() {
            for what in ["dump-flows", "dump-groups", "dump-ports-desc"] {
                let output = self.ofctl_command().args(["--timeout=5", what, &bridge]).run();
                section(&format!("{what} {bridge}"), output);
            }
        }
        for command in ["dpif/show", "dpctl/dump-flows", "ovs/route/show", "tnl/neigh/show"] {
            section(command, self.appctl(&["--timeout=5", command]));
        }
        section("interfaces", self.netns().ip("-brief address"));
        section("end of ovs-vswitchd.log", Ok(self.vswitchd.log_tail(30)));
        report
    }

    /// The bridges as their sockets name them: the database may be down.
    fn served_bridges(&self) -> Vec<String> {
        let entries = self.dir().read_dir().into_iter().flatten().flatten();
        entries
            .filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".mgmt")?.to_owned()))
            .collect()
    }

    fn vsctl_command(&self) -> Command {
        let database = format!("--db=unix:{}", self.db_socket().display());
        self.tool("ovs-vsctl").args(["--timeout=20".to_owned(), database])
    }

    fn ofctl_command(&self) -> Command {
        self.tool("ovs-ofctl").args(["-O", "OpenFlow15"])
    }
}

impl Drop for Ovs {
    fn drop(&mut self) {
        if panicking() {
            eprintln!("{}", self.report());
        }
    }
}
