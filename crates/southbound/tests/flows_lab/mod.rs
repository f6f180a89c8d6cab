//! A real switch and a reconciler for it.
#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

use osier_openflow::session::{Backoff, Dialer, Endpoint, Options as SessionOptions};
use osier_southbound::flows::{CookieClass, FlowReconciler, Options, Ownership, Plan};
use osier_testbed::{FailMode, Lab, Ovs};
use std::time::{Duration, Instant};

pub(crate) const BRIDGE: &str = "br-int";
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn switch() -> (Lab, Ovs) {
    let lab = Lab::new().unwrap();
    let ovs = Ovs::start(&lab.netns("ovs").unwrap(), "ovs").unwrap();
    ovs.add_bridge(BRIDGE, FailMode::Secure).unwrap();
    (lab, ovs)
}

/// Cookies 0x0a5…: ours; 0x0a5e…: learned.
pub(crate) fn ownership() -> Ownership {
    Ownership {
        cookies: CookieClass { value: 0xa500 << 48, mask: 0xff00 << 48 },
        learned: Some(CookieClass { value: 0xa5ee << 48, mask: 0xffff << 48 }),
        groups: 1000..=1999,
        meters: 100..=199,
        tun_metadata: 0..=7,
    }
}

pub(crate) fn start(ovs: &Ovs) -> FlowReconciler {
    begin(ovs, Options { paused: false, ..Options::default() })
}

pub(crate) fn start_paused(ovs: &Ovs) -> FlowReconciler {
    begin(ovs, Options::default())
}

fn begin(ovs: &Ovs, options: Options) -> FlowReconciler {
    let endpoint = Endpoint::Unix(ovs.mgmt_socket(BRIDGE));
    let backoff = Backoff { first: Duration::from_millis(10), most: Duration::from_millis(200) };
    let dialer = Dialer::new(endpoint, SessionOptions::default(), backoff);
    FlowReconciler::start(dialer, ownership(), options)
}

/// Flows, one a line, with a cookie of ours each unless they name one.
pub(crate) fn plan(flows: &str) -> Plan {
    let lines = flows.lines().map(str::trim).filter(|line| !line.is_empty());
    Plan::flows(lines.map(|line| {
        let cookie = if line.starts_with("cookie=") { "" } else { "cookie=0xa500000000000001," };
        format!("{cookie}{line}").parse().unwrap_or_else(|e| panic!("{line}: {e}"))
    }))
}

/// The switch's flows as `ovs-ofctl` prints them, sorted, without statistics.
pub(crate) fn dump(ovs: &Ovs) -> Vec<String> {
    let text = ovs.ofctl(&["--no-stats", "dump-flows", BRIDGE]).unwrap();
    let mut lines: Vec<_> = text.lines().map(|line| line.trim().to_owned()).collect();
    lines.sort();
    lines
}

/// The packets that the flow of this text counted.
pub(crate) fn packets(ovs: &Ovs, what: &str) -> u64 {
    let text = ovs.ofctl(&["dump-flows", BRIDGE, what]).unwrap();
    let counts = text.split("n_packets=").skip(1);
    counts.map(|rest| rest.split(',').next().unwrap().parse::<u64>().unwrap()).sum()
}

/// Waits until `check` gives something; tells how long it took.
pub(crate) async fn until<T>(what: &str, mut check: impl FnMut() -> Option<T>) -> (T, Duration) {
    let start = Instant::now();
    loop {
        if let Some(value) = check() {
            return (value, start.elapsed());
        }
        assert!(start.elapsed() < PATIENCE, "no {what} within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
