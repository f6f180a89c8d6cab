//! One agent's stream.

use super::allowance::Allowance;
use super::parts::Parts;
use super::sessions::End;
use super::{Inner, Peer, check_version, left};
use crate::report::{Applied, Fault, Report};
use crate::views::{AgentVersion, Event};
use crate::wire::{Position, VERSION, proto};
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use osier_model::NodeName;
use proto::from_agent::Message;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Response, Status, Streaming};

/// Messages that wait for a slow connection. What comes after them waits in the node's history.
const QUEUE: usize = 2;

type Outbound = mpsc::Sender<Result<proto::FromController, Status>>;
type Answer = Response<BoxStream<'static, Result<proto::FromController, Status>>>;

/// Checks who comes, and lets the stream run.
pub(super) async fn start(
    inner: Arc<Inner>,
    node: NodeName,
    peer: Peer,
    mut inbound: Streaming<proto::FromAgent>,
) -> Result<Answer, Status> {
    let hello = tokio::time::timeout(inner.options.hello_timeout, inbound.message()).await;
    let hello = hello.map_err(|_| Status::deadline_exceeded("no hello in time"))??;
    let Some(proto::FromAgent { message: Some(Message::Hello(hello)) }) = hello else {
        return Err(Status::invalid_argument("the first message must be a hello"));
    };
    check_version(hello.version)?;
    if hello.node != node.as_str() {
        let text = format!("the certificate is node {node}'s, the hello node {}'s", hello.node);
        return Err(Status::permission_denied(text));
    }
    let term = inner.views.term();
    if hello.term > term {
        inner.reports.later_term(&node, hello.term);
        let text =
            format!("node {node} has seen term {}; this controller leads {term}", hello.term);
        return Err(Status::failed_precondition(text));
    }
    let position = hello.position.as_ref().and_then(Position::from_proto);
    let events = inner
        .views
        .follow(&node, position)
        .map_err(|unknown| Status::permission_denied(unknown.to_string()))?;
    let (sender, receiver) = mpsc::channel(QUEUE);
    let welcome = proto::Welcome {
        version: VERSION.min(hello.version),
        features: inner.options.features,
        term,
        epoch: inner.views.epoch(),
    };
    let agent = AgentVersion {
        version: welcome.version,
        features: hello.features,
        software: hello.software.chars().take(100).collect(),
        position,
    };
    let message = Some(proto::from_controller::Message::Welcome(welcome));
    let first = sender.send(Ok(proto::FromController { message })).await;
    first.map_err(|_| Status::cancelled("the stream is gone"))?;
    tokio::spawn(async move {
        let (number, end) = inner.sessions.enter(&node);
        inner.reports.connected(&node, &agent);
        let status = run(&inner, &node, &peer, inbound, events, &sender, end).await;
        // One that a newer stream has taken the place of says nothing of the node any more.
        if inner.sessions.leave(&node, number) {
            inner.agents.end(&node);
            inner.reports.disconnected(&node, status.message());
        }
        tracing::info!(%node, reason = status.message(), "stream ended");
        // A full queue means that nobody reads: then nobody needs the reason.
        let _ = sender.try_send(Err(status));
    });
    Ok(Response::new(ReceiverStream::new(receiver).boxed()))
}

/// Until one side ends it.
async fn run(
    inner: &Inner,
    node: &NodeName,
    peer: &Peer,
    inbound: Streaming<proto::FromAgent>,
    events: BoxStream<'static, Event>,
    sender: &Outbound,
    end: End,
) -> Status {
    let expiry = async {
        match left(peer) {
            Some(left) => tokio::time::sleep(left).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        status = listen(inner, node, inbound) => status,
        status = tell(events, sender) => status,
        () = sender.closed() => Status::cancelled("the agent is gone"),
        () = expiry => Status::unauthenticated("the certificate has expired"),
        why = end => Status::aborted(why.unwrap_or("the controller stops")),
    }
}

async fn tell(mut events: BoxStream<'static, Event>, sender: &Outbound) -> Status {
    while let Some(event) = events.next().await {
        for part in Parts::new(event) {
            if sender.send(Ok(part)).await.is_err() {
                return Status::cancelled("the agent is gone");
            }
        }
    }
    Status::permission_denied("the node was removed")
}

async fn listen(
    inner: &Inner,
    node: &NodeName,
    mut inbound: Streaming<proto::FromAgent>,
) -> Status {
    let mut allowance = Allowance::new(inner.options.messages);
    loop {
        let message = match inbound.message().await {
            Ok(Some(message)) => message.message,
            Ok(None) => return Status::cancelled("the agent has closed the stream"),
            Err(status) => return status,
        };
        if !allowance.take() {
            return Status::resource_exhausted("too many messages");
        }
        match message {
            Some(Message::Applied(applied)) => {
                let faults = applied.faults.iter().map(fault).collect();
                let (epoch, revision) = (applied.epoch, applied.revision);
                inner.reports.applied(node, Applied { epoch, revision, faults });
            }
            Some(Message::Report(report)) => {
                match serde_json::from_slice::<Report>(&report.report) {
                    // Only its own: a node may not speak for another.
                    Ok(report) if report.ports.iter().all(|port| port.node == *node) => {
                        inner.reports.report(node, report);
                    }
                    Ok(_) => return Status::permission_denied("a port of another node"),
                    Err(error) => return Status::invalid_argument(format!("report: {error}")),
                }
            }
            Some(Message::Hello(_)) => return Status::invalid_argument("a second hello"),
            // Of a later version: not for us.
            None => {}
        }
    }
}

fn fault(fault: &proto::Fault) -> Fault {
    let key = serde_json::from_slice(&fault.key).ok();
    Fault { key, text: fault.text.chars().take(500).collect() }
}
