//! Wires of pods that are made at the same time, made together.
//!
//! Whenever an interface of the machine or a row changes, `ovs-vswitchd` looks at all of its ports.
//! Pods that come one after the other would make it do so for each of them, and each would wait for
//! all the others. So whoever comes while a turn is under way waits for the next one, which is for
//! all who wait: their wires first, then their rows in one go.
//!
//! A pod that comes alone has a turn of its own, the other way round: its row first. See
//! [`Switch::add_rows`](crate::switch::Switch::add_rows).

use super::make::make_veth;
use super::{PortError, Ports};
use crate::desired::PodPort;
use crate::netlink::Namespace;
use crate::switch::Asked;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedMutexGuard, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout_at;

/// How long a turn waits for the switch. A port that the switch cannot attach holds up nobody for
/// longer.
const TURN: Duration = Duration::from_millis(200);

/// Who has the turn, and who waits for the next.
#[derive(Debug, Default)]
pub(super) struct Turns {
    waiting: Mutex<Vec<Job>>,
    turn: Arc<tokio::sync::Mutex<()>>,
}

/// A port whose wire and row are to be made.
#[derive(Debug)]
struct Job {
    port: Arc<PodPort>,
    namespace: Namespace,
    wired: oneshot::Sender<Result<(), PortError>>,
    attached: Attached,
}

/// Who waits for the port to be attached.
#[derive(Debug)]
struct Attached {
    tell: oneshot::Sender<Result<u16, PortError>>,
    /// Goes when no more will be done for the port.
    _over: oneshot::Sender<()>,
}

/// What a turn brings, one after the other. Dropping the first two calls the turn off, as far as it
/// has not come; the last tells when that is so.
#[derive(Debug)]
pub(super) struct Promise {
    /// The wire is there.
    pub(super) wired: oneshot::Receiver<Result<(), PortError>>,
    /// The switch has attached it: its number there.
    pub(super) attached: oneshot::Receiver<Result<u16, PortError>>,
    /// Nothing more will be made.
    pub(super) over: oneshot::Receiver<()>,
}

impl Ports {
    /// Asks for a port's wire and row, which the next turn makes.
    pub(super) fn wire(&self, port: &Arc<PodPort>, namespace: &Namespace) -> Promise {
        let (wired, wired_receiver) = oneshot::channel();
        let (tell, attached_receiver) = oneshot::channel();
        let (over, over_receiver) = oneshot::channel();
        let attached = Attached { tell, _over: over };
        let (port, namespace) = (Arc::clone(port), namespace.clone());
        let turns = &self.0.turns;
        let mut waiting = turns.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push(Job { port, namespace, wired, attached });
        if waiting.len() == 1 {
            let ports = self.clone();
            tokio::spawn(async move {
                let turn = Arc::clone(&ports.0.turns.turn).lock_owned().await;
                ports.take_turn(turn).await;
            });
        }
        Promise { wired: wired_receiver, attached: attached_receiver, over: over_receiver }
    }

    async fn take_turn(&self, turn: OwnedMutexGuard<()>) {
        let jobs = {
            let waiting = &self.0.turns.waiting;
            std::mem::take(&mut *waiting.lock().unwrap_or_else(PoisonError::into_inner))
        };
        let jobs: Vec<Job> = jobs.into_iter().filter(|job| !job.wired.is_closed()).collect();
        let end = Instant::now() + TURN;
        let under_way = match <[Job; 1]>::try_from(jobs) {
            Ok([job]) => self.one(job).await.into_iter().collect(),
            Err(jobs) => self.many(jobs).await,
        };
        for attaching in under_way {
            // One that is late goes on without us.
            let _ = timeout_at(end.into(), attaching).await;
        }
        drop(turn);
    }

    async fn one(&self, job: Job) -> Option<JoinHandle<()>> {
        let Job { port, namespace, wired, attached } = job;
        let asked = match self.0.switch.add_rows(&port).await {
            Ok(asked) => asked,
            Err(error) => {
                // Who asked may be gone.
                let _ = wired.send(Err(error.into()));
                return None;
            }
        };
        let made = self.stage("veth", make_veth(&port, &namespace)).await;
        let failed = made.is_err();
        let _ = wired.send(made);
        (!failed).then(|| self.attaching(port, asked, attached))
    }

    async fn many(&self, jobs: Vec<Job>) -> Vec<JoinHandle<()>> {
        let mut wires = Vec::with_capacity(jobs.len());
        for job in jobs {
            let Job { port, namespace, wired, attached } = job;
            let made = self.stage("veth", make_veth(&port, &namespace)).await;
            match made {
                Ok(()) => wires.push((port, wired, attached)),
                Err(error) => drop(wired.send(Err(error))),
            }
        }
        let mut under_way = Vec::with_capacity(wires.len());
        for (port, wired, attached) in wires {
            match self.0.switch.add_rows(&port).await {
                Ok(asked) => {
                    let _ = wired.send(Ok(()));
                    under_way.push(self.attaching(port, asked, attached));
                }
                Err(error) => drop(wired.send(Err(error.into()))),
            }
        }
        under_way
    }

    fn attaching(
        &self,
        port: Arc<PodPort>,
        asked: Asked,
        mut attached: Attached,
    ) -> JoinHandle<()> {
        let ports = self.clone();
        tokio::spawn(async move {
            let work = async { Ok(ports.0.switch.attached(&port, asked).await?) };
            tokio::select! {
                biased;
                () = attached.tell.closed() => {}
                // Who asked may be gone.
                result = ports.stage("rows", work) => drop(attached.tell.send(result)),
            }
        })
    }
}
