//! Bundles: many messages that the switch does all, in order, or not at all.
//!
//! A switch goes on collecting after it has refused to add a message, and would commit the others.
//! So the bundle is closed before it is committed: all errors come before the answer to that, and
//! only a bundle without any is committed.

use super::burst::{Burst, Encode, PutError, framed};
use super::error::{BundleError, Refusal, RequestError};
use super::handle::{Posed, Session};
use crate::message::{BundleControl, BundleFlags, BundleStep, Message, kind, put_prefix};
use crate::wire::{EncodeError, Writer};

/// A bundle that is open at the switch; discarded there unless it is committed.
#[derive(Debug)]
struct OpenBundle {
    session: Session,
    bundle_id: u32,
    flags: BundleFlags,
    open: bool,
}

impl Session {
    /// Sends messages as one bundle and commits it.
    pub async fn bundle<M: Encode>(
        &self,
        flags: BundleFlags,
        messages: impl IntoIterator<Item = M>,
    ) -> Result<(), BundleError> {
        let (bundle, opened) = OpenBundle::open(self, flags).await.map_err(BundleError::Prepare)?;
        let mut burst = Burst::new(self.clone());
        match bundle.fill(opened, &mut burst, messages).await {
            Ok(()) => bundle.commit(&burst).await,
            Err(error) => {
                bundle.discard().await;
                Err(error)
            }
        }
    }
}

fn first(burst: &Burst) -> Option<Refusal> {
    burst.collector().take().into_iter().next()
}

// === impl OpenBundle ===

impl OpenBundle {
    /// Asks for a bundle. What goes into it need not wait for the answer.
    async fn open(session: &Session, flags: BundleFlags) -> Result<(Self, Posed), RequestError> {
        let (session, bundle_id) = (session.clone(), session.next_bundle());
        let mut bundle = Self { session, bundle_id, flags, open: false };
        let opened = bundle.session.pose(&bundle.control(BundleStep::OpenRequest)).await?;
        bundle.open = true;
        Ok((bundle, opened))
    }

    /// Adds all messages and closes the bundle, in one go; only then answers are waited for.
    async fn fill<M: Encode>(
        &self,
        opened: Posed,
        burst: &mut Burst,
        messages: impl IntoIterator<Item = M>,
    ) -> Result<(), BundleError> {
        for message in messages {
            match burst.put(|xid, w| self.encode_add(&message, xid, w)).await {
                Ok(()) => {}
                Err(PutError::Encode(source)) => {
                    return Err(BundleError::Encode { index: burst.len(), source });
                }
                Err(PutError::Session(error)) => return Err(BundleError::Prepare(error)),
            }
            // The lock is not contended, but asking for it with each message still costs.
            if burst.len().is_multiple_of(1024) && !burst.collector().is_empty() {
                break;
            }
        }
        burst.flush().await.map_err(BundleError::Prepare)?;
        let closed = self.step(BundleStep::CloseRequest).await;
        opened.answer().await.map_err(BundleError::Prepare)?;
        match first(burst) {
            Some(refusal) => Err(BundleError::Message(refusal)),
            None => closed.map_err(BundleError::Prepare),
        }
    }

    async fn commit(mut self, burst: &Burst) -> Result<(), BundleError> {
        let committed = self.step(BundleStep::CommitRequest).await;
        // Also a bundle that could not be committed is gone by now.
        self.open = false;
        match (committed, first(burst)) {
            (Ok(()), _) => Ok(()),
            (Err(RequestError::Refused { .. }), Some(refusal)) => {
                Err(BundleError::Message(refusal))
            }
            (Err(error), _) => Err(BundleError::Commit(error)),
        }
    }

    async fn discard(mut self) {
        // If the switch does not know it any more, or is gone, it is discarded, too.
        let _ = self.step(BundleStep::DiscardRequest).await;
        self.open = false;
    }

    async fn step(&self, step: BundleStep) -> Result<(), RequestError> {
        self.session.request(&self.control(step)).await.map(drop)
    }

    fn control(&self, step: BundleStep) -> Message {
        let (bundle_id, flags) = (self.bundle_id, self.flags);
        Message::BundleControl(BundleControl { bundle_id, step, flags })
    }

    /// Writes the message that adds `message`, around it and without a copy of it.
    fn encode_add(
        &self,
        message: &impl Encode,
        xid: u32,
        w: &mut Writer,
    ) -> Result<(), EncodeError> {
        framed(kind::BUNDLE_ADD_MESSAGE, xid, w, |w| {
            put_prefix(self.bundle_id, self.flags, w);
            message.encode_message(xid, w)
        })
    }
}

impl Drop for OpenBundle {
    /// For when the caller goes halfway. If there is no room for this now, the switch drops the
    /// bundle by itself after a while.
    fn drop(&mut self) {
        let mut w = Writer::new();
        if self.open && self.control(BundleStep::DiscardRequest).encode(0, &mut w).is_ok() {
            self.session.try_write(w.into_bytes());
        }
    }
}
