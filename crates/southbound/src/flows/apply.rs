//! Sending what differs.
//!
//! Groups and flows go in one atomic bundle. If the switch refuses one of its messages nothing was
//! done: what that message's owner changed is kept back, and the rest is sent again.

use super::batch::{Batch, Effect, Ref};
use super::driver::{Chain, Driver};
use super::error::Trouble;
use super::item::Item;
use super::ledger::Slot;
use osier_openflow::flow::Flow;
use osier_openflow::message::{
    BundleFlags, ErrorCode, ErrorMessage, FlowRequest, MultipartRequest, ReplyBody,
};
use osier_openflow::session::{
    BatchError, BundleError, Encode, Refusal, RequestError, Session, SessionError,
};
use osier_openflow::wire::{EncodeError, Writer};
use std::sync::Arc;
use thiserror::Error;
use tracing::{debug, warn};

const ATOMIC: BundleFlags = BundleFlags::ATOMIC.union(BundleFlags::ORDERED);
/// After so many refusals in one round the bundle is cut, so that it is not sent whole once for
/// each bad owner.
const PATIENCE: usize = 3;
/// Then it goes in pieces of so many messages.
const PIECE: usize = 256;

/// Why a session was given up.
#[derive(Debug, Error)]
pub enum SyncError {
    /// The session ended.
    #[error("the session ended")]
    Session(#[source] Arc<SessionError>),
    /// A question has no answer.
    #[error("a question to the switch failed")]
    Request(#[from] RequestError),
    /// An answer to something else.
    #[error("the switch answered with a message of type {0}")]
    Answer(u8),
    /// A bundle failed, and none of its messages is to blame.
    #[error("a bundle failed")]
    Bundle(#[source] BundleError),
    /// It is not known what was done.
    #[error("a batch failed")]
    Batch(#[source] BatchError),
    /// The switch does not let us change anything.
    #[error("the switch does not let us change it")]
    Forbidden(#[source] ErrorMessage),
}

/// What is wrong with an item.
enum Fault {
    Refused(ErrorMessage),
    Unsendable(EncodeError),
}

/// One round of sending.
#[derive(Default)]
struct Round {
    refusals: usize,
    /// Whether meters and the bundle behind them are sent one by one.
    apart: bool,
    /// Whether the switch was asked again after a refusal.
    asked_again: bool,
}

impl Driver {
    /// Sends all that differs, until nothing does but what is kept back.
    pub(super) async fn flush(&mut self, session: &Session) -> Result<(), SyncError> {
        let mut round = Round::default();
        while !self.desired.is_settled() {
            let before = self.desired.before_bundle();
            let done = if self.can_go_together(&before, &round) {
                self.send_together(session, &before, &mut round).await?
            } else {
                self.send_each(session, &before, &mut round).await?;
                self.check_places(session).await?;
                let bundle = self.desired.bundle();
                self.send_bundle(session, &bundle, &mut round).await?
            };
            if done {
                let after = self.desired.after_bundle();
                self.send_each(session, &after, &mut round).await?;
            }
        }
        Ok(())
    }

    /// Whether what goes before the bundle are new meters and no more, and the bundle may go at once.
    fn can_go_together(&self, before: &Batch, round: &Round) -> bool {
        let is_new = |item: &Ref| {
            matches!(item, Ref::Meter(_)) && self.desired.effect(*item) == Effect::Adds
        };
        !round.apart
            && !before.refs.is_empty()
            && before.refs.iter().all(is_new)
            && self.desired.suspects().is_empty()
    }

    /// Sends meters and, right behind them, the bundle with what uses them: a switch that is busy with
    /// its ports answers once in some milliseconds, and a pod waits. Tells whether all of it is done;
    /// if not, each is sent by itself, which shows who is to blame.
    async fn send_together(
        &mut self,
        session: &Session,
        meters: &Batch,
        round: &mut Round,
    ) -> Result<bool, SyncError> {
        let bundle = self.desired.bundle();
        // The one that is named first is sent first.
        let (set, sent) = tokio::join!(
            session.batch(self.desired.changes_of(&meters.refs)),
            session.bundle(ATOMIC, self.desired.changes_of(&bundle.refs)),
        );
        let refused = match set {
            Ok(()) => Vec::new(),
            Err(BatchError::Refused(refused)) => refused,
            Err(error) => return Err(SyncError::Batch(error)),
        };
        self.done_but(&meters.refs, &refused);
        let sent = match sent {
            Ok(()) => true,
            Err(BundleError::Message(_) | BundleError::Encode { .. }) => false,
            Err(error) => return Err(SyncError::Bundle(error)),
        };
        if sent {
            self.count(|stats| stats.bundles += 1);
            self.done(bundle.refs);
        }
        round.apart = !sent || !refused.is_empty();
        Ok(!round.apart)
    }

    /// Sends a bundle. Tells whether all of it is done.
    async fn send_bundle(
        &mut self,
        session: &Session,
        bundle: &Batch,
        round: &mut Round,
    ) -> Result<bool, SyncError> {
        let size = if round.refusals < PATIENCE { usize::MAX } else { PIECE };
        for piece in bundle.refs.chunks(size) {
            let (index, fault) = match session.bundle(ATOMIC, self.desired.changes_of(piece)).await
            {
                Ok(()) => {
                    self.count(|stats| stats.bundles += 1);
                    self.done(piece.iter().copied());
                    continue;
                }
                Err(BundleError::Message(refusal)) => {
                    (refusal.index, Fault::Refused(refusal.error))
                }
                Err(BundleError::Encode { index, source }) => (index, Fault::Unsendable(source)),
                Err(error) => return Err(SyncError::Bundle(error)),
            };
            // A switch that refuses what we did not send is left.
            let Some(item) = piece.get(index) else { return Err(SyncError::Answer(1)) };
            self.blame(session, *item, fault, round).await?;
            return Ok(false);
        }
        Ok(true)
    }

    /// Sends what goes in no bundle, one by one.
    async fn send_each(
        &mut self,
        session: &Session,
        batch: &Batch,
        round: &mut Round,
    ) -> Result<(), SyncError> {
        let mut sent = Vec::with_capacity(batch.refs.len());
        let mut changes = Vec::with_capacity(batch.refs.len());
        for item in &batch.refs {
            let Some(change) = self.desired.change(*item) else { continue };
            match change.encode_message(0, &mut Writer::new()) {
                Ok(()) => {
                    sent.push(*item);
                    changes.push(change);
                }
                Err(error) => self.blame(session, *item, Fault::Unsendable(error), round).await?,
            }
        }
        if sent.is_empty() {
            return Ok(());
        }
        let refused = match session.batch(changes).await {
            Ok(()) => Vec::new(),
            Err(BatchError::Refused(refused)) => refused,
            Err(error) => return Err(SyncError::Batch(error)),
        };
        self.done_but(&sent, &refused);
        for refusal in refused {
            if let Some(item) = sent.get(refusal.index) {
                self.blame(session, *item, Fault::Refused(refusal.error), round).await?;
            }
        }
        Ok(())
    }

    /// All that was sent is done, but what was refused.
    fn done_but(&mut self, sent: &[Ref], refused: &[Refusal]) {
        let is_refused = |at: usize| refused.iter().any(|refusal| refusal.index == at);
        let done = sent.iter().enumerate().filter(|(at, _)| !is_refused(*at));
        self.done(done.map(|(_, item)| *item));
    }

    fn done(&mut self, items: impl IntoIterator<Item = Ref>) {
        let (mut added, mut changed, mut deleted) = (0, 0, 0);
        let (mut others_set, mut others_deleted) = (0, 0);
        for item in items {
            match (item, self.desired.effect(item)) {
                (Ref::Flow(_), Effect::Adds) => added += 1,
                (Ref::Flow(_), Effect::Changes) => changed += 1,
                (Ref::Flow(_), Effect::Deletes) => deleted += 1,
                (_, Effect::Deletes) => others_deleted += 1,
                _ => others_set += 1,
            }
            self.desired.done_one(item);
        }
        debug!(added, changed, deleted, others_set, others_deleted, "sent");
        self.count(|stats| {
            stats.flows_added += added;
            stats.flows_changed += changed;
            stats.flows_deleted += deleted;
            stats.others_set += others_set;
            stats.others_deleted += others_deleted;
        });
    }

    /// Keeps back what the owners of a bad item changed.
    async fn blame(
        &mut self,
        session: &Session,
        item: Ref,
        fault: Fault,
        round: &mut Round,
    ) -> Result<(), SyncError> {
        if let Fault::Refused(error) = &fault {
            if error.code == ErrorCode::IS_SECONDARY {
                return Err(SyncError::Forbidden(error.clone()));
            }
            // A switch frees its flows a little later than it says so, and lets no map go that is
            // in use. Maps are looked at again soon.
            if let Ref::OldTlv(slot) = item
                && self.desired.effect(item) == Effect::Deletes
            {
                debug!(peer = session.peer(), %error, "a TLV map stays for now");
                self.desired.tlvs.defer(slot);
                return Ok(());
            }
            // Perhaps somebody else just took away what it needs: then that comes first.
            if !std::mem::replace(&mut round.asked_again, true) {
                self.read_tlvs(session).await?;
                self.read_meters(session).await?;
                self.read_groups(session).await?;
                return Ok(());
            }
        }
        round.refusals += 1;
        let (what, text, owners) = self.desired.describe(item);
        let owner = self.desired.name(&owners);
        let trouble = match fault {
            Fault::Refused(error) => Trouble::Refused { owner, what, text, error },
            Fault::Unsendable(error) => Trouble::Unsendable { owner, what, text, error },
        };
        warn!(peer = session.peer(), trouble = %Chain(&trouble), "kept back");
        self.desired.refuse(&owners, &Arc::new(trouble));
        self.count(|stats| stats.refused += 1);
        Ok(())
    }

    /// Looks whether somebody else's flow is in the place of one that is to be added: adding it
    /// would replace that.
    async fn check_places(&mut self, session: &Session) -> Result<(), SyncError> {
        for (slot, hash) in self.desired.suspects() {
            let Some(entry) = self.desired.flows.get(slot) else { continue };
            let wanted = &entry.item;
            let (table, matching) = (wanted.table, wanted.matching.clone());
            let priority = wanted.priority;
            let request = FlowRequest { table, matching, ..FlowRequest::default() };
            let mut answer = session.multipart(MultipartRequest::FlowDesc(request)).await?;
            let mut found = None;
            while let Some(part) = answer.next().await {
                if let ReplyBody::FlowDesc(descs) = part?.body {
                    let mut flows = descs.into_iter().map(|desc| desc.flow);
                    let is_in_place =
                        |flow: &Flow| flow.priority == priority && flow.key_hash() == hash;
                    found = found.or_else(|| flows.find(is_in_place));
                }
            }
            if self.desired.resolve(slot, hash, found.as_ref()) {
                self.count(|stats| stats.conflicts += 1);
            }
        }
        Ok(())
    }
}

impl super::Desired {
    /// Flows that are to be added where somebody else's may be, with the hash of their key.
    pub(super) fn suspects(&self) -> Vec<(Slot, u64)> {
        if self.others.is_empty() {
            return Vec::new();
        }
        let added = self.flows.pending().filter(|(_, e)| e.is_wanted() && !e.is_present());
        let hashed = added.map(|(slot, entry)| (slot, entry.item.key_hash()));
        hashed.filter(|(_, hash)| self.others.contains_key(hash)).collect()
    }

    /// This is in the place of a suspect. Tells whether they are in conflict.
    pub(super) fn resolve(&mut self, slot: Slot, hash: u64, found: Option<&Flow>) -> bool {
        let foreign = found.filter(|flow| !self.is_ours(flow));
        match foreign {
            Some(flow) => self.conflict(slot, flow),
            None => drop(self.others.remove(&hash)),
        }
        foreign.is_some()
    }
}
