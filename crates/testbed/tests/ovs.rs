//! One switch: its tools, its restarts, what it prints when a test fails.
#![allow(missing_docs)]

use std::time::Duration;

use osier_testbed::{FailMode, Lab, Ovs};

#[test]
fn a_switch_takes_flows_and_forgets_them_when_it_is_killed() {
    let lab = Lab::new().unwrap();
    let mut ovs = Ovs::start(&lab.netns("ovs").unwrap(), "ovs").unwrap();
    ovs.add_bridge("br-int", FailMode::Secure).unwrap();
    ovs.add_flows("br-int", "table=3,priority=7,ip,nw_dst=10.0.0.1 actions=drop\n").unwrap();
    let flows = ovs.ofctl(&["--no-stats", "dump-flows", "br-int"]).unwrap();
    assert_eq!(flows.trim(), "table=3, priority=7,ip,nw_dst=10.0.0.1 actions=drop");

    ovs.kill_vswitchd();
    assert!(ovs.vswitchd_usage().is_err());
    ovs.start_vswitchd().unwrap();
    assert_eq!(ovs.ofctl(&["--no-stats", "dump-flows", "br-int"]).unwrap(), "");

    ovs.kill_ovsdb();
    ovs.start_ovsdb().unwrap();
    ovs.ofctl(&["show", "br-int"]).unwrap();
    assert_eq!(ovs.bridges().unwrap(), ["br-int"]);
    assert!(ovs.vswitchd_usage().unwrap().cpu > Duration::ZERO);
    assert!(ovs.ovsdb_usage().unwrap().rss > 1 << 20);
}

#[test]
fn two_switches_of_the_same_names_do_not_meet() {
    let labs = [Lab::new().unwrap(), Lab::new().unwrap()];
    assert_ne!(labs[0].id(), labs[1].id());
    let switches =
        labs.each_ref().map(|lab| Ovs::start(&lab.netns("ovs").unwrap(), "ovs").unwrap());
    for ovs in &switches {
        ovs.add_bridge("br-int", FailMode::Secure).unwrap();
    }
    switches[0].add_flows("br-int", "actions=drop").unwrap();
    assert_eq!(switches[1].ofctl(&["--no-stats", "dump-flows", "br-int"]).unwrap(), "");
    for ovs in &switches {
        assert_eq!(ovs.netns().ip("-o link show br-int").unwrap().lines().count(), 1);
    }
}
