//! `flow-restore-wait`: a switch that starts must not forward before its flows are back.
//!
//! `ovs-vswitchd` reads this key of `Open_vSwitch:other_config` when it starts, and from then on
//! until it is not `true` for once; meanwhile it takes flows on the bridges' management sockets and
//! forwards nothing new. So the key is kept set (*armed*) at all times once flows were brought to
//! the switch. After each replay it is cleared, and armed again as soon as the switch has seen
//! that; a switch that was not waiting does not care.
//!
//! A mark in `external_ids` says that the key is ours. So a process that died in between is made
//! good by the next one, at its start. Without the mark a key that is set is somebody else's, such
//! as `ovs-ctl` while it restarts the switch: it is left to them, and armed by us when they have
//! cleared it. If somebody clears ours, it is armed again when the switch has caught up, so that
//! they get what they want.

use super::driver::{FLOW_RESTORE_WAIT, restore_mark};
use super::handle::RowReconciler;
use super::status::Root;
use crate::flows::FlowReconciler;
use osier_ovsdb::error::Outcome;
use osier_ovsdb::op::Mutator;
use osier_ovsdb::session::TransactError;
use osier_ovsdb::{Atom, Mutation, Operation, Transaction, Value};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tracing::{debug, info, warn};

/// Brings flows back to a bridge.
pub trait Replays: Send + Sync + 'static {
    /// The number of the last connection on which all flows were brought back.
    fn replayed(&self) -> watch::Receiver<u64>;

    /// Whether that is the connection there is now.
    fn is_current(&self) -> bool;
}

impl Replays for FlowReconciler {
    fn replayed(&self) -> watch::Receiver<u64> {
        self.replayed()
    }

    fn is_current(&self) -> bool {
        let status = self.status();
        status.connected && *self.replayed().borrow() == status.connection
    }
}

/// How patient restoring is.
#[derive(Debug, Clone)]
pub struct RestoreOptions {
    /// How long the first bridge with its flows waits for the others.
    pub bridges: Duration,
    /// How long the switch may take to see a change.
    pub switch: Duration,
}

impl Default for RestoreOptions {
    fn default() -> Self {
        Self { bridges: Duration::from_secs(10), switch: Duration::from_secs(5) }
    }
}

/// Keeps `flow-restore-wait` armed. Ends when dropped, and leaves it armed.
#[derive(Debug)]
pub struct Restore {
    task: JoinHandle<()>,
    cycles: watch::Receiver<u64>,
}

struct Keeper {
    rows: RowReconciler,
    root: watch::Receiver<Root>,
    bridges: Vec<Box<dyn Replays>>,
    news: watch::Receiver<()>,
    options: RestoreOptions,
    /// The replays after which it was cleared last.
    done: Vec<u64>,
    /// Since when a bridge has its flows and others do not.
    since: Option<Instant>,
    /// Whether it was told that the key is somebody else's.
    told: bool,
    cycles: watch::Sender<u64>,
}

/// What to do about the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Nothing, until something changes.
    Rest,
    /// Nothing, unless nothing changes for so long.
    Linger(Duration),
    /// It is somebody else's.
    Leave,
    /// Set it.
    Arm,
    /// Clear it, and set it when the switch has seen that.
    Cycle,
}

// === impl Restore ===

impl Restore {
    /// Starts to keep the key for bridges to which these bring flows.
    pub fn start(
        rows: &RowReconciler,
        bridges: Vec<Box<dyn Replays>>,
        options: RestoreOptions,
    ) -> Self {
        let (cycles_sender, cycles) = watch::channel(0);
        let (news_sender, news) = watch::channel(());
        for bridge in &bridges {
            tokio::spawn(pass_on(bridge.replayed(), news_sender.clone()));
        }
        let keeper = Keeper {
            root: rows.root(),
            rows: rows.clone(),
            done: vec![0; bridges.len()],
            bridges,
            news,
            options,
            since: None,
            told: false,
            cycles: cycles_sender,
        };
        Self { task: tokio::spawn(keeper.run()), cycles }
    }

    /// Counts how often a replay let the switch go on.
    pub fn cycles(&self) -> watch::Receiver<u64> {
        self.cycles.clone()
    }

    /// Ends, and clears the key for good: there will be nobody to bring flows back.
    pub async fn disarm(mut self, rows: &RowReconciler) -> Result<(), TransactError> {
        self.task.abort();
        // It ends now: nothing that it sends may come behind what we send.
        let _ = (&mut self.task).await;
        let mark = restore_mark(rows.ownership());
        let mut change = clear();
        change.push(Mutation::delete("external_ids", Value::set([Atom::from(mark)])));
        change.push(bump());
        transact(rows, change, Duration::from_secs(30)).await.map(drop)
    }
}

impl Drop for Restore {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Tells of replays, until nobody listens.
async fn pass_on(mut replayed: watch::Receiver<u64>, news: watch::Sender<()>) {
    while tokio::select! { change = replayed.changed() => change.is_ok(), () = news.closed() => false }
    {
        news.send_replace(());
    }
}

// === impl Keeper ===

impl Keeper {
    async fn run(mut self) {
        loop {
            self.root.mark_unchanged();
            self.news.mark_unchanged();
            let step = self.decide();
            let mut linger = None;
            match step {
                Step::Rest => {}
                Step::Linger(time) => linger = Some(time),
                Step::Leave => self.leave(),
                Step::Arm => self.arm().await,
                Step::Cycle => self.cycle().await,
            }
            let changed = async {
                tokio::select! {
                    changed = self.root.changed() => changed.is_ok(),
                    changed = self.news.changed() => changed.is_ok(),
                }
            };
            let going = match linger {
                Some(time) => timeout(time, changed).await.unwrap_or(true),
                None => changed.await,
            };
            if !going {
                return;
            }
        }
    }

    fn decide(&mut self) -> Step {
        let root = self.root.borrow().clone();
        if !root.known {
            return Step::Rest;
        }
        let replayed: Vec<_> = self.bridges.iter().map(|b| *b.replayed().borrow()).collect();
        let fresh = !replayed.is_empty() && replayed != self.done;
        if !fresh {
            self.since = None;
            return keep(&root, self.options.switch);
        }
        let waited = self.since.get_or_insert_with(Instant::now).elapsed();
        let all = self.bridges.iter().all(|bridge| bridge.is_current());
        if !all && waited < self.options.bridges {
            return Step::Linger(self.options.bridges.saturating_sub(waited));
        }
        if !all {
            warn!("not all bridges have their flows back; letting the switch go on");
        }
        if root.flow_restore_wait.is_some() && !root.restore_mark {
            return Step::Leave;
        }
        self.done = replayed;
        self.since = None;
        if root.flow_restore_wait.is_some() { Step::Cycle } else { Step::Arm }
    }

    fn leave(&mut self) {
        if !std::mem::replace(&mut self.told, true) {
            info!("flow-restore-wait was set by somebody else, and is left to them");
        }
    }

    /// Sets the key, and waits to see it.
    async fn arm(&mut self) {
        let mark = restore_mark(self.rows.ownership());
        let mut change = clear();
        change.push(Mutation::insert("other_config", pair(FLOW_RESTORE_WAIT, "true")));
        change.push(Mutation::delete("external_ids", Value::set([Atom::from(mark.as_str())])));
        change.push(Mutation::insert("external_ids", pair(&mark, "armed")));
        match transact(&self.rows, change, self.options.switch).await {
            Ok(_) => {
                debug!("flow-restore-wait is set");
                let armed = self.root.wait_for(|root| root.flow_restore_wait.is_some());
                let _ = timeout(self.options.switch, armed).await;
            }
            Err(error) => self.failed(&error).await,
        }
    }

    /// Lets the switch go on, and sets the key again when it does.
    async fn cycle(&mut self) {
        let mut change = clear();
        change.push(bump());
        match transact(&self.rows, change, self.options.switch).await {
            Ok(target) => {
                let seen = self.root.wait_for(|root| root.cur_cfg >= target);
                if timeout(self.options.switch, seen).await.is_err() {
                    // It is not running, or hangs: when it starts, there will be a replay.
                    warn!("the switch did not see that flow-restore-wait is cleared");
                } else {
                    debug!("flows are back, the switch goes on");
                    self.cycles.send_modify(|cycles| *cycles += 1);
                }
                self.arm().await;
            }
            Err(error) => {
                // Whether it was cleared is not known: again, with the next news of the database.
                self.done = vec![0; self.bridges.len()];
                self.failed(&error).await;
            }
        }
    }

    async fn failed(&self, error: &TransactError) {
        warn!(%error, "flow-restore-wait could not be changed");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// What to do about the key while there is no replay.
fn keep(root: &Root, patience: Duration) -> Step {
    let armed = root.flow_restore_wait.as_deref() == Some("true");
    match (root.restore_mark, armed) {
        // Never armed by us, or as it should be.
        (false, _) | (true, true) => Step::Rest,
        (true, false) if root.cur_cfg >= root.next_cfg => Step::Arm,
        (true, false) => Step::Linger(patience),
    }
}

fn clear() -> Vec<Mutation> {
    vec![Mutation::delete("other_config", Value::set([Atom::from(FLOW_RESTORE_WAIT)]))]
}

fn bump() -> Mutation {
    Mutation { column: "next_cfg".into(), mutator: Mutator::Add, value: 1.into() }
}

fn pair(key: &str, value: &str) -> Value {
    Value::map([(key.into(), value.into())])
}

/// Changes the switch's row; gives the number of the configuration.
async fn transact(
    rows: &RowReconciler,
    mutations: Vec<Mutation>,
    patience: Duration,
) -> Result<i64, TransactError> {
    let mut transaction = Transaction::new("change flow-restore-wait");
    let (table, conditions) = (|| "Open_vSwitch".into(), Vec::new);
    transaction.push(Operation::Mutate { table: table(), conditions: conditions(), mutations });
    let columns = Some(vec!["next_cfg".into()]);
    transaction.push(Operation::Select { table: table(), conditions: conditions(), columns });
    let outcomes = rows.session().transact(&transaction, patience).await?;
    let number = outcomes.into_iter().find_map(|outcome| match outcome {
        Outcome::Rows(rows) => match rows.first()?.first()?.1.atoms() {
            [Atom::Integer(number)] => Some(*number),
            _ => None,
        },
        _ => None,
    });
    Ok(number.unwrap_or_default())
}
