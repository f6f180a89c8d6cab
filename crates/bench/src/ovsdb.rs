//! Writing many ports to the database: our reconciler against `ovs-vsctl`.
//!
//! No `ovs-vswitchd` runs: what it takes to make the ports would be the same for both sides, and
//! much more than what is measured. So `ovs-vsctl` does not wait for it, and neither do we.

use crate::Suite;
use crate::figure::{Figure, Goal, Wanted};
use crate::measure::{self, Cost, Side, in_turns, median};
use anyhow::{Context, Result, ensure};
use osier_ovsdb::session::Remote;
use osier_southbound::rows::{Options, Ownership, Plan, Port, RowReconciler, Transaction, Wait};
use osier_testbed::{Lab, OvsdbServer};
use std::path::Path;
use std::process::{Command, Stdio};
use tokio::runtime::Runtime;

const PORTS: usize = 1_000;
const BRIDGE: &str = "br-int";
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";

const PORTS_WALL: Goal = Goal {
    name: "ovsdb-ports-1000",
    about: "1,000 ports in one transaction, against one ovs-vsctl command line; wall time",
    wanted: Wanted::AtMost(1.0),
};

/// Writing ports.
pub(crate) const PORTS_WRITTEN: Suite = Suite { goals: &[PORTS_WALL], run: ports };

fn ports(rounds: usize) -> Result<Vec<Figure>> {
    eprintln!("ovsdb-ports-1000: {PORTS} internal ports with iface-id in one transaction");
    eprintln!("  ours: plans in memory; from connecting, reading and comparing to the answer");
    eprintln!("  rival: ovs-vsctl --no-wait as a process; from its start to its end");
    let lab = Lab::new()?;
    let server = OvsdbServer::builder(&lab.host(), "db").start(Path::new(SCHEMA))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start a runtime")?;
    let costs = in_turns(rounds, |side| {
        clear(&server)?;
        let cost = match side {
            Side::Ours => write_ours(&server, &runtime)?,
            Side::Rival => measure::command(&mut write_rival(&server))?,
        };
        check(&server)?;
        Ok(cost)
    })?;
    let both = |of: fn(&Cost) -> _| (median(&costs.ours, of), median(&costs.rival, of));
    let (wall, cpu) = (both(|cost| cost.wall), both(|cost| cost.cpu));
    eprintln!("  CPU time of the clients: ours {:?}, rival {:?}", cpu.0, cpu.1);
    Ok(vec![Figure::times(&PORTS_WALL, wall.0, wall.1)])
}

fn name(number: usize) -> String {
    format!("port{number}")
}

fn plan() -> Plan {
    let ports = (0..PORTS).map(|number| {
        let mut port = Port::internal(BRIDGE, name(number));
        let ids = &mut port.interfaces[0].external_ids;
        ids.insert("iface-id".to_owned(), format!("namespace:pod-{number}"));
        port
    });
    Plan { ports: ports.collect(), ..Plan::default() }
}

fn write_ours(server: &OvsdbServer, runtime: &Runtime) -> Result<Cost> {
    let plan = plan();
    let (rows, cost) = measure::operation(|| {
        runtime.block_on(async {
            let remotes = vec![Remote::Unix(server.socket())];
            let ownership = Ownership::new("osier-", "bench");
            let options = Options { paused: false, ..Options::default() };
            let rows = RowReconciler::connect(remotes, ownership, options);
            let change = Transaction::new().put("ports", plan).wait(Wait::Database);
            rows.transaction(change).await?.await?;
            Ok(rows)
        })
    })?;
    let transactions = rows.stats().transactions;
    ensure!(transactions == 1, "{transactions} transactions instead of one");
    Ok(cost)
}

fn write_rival(server: &OvsdbServer) -> Command {
    let mut command = vsctl(server);
    for number in 0..PORTS {
        let name = name(number);
        command.args(["--", "add-port", BRIDGE, &name]);
        command.args(["--", "set", "interface", &name, "type=internal"]);
        command.arg(format!("external_ids:iface-id=namespace:pod-{number}"));
    }
    command.stdout(Stdio::null());
    command
}

/// A bridge without ports.
fn clear(server: &OvsdbServer) -> Result<()> {
    run(vsctl(server).args(["--", "--if-exists", "del-br", BRIDGE]))?;
    run(vsctl(server).args(["--", "add-br", BRIDGE])).map(drop)
}

/// Fails unless all ports are there as wanted.
fn check(server: &OvsdbServer) -> Result<()> {
    let ports = run(vsctl(server).args(["list-ports", BRIDGE]))?.lines().count();
    ensure!(ports == PORTS, "{ports} ports instead of {PORTS}");
    let find = ["--bare", "--columns=external_ids", "find", "interface", "type=internal"];
    let found = run(vsctl(server).args(find))?;
    let found = found.lines().filter(|line| line.contains("iface-id=namespace:pod-")).count();
    ensure!(found == PORTS, "{found} interfaces as wanted instead of {PORTS}");
    Ok(())
}

fn vsctl(server: &OvsdbServer) -> Command {
    let mut command = Command::new("ovs-vsctl");
    let database = format!("--db=unix:{}", server.socket().display());
    command.args(["--no-wait", "--timeout=60", &database]).stdin(Stdio::null());
    command
}

fn run(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} failed: {error}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
