//! A controller that another has deposed writes nothing more to a switch's database.

use crate::rig::{BRIDGE, Dial, PATIENCE, Rig};
use osier_testbed::{Signal, wait_until};
use std::time::Duration;

const TUNNEL: &str = "osier-tun";
const TERM: &str = "external_ids:osier-term";

#[test]
fn a_deposed_controllers_transactions_come_to_nothing() {
    let rig = Rig::new(1, Rig::allowed());
    rig.put_node(0);
    rig.make_bridge(0, Dial::Switch);
    let (one, other) = (rig.pod(4, "one", "red", 0), rig.pod(5, "other", "red", 0));
    one.reaches(other.address);
    let ovs = rig.node(0).ovs();
    let term = ovs.vsctl(&["get", "Open_vSwitch", ".", TERM]).unwrap();
    let backoff = ovs.vsctl(&["get", "controller", BRIDGE, "max_backoff"]).unwrap();
    assert!(backoff.starts_with('1'), "it looks for its controllers each second: {backoff}");
    // While it sleeps the tunnel goes, and then another takes the switch over. It wakes, and what it
    // sees first is that the tunnel is gone.
    rig.signal(Signal::SIGSTOP);
    ovs.vsctl(&["del-port", BRIDGE, TUNNEL]).unwrap();
    ovs.vsctl(&["set", "Open_vSwitch", ".", &format!("{TERM}=\"999999999\"")]).unwrap();
    rig.signal(Signal::SIGCONT);
    rig.await_log("its switch is driven by the controller of term 999999999");
    // It tries again and again, for all that it knows.
    std::thread::sleep(Duration::from_millis(500));
    let ports = ovs.vsctl(&["list-ports", BRIDGE]).unwrap();
    assert!(!ports.contains(TUNNEL), "a deposed controller made a port: {ports}");
    // The other is gone for ever, and somebody says so.
    ovs.vsctl(&["remove", "Open_vSwitch", ".", "external_ids", "osier-term"]).unwrap();
    let driven = || match ovs.vsctl(&["list-ports", BRIDGE]).unwrap() {
        ports if ports.contains(TUNNEL) => Ok(()),
        ports => Err(ports),
    };
    wait_until("the tunnel", PATIENCE, driven).unwrap();
    assert_eq!(ovs.vsctl(&["get", "Open_vSwitch", ".", TERM]).unwrap(), term);
    let late = rig.pod(6, "late", "red", 0);
    late.reaches(one.address);
}
