//! What a switch tells unasked. One receiver, bounded by bytes; what happens when it is slow
//! depends on the event: packets are dropped and counted, while a lost change of a port or a flow
//! would leave the receiver with a wrong picture, so it ends the session, and the next one starts
//! from the switch's true state.

use super::error::SessionError;
use super::frame::Frame;
use super::protocol;
use crate::message::Message;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// What an event costs at least, so that the number of events is bounded, too.
const LEAST: usize = 256;

/// Something that the switch told unasked: a packet-in, news of a port, flow, role or monitor, an
/// extension's message, or an error about a message that nobody waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its transaction; 0 unless it is about one.
    pub xid: u32,
    /// What it tells.
    pub message: Message,
}

/// The receiver of a session's events. If it is dropped, events are ignored.
#[derive(Debug)]
pub struct Events {
    queue: mpsc::Receiver<Queued>,
    dropped: Arc<AtomicU64>,
}

/// The session's end.
#[derive(Debug)]
pub(super) struct EventSender {
    queue: mpsc::Sender<Queued>,
    /// Bytes that may wait.
    size: usize,
    room: Arc<Semaphore>,
    dropped: Arc<AtomicU64>,
}

#[derive(Debug)]
struct Queued {
    event: Event,
    _room: OwnedSemaphorePermit,
}

/// Both ends, for at most `size` bytes.
pub(super) fn channel(size: usize) -> (EventSender, Events) {
    let size = size.clamp(LEAST, Semaphore::MAX_PERMITS);
    let (sender, queue) = mpsc::channel(size / LEAST);
    let dropped = Arc::new(AtomicU64::new(0));
    let room = Arc::new(Semaphore::new(size));
    (
        EventSender { queue: sender, size, room, dropped: Arc::clone(&dropped) },
        Events { queue, dropped },
    )
}

// === impl Events ===

impl Events {
    /// The next event; `None` when the session has ended.
    pub async fn recv(&mut self) -> Option<Event> {
        self.queue.recv().await.map(|queued| queued.event)
    }

    /// How many events were dropped because there was no room: packets, and errors that nobody
    /// waits for.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

// === impl EventSender ===

impl EventSender {
    /// Passes on an event that may be lost.
    pub(super) fn offer(&self, frame: Frame<'_>) -> Result<(), SessionError> {
        if !self.pass(frame)? {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Passes on an event that may not be lost.
    pub(super) fn tell(&self, frame: Frame<'_>) -> Result<(), SessionError> {
        if self.pass(frame)? {
            return Ok(());
        }
        let waiting = self.size - self.room.available_permits();
        Err(SessionError::EventsOverflow(protocol::name(frame.header.kind), waiting))
    }

    /// Decodes only what finds room: a flood of packets costs little.
    fn pass(&self, frame: Frame<'_>) -> Result<bool, SessionError> {
        if self.queue.is_closed() {
            return Ok(true);
        }
        let cost = frame.bytes.len().clamp(LEAST, self.size);
        let cost = u32::try_from(cost).unwrap_or(u32::MAX);
        let Ok(room) = Arc::clone(&self.room).try_acquire_many_owned(cost) else {
            return Ok(false);
        };
        let (xid, message) = frame.decode()?;
        let queued = Queued { event: Event { xid, message }, _room: room };
        // Permits bound the queue's length, so it has a place, or its receiver is gone.
        let _ = self.queue.try_send(queued);
        Ok(true)
    }
}
