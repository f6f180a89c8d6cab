//! News of ports that come to a switch, as early as they can be had.
//!
//! The database tells of a port's number when `ovs-vswitchd` has done all else, written that down,
//! and the database has passed it on. The switch itself tells over OpenFlow, in the middle of that
//! work. A barrier behind it is answered when the port carries packets: `ovs-vswitchd` answers its
//! connections only behind the step that lets its datapath know of new ports.
//!
//! A session of its own, which listens for nothing else: waiting for flows never delays the news.
//! What is missed while there is none comes by the database.

use crate::SWITCH_CONFIG;
use crate::flows::SessionSource;
use osier_openflow::message::{AsyncConfig, AsyncMasks, Message};
use osier_openflow::port::{PortReason, PortStatus};
use osier_openflow::port_no::PortNo;
use osier_openflow::session::{BatchError, Session};
use rustc_hash::FxHashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, ready};
use thiserror::Error;
use tokio::sync::oneshot;
use tracing::debug;

/// The bit of ports that come (`OFPPR_ADD`, 7.4.3) in masks of reasons.
const ADDED: u32 = 1;

/// Tells of ports that come; a cheap handle. When the last one goes, nobody listens any more.
#[derive(Debug, Clone)]
pub struct Arrivals(Arc<Waiting>);

/// A port that is about to come: its number, when it is there and carries packets. Never, if it was
/// there before, or if somebody asked for one of its name later on.
#[derive(Debug)]
#[must_use = "it tells of the port"]
pub struct Arrival {
    name: String,
    /// `None` when nobody will tell any more.
    told: Option<oneshot::Receiver<PortNo>>,
    waiting: Weak<Waiting>,
}

/// Who waits, by the port's name.
#[derive(Debug, Default)]
struct Waiting(Mutex<FxHashMap<String, oneshot::Sender<PortNo>>>);

#[derive(Debug, Error)]
#[error("the switch does not let us listen")]
struct ListenError(#[from] BatchError);

// === impl Arrivals ===

impl Arrivals {
    /// Listens to a switch.
    pub fn start(sessions: impl SessionSource) -> Self {
        let waiting = Arc::new(Waiting::default());
        tokio::spawn(listen(sessions, Arc::downgrade(&waiting)));
        Self(waiting)
    }

    /// Waits for a port of this name. To be asked before the port is made.
    pub fn expect(&self, name: &str) -> Arrival {
        let (tell, told) = oneshot::channel();
        self.0.lock().insert(name.to_owned(), tell);
        Arrival { name: name.to_owned(), told: Some(told), waiting: Arc::downgrade(&self.0) }
    }
}

// === impl Arrival ===

impl Future for Arrival {
    type Output = PortNo;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<PortNo> {
        let Some(told) = &mut self.told else { return Poll::Pending };
        if let Ok(number) = ready!(Pin::new(told).poll(cx)) {
            return Poll::Ready(number);
        }
        self.told = None;
        Poll::Pending
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        self.told = None;
        if let Some(waiting) = self.waiting.upgrade() {
            let mut waiting = waiting.lock();
            // Another one of its name may wait by now.
            if waiting.get(&self.name).is_some_and(oneshot::Sender::is_closed) {
                waiting.remove(&self.name);
            }
        }
    }
}

// === impl Waiting ===

impl Waiting {
    fn lock(&self) -> MutexGuard<'_, FxHashMap<String, oneshot::Sender<PortNo>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn listen(mut sessions: impl SessionSource, waiting: Weak<Waiting>) {
    while let Some((session, mut events)) = sessions.next().await {
        match subscribe(&session).await {
            Ok(()) => {
                while let Some(event) = events.recv().await {
                    let Some(waiting) = waiting.upgrade() else { return };
                    if let Message::PortStatus(status) = event.message {
                        came(&session, &status, &waiting);
                    }
                }
            }
            Err(error) => debug!(peer = session.peer(), %error, "ports come without news"),
        }
        session.close().await;
        if waiting.strong_count() == 0 {
            return;
        }
    }
}

fn came(session: &Session, status: &PortStatus, waiting: &Waiting) {
    if status.reason != PortReason::Add {
        return;
    }
    let Some(tell) = waiting.lock().remove(&status.port.name) else { return };
    let (session, number) = (session.clone(), status.port.number);
    // Others that come meanwhile need not wait for this one's barrier.
    tokio::spawn(async move {
        if session.barrier().await.is_ok() {
            // Who does not care any more has gone.
            let _ = tell.send(number);
        }
    });
}

/// Asks for news of ports, and of nothing else.
async fn subscribe(session: &Session) -> Result<(), ListenError> {
    let masks = AsyncMasks {
        packet_in: Some(0),
        port_status: Some(ADDED),
        flow_removed: Some(0),
        role_status: None,
        table_status: Some(0),
        request_forward: Some(0),
    };
    let wanted = [
        Message::SetAsync(AsyncConfig { secondary: masks, primary: masks }),
        Message::SetConfig(SWITCH_CONFIG),
    ];
    Ok(session.batch(wanted).await?)
}
