//! `flow-restore-wait`: armed once flows exist, cleared for a switch that waits, armed again.

use crate::lab::{bridge, eventually, get, put, reconciler, switch};
use osier_southbound::rows::{Plan, Replays, Restore, RestoreOptions, RowReconciler};
use osier_testbed::Ovs;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::watch;

const SOON: Duration = Duration::from_secs(5);

/// Brings no flows back, and says so.
#[derive(Clone)]
struct Replayer {
    replayed: watch::Sender<u64>,
    current: Arc<AtomicBool>,
}

impl Replayer {
    fn new() -> Self {
        Self { replayed: watch::channel(0).0, current: Arc::new(AtomicBool::new(false)) }
    }

    fn replay(&self) {
        self.current.store(true, Ordering::SeqCst);
        self.replayed.send_modify(|connection| *connection += 1);
    }

    fn lose(&self) {
        self.current.store(false, Ordering::SeqCst);
    }
}

impl Replays for Replayer {
    fn replayed(&self) -> watch::Receiver<u64> {
        self.replayed.subscribe()
    }

    fn is_current(&self) -> bool {
        self.current.load(Ordering::SeqCst)
    }
}

fn key(ovs: &Ovs) -> String {
    get(ovs, "Open_vSwitch", ".", "other_config:flow-restore-wait")
}

fn mark(ovs: &Ovs) -> String {
    get(ovs, "Open_vSwitch", ".", "external_ids:osier-restore")
}

fn start(rows: &RowReconciler, bridges: &[&Replayer]) -> Restore {
    let bridges = bridges.iter().map(|bridge| Box::new((*bridge).clone()) as Box<dyn Replays>);
    Restore::start(rows, bridges.collect(), RestoreOptions::default())
}

async fn armed(ovs: &Ovs) {
    eventually("it is armed", SOON, || key(ovs) == "true" && mark(ovs) == "armed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_switch_that_starts_waits_for_its_flows() {
    let mut ovs = switch();
    let rows = reconciler(&ovs);
    put(&rows, "me", Plan::default().bridge(bridge("br0"))).await.unwrap();
    let controller = ovs.dir().join("br0.controller");
    let target = format!("punix:{}", controller.display());
    ovs.vsctl(&["set-controller", "br0", &target]).unwrap();
    eventually("controllers are served", SOON, || UnixStream::connect(&controller).is_ok()).await;
    let replayer = Replayer::new();
    let restore = start(&rows, &[&replayer]);
    assert_eq!(key(&ovs), "", "there are no flows yet");
    replayer.replay();
    armed(&ovs).await;
    let mut cycles = restore.cycles();
    for _ in 0..2 {
        ovs.kill_vswitchd();
        replayer.lose();
        ovs.start_vswitchd().unwrap();
        assert_eq!(key(&ovs), "true");
        // While it waits, it serves no controllers.
        assert!(UnixStream::connect(&controller).is_err());
        replayer.replay();
        cycles.changed().await.unwrap();
        armed(&ovs).await;
        let served = || UnixStream::connect(&controller).is_ok();
        eventually("controllers are served", SOON, served).await;
    }
    // A connection that was cut is no start: no harm.
    replayer.replay();
    cycles.changed().await.unwrap();
    armed(&ovs).await;
    restore.disarm(&rows).await.unwrap();
    assert_eq!((key(&ovs), mark(&ovs)), (String::new(), String::new()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_died_in_between_is_made_good_at_once() {
    let ovs = switch();
    ovs.vsctl(&["set", "open", ".", "external_ids:osier-restore=armed"]).unwrap();
    let rows = reconciler(&ovs);
    let _restore = start(&rows, &[&Replayer::new()]);
    armed(&ovs).await;
    // So is somebody who clears it, as ovs-ctl does at the end of a restart.
    ovs.vsctl(&["remove", "open", ".", "other_config", "flow-restore-wait"]).unwrap();
    armed(&ovs).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_else_set_is_theirs_to_clear() {
    let ovs = switch();
    ovs.vsctl(&["set", "open", ".", "other_config:flow-restore-wait=true"]).unwrap();
    let rows = reconciler(&ovs);
    rows.wait_synced().await.unwrap();
    let replayer = Replayer::new();
    let restore = start(&rows, &[&replayer]);
    replayer.replay();
    // Something that the keeper surely sees.
    ovs.vsctl(&["set", "open", ".", "external_ids:news=1"]).unwrap();
    rows.settled().await.unwrap();
    assert_eq!((key(&ovs).as_str(), mark(&ovs).as_str()), ("true", ""));
    ovs.vsctl(&["remove", "open", ".", "other_config", "flow-restore-wait"]).unwrap();
    armed(&ovs).await;
    assert_eq!(*restore.cycles().borrow(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_switch_goes_on_when_all_bridges_have_their_flows() {
    let ovs = switch();
    let rows = reconciler(&ovs);
    let (one, two) = (Replayer::new(), Replayer::new());
    let restore = start(&rows, &[&one, &two]);
    one.replay();
    two.replay();
    armed(&ovs).await;
    one.lose();
    two.lose();
    let cycles = *restore.cycles().borrow();
    one.replay();
    ovs.vsctl(&["set", "open", ".", "external_ids:news=1"]).unwrap();
    rows.settled().await.unwrap();
    assert_eq!(*restore.cycles().borrow(), cycles, "one of two is not enough");
    two.replay();
    eventually("the switch goes on", SOON, || *restore.cycles().borrow() == cycles + 1).await;
    armed(&ovs).await;
}
