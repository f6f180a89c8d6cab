//! Both reconcilers on one switch, while daemons are killed and connections cut: all converges, what
//! is others' stays, nothing leaks, and traffic does not notice a reconnect.
//!
//! 10 rounds as a test; 100 as `soak_…`. `OSIER_FAULTS_SEED` repeats a run.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

mod chance;
mod churn;
mod proxy;
mod rig;

use chance::Chance;
use rig::Rig;
use std::time::{Duration, Instant};

/// What can go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    KillDatabase,
    CutDatabase,
    CutOpenFlow,
    KillSwitch,
}

/// What the process uses.
#[derive(Debug, Clone, Copy)]
struct Usage {
    descriptors: usize,
    resident: u64,
}

impl Usage {
    fn now() -> Self {
        let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().count();
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        let kilobytes: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        Self { descriptors, resident: kilobytes << 10 }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_rounds_of_faults_converge() {
    rounds(10).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "100 rounds; run by `make soak`"]
async fn soak_a_hundred_rounds_of_faults_converge() {
    rounds(100).await;
}

async fn rounds(count: usize) {
    let mut chance = Chance::from_environment();
    let mut rig = Rig::start().await;
    let mut faults =
        [Fault::KillDatabase, Fault::CutDatabase, Fault::CutOpenFlow, Fault::KillSwitch];
    // Every kind once before anything is measured: what is made once is no leak.
    for fault in faults {
        round(&mut rig, fault, &mut chance).await;
    }
    rig.rest().await;
    let before = Usage::now();
    for number in 0..count {
        if number % faults.len() == 0 {
            chance.shuffle(&mut faults);
        }
        let fault = faults[number % faults.len()];
        let start = Instant::now();
        round(&mut rig, fault, &mut chance).await;
        eprintln!("round {number}: {fault:?}, converged and checked after {:?}", start.elapsed());
    }
    rig.rest().await;
    let after = Usage::now();
    eprintln!("{before:?} before, {after:?} after; {:?} {:?}", rig.rows.stats(), rig.flows.stats());
    assert!(after.descriptors <= before.descriptors, "{before:?}, then {after:?}");
    let grown = after.resident.saturating_sub(before.resident);
    assert!(grown < 32 << 20, "{before:?}, then {after:?}");
}

/// Something breaks during churn, and all comes right.
async fn round(rig: &mut Rig, fault: Fault, chance: &mut Chance) {
    let churn = rig.churn(chance);
    chance.pause(Duration::from_millis(150)).await;
    match fault {
        Fault::KillDatabase => {
            rig.ovs.kill_ovsdb();
            chance.pause(Duration::from_millis(200)).await;
            rig.ovs.start_ovsdb().unwrap();
        }
        Fault::CutDatabase => rig.database.cut(),
        Fault::CutOpenFlow => rig.openflow.cut(),
        Fault::KillSwitch => {
            rig.ovs.kill_vswitchd();
            chance.pause(Duration::from_millis(200)).await;
            rig.ovs.start_vswitchd().unwrap();
        }
    }
    chance.pause(Duration::from_millis(150)).await;
    churn.stop().await;
    rig.converge().await;
    if fault == Fault::KillSwitch {
        rig.expect_no_foreign_flow();
        rig.add_foreign_flow();
        rig.converge().await;
    }
    rig.check();
}

/// Connections of both kinds are cut, and all is compared anew, while pings go through the switch.
#[tokio::test(flavor = "multi_thread")]
async fn reconnects_and_resyncs_lose_no_packet() {
    let mut chance = Chance::from_environment();
    let mut rig = Rig::start().await;
    rig.converge().await;
    let pinger = rig.ping();
    rig::until("replies", || (pinger.replies() > 20).then_some(())).await;
    for number in 0..12 {
        let churn = rig.churn_flows(&mut chance);
        match number % 4 {
            0 => rig.database.cut(),
            1 => rig.openflow.cut(),
            2 => rig.rows.resync().await.unwrap(),
            _ => rig.flows.resync().await.unwrap(),
        }
        chance.pause(Duration::from_millis(200)).await;
        churn.stop().await;
        rig.converge().await;
        rig.check();
    }
    let loss = pinger.stop().unwrap();
    eprintln!("12 cuts and resyncs: {loss:?}");
    assert_eq!(loss.lost, 0, "{loss:?}");

    // A database that is killed stops this userspace switch until it is back; then all goes on.
    rig.ovs.kill_ovsdb();
    rig.ovs.start_ovsdb().unwrap();
    rig.pings_again();
    rig.converge().await;
    rig.check();
}

/// A switch that was killed forwards again only with its flows.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_switch_waits_for_its_flows() {
    let mut rig = Rig::start().await;
    rig.converge().await;
    rig.flows.pause().await.unwrap();
    rig.ovs.kill_vswitchd();
    rig.ovs.start_vswitchd().unwrap();
    // The flows do not come: it keeps waiting for them.
    let setting = ["--no-wait", "get", "open", ".", "other_config:flow-restore-wait"];
    assert_eq!(rig.ovs.vsctl(&setting).unwrap().trim(), "\"true\"");
    let cycles = *rig.restore.cycles().borrow();
    let start = Instant::now();
    rig.flows.resume().await.unwrap();
    rig.pings_again();
    eprintln!("from resume to a reply: {:?}", start.elapsed());
    rig::until("the switch is let go", || (*rig.restore.cycles().borrow() > cycles).then_some(()))
        .await;
    rig::until("it is armed again", || {
        (rig.ovs.vsctl(&setting).is_ok_and(|value| value.trim() == "\"true\"")).then_some(())
    })
    .await;
    rig.add_foreign_flow();
    rig.converge().await;
    rig.check();
}
