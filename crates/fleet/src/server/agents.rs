//! Asking agents: questions go out on a stream of their own, each answer comes back on another.
//!
//! Nothing is kept for a slow reader: its agent's stream waits, by HTTP/2's own flow control, and
//! neither views nor reports wait with it. Whoever drops an [`Answer`] ends the work at the agent.

use crate::ask::Ask;
use crate::wire::{MAX_ANSWER_PART, proto};
use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use osier_model::NodeName;
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use thiserror::Error;
use tokio::sync::mpsc;
use tokio::time::Sleep;
use tonic::{Status, Streaming};

/// Questions to one agent at once.
const MOST: usize = 8;
/// Questions that wait for the connection: also those that nobody wants any more.
const QUEUE: usize = 32;
/// Parts that wait for the reader.
const PARTS: usize = 2;

/// What an answer may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AskLimits {
    /// How long it may take in all.
    pub patience: Duration,
    /// How long it may be, in bytes.
    pub bytes: usize,
}

/// Why there is no answer, or no more of it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AskError {
    /// The node is not connected, or went away over it.
    #[error("node {0} is not connected")]
    Away(NodeName),
    /// Too many ask it already.
    #[error("node {0} is asked too much at once: try again")]
    TooMany(NodeName),
    /// It took too long.
    #[error("node {0} did not answer in time")]
    Late(NodeName),
    /// The answer is too long.
    #[error("the answer of node {0} is too long")]
    TooLarge(NodeName),
    /// The agent cannot answer.
    #[error("node {node}: {problem}")]
    Failed {
        /// Which.
        node: NodeName,
        /// Why.
        problem: String,
    },
    /// The answer cannot be read.
    #[error("the answer of node {node} cannot be read: {problem}")]
    Unreadable {
        /// Which.
        node: NodeName,
        /// Why.
        problem: String,
    },
}

/// The agents that are connected; a cheap handle.
#[derive(Debug, Clone, Default)]
pub struct Agents(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    next: u64,
    ended: bool,
    nodes: HashMap<NodeName, Listener>,
    open: HashMap<u64, Open>,
}

/// An agent that hears questions.
#[derive(Debug)]
struct Listener {
    number: u64,
    asks: mpsc::Sender<Result<proto::Ask, Status>>,
}

/// A question without an answer yet.
#[derive(Debug)]
struct Open {
    node: NodeName,
    /// Missing when the answer has begun.
    parts: Option<Parts>,
}

/// What comes of an answer.
#[derive(Debug)]
enum Part {
    Some(Bytes),
    End,
    Failed(String),
}

type Parts = mpsc::Sender<Part>;

/// An answer, as it comes. It ends with the first error.
#[derive(Debug)]
pub struct Answer {
    node: NodeName,
    parts: mpsc::Receiver<Part>,
    until: Pin<Box<Sleep>>,
    left: usize,
    done: bool,
    /// Forgets the question.
    _asked: Asked,
}

#[derive(Debug)]
struct Asked {
    id: u64,
    agents: Agents,
}

/// A stream of questions; the agent is away when it is dropped.
#[derive(Debug)]
pub(crate) struct Questions {
    asks: mpsc::Receiver<Result<proto::Ask, Status>>,
    node: NodeName,
    number: u64,
    agents: Agents,
}

// === impl Agents ===

impl Agents {
    /// Asks an agent.
    pub fn ask(&self, node: &NodeName, ask: &Ask, limits: AskLimits) -> Result<Answer, AskError> {
        let body = serde_json::to_vec(ask).unwrap_or_default();
        let (sender, parts) = mpsc::channel(PARTS);
        let mut state = self.lock();
        let asks = match state.nodes.get(node) {
            Some(listener) => listener.asks.clone(),
            None => return Err(AskError::Away(node.clone())),
        };
        if state.open.values().filter(|open| open.node == *node).count() >= MOST {
            return Err(AskError::TooMany(node.clone()));
        }
        let id = state.next;
        state.next += 1;
        let message = proto::Ask {
            id,
            patience_ms: u32::try_from(limits.patience.as_millis()).unwrap_or(u32::MAX),
            ask: body.into(),
        };
        asks.try_send(Ok(message)).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => AskError::TooMany(node.clone()),
            mpsc::error::TrySendError::Closed(_) => AskError::Away(node.clone()),
        })?;
        state.open.insert(id, Open { node: node.clone(), parts: Some(sender) });
        Ok(Answer {
            node: node.clone(),
            parts,
            until: Box::pin(tokio::time::sleep(limits.patience)),
            left: limits.bytes,
            done: false,
            _asked: Asked { id, agents: self.clone() },
        })
    }

    /// The nodes that can be asked.
    pub fn connected(&self) -> Vec<NodeName> {
        self.lock().nodes.keys().cloned().collect()
    }

    /// A node listens from now on; an older stream of it ends.
    pub(crate) fn enter(&self, node: &NodeName) -> Questions {
        let (asks, receiver) = mpsc::channel(QUEUE);
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        if !state.ended {
            state.nodes.insert(node.clone(), Listener { number, asks });
        }
        Questions { asks: receiver, node: node.clone(), number, agents: self.clone() }
    }

    /// A node follows no more.
    pub(crate) fn end(&self, node: &NodeName) {
        self.lock().forget(node);
    }

    pub(crate) fn end_all(&self) {
        let mut state = self.lock();
        state.ended = true;
        state.nodes.clear();
        state.open.clear();
    }

    /// Hears an answer to its end.
    pub(crate) async fn answered(
        &self,
        node: &NodeName,
        mut inbound: Streaming<proto::AnswerPart>,
    ) -> Result<(), Status> {
        let mut message = inbound.message().await?;
        let nobody = || Status::cancelled("nobody waits for this answer");
        let id = message.as_ref().ok_or_else(nobody)?.id;
        let parts = self.lock().begin(node, id).ok_or_else(nobody)?;
        while let Some(part) = message {
            if part.part.len() > MAX_ANSWER_PART {
                return Err(Status::invalid_argument("a part of an answer is too long"));
            }
            if !part.part.is_empty() {
                parts.send(Part::Some(part.part)).await.map_err(|_| nobody())?;
            }
            if part.end {
                let failed = |text: String| Part::Failed(text.chars().take(1000).collect());
                let last = part.error.map_or(Part::End, failed);
                parts.send(last).await.map_err(|_| nobody())?;
                return Ok(());
            }
            message = tokio::select! {
                message = inbound.message() => message?,
                () = parts.closed() => return Err(nobody()),
            };
        }
        // Its reader sees that the sender is gone.
        Err(Status::invalid_argument("an answer has no end"))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl State ===

impl State {
    fn forget(&mut self, node: &NodeName) {
        self.nodes.remove(node);
        // An answer that has begun lives as long as its own stream.
        self.open.retain(|_, open| open.node != *node || open.parts.is_none());
    }

    fn begin(&mut self, node: &NodeName, id: u64) -> Option<Parts> {
        // Another node's question is nobody's.
        self.open.get_mut(&id).filter(|open| open.node == *node)?.parts.take()
    }
}

// === impl Questions ===

impl Stream for Questions {
    type Item = Result<proto::Ask, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.asks.poll_recv(cx)
    }
}

impl Drop for Questions {
    fn drop(&mut self) {
        let mut state = self.agents.lock();
        if state.nodes.get(&self.node).is_some_and(|current| current.number == self.number) {
            state.forget(&self.node);
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.agents.lock().open.remove(&self.id);
    }
}

// === impl Answer ===

impl Answer {
    /// All of it, as a value.
    pub async fn json<T: DeserializeOwned>(self) -> Result<T, AskError> {
        let node = self.node.clone();
        let bytes = self.bytes().await?;
        serde_json::from_slice(&bytes)
            .map_err(|error| AskError::Unreadable { node, problem: error.to_string() })
    }

    /// All of it.
    pub async fn bytes(mut self) -> Result<Bytes, AskError> {
        let mut all = BytesMut::new();
        while let Some(part) = std::future::poll_fn(|cx| Pin::new(&mut self).poll_next(cx)).await {
            all.extend_from_slice(&part?);
        }
        Ok(all.freeze())
    }

    fn take(&mut self, part: Option<Part>) -> Option<Result<Bytes, AskError>> {
        let node = || self.node.clone();
        match part {
            Some(Part::Some(bytes)) => match self.left.checked_sub(bytes.len()) {
                Some(left) => {
                    self.left = left;
                    Some(Ok(bytes))
                }
                None => Some(Err(AskError::TooLarge(node()))),
            },
            Some(Part::Failed(problem)) => Some(Err(AskError::Failed { node: node(), problem })),
            Some(Part::End) => None,
            None => Some(Err(AskError::Away(node()))),
        }
    }
}

impl Stream for Answer {
    type Item = Result<Bytes, AskError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.done {
            return Poll::Ready(None);
        }
        let item = match self.parts.poll_recv(cx) {
            Poll::Ready(part) => self.take(part),
            Poll::Pending => match self.until.as_mut().poll(cx) {
                Poll::Ready(()) => Some(Err(AskError::Late(self.node.clone()))),
                Poll::Pending => return Poll::Pending,
            },
        };
        self.done = !matches!(item, Some(Ok(_)));
        Poll::Ready(item)
    }
}
