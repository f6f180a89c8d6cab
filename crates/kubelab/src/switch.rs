//! A node's Open vSwitch, as the Debian package would run it, with the userspace datapath.
//!
//! That datapath routes tunnels' packets by itself, and only over its own bridges. So the node's uplink
//! is a port of `br-phy`, whose own port holds the node's addresses.

use crate::error::{ClusterError, MachineError};
use crate::machine::Machine;
use crate::node::UPLINK;
use osier_testbed::wait_until;
use std::time::Duration;

/// The bridge that has the node's uplink and addresses.
pub(crate) const BRIDGE: &str = "br-phy";

const DATABASE: &str = "/etc/openvswitch/conf.db";
const SOCKET: &str = "unix:/run/openvswitch/db.sock";
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";
const PATIENCE: Duration = Duration::from_mins(1);

/// Starts both daemons, and gives the uplink to the switch.
pub(crate) fn start(machine: &Machine) -> Result<(), ClusterError> {
    let netns = machine.netns()?;
    // The kernel must not speak on an interface that belongs to the switch.
    netns.sysctl(&format!("net/ipv4/conf/{UPLINK}/arp_ignore"), "1").map_err(MachineError::from)?;
    netns
        .sysctl(&format!("net/ipv6/conf/{UPLINK}/disable_ipv6"), "1")
        .map_err(MachineError::from)?;

    // After a reboot it is there.
    let create = "[ -e \"$1\" ] || ovsdb-tool create \"$1\" \"$2\"";
    machine.run(&["sh", "-c", create, "create", DATABASE, SCHEMA])?;
    let database = [
        // As ovs-ctl does by default; and the switch, too.
        "nice",
        "--adjustment=-10",
        "ovsdb-server",
        DATABASE,
        "--remote=punix:/run/openvswitch/db.sock",
        "--remote=db:Open_vSwitch,Open_vSwitch,manager_options",
        "--pidfile",
        "--no-chdir",
        "-vsyslog:off",
    ];
    machine.spawn("ovsdb-server", &database)?;
    let vsctl = ["ovs-vsctl", "--no-wait", "--timeout=20"];
    let init = ["init", "--", "set", "Open_vSwitch", "."];
    // One thread of each kind is enough here, and costs less.
    let threads = ["other_config:n-handler-threads=1", "other_config:n-revalidator-threads=1"];
    wait_until("the switch's database", PATIENCE, || {
        machine.run(&[&vsctl[..], &init, &threads].concat())
    })
    .map_err(MachineError::from)?;
    machine.spawn(
        "ovs-vswitchd",
        &[
            "nice",
            "--adjustment=-10",
            "ovs-vswitchd",
            SOCKET,
            "--disable-system",
            "--pidfile",
            "--no-chdir",
            "-vsyslog:off",
        ],
    )?;
    let bridge = ["--may-exist", "add-br", BRIDGE];
    let kind = ["--", "set", "bridge", BRIDGE, "datapath_type=netdev", "fail_mode=standalone"];
    let uplink = ["--", "--may-exist", "add-port", BRIDGE, UPLINK];
    machine.run(&[&["ovs-vsctl", "--timeout=30"], &bridge[..], &kind, &uplink].concat())?;
    // After a reboot the database has it all, and nobody waited for the switch.
    wait_until("the switch's own port", PATIENCE, || netns.ip(&format!("link show dev {BRIDGE}")))
        .map_err(MachineError::from)?;
    Ok(())
}
