//! Owners who keep changing what they want.

use crate::chance::Chance;
use osier_southbound::flows::{self, FlowReconciler};
use osier_southbound::rows::{self, Port, RowReconciler};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::oneshot::{self, error::TryRecvError};
use tokio::task::JoinHandle;

pub(crate) const OWNERS: usize = 5;

/// What the owners want now: how many ports and flows each.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wanted {
    pub(crate) ports: BTreeMap<usize, usize>,
    pub(crate) flows: BTreeMap<usize, usize>,
}

/// Goes on until stopped.
pub(crate) struct Churn {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Churn {
    pub(crate) fn start(
        rows: Option<RowReconciler>,
        flows: FlowReconciler,
        wanted: Arc<Mutex<Wanted>>,
        mut chance: Chance,
    ) -> Self {
        let (stop, mut stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            while stopped.try_recv() == Err(TryRecvError::Empty) {
                let owner = chance.below(OWNERS);
                if let Some(rows) = &rows {
                    let count = chance.below(4);
                    wanted.lock().unwrap().ports.insert(owner, count);
                    drop(rows.put(format!("ports {owner}"), ports(owner, count)).await.unwrap());
                }
                let count = chance.below(200);
                wanted.lock().unwrap().flows.insert(owner, count);
                drop(flows.put(format!("flows {owner}"), drops(owner, count)).await.unwrap());
                chance.pause(Duration::from_millis(20)).await;
            }
        });
        Self { stop, task }
    }

    pub(crate) async fn stop(self) {
        drop(self.stop);
        self.task.await.unwrap();
    }
}

impl Wanted {
    pub(crate) fn port_names(&self) -> BTreeSet<String> {
        let ports =
            self.ports.iter().flat_map(|(owner, count)| (0..*count).map(|n| name(*owner, n)));
        ports.collect()
    }

    /// The values of `reg1` in table 9.
    pub(crate) fn registers(&self) -> BTreeSet<usize> {
        let flows = self.flows.iter();
        flows.flat_map(|(owner, count)| (0..*count).map(|n| register(*owner, n))).collect()
    }
}

fn name(owner: usize, number: usize) -> String {
    format!("c{owner}n{number}")
}

fn register(owner: usize, number: usize) -> usize {
    owner * 1000 + number + 1
}

fn ports(owner: usize, count: usize) -> rows::Plan {
    let ports = (0..count).map(|n| Port::internal(crate::rig::BRIDGE, name(owner, n)));
    rows::Plan { ports: ports.collect(), ..rows::Plan::default() }
}

fn drops(owner: usize, count: usize) -> flows::Plan {
    flows::Plan::flows((0..count).map(|n| {
        let register = register(owner, n);
        let text = format!("cookie=0xa500000000000002,table=9,ip,reg1={register},actions=drop");
        text.parse().unwrap()
    }))
}
