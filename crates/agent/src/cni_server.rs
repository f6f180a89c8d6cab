//! The socket that the CNI plugin talks to.
//!
//! One request a connection. Root's only, by the socket's mode and by the peer's credentials; so
//! many at once, and no longer than so. A call that was begun goes to its end also if the plugin
//! goes away: half a port is worse than one that nobody waits for.

use crate::metrics::Metrics;
use crate::ports::Ports;
use osier_cni::rpc::{self, Call, HEADER_LENGTH, Reply, Request, RpcError};
use osier_cni::spec::{Code, Error};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;
use tracing::{Instrument, debug, info, info_span, warn};

/// Calls at once. A runtime that starts a full node does not have more.
const CALLS: usize = 256;
/// How long a request may take to come, and a reply to go.
const TRANSFER: Duration = Duration::from_secs(10);
/// How long calls that were begun may take to end when the agent stops.
const FAREWELL: Duration = Duration::from_secs(10);

/// A socket that cannot be served.
#[derive(Debug, Error)]
pub enum ServeError {
    /// It cannot be made.
    #[error("the CNI socket {} cannot be made", path.display())]
    Bind {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Somebody answers there.
    #[error("another agent serves {}: stop it first", path.display())]
    Taken {
        /// Where.
        path: PathBuf,
    },
}

/// The socket, bound and not served yet.
#[derive(Debug)]
pub struct CniServer {
    listener: UnixListener,
    path: PathBuf,
    ports: Ports,
    metrics: Metrics,
}

// === impl CniServer ===

impl CniServer {
    /// Makes the socket. What a dead agent left there is replaced.
    pub async fn bind(path: &Path, ports: Ports, metrics: Metrics) -> Result<Self, ServeError> {
        if UnixStream::connect(path).await.is_ok() {
            return Err(ServeError::Taken { path: path.to_owned() });
        }
        let listener =
            bind(path).map_err(|source| ServeError::Bind { path: path.to_owned(), source })?;
        Ok(Self { listener, path: path.to_owned(), ports, metrics })
    }

    /// Serves until told to stop, and then ends what was begun.
    pub async fn serve(self, mut stop: watch::Receiver<bool>) {
        let turns = Arc::new(Semaphore::new(CALLS));
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                _ = stop.wait_for(|stop| *stop) => break,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // Out of descriptors, most likely: others must end first.
                    warn!(%error, "a connection was lost");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let Ok(turn) = Arc::clone(&turns).acquire_owned().await else { break };
            let (ports, metrics) = (self.ports.clone(), self.metrics.clone());
            tokio::spawn(async move {
                converse(stream, ports, metrics).await;
                drop(turn);
            });
        }
        // Nobody shall find it and wait.
        let _ = std::fs::remove_file(&self.path);
        let all = u32::try_from(CALLS).unwrap_or(u32::MAX);
        if timeout(FAREWELL, turns.acquire_many(all)).await.is_err() {
            warn!("calls were left unanswered");
        }
    }
}

/// Made beside its place and moved there: it is never there with another mode.
fn bind(path: &Path) -> io::Result<UnixListener> {
    let directory = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    std::fs::create_dir_all(directory)?;
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    match std::fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&beside)?;
    std::fs::set_permissions(&beside, std::fs::Permissions::from_mode(0o600))?;
    std::fs::rename(&beside, path)?;
    Ok(listener)
}

async fn converse(mut stream: UnixStream, ports: Ports, metrics: Metrics) {
    let reply = match trusted(&stream) {
        Err(reply) => reply,
        Ok(()) => match timeout(TRANSFER, read(&mut stream)).await {
            Ok(Ok(request)) => answer(request, ports, metrics).await,
            Ok(Err(error)) => {
                debug!(%error, "no request");
                Reply::malformed(&error)
            }
            Err(_) => return,
        },
    };
    let written = async {
        let bytes = reply.encode()?;
        stream.write_all(&bytes).await.map_err(RpcError::from)
    };
    if !matches!(timeout(TRANSFER, written).await, Ok(Ok(()))) {
        debug!("the plugin did not wait for the reply");
    }
}

/// Whoever may ask decides what a container is told: root, or who runs the agent.
fn trusted(stream: &UnixStream) -> Result<(), Reply> {
    let uid = stream.peer_cred().map(|peer| peer.uid());
    let own = nix::unistd::geteuid().as_raw();
    match uid {
        Ok(uid) if uid == 0 || uid == own => Ok(()),
        _ => {
            let msg = "the agent serves root only: run the runtime, and its plugins, as root";
            Err(Reply::Failed(Error::new(Code::BAD_AGENT, msg)))
        }
    }
}

async fn read(stream: &mut UnixStream) -> Result<Request, RpcError> {
    let mut header = [0; HEADER_LENGTH];
    stream.read_exact(&mut header).await?;
    let length = rpc::message_length(header)?;
    // Not allocated on the peer's word alone.
    let mut body = Vec::new();
    stream.take(length as u64).read_to_end(&mut body).await?;
    if body.len() < length {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    Request::decode(&body)
}

async fn answer(request: Request, ports: Ports, metrics: Metrics) -> Reply {
    let command = request.environment.command.as_str();
    let span = info_span!("cni", command, container = request.environment.container_id);
    // In a task of its own: see the module.
    let work = tokio::spawn(async move { perform(&request, &ports).await }.instrument(span));
    let reply = work.await.unwrap_or_else(|_| {
        Err(Error::new(Code::AGENT_FAILED, "the agent failed over the call: see its log"))
    });
    let reply = reply.unwrap_or_else(|error| {
        info!(command, %error, "refused");
        Reply::Failed(error)
    });
    metrics.call(command, if let Reply::Failed(error) = &reply { error.code.0 } else { 0 });
    reply
}

async fn perform(request: &Request, ports: &Ports) -> Result<Reply, Error> {
    match request.call()? {
        Call::Add(call) => {
            let result = ports.add(&call, request).await?;
            return Ok(Reply::added(&result, call.config.header.version));
        }
        Call::Check(call, told) => ports.check(&call, &told, request).await?,
        Call::Del(call) => ports.delete(&call, request).await?,
        Call::Gc(call) => ports.collect(&call, request).await?,
        Call::Status(config) => {
            ports.status_with(&config.ipam, request).await.map_err(|error| {
                match Error::from(error) {
                    limited if limited.code == Code::LIMITED_CONNECTIVITY => limited,
                    error => Error { code: Code::NOT_AVAILABLE, ..error },
                }
            })?;
        }
    }
    Ok(Reply::Done)
}
