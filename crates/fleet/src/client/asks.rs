//! Answering the controller's questions, beside the view.

use super::Answers;
use crate::ask::Ask;
use crate::wire::proto::fleet_client::FleetClient;
use crate::wire::{MAX_ANSWER_PART, proto};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::sync::{Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Code;
use tonic::transport::Channel;

/// Answers at once.
const MOST: usize = 8;
/// How long the controller may take to hear an answer's end.
const FAREWELL: Duration = Duration::from_secs(10);
/// The longest patience.
const LONGEST: Duration = Duration::from_hours(1);

/// Where an answer goes. Sending waits for a slow reader.
#[derive(Debug)]
pub struct Reply {
    id: u64,
    parts: mpsc::Sender<proto::AnswerPart>,
}

/// Nobody wants the answer any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("nobody waits for the answer any more")]
pub struct Unwanted;

// === impl Reply ===

impl Reply {
    /// Sends some more of the answer.
    pub async fn send(&self, mut bytes: Bytes) -> Result<(), Unwanted> {
        while !bytes.is_empty() {
            let part = bytes.split_to(bytes.len().min(MAX_ANSWER_PART));
            let part = proto::AnswerPart { id: self.id, part, ..proto::AnswerPart::default() };
            self.parts.send(part).await.map_err(|_| Unwanted)?;
        }
        Ok(())
    }

    /// Sends a value: all of the answer.
    pub async fn send_json(&self, value: &impl serde::Serialize) -> Result<(), Unwanted> {
        self.send(serde_json::to_vec(value).unwrap_or_default().into()).await
    }
}

/// Answers questions until their stream ends. Never for a controller that asks nothing.
pub(crate) async fn serve(mut client: FleetClient<Channel>, answers: Arc<dyn Answers>) {
    let mut asks = match client.questions(proto::QuestionsRequest {}).await {
        Ok(asks) => asks.into_inner(),
        Err(status) if status.code() == Code::Unimplemented => std::future::pending().await,
        Err(_) => return,
    };
    let turns = Arc::new(Semaphore::new(MOST));
    // They end with this one.
    let mut open = tokio::task::JoinSet::new();
    loop {
        tokio::select! {
            ask = asks.message() => {
                let Ok(Some(ask)) = ask else { return };
                let turn = Arc::clone(&turns).try_acquire_owned();
                let (client, answers) = (client.clone(), Arc::clone(&answers));
                open.spawn(async move {
                    let busy = turn.is_err();
                    answer(client, answers, ask, busy).await;
                    drop(turn);
                });
            }
            Some(_) = open.join_next() => {}
        }
    }
}

/// Works on one question, until it is answered or nobody wants to know.
async fn answer(
    mut client: FleetClient<Channel>,
    answers: Arc<dyn Answers>,
    ask: proto::Ask,
    busy: bool,
) {
    let (parts, receiver) = mpsc::channel(2);
    let id = ask.id;
    let first = proto::AnswerPart { id, ..proto::AnswerPart::default() };
    let reply = Reply { id, parts: parts.clone() };
    let patience = Duration::from_millis(ask.patience_ms.into()).min(LONGEST);
    let work = async {
        // The first part tells the controller that the question came.
        if parts.send(first).await.is_err() {
            return;
        }
        let error = match serde_json::from_slice::<Ask>(&ask.ask) {
            _ if busy => Some("the agent is asked too much at once: try again".to_owned()),
            Err(error) => Some(format!("this agent does not know the question: {error}")),
            Ok(ask) => match tokio::time::timeout(patience, answers.answer(ask, reply)).await {
                Ok(answered) => answered.err(),
                Err(_) => Some("the answer took too long".to_owned()),
            },
        };
        let last = proto::AnswerPart { id, end: true, error, ..proto::AnswerPart::default() };
        let _ = parts.send(last).await;
        drop(parts);
    };
    let told = client.answer(ReceiverStream::new(receiver));
    tokio::pin!(told);
    tokio::select! {
        // Nobody wants to know, or the connection is gone.
        _ = &mut told => return,
        () = work => {}
    }
    let _ = tokio::time::timeout(FAREWELL, told).await;
}
