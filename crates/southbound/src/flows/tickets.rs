//! Who waits for which change.

use super::desired::Desired;
use super::error::ChangeError;
use super::ledger::OwnerId;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Where to say what became of a change.
pub(super) type Reply = oneshot::Sender<Result<(), ChangeError>>;

/// Changes that are accepted and not on the switch yet.
#[derive(Debug, Default)]
pub(super) struct Tickets {
    waiting: Vec<(Vec<OwnerId>, Reply)>,
    /// When to look for those that nobody waits for any more.
    prune_at: usize,
}

impl Tickets {
    const PRUNE: usize = 1024;

    pub(super) fn add(&mut self, owners: Vec<OwnerId>, reply: Reply) {
        if self.waiting.len() >= self.prune_at.max(Self::PRUNE) {
            self.waiting.retain(|(_, reply)| !reply.is_closed());
            self.prune_at = self.waiting.len() * 2;
        }
        self.waiting.push((owners, reply));
    }

    /// All that can be sent is on the switch.
    pub(super) fn settle(&mut self, desired: &Desired) {
        for (owners, reply) in self.waiting.drain(..) {
            let outcome = match desired.trouble_of(&owners) {
                None => Ok(()),
                Some(trouble) => Err(ChangeError::Trouble(Arc::clone(trouble))),
            };
            // Who dropped it does not care.
            let _ = reply.send(outcome);
        }
        self.prune_at = 0;
    }
}
