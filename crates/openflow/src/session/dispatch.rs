//! What a session does with each message that comes, and when time passes. Does no I/O: bytes to
//! send go to [`Outbound`], answers to those who asked.

use super::command::{Answer, Block, Command, Part};
use super::error::{RequestError, SessionError};
use super::events::EventSender;
use super::frame::Frame;
use super::options::Options;
use super::outbound::{Chunk, Outbound};
use super::protocol::{self, Role};
use super::requests::Requests;
use crate::message::{HEADER, Header, Message, VERSION, kind};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tracing::debug;

/// What a part of a multipart answer costs at least, so that their number is bounded, too.
pub(super) const LEAST_PART: usize = 4096;

/// The state of a session.
#[derive(Debug)]
pub(super) struct Dispatch {
    pub(super) out: Outbound,
    options: Options,
    requests: Requests<Asked>,
    events: EventSender,
    /// Room for parts of multipart answers.
    receive_room: Arc<Semaphore>,
    /// A part that finds no room; nothing more is read until it does.
    held: Option<Held>,
    /// When the peer last sent something.
    heard: Instant,
    /// When it was asked for an echo since then.
    probed: Option<Instant>,
}

/// Who waits for what.
#[derive(Debug)]
enum Asked {
    Request { kind: u8, answer: Answer, _slot: OwnedSemaphorePermit },
    Block(Block),
}

#[derive(Debug)]
struct Held {
    header: Header,
    bytes: Vec<u8>,
    at: u64,
    last: bool,
    since: Instant,
}

// === impl Dispatch ===

impl Dispatch {
    pub(super) fn new(options: Options, events: EventSender, now: Instant) -> Self {
        let receive_room = options.receive_buffer.clamp(LEAST_PART, u32::MAX as usize);
        Self {
            out: Outbound::new(now),
            options,
            requests: Requests::new(),
            events,
            receive_room: Arc::new(Semaphore::new(receive_room)),
            held: None,
            heard: now,
            probed: None,
        }
    }

    /// Whether the peer's next message may be taken.
    pub(super) fn is_open(&self) -> bool {
        self.held.is_none() && !self.out.is_urgent_full()
    }

    /// Bytes came.
    pub(super) fn heard(&mut self, now: Instant) {
        self.heard = now;
        self.probed = None;
    }

    /// A whole message came.
    pub(super) fn message(&mut self, frame: Frame<'_>, now: Instant) -> Result<(), SessionError> {
        match protocol::role(frame.header, frame.bytes) {
            Role::Idle => Ok(()),
            Role::EchoRequest => {
                let mut reply = frame.bytes.to_vec();
                reply[1] = kind::ECHO_REPLY;
                self.out.push_urgent(&reply);
                Ok(())
            }
            Role::Packet => self.events.offer(frame),
            Role::News => self.events.tell(frame),
            Role::Error => self.error(frame),
            Role::Reply => self.reply(frame),
            Role::Part { multipart, last } => self.part(frame, multipart, last, now),
            Role::Unexpected => Err(SessionError::Unexpected {
                kind: frame.header.kind,
                name: protocol::name(frame.header.kind),
                xid: frame.header.xid,
                at: frame.at,
            }),
        }
    }

    fn error(&mut self, frame: Frame<'_>) -> Result<(), SessionError> {
        let (xid, Message::Error(error)) = frame.decode()? else { return Ok(()) };
        match self.requests.find(xid) {
            Some((first, Asked::Block(block))) => match block.collector.upgrade() {
                Some(collector) => collector.refuse(block.index + (xid - first) as usize, error),
                None => self.events.offer(frame)?,
            },
            Some((first, Asked::Request { kind, .. })) => {
                let request = protocol::name(*kind);
                self.fail(first, RequestError::Refused { request, error });
            }
            None => self.events.offer(frame)?,
        }
        Ok(())
    }

    fn reply(&mut self, frame: Frame<'_>) -> Result<(), SessionError> {
        let xid = frame.header.xid;
        let found = match self.requests.find(xid) {
            Some((_, Asked::Request { kind, answer, .. })) => Some((*kind, answer)),
            _ => None,
        };
        let Some((asked, answer)) = found else {
            if frame.header.kind == kind::EXPERIMENTER {
                return self.events.offer(frame);
            }
            // Its deadline has passed, or nobody asked.
            debug!(kind = protocol::name(frame.header.kind), xid, "answer to no request");
            return Ok(());
        };
        let fits = protocol::reply_to(asked) == Some(frame.header.kind);
        if !fits || matches!(answer, Answer::Parts { .. }) {
            return Err(wrong_reply(asked, frame));
        }
        let (_, message) = frame.decode()?;
        if let Some(Asked::Request { answer: Answer::One(answer), .. }) = self.requests.remove(xid)
        {
            // Whoever asked may have gone.
            let _ = answer.send(Ok(message));
        }
        Ok(())
    }

    fn part(
        &mut self,
        frame: Frame<'_>,
        multipart: u16,
        last: bool,
        now: Instant,
    ) -> Result<(), SessionError> {
        let Frame { header, bytes, at } = frame;
        let Some((_, Asked::Request { kind, answer, .. })) = self.requests.find(header.xid) else {
            debug!(xid = header.xid, "part of an answer to no request");
            return Ok(());
        };
        if !matches!(answer, Answer::Parts { multipart: asked, .. } if *asked == multipart) {
            return Err(wrong_reply(*kind, frame));
        }
        let held = Held { header, bytes: bytes.to_vec(), at, last, since: now };
        match Arc::clone(&self.receive_room).try_acquire_many_owned(self.cost(&held)) {
            Ok(room) => self.deliver(held, room, now),
            Err(_) => self.held = Some(held),
        }
        Ok(())
    }

    fn cost(&self, held: &Held) -> u32 {
        let most = self.options.receive_buffer.max(LEAST_PART);
        u32::try_from(held.bytes.len().clamp(LEAST_PART, most)).unwrap_or(u32::MAX)
    }

    /// Waits for the room that a held part needs; for ever if none is held.
    pub(super) fn wait_for_room(&self) -> impl Future<Output = OwnedSemaphorePermit> + use<> {
        let wanted =
            self.held.as_ref().map(|held| (self.cost(held), Arc::clone(&self.receive_room)));
        async {
            if let Some((cost, room)) = wanted
                && let Ok(room) = room.acquire_many_owned(cost).await
            {
                return room;
            }
            std::future::pending().await
        }
    }

    /// Room was found for the held part.
    pub(super) fn release(&mut self, room: OwnedSemaphorePermit, now: Instant) {
        if let Some(held) = self.held.take() {
            self.deliver(held, room, now);
        }
        // What the peer sent meanwhile was not looked at: it is not to blame for silence.
        self.heard(now);
    }

    fn deliver(&mut self, held: Held, room: OwnedSemaphorePermit, now: Instant) {
        let Held { header, bytes, at, last, .. } = held;
        let first = header.xid;
        if let Some((_, Asked::Request { answer: Answer::Parts { parts, .. }, .. })) =
            self.requests.find(first)
        {
            // Permits bound the queue's length, so it has a place, or its reader is gone: then
            // the rest of the answer is taken and forgotten.
            let _ = parts.try_send(Ok(Part { header, bytes, at, _room: room }));
        }
        if last {
            self.requests.remove(first);
        } else {
            self.requests.renew(first, now + self.options.response);
        }
    }

    fn fail(&mut self, first: u32, error: RequestError) {
        if let Some(Asked::Request { answer, .. }) = self.requests.remove(first) {
            answer.fail(error);
        }
    }

    /// A handle asks for something.
    pub(super) fn command(&mut self, command: Command, now: Instant) -> Result<(), SessionError> {
        match command {
            Command::Send(chunk) => self.out.push(chunk),
            Command::Request { chunk, kind, answer, slot } => {
                let asked = Asked::Request { kind, answer, _slot: slot };
                let deadline = now + self.options.response;
                let xid = self.requests.insert(NonZeroU32::MIN, Some(deadline), asked);
                self.out.push(stamped(chunk, xid.ok_or(SessionError::Exhausted)?));
            }
            Command::Lease { count, block, first } => {
                let wanted = |asked: &Asked| match asked {
                    Asked::Block(block) => block.collector.strong_count() > 0,
                    Asked::Request { .. } => true,
                };
                self.requests.retain(wanted);
                let xid = self.requests.insert(count, None, Asked::Block(block));
                let _ = first.send(xid.ok_or(SessionError::Exhausted)?);
            }
            Command::End(reason) => return Err(reason),
        }
        Ok(())
    }

    /// When [`Self::tick`] has something to do.
    pub(super) fn deadline(&self) -> Instant {
        let echo = match self.probed {
            Some(probed) => probed + self.options.echo_deadline,
            None => self.heard + self.options.echo_interval,
        };
        let write = self.out.stuck().map(|since| since + self.options.write);
        let stall = self.held.as_ref().map(|held| held.since + self.options.stall);
        // Nobody is silent while we do not listen.
        let echo = self.is_open().then_some(echo);
        let far = self.heard + self.options.echo_interval + self.options.stall;
        [echo, write, stall, self.requests.deadline()].into_iter().flatten().min().unwrap_or(far)
    }

    /// Does what is due.
    pub(super) fn tick(&mut self, now: Instant) -> Result<(), SessionError> {
        if let Some(since) = self.out.stuck()
            && now >= since + self.options.write
        {
            return Err(SessionError::NotReading { queued: self.out.len(), waited: now - since });
        }
        if let Some(held) = self.held.take_if(|held| now >= held.since + self.options.stall) {
            let (request, stalled) = (protocol::name(kind::MULTIPART_REQUEST), now - held.since);
            self.fail(held.header.xid, RequestError::Stalled { request, stalled });
            self.heard(now);
        }
        while let Some(asked) = self.requests.expire(now) {
            expire(asked, self.options.response);
        }
        if self.is_open() { self.probe(now) } else { Ok(()) }
    }

    fn probe(&mut self, now: Instant) -> Result<(), SessionError> {
        match self.probed {
            Some(probed) if now >= probed + self.options.echo_deadline => {
                return Err(SessionError::Silent(now - self.heard));
            }
            None if now >= self.heard + self.options.echo_interval => {
                // Any byte from the peer is a sign of life, so the answer needs no waiter, and
                // no transaction id.
                let length = HEADER.to_le_bytes()[0];
                self.out.push_urgent(&[VERSION, kind::ECHO_REQUEST, 0, length, 0, 0, 0, 0]);
                self.probed = Some(now);
            }
            _ => {}
        }
        Ok(())
    }
}

/// Tells who asked that no answer came.
fn expire(asked: Asked, waited: Duration) {
    let Asked::Request { kind, answer, .. } = asked else { return };
    answer.fail(RequestError::NoAnswer { request: protocol::name(kind), waited });
}

/// Puts the transaction id into the header.
fn stamped(mut chunk: Chunk, xid: u32) -> Chunk {
    if let Some(field) = chunk.bytes.get_mut(4..8) {
        field.copy_from_slice(&xid.to_be_bytes());
    }
    chunk
}

fn wrong_reply(asked: u8, frame: Frame<'_>) -> SessionError {
    SessionError::WrongReply {
        request: protocol::name(asked),
        reply: protocol::name(frame.header.kind),
        xid: frame.header.xid,
        at: frame.at,
    }
}
