//! What handles ask of the task that owns the connection.

use super::error::{Refusal, RequestError, SessionError};
use super::outbound::Chunk;
use crate::message::{ErrorMessage, Header, Message};
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

/// An error repeats the request that failed, and need not repeat more than this (7.5.4).
const REPEATED: usize = 64;

/// See the module.
#[derive(Debug)]
pub(super) enum Command {
    /// Write these messages.
    Send(Chunk),
    /// Write this message with an unused transaction id, and answer.
    Request { chunk: Chunk, kind: u8, answer: Answer, slot: OwnedSemaphorePermit },
    /// Give a run of transaction ids to messages of a batch; tells the first.
    Lease { count: NonZeroU32, block: Block, first: oneshot::Sender<u32> },
    /// End the session for this reason, once all is written.
    End(SessionError),
}

/// Where an answer goes.
#[derive(Debug)]
pub(super) enum Answer {
    One(oneshot::Sender<Result<Message, RequestError>>),
    Parts { multipart: u16, parts: mpsc::Sender<Result<Part, RequestError>> },
}

/// One message of a multipart answer, not decoded yet: that is its reader's work.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) header: Header,
    pub(super) bytes: Vec<u8>,
    /// Bytes before it in the stream.
    pub(super) at: u64,
    /// Room that it takes in the receive buffer.
    pub(super) _room: OwnedSemaphorePermit,
}

/// A run of messages of a batch.
#[derive(Debug)]
pub(super) struct Block {
    /// Which of the batch's messages has the run's first id.
    pub(super) index: usize,
    pub(super) collector: Weak<Collector>,
}

/// Gathers what the switch refuses of a batch. Lives as long as somebody wants to know.
#[derive(Debug, Default)]
pub(super) struct Collector(Mutex<BTreeMap<usize, ErrorMessage>>);

// === impl Answer ===

impl Answer {
    /// Tells that there is none. Whoever asked may have gone.
    pub(super) fn fail(self, error: RequestError) {
        match self {
            Self::One(answer) => drop(answer.send(Err(error))),
            // There is always a place for one error behind all parts.
            Self::Parts { parts, .. } => drop(parts.try_send(Err(error))),
        }
    }
}

// === impl Collector ===

impl Collector {
    /// The first error about a message counts; so a peer cannot make us hold more than one for
    /// each that was sent.
    pub(super) fn refuse(&self, index: usize, mut error: ErrorMessage) {
        error.data.truncate(REPEATED);
        error.data.shrink_to_fit();
        self.lock().entry(index).or_insert(error);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// What was refused so far, in order of the messages.
    pub(super) fn take(&self) -> Vec<Refusal> {
        let refused = std::mem::take(&mut *self.lock());
        refused.into_iter().map(|(index, error)| Refusal { index, error }).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<usize, ErrorMessage>> {
        // A map is never left half-changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Block {
    pub(super) fn new(index: usize, collector: &Arc<Collector>) -> Self {
        Self { index, collector: Arc::downgrade(collector) }
    }
}
