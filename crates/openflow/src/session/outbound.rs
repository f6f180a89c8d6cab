//! What waits to be written. Senders pay for their bytes with permits before they queue them, so
//! this never holds more than was paid for; answers to echo requests are free and go first.

use std::collections::VecDeque;
use std::io;
use std::mem::take;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

/// Small chunks are joined up to this size: one system call instead of many.
const JOINED: usize = 64 * 1024;
/// Echo requests are left unread while this much of our answers waits.
const URGENT: usize = 64 * 1024;

/// Whole messages to be written, and the room that they take.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) bytes: Vec<u8>,
    pub(super) room: OwnedSemaphorePermit,
}

/// The queue of what is to be written.
#[derive(Debug)]
pub(super) struct Outbound {
    queue: VecDeque<Chunk>,
    queued: usize,
    urgent: Vec<u8>,
    /// Being written, with the room to give back, if it took any.
    current: Vec<u8>,
    written: usize,
    room: Option<OwnedSemaphorePermit>,
    unflushed: bool,
    /// Since when something waits and nothing was taken.
    stuck: Instant,
}

impl Outbound {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            queue: VecDeque::new(),
            queued: 0,
            urgent: Vec::new(),
            current: Vec::new(),
            written: 0,
            room: None,
            unflushed: false,
            stuck: now,
        }
    }

    /// Queues behind all others.
    pub(super) fn push(&mut self, chunk: Chunk) {
        self.wake();
        self.queued += chunk.bytes.len();
        self.queue.push_back(chunk);
    }

    /// Queues in front of all that is not begun.
    pub(super) fn push_urgent(&mut self, message: &[u8]) {
        self.wake();
        self.urgent.extend_from_slice(message);
    }

    /// Whether so many answers to the peer wait that its requests must, too.
    pub(super) fn is_urgent_full(&self) -> bool {
        self.urgent.len() >= URGENT
    }

    /// Whether all is written, and flushed.
    pub(super) fn is_idle(&self) -> bool {
        self.len() == 0 && !self.unflushed
    }

    /// Bytes that wait.
    pub(super) fn len(&self) -> usize {
        self.queued + self.urgent.len() + self.current.len() - self.written
    }

    /// Since when the peer has taken nothing of what waits.
    pub(super) fn stuck(&self) -> Option<Instant> {
        (!self.is_idle()).then_some(self.stuck)
    }

    /// Writes once, or flushes if all is written. Loses nothing if it is cancelled.
    pub(super) async fn advance<W: AsyncWrite + Unpin>(
        &mut self,
        writer: &mut W,
    ) -> io::Result<()> {
        self.load();
        if self.current.is_empty() {
            writer.flush().await?;
            self.unflushed = false;
        } else {
            let n = writer.write(&self.current[self.written..]).await?;
            if n == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.unflushed = true;
            self.written += n;
            if self.written == self.current.len() {
                self.written = 0;
                self.current = Vec::new();
                self.room = None;
            }
        }
        self.stuck = Instant::now();
        Ok(())
    }

    fn wake(&mut self) {
        if self.is_idle() {
            self.stuck = Instant::now();
        }
    }

    /// Takes what is next, small chunks together.
    fn load(&mut self) {
        if !self.current.is_empty() {
            return;
        }
        if !self.urgent.is_empty() {
            self.current = take(&mut self.urgent);
            return;
        }
        while let Some(chunk) = self.queue.front() {
            if !self.current.is_empty() && self.current.len() + chunk.bytes.len() > JOINED {
                break;
            }
            let Some(chunk) = self.queue.pop_front() else { break };
            self.queued -= chunk.bytes.len();
            if self.current.is_empty() {
                self.current = chunk.bytes;
            } else {
                self.current.extend_from_slice(&chunk.bytes);
            }
            match &mut self.room {
                Some(room) => room.merge(chunk.room),
                None => self.room = Some(chunk.room),
            }
        }
    }
}
