//! The client's task: one connection after the other.

use super::asks;
use super::held::{BatchError, Gathered};
use super::transport::BoxIo;
use super::{Outbox, Task};
use crate::report::{Applied, Fault, Report};
use crate::wire::proto::fleet_client::FleetClient;
use crate::wire::{
    MAX_FROM_AGENT, MAX_FROM_CONTROLLER, OLDEST_VERSION, Position, VERSION, key_bytes, proto,
};
use bytes::Bytes;
use hyper_util::rt::TokioIo;
use proto::from_agent::Message;
use proto::from_controller::Message as Told;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use thiserror::Error;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};

/// How long the controller may take to say who it is.
const WELCOME: Duration = Duration::from_secs(20);
/// The view is written at most so often: on disk it may be a little older.
const WRITE: Duration = Duration::from_secs(1);
/// The agent's messages go at most so often: the controller allows a little more.
const PACE: Duration = Duration::from_millis(100);
/// Where nobody listens, a try costs nobody anything, and soon another controller may lead.
const REFUSED: Duration = Duration::from_millis(250);
/// Messages that wait for a slow connection.
const QUEUE: usize = 8;
/// More faults than these say nothing new.
const MAX_FAULTS: usize = 100;

/// Why a connection ended.
#[derive(Debug, Error)]
pub(crate) enum Ended {
    #[error("the controller cannot be reached")]
    Connect(#[source] io::Error),
    #[error("the connection cannot be used")]
    Channel(#[from] tonic::transport::Error),
    #[error("the controller ended it: {}", .0.message())]
    Status(#[from] Status),
    #[error("the controller closed it")]
    Closed,
    #[error("the controller did not answer in time")]
    Silent,
    #[error("the controller speaks version {0} of the protocol")]
    Version(u32),
    #[error("the controller leads term {found}, and term {seen} was seen")]
    OldTerm { found: u64, seen: u64 },
    #[error(transparent)]
    Batch(#[from] BatchError),
    #[error("there is a new certificate")]
    Renewed,
    #[error("the agent stops")]
    Stopped,
}

/// The stream is gone.
struct Closed;

/// A task that ends with its owner.
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A connection and its stream.
struct Link {
    client: FleetClient<Channel>,
    outbound: mpsc::Sender<proto::FromAgent>,
    inbound: Streaming<proto::FromController>,
    epoch: u64,
}

impl Task {
    /// Runs until the agent drops its handles.
    pub(crate) async fn run(mut self) {
        if let Some((update, faults)) = self.held.snapshot() {
            Self::note_faults(&faults);
            self.held.unread = faults;
            if self.updates.send(update).await.is_err() {
                return;
            }
        }
        let mut failures = 0;
        loop {
            let ended = self.once(&mut failures).await;
            self.current.send_replace(None);
            let expires = self.transport.validity().map(|validity| validity.until);
            self.state.send_modify(|state| {
                state.connected = false;
                state.problem = Some(with_causes(&ended));
                state.certificate_expires = expires;
            });
            tracing::debug!(reason = %ended, "not following");
            match &ended {
                Ended::Stopped => break,
                // The next connection asks for all of it.
                Ended::Batch(_) => self.forget_position(),
                _ => {}
            }
            let wait = match &ended {
                Ended::Renewed => self.options.backoff.wait(0),
                Ended::Connect(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    self.options.backoff.wait(failures).min(REFUSED)
                }
                _ => self.options.backoff.wait(failures),
            };
            failures += 1;
            if self.idle(wait).await.is_err() {
                break;
            }
        }
        self.write().await;
    }

    /// The digest says what is held; without one that fits, the controller sends everything.
    fn forget_position(&mut self) {
        self.held.epoch = 0;
        self.held.revision = 0;
    }

    /// Waits, unless the agent stops.
    async fn idle(&mut self, wait: Duration) -> Result<(), Ended> {
        let until = Instant::now() + wait;
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(until) => return Ok(()),
                () = self.updates.closed() => return Err(Ended::Stopped),
                changed = self.outbox.changed() => changed.map_err(|_| Ended::Stopped)?,
            }
        }
    }

    async fn once(&mut self, failures: &mut u32) -> Ended {
        let updates = self.updates.clone();
        let link = tokio::select! {
            link = open(self) => link,
            () = updates.closed() => return Ended::Stopped,
        };
        let link = match link {
            Ok(link) => link,
            Err(ended) => return ended,
        };
        let begun = Instant::now();
        let ended = self.follow(link).await;
        // Who is thrown out again and again must not come ever so fast.
        if begun.elapsed() > self.options.backoff.most {
            *failures = 0;
        }
        ended
    }

    async fn follow(&mut self, mut link: Link) -> Ended {
        let expires = self.transport.validity().map(|validity| validity.until);
        let term = self.held.term;
        self.state.send_modify(|state| {
            (state.connected, state.problem, state.term) = (true, None, term);
            state.certificate_expires = expires;
        });
        self.current.send_replace(Some(link.client.clone()));
        let questions = asks::serve(link.client.clone(), Arc::clone(&self.answers));
        // In a task of their own: they do not wait for the view, and end with the connection.
        let mut questions = AbortOnDrop(tokio::spawn(questions));
        let mut gathered = Gathered::default();
        let mut write_at: Option<Instant> = None;
        let mut sent = Outbox::default();
        let (mut news, mut pace) = (true, Instant::now());
        let renew_at = self.transport.validity().map(|validity| until(validity.renewal()));
        loop {
            tokio::select! {
                message = link.inbound.message() => {
                    let batch = match message {
                        Ok(Some(proto::FromController { message: Some(Told::Batch(batch)) })) => batch,
                        Ok(Some(_)) => continue,
                        Ok(None) => return Ended::Closed,
                        Err(status) => return status.into(),
                    };
                    match self.take(batch, &mut gathered, link.epoch).await {
                        Ok(true) => { write_at.get_or_insert(Instant::now() + WRITE); }
                        Ok(false) => {}
                        Err(ended) => return ended,
                    }
                }
                changed = self.outbox.changed(), if !news => match changed {
                    Ok(()) => news = true,
                    Err(_) => return Ended::Stopped,
                },
                () = tokio::time::sleep_until(pace), if news => {
                    (news, pace) = (false, Instant::now() + PACE);
                    if self.tell(&link, &mut sent).await.is_err() {
                        return Ended::Closed;
                    }
                }
                () = maybe(write_at) => {
                    write_at = None;
                    self.write().await;
                }
                () = maybe(renew_at) => return self.renew(&mut link).await,
                _ = &mut questions.0 => return Ended::Closed,
                () = self.updates.closed() => return Ended::Stopped,
            }
        }
    }

    /// Takes a part of a batch. True if the view is another now.
    async fn take(
        &mut self,
        mut batch: proto::Batch,
        gathered: &mut Gathered,
        epoch: u64,
    ) -> Result<bool, Ended> {
        let (objects, reset) = (batch.steps.len() as u64, batch.reset);
        self.state.send_modify(|state| {
            state.received.messages += 1;
            state.received.objects += objects;
            state.received.snapshots += u64::from(reset);
        });
        if !gathered.add(&mut batch)? {
            return Ok(false);
        }
        let (update, faults) = self.held.advance(std::mem::take(gathered), epoch, &batch)?;
        Self::note_faults(&faults);
        self.state.send_modify(|state| state.revision = update.revision);
        self.updates.send(update).await.map_err(|_| Ended::Stopped)?;
        Ok(true)
    }

    fn note_faults(faults: &BTreeMap<Bytes, Fault>) {
        for fault in faults.values() {
            let key = fault.key.as_ref().map(ToString::to_string).unwrap_or_default();
            tracing::warn!(object = key, problem = fault.text, "an object is left out");
        }
    }

    /// Sends what the agent said since.
    async fn tell(&mut self, link: &Link, sent: &mut Outbox) -> Result<(), Closed> {
        let now = self.outbox.borrow_and_update().clone();
        let applied = fresh(sent.applied.as_ref(), now.applied.as_ref());
        let applied = applied.map(|it| applied_message(it, self.held.unread.values()));
        let report = fresh(sent.report.as_ref(), now.report.as_ref()).map(|it| report_message(it));
        let messages: Vec<_> = applied.into_iter().chain(report).collect();
        *sent = now;
        for message in messages {
            link.outbound.send(message).await.map_err(|_| Closed)?;
        }
        Ok(())
    }

    /// Writes the view to disk. An error leaves the old one, and is told.
    pub(crate) async fn write(&mut self) {
        let Some(cache) = &mut self.cache else { return self.held.unwritten.clear() };
        if let Err(error) = cache.store(&self.options.node, &mut self.held).await {
            tracing::warn!(%error, "the view cannot be kept on disk");
            self.state.send_modify(|state| state.problem = Some(error.to_string()));
        }
    }

    async fn renew(&mut self, link: &mut Link) -> Ended {
        let Some(renewal) = self.transport.renewal() else { return Ended::Closed };
        let mut request =
            tonic::Request::new(proto::RenewRequest { request: renewal.request.into() });
        request.set_timeout(WELCOME);
        match link.client.renew(request).await {
            Ok(answer) => {
                let answer = answer.into_inner();
                match (renewal.install)(&answer.authority, &answer.certificate) {
                    Ok(()) => Ended::Renewed,
                    Err(error) => Ended::Connect(error),
                }
            }
            Err(status) => status.into(),
        }
    }
}

/// Connects and greets.
async fn open(task: &mut Task) -> Result<Link, Ended> {
    let io = task.transport.connect().await.map_err(Ended::Connect)?;
    let channel = channel(io, Some(task.options.keep_alive)).await?;
    let mut client = FleetClient::new(channel)
        .max_decoding_message_size(MAX_FROM_CONTROLLER)
        .max_encoding_message_size(MAX_FROM_AGENT);
    let (outbound, receiver) = mpsc::channel(QUEUE);
    let hello = proto::Hello {
        version: VERSION,
        features: task.options.features,
        node: task.options.node.to_string(),
        software: task.options.software.clone(),
        term: task.held.term,
        position: task.held.position().map(Position::to_proto),
    };
    let hello = proto::FromAgent { message: Some(Message::Hello(hello)) };
    outbound.send(hello).await.map_err(|_| Ended::Closed)?;
    let greet = async {
        let mut inbound = client.follow(ReceiverStream::new(receiver)).await?.into_inner();
        match inbound.message().await? {
            Some(proto::FromController { message: Some(Told::Welcome(welcome)) }) => {
                Ok((inbound, welcome))
            }
            _ => Err(Ended::Closed),
        }
    };
    let greeted = tokio::time::timeout(WELCOME, greet).await.map_err(|_| Ended::Silent)?;
    let (inbound, welcome) = greeted?;
    if !(OLDEST_VERSION..=VERSION).contains(&welcome.version) {
        return Err(Ended::Version(welcome.version));
    }
    let seen = task.held.term;
    if welcome.term < seen {
        return Err(Ended::OldTerm { found: welcome.term, seen });
    }
    if welcome.term > seen {
        tracing::info!(term = welcome.term, "a controller of a new term is followed");
        task.held.term = welcome.term;
        // Before anything of this leader is believed: an older one must be refused after a crash.
        task.write().await;
    }
    Ok(Link { client, outbound, inbound, epoch: welcome.epoch })
}

/// HTTP/2 over one byte stream: when that ends, so does the channel.
pub(crate) async fn channel(
    io: BoxIo,
    keep_alive: Option<(Duration, Duration)>,
) -> Result<Channel, tonic::transport::Error> {
    let mut endpoint = Endpoint::from_static("http://controller.osier")
        .initial_stream_window_size(1 << 20)
        // More than one stream can fill: questions come while a view waits.
        .initial_connection_window_size(2 << 20);
    if let Some((interval, timeout)) = keep_alive {
        endpoint = endpoint
            .http2_keep_alive_interval(interval)
            .keep_alive_timeout(timeout)
            .keep_alive_while_idle(true);
    }
    let once = Arc::new(Mutex::new(Some(io)));
    let connector = tower::service_fn(move |_| {
        let io = once.lock().ok().and_then(|mut io| io.take());
        async move {
            let gone = || io::Error::new(io::ErrorKind::NotConnected, "the connection is gone");
            io.map(TokioIo::new).ok_or_else(gone)
        }
    });
    endpoint.connect_with_connector(connector).await
}

/// What the agent could not make real, and what it could not even read.
fn applied_message<'a>(
    applied: &'a Applied,
    unread: impl Iterator<Item = &'a Fault>,
) -> proto::FromAgent {
    let fault = |fault: &Fault| proto::Fault {
        key: fault.key.as_ref().map(key_bytes).unwrap_or_default(),
        text: fault.text.clone(),
    };
    let faults = applied.faults.iter().chain(unread).take(MAX_FAULTS).map(fault).collect();
    let (epoch, revision) = (applied.epoch, applied.revision);
    let applied = proto::Applied { epoch, revision, faults };
    proto::FromAgent { message: Some(Message::Applied(applied)) }
}

/// What was not sent yet.
fn fresh<'a, T>(sent: Option<&Arc<T>>, now: Option<&'a Arc<T>>) -> Option<&'a Arc<T>> {
    now.filter(|now| sent.is_none_or(|sent| !Arc::ptr_eq(sent, now)))
}

fn report_message(report: &Report) -> proto::FromAgent {
    let report = serde_json::to_vec(report).unwrap_or_default().into();
    proto::FromAgent { message: Some(Message::Report(proto::Report { report })) }
}

fn until(time: SystemTime) -> Instant {
    Instant::now() + time.duration_since(SystemTime::now()).unwrap_or_default()
}

/// An error in one line, with all that led to it.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let said = next.to_string();
        // Layers between repeat one another, and a status says it all at once.
        if !text.ends_with(&said) && !next.is::<Status>() {
            text = format!("{text}: {said}");
        }
        cause = next.source();
    }
    text
}

async fn maybe(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
