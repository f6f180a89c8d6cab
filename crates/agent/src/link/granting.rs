//! Ports of networks that span nodes: asked for, and given back until that has succeeded.
//!
//! The journal knows a port before the controller does, and forgets it after. So nothing leaks,
//! and no address is used that was given back: not by an ADD that meets the DEL before it, not by
//! a view that does not know of it yet.

use super::journal::{Journal, Owed};
use crate::controller::{Answer, AskError, Controller, PortRequest};
use crate::desired::Giver;
use crate::ports::Ports;
use crate::view::Said;
use osier_fleet::client::ControllerClient;
use osier_fleet::{AttachError, AttachRequest};
use osier_model::{NodeName, Port, PortKey};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, RwLock};
use tracing::{debug, warn};

/// How long until the next try to give something back.
const AGAIN: Duration = Duration::from_secs(2);

/// See the module.
#[derive(Debug)]
pub(super) struct Grants {
    client: ControllerClient,
    node: NodeName,
    journal: Mutex<Journal>,
    /// Giving back and asking never overlap.
    turn: RwLock<()>,
    news: Notify,
    ports: OnceLock<Ports>,
    epoch: AtomicU64,
    revision: AtomicU64,
    /// Counts histories of the model: each may not know what the one before knew.
    histories: AtomicU64,
    /// The history that was told of all that is used; 0 if none was.
    affirmed: AtomicU64,
}

/// What is not kept is given back.
struct Asked<'a> {
    grants: &'a Grants,
    key: &'a PortKey,
    kept: bool,
}

// === impl Grants ===

impl Grants {
    pub(super) fn new(client: ControllerClient, node: NodeName, journal: Journal) -> Self {
        Self {
            client,
            node,
            journal: Mutex::new(journal),
            turn: RwLock::default(),
            news: Notify::new(),
            ports: OnceLock::new(),
            epoch: AtomicU64::new(0),
            revision: AtomicU64::new(0),
            histories: AtomicU64::new(0),
            affirmed: AtomicU64::new(0),
        }
    }

    /// The ports that live are known: what was asked for and is not among them goes back.
    pub(super) fn settle(&self, ports: &Ports) {
        let given: BTreeSet<PortKey> = given(ports).into_iter().map(|port| port.key).collect();
        let mut journal = self.journal();
        for key in journal.with(|owed| owed == Owed::Held) {
            if !given.contains(&key) {
                note(journal.set(&key, Some(Owed::Back)));
            }
        }
        for key in given.iter().filter(|key| journal.get(key).is_none()).collect::<Vec<_>>() {
            note(journal.set(key, Some(Owed::Held)));
        }
        drop(journal);
        let _ = self.ports.set(ports.clone());
        self.news.notify_one();
    }

    /// The view is this one now.
    pub(super) fn heard(&self, epoch: u64, revision: u64) {
        let before = self.revision.swap(revision, Ordering::SeqCst);
        if self.epoch.swap(epoch, Ordering::SeqCst) != epoch || revision < before {
            // Another history: what it does not know of our ports it shall hear.
            self.histories.fetch_add(1, Ordering::SeqCst);
            self.news.notify_one();
        }
        let mut journal = self.journal();
        for key in journal.with(|owed| matches!(owed, Owed::Gone(at) if at <= revision)) {
            note(journal.set(&key, None));
        }
    }

    /// The history of the model that was told of all that is used.
    pub(super) fn affirmed(&self) -> Option<u64> {
        Some(self.affirmed.load(Ordering::SeqCst)).filter(|epoch| *epoch != 0)
    }

    /// Gives back what is owed, for ever.
    pub(super) async fn run(&self) {
        // Also at the first history: whoever starts may meet a store that was restored meanwhile.
        let mut affirmed = 0;
        loop {
            let history = self.histories.load(Ordering::SeqCst);
            let epoch = self.epoch.load(Ordering::SeqCst);
            if history != affirmed && self.affirm().await {
                affirmed = history;
                self.affirmed.store(epoch, Ordering::SeqCst);
            }
            let mut later = history != affirmed;
            let back = self.journal().with(|owed| owed == Owed::Back);
            for key in back {
                let _turn = self.turn.write().await;
                if self.journal().get(&key) != Some(Owed::Back) {
                    continue;
                }
                let generation = self.journal().generation(&key);
                match self.client.detach(&key, generation).await {
                    Ok(revision) => note(self.journal().set(&key, Some(Owed::Gone(revision)))),
                    Err(error) => {
                        debug!(port = %key, %error, "not given back yet");
                        later = true;
                        break;
                    }
                }
            }
            match later {
                true => tokio::time::sleep(AGAIN).await,
                false => self.news.notified().await,
            }
        }
    }

    /// Asks for all that is used, as it is, and gives back what is not: a store that came from a
    /// backup may not know of the one, and still have the other.
    async fn affirm(&self) -> bool {
        let Some(ports) = self.ports.get() else { return false };
        self.disown(ports).await;
        for port in given(ports) {
            let request = AttachRequest {
                key: port.key.clone(),
                network: port.network.clone(),
                mac: Some(port.mac),
                addresses: port.addresses.clone(),
                generation: self.journal().generation(&port.key),
            };
            match self.client.attach(&request).await {
                Ok(found) if found.addresses == port.addresses => {}
                Ok(found) => {
                    warn!(port = %port.key, has = ?port.addresses, said = ?found.addresses,
                    "the controller has other addresses for it: make its pod anew");
                }
                Err(AttachError::Later(_)) => return false,
                Err(AttachError::Refused(why)) => {
                    warn!(port = %port.key, why, "the controller does not know it: make its pod anew");
                }
            }
        }
        true
    }

    /// What the view has of this node, and the node has not, goes back. What a user made for a pod
    /// that is yet to come stays all the same: it is the controller that knows.
    async fn disown(&self, ports: &Ports) {
        let said = |said: &Said| -> Vec<PortKey> {
            let own = said.view().ports().values().filter(|port| port.node == self.node);
            own.map(|port| port.key.clone()).collect()
        };
        let said = ports.switch().with_said(said).await;
        let _turn = self.turn.write().await;
        let living: BTreeSet<PortKey> =
            ports.living().iter().map(|port| port.key.clone()).collect();
        let mut journal = self.journal();
        for key in said.into_iter().filter(|key| !living.contains(key)) {
            if !matches!(journal.get(&key), Some(Owed::Held | Owed::Back)) {
                note(journal.set(&key, Some(Owed::Back)));
            }
        }
    }

    async fn ask(&self, request: PortRequest) -> Result<Port, AskError> {
        let PortRequest { key, network, mac, addresses, .. } = request;
        let _turn = self.turn.read().await;
        let unkept = |error| AskError::Later(format!("the agent's disk: {error}"));
        self.journal().set(&key, Some(Owed::Held)).map_err(unkept)?;
        let mut asked = Asked { grants: self, key: &key, kept: false };
        let generation = self.journal().generation(&key);
        let request = AttachRequest { key: key.clone(), network, mac, addresses, generation };
        match self.client.attach(&request).await {
            Ok(port) if port.node == self.node && port.key == key => {
                asked.kept = true;
                Ok(port)
            }
            Ok(port) => {
                Err(AskError::Refused(format!("it gave port {} of node {}", port.key, port.node)))
            }
            Err(AttachError::Later(why)) => Err(AskError::Later(why)),
            Err(AttachError::Refused(why)) => Err(AskError::Refused(why)),
        }
    }

    fn give_back(&self, key: &PortKey) {
        note(self.journal().set(key, Some(Owed::Back)));
        self.news.notify_one();
    }

    fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if !self.kept {
            self.grants.give_back(self.key);
        }
    }
}

impl Controller for Grants {
    fn grant(&self, request: PortRequest) -> Answer<'_, Result<Port, AskError>> {
        Box::pin(self.ask(request))
    }

    fn release<'a>(&'a self, _: &'a NodeName, key: &'a PortKey) -> Answer<'a, ()> {
        self.give_back(key);
        Box::pin(std::future::ready(()))
    }

    fn knows_all(&self) -> bool {
        true
    }

    fn gave(&self, key: &PortKey) -> bool {
        match self.journal().get(key) {
            None => false,
            Some(Owed::Gone(at)) => self.revision.load(Ordering::SeqCst) < at,
            Some(Owed::Held | Owed::Back) => true,
        }
    }
}

/// Ports of the node whose addresses the controller gave.
fn given(ports: &Ports) -> Vec<Port> {
    let given = ports.living().into_iter().filter(|port| port.giver == Giver::Controller);
    given.map(|port| ports.object(&port)).collect()
}

fn note(written: std::io::Result<()>) {
    if let Err(error) = written {
        warn!(%error, "what the controller gave to this node is not written down");
    }
}
