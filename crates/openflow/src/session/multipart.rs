//! Answers in parts. The session only passes the parts on; they are decoded where they are read.

use super::command::{Answer, Part};
use super::dispatch::LEAST_PART;
use super::error::{RequestError, SessionError};
use super::frame::Frame;
use super::handle::Session;
use super::protocol;
use crate::message::{Message, MultipartReply, MultipartRequest, kind};
use tokio::sync::mpsc;

/// The answer to a multipart request, part by part. While it is not read, the session reads no
/// more from the switch than fits its buffer, for a while (see
/// [`Options::stall`](super::Options::stall)).
#[derive(Debug)]
pub struct Multipart {
    session: Session,
    parts: mpsc::Receiver<Result<Part, RequestError>>,
    /// Bytes of parts so far.
    received: usize,
    over: bool,
}

impl Multipart {
    /// An answer to come, and where to send its parts.
    pub(super) fn channel(session: Session, multipart: u16) -> (Answer, Self) {
        // Each part costs LEAST_PART of the receive buffer, so that many wait at most, and one
        // error.
        let places = session.options().receive_buffer / LEAST_PART + 2;
        let (sender, parts) = mpsc::channel(places);
        let answer = Answer::Parts { multipart, parts: sender };
        (answer, Self { session, parts, received: 0, over: false })
    }

    /// The next part; `None` behind the last one, or behind an error.
    pub async fn next(&mut self) -> Option<Result<MultipartReply, RequestError>> {
        if self.over {
            return None;
        }
        let reply = match self.parts.recv().await {
            Some(Ok(part)) => self.decode(part).await,
            Some(Err(error)) => Err(error),
            None => Err(self.session.ended().await),
        };
        self.over = !matches!(&reply, Ok(reply) if reply.more);
        Some(reply)
    }

    /// Bytes of the answer so far.
    pub fn received(&self) -> usize {
        self.received
    }

    async fn decode(&mut self, part: Part) -> Result<MultipartReply, RequestError> {
        self.received += part.bytes.len();
        let decoded = part.decode();
        // What is read makes room for more.
        drop(part);
        match decoded {
            Ok(reply) => Ok(reply),
            Err(reason) => Err(RequestError::Session(self.session.end(reason).await)),
        }
    }
}

impl Part {
    /// A peer that sends what cannot be read is left, so this is an error of the session.
    fn decode(&self) -> Result<MultipartReply, SessionError> {
        let frame = Frame { header: self.header, bytes: &self.bytes, at: self.at };
        match frame.decode()? {
            (_, Message::MultipartReply(reply)) => Ok(reply),
            (xid, other) => Err(SessionError::WrongReply {
                request: protocol::name(kind::MULTIPART_REQUEST),
                reply: protocol::name(other.kind()),
                xid,
                at: self.at,
            }),
        }
    }
}

impl Session {
    /// The whole answer to a multipart request, at most [`Options::collect`](super::Options)
    /// bytes of it.
    pub async fn collect(
        &self,
        request: MultipartRequest,
    ) -> Result<Vec<MultipartReply>, RequestError> {
        let limit = self.options().collect;
        let mut answer = self.multipart(request).await?;
        let mut parts = Vec::new();
        while let Some(part) = answer.next().await {
            parts.push(part?);
            if answer.received() > limit {
                let request = protocol::name(kind::MULTIPART_REQUEST);
                return Err(RequestError::TooLarge { request, limit });
            }
        }
        Ok(parts)
    }
}
