//! Ports that come to a real switch, and who hears of them.
#![allow(clippy::unwrap_used, clippy::panic)]

mod flows_lab;

use flows_lab::{BRIDGE, PATIENCE, switch};
use osier_openflow::port_no::PortNo;
use osier_openflow::session::{Backoff, Dialer, Endpoint, Options};
use osier_southbound::arrivals::{Arrival, Arrivals};
use osier_testbed::Ovs;
use std::time::Duration;
use tokio::time::timeout;

fn arrivals(ovs: &Ovs) -> Arrivals {
    let backoff = Backoff { first: Duration::from_millis(10), most: Duration::from_millis(200) };
    let endpoint = Endpoint::Unix(ovs.mgmt_socket(BRIDGE));
    Arrivals::start(Dialer::new(endpoint, Options::default(), backoff))
}

fn add(ovs: &Ovs, name: &str, number: u32) {
    ovs.netns().ip(&format!("link add {name} type veth peer name {name}p")).unwrap();
    let asked = format!("ofport_request={number}");
    ovs.vsctl(&["add-port", BRIDGE, name, "--", "set", "Interface", name, &asked]).unwrap();
}

/// Ports come until there is news of one: how long until somebody listens is not known from outside.
async fn heard(ovs: &Ovs, arrivals: &Arrivals, first: u32) -> u32 {
    for number in first..first + 200 {
        let name = format!("early{number}");
        let arrival = arrivals.expect(&name);
        add(ovs, &name, number);
        if let Ok(found) = timeout(Duration::from_millis(500), arrival).await {
            assert_eq!(found, PortNo(number));
            return number;
        }
    }
    panic!("no news of any port");
}

async fn comes(arrival: Arrival) -> PortNo {
    timeout(PATIENCE, arrival).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn ports_are_told_of_by_name_and_number() {
    let (_lab, ovs) = switch();
    let arrivals = arrivals(&ovs);
    heard(&ovs, &arrivals, 100).await;
    let (a, b) = (arrivals.expect("wire-a"), arrivals.expect("wire-b"));
    let gone = arrivals.expect("wire-c");
    drop(gone);
    // Of two who wait for one name the last is told.
    let mut replaced = arrivals.expect("wire-d");
    let d = arrivals.expect("wire-d");
    add(&ovs, "wire-b", 12);
    add(&ovs, "wire-c", 13);
    add(&ovs, "wire-d", 14);
    add(&ovs, "wire-a", 11);
    assert_eq!(
        (comes(a).await, comes(b).await, comes(d).await),
        (PortNo(11), PortNo(12), PortNo(14))
    );
    let never = timeout(Duration::from_millis(50), &mut replaced).await;
    assert!(never.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn news_come_again_behind_a_restart_of_the_switch() {
    let (_lab, mut ovs) = switch();
    let arrivals = arrivals(&ovs);
    let last = heard(&ovs, &arrivals, 100).await;
    ovs.kill_vswitchd();
    ovs.start_vswitchd().unwrap();
    heard(&ovs, &arrivals, last + 1).await;
}
