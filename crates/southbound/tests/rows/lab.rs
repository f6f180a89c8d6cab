//! A switch with a row reconciler on it.

use osier_ovsdb::rows::vswitch::BridgeFailMode;
use osier_ovsdb::session::Remote;
use osier_southbound::rows::{
    Applied, Bridge, ChangeError, Options, Ownership, Plan, RowReconciler, Wait,
};
use osier_testbed::{Lab, Ovs};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::timeout;

pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn switch() -> Ovs {
    let lab = Lab::new().unwrap();
    Ovs::start(&lab.netns("sw").unwrap(), "sw").unwrap()
}

pub(crate) fn ownership() -> Ownership {
    Ownership::new("osier-", "test")
}

pub(crate) fn reconciler(ovs: &Ovs) -> RowReconciler {
    let remotes = vec![Remote::Unix(ovs.db_socket())];
    RowReconciler::connect(remotes, ownership(), Options { paused: false, ..Options::default() })
}

pub(crate) fn bridge(name: &str) -> Bridge {
    Bridge {
        name: name.to_owned(),
        datapath_type: Some("netdev".to_owned()),
        fail_mode: Some(BridgeFailMode::Secure),
        ..Bridge::default()
    }
}

/// Puts a plan and waits for it.
pub(crate) async fn put(
    rows: &RowReconciler,
    owner: &str,
    plan: Plan,
) -> Result<Applied, ChangeError> {
    let settling = rows.put(owner, plan).await?;
    timeout(PATIENCE, settling).await.expect("a change takes less than 30 s")
}

/// Puts a plan and waits until the database has it.
pub(crate) async fn store(rows: &RowReconciler, owner: &str, plan: Plan) {
    let transaction = osier_southbound::rows::Transaction::new().put(owner, plan);
    let settling = rows.transaction(transaction.wait(Wait::Database)).await.unwrap();
    timeout(PATIENCE, settling).await.expect("a change takes less than 30 s").unwrap();
}

pub(crate) fn ports(ovs: &Ovs, bridge: &str) -> BTreeSet<String> {
    let listed = ovs.vsctl(&["--no-wait", "list-ports", bridge]).unwrap();
    listed.lines().map(str::to_owned).collect()
}

/// A column as `ovs-vsctl` shows it.
pub(crate) fn get(ovs: &Ovs, table: &str, row: &str, column: &str) -> String {
    let shown = ovs.vsctl(&["--no-wait", "--if-exists", "get", table, row, column]);
    shown.unwrap().trim().trim_matches('"').to_owned()
}

/// Waits for a condition that `ovs-vsctl` can see, off the runtime's thread.
pub(crate) async fn eventually(what: &str, within: Duration, mut holds: impl FnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + within;
    while !holds() {
        assert!(tokio::time::Instant::now() < deadline, "not within {within:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
