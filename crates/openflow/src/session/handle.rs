//! The handle of a session.

use super::command::{Answer, Command};
use super::connection;
use super::dispatch::Dispatch;
use super::error::{RequestError, SessionError};
use super::events::{self, Events};
use super::handshake;
use super::multipart::Multipart;
use super::options::Options;
use super::outbound::Chunk;
use super::protocol;
use crate::message::{Message, MultipartRequest};
use crate::wire::Writer;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::time::Instant;
use tracing::{Instrument, debug, debug_span};

/// Commands that wait for the task; their bytes are bounded apart.
const COMMANDS: usize = 64;
/// Less than the largest message would be no buffer.
const LEAST_ROOM: usize = 64 * 1024;

/// A session with a switch; a cheap handle of it. The session ends when the last handle goes.
#[derive(Debug, Clone)]
pub struct Session {
    commands: mpsc::Sender<Command>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    peer: String,
    options: Options,
    /// Requests that may wait for answers.
    slots: Arc<Semaphore>,
    /// Bytes that may wait to be sent.
    room: Arc<Semaphore>,
    bundles: AtomicU32,
    closed: watch::Receiver<Option<Arc<SessionError>>>,
}

/// A request that is on its way.
#[derive(Debug)]
pub(super) struct Posed {
    session: Session,
    answered: oneshot::Receiver<Result<Message, RequestError>>,
}

// === impl Session ===

impl Session {
    /// Says hello over a connection and starts a session on it. `peer` names it in logs.
    pub async fn over<S>(
        mut stream: S,
        peer: impl Into<String>,
        options: Options,
    ) -> Result<(Self, Events), SessionError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let framer = handshake::greet(&mut stream, options.handshake).await?;
        let (event_sender, events) = events::channel(options.event_buffer);
        let (commands, received) = mpsc::channel(COMMANDS);
        let (close, closed) = watch::channel(None);
        let room = options.send_buffer.clamp(LEAST_ROOM, u32::MAX as usize);
        let state = Dispatch::new(options.clone(), event_sender, Instant::now());
        let shared = Shared {
            peer: peer.into(),
            slots: Arc::new(Semaphore::new(options.requests.clamp(1, Semaphore::MAX_PERMITS))),
            room: Arc::new(Semaphore::new(room)),
            options,
            bundles: AtomicU32::new(1),
            closed,
        };
        let span = debug_span!("openflow", peer = shared.peer);
        let task = async move {
            let reason = connection::serve(stream, framer, state, received).await;
            debug!(%reason, "session ended");
            // Before the requests go with the task's state, so that they find the reason.
            close.send_replace(Some(Arc::new(reason)));
        };
        tokio::spawn(task.instrument(span));
        Ok((Self { commands, shared: Arc::new(shared) }, events))
    }

    /// The peer, as it was named.
    pub fn peer(&self) -> &str {
        &self.shared.peer
    }

    /// How the session behaves.
    pub fn options(&self) -> &Options {
        &self.shared.options
    }

    /// Sends a request and waits for its answer.
    pub async fn request(&self, message: &Message) -> Result<Message, RequestError> {
        self.pose(message).await?.answer().await
    }

    /// Sends a request and waits for nothing but its place in the queue.
    pub(super) async fn pose(&self, message: &Message) -> Result<Posed, RequestError> {
        if protocol::reply_to(message.kind()).is_none() {
            return Err(RequestError::NotARequest(protocol::name(message.kind())));
        }
        let mut w = Writer::new();
        encode(message, &mut w)?;
        let (answer, answered) = oneshot::channel();
        self.ask(message.kind(), w, Answer::One(answer)).await?;
        Ok(Posed { session: self.clone(), answered })
    }

    /// Sends a multipart request; its answer comes in parts, as fast as they are read.
    pub async fn multipart(&self, request: MultipartRequest) -> Result<Multipart, RequestError> {
        let multipart = request.kind().0;
        let message = Message::MultipartRequest(request);
        let mut w = Writer::new();
        encode(&message, &mut w)?;
        let (parts, answer) = Multipart::channel(self.clone(), multipart);
        self.ask(message.kind(), w, parts).await?;
        Ok(answer)
    }

    /// Waits until the switch has done all that was sent before.
    pub async fn barrier(&self) -> Result<(), RequestError> {
        self.request(&Message::BarrierRequest).await.map(drop)
    }

    /// Sends a message and waits for nothing but its place in the queue. If the switch refuses
    /// it, that comes as an event; to know it of messages, use [`Self::batch`].
    pub async fn send(&self, message: &Message) -> Result<(), RequestError> {
        let mut w = Writer::new();
        encode(message, &mut w)?;
        self.write(w.into_bytes()).await
    }

    /// Waits for the end of the session; tells why it ended.
    pub async fn closed(&self) -> Arc<SessionError> {
        let mut closed = self.shared.closed.clone();
        let reason = closed.wait_for(Option::is_some).await;
        // The task ends without a reason only if its runtime does.
        reason.ok().and_then(|reason| reason.clone()).unwrap_or(Arc::new(SessionError::Ended))
    }

    /// Why the session ended, if it has.
    pub fn close_reason(&self) -> Option<Arc<SessionError>> {
        self.shared.closed.borrow().clone()
    }

    /// Ends the session for all handles, once what was sent is written.
    pub async fn close(&self) {
        self.end(SessionError::Ended).await;
    }

    pub(super) async fn end(&self, reason: SessionError) -> Arc<SessionError> {
        // If nobody takes it, the session has ended already.
        let _ = self.commands.send(Command::End(reason)).await;
        self.closed().await
    }

    pub(super) fn next_bundle(&self) -> u32 {
        self.shared.bundles.fetch_add(1, Ordering::Relaxed)
    }

    /// Queues whole messages.
    pub(super) async fn write(&self, bytes: Vec<u8>) -> Result<(), RequestError> {
        let chunk = self.chunk(bytes).await?;
        self.command(Command::Send(chunk)).await
    }

    /// Queues whole messages if there is room at once.
    pub(super) fn try_write(&self, bytes: Vec<u8>) {
        let cost = self.cost(&bytes);
        if let Ok(room) = Arc::clone(&self.shared.room).try_acquire_many_owned(cost) {
            let _ = self.commands.try_send(Command::Send(Chunk { bytes, room }));
        }
    }

    pub(super) async fn command(&self, command: Command) -> Result<(), RequestError> {
        match self.commands.send(command).await {
            Ok(()) => Ok(()),
            Err(_) => Err(self.ended().await),
        }
    }

    /// The error of requests that a session leaves unanswered.
    pub(super) async fn ended(&self) -> RequestError {
        RequestError::Session(self.closed().await)
    }

    async fn ask(&self, kind: u8, w: Writer, answer: Answer) -> Result<(), RequestError> {
        let slot = self.acquire(&self.shared.slots, 1).await?;
        let chunk = self.chunk(w.into_bytes()).await?;
        self.command(Command::Request { chunk, kind, answer, slot }).await
    }

    async fn chunk(&self, bytes: Vec<u8>) -> Result<Chunk, RequestError> {
        let room = self.acquire(&self.shared.room, self.cost(&bytes)).await?;
        Ok(Chunk { bytes, room })
    }

    /// What is larger than the whole buffer takes all of it.
    fn cost(&self, bytes: &[u8]) -> u32 {
        let room = self.shared.options.send_buffer.max(LEAST_ROOM);
        u32::try_from(bytes.len().min(room)).unwrap_or(u32::MAX)
    }

    async fn acquire(
        &self,
        semaphore: &Arc<Semaphore>,
        n: u32,
    ) -> Result<OwnedSemaphorePermit, RequestError> {
        tokio::select! {
            Ok(permit) = Arc::clone(semaphore).acquire_many_owned(n) => Ok(permit),
            error = self.ended() => Err(error),
        }
    }
}

// === impl Posed ===

impl Posed {
    /// Waits for the answer.
    pub(super) async fn answer(self) -> Result<Message, RequestError> {
        match self.answered.await {
            Ok(answer) => answer,
            Err(_) => Err(self.session.ended().await),
        }
    }
}

fn encode(message: &Message, w: &mut Writer) -> Result<(), RequestError> {
    let what = protocol::name(message.kind());
    message.encode(0, w).map_err(|source| RequestError::Encode { what, source })
}
