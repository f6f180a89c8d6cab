//! Being dialled. Handshakes run beside each other, each with a deadline and only so many at once,
//! so that a peer that says nothing keeps nobody else from being heard.

use super::endpoint::{Endpoint, Host};
use super::error::{ConnectError, SessionError};
use super::events::Events;
use super::handle::Session;
use super::options::Options;
use super::tls::Tls;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Waits for switches on `punix:`, `ptcp:` or `pssl:`.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    options: Options,
    /// Peers that have connected and not said hello.
    half_open: JoinSet<Result<Accepted, AcceptError>>,
}

/// A switch that dialled in.
#[derive(Debug)]
pub struct Accepted {
    /// The session with it.
    pub session: Session,
    /// What it tells unasked.
    pub events: Events,
}

/// Why a peer was not accepted.
#[derive(Debug, Error)]
pub enum AcceptError {
    /// The listening socket failed; perhaps only for now.
    #[error("the listening socket failed")]
    Socket(#[source] io::Error),
    /// A peer could not be spoken with; others still can.
    #[error("no session with {peer}")]
    Peer {
        /// Who.
        peer: String,
        /// Why not.
        source: SessionError,
    },
}

#[derive(Debug)]
enum Socket {
    Unix(UnixListener, Named),
    Tcp(TcpListener),
    Tls(TcpListener, Tls),
}

/// The name of a socket in the file system; goes with it.
#[derive(Debug)]
struct Named(PathBuf);

// === impl Listener ===

impl Listener {
    /// Starts to listen.
    pub async fn bind(endpoint: &Endpoint, options: Options) -> Result<Self, ConnectError> {
        let no_socket = |source| ConnectError::Socket { endpoint: endpoint.clone(), source };
        let bind = |host: &Host| TcpListener::bind((host.name.clone(), host.port));
        let socket = match endpoint {
            Endpoint::PassiveUnix(path) => {
                remove_stale(path).await.map_err(no_socket)?;
                let listener = UnixListener::bind(path).map_err(no_socket)?;
                Socket::Unix(listener, Named(path.clone()))
            }
            Endpoint::PassiveTcp(host) => Socket::Tcp(bind(host).await.map_err(no_socket)?),
            Endpoint::PassiveSsl(host) => {
                let tls = options.tls.clone();
                let tls = tls.ok_or_else(|| ConnectError::NoTls(endpoint.clone()))?;
                Socket::Tls(bind(host).await.map_err(no_socket)?, tls)
            }
            _ => return Err(ConnectError::Direction { endpoint: endpoint.clone() }),
        };
        Ok(Self { socket, options, half_open: JoinSet::new() })
    }

    /// Takes over a listening TCP socket, such as one from another namespace. It speaks TLS if the
    /// options have it.
    pub fn from_std(socket: std::net::TcpListener, options: Options) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let listener = TcpListener::from_std(socket)?;
        let socket = match options.tls.clone() {
            Some(tls) => Socket::Tls(listener, tls),
            None => Socket::Tcp(listener),
        };
        Ok(Self { socket, options, half_open: JoinSet::new() })
    }

    /// Where it listens, if on TCP or TLS.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        match &self.socket {
            Socket::Unix(..) => None,
            Socket::Tcp(listener) | Socket::Tls(listener, _) => listener.local_addr().ok(),
        }
    }

    /// Waits for the next switch that has said hello. Loses nobody if it is cancelled.
    pub async fn accept(&mut self) -> Result<Accepted, AcceptError> {
        loop {
            let room = self.half_open.len() < self.options.half_open.max(1);
            tokio::select! {
                greeted = self.half_open.join_next(), if !self.half_open.is_empty() => {
                    // A handshake that panicked has no result; there is nothing to tell of it.
                    if let Some(Ok(greeted)) = greeted {
                        return greeted;
                    }
                }
                accepted = self.socket.accept(), if room => {
                    let incoming = accepted.map_err(AcceptError::Socket)?;
                    self.half_open.spawn(incoming.greet(self.options.clone()));
                }
            }
        }
    }
}

/// A connection that was accepted.
enum Incoming {
    Unix(UnixStream, String),
    Tcp(TcpStream, SocketAddr),
    Tls(TcpStream, SocketAddr, Tls),
}

impl Socket {
    async fn accept(&self) -> io::Result<Incoming> {
        Ok(match self {
            Self::Unix(listener, Named(path)) => {
                Incoming::Unix(listener.accept().await?.0, format!("unix:{}", path.display()))
            }
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                Incoming::Tcp(stream, peer)
            }
            Self::Tls(listener, tls) => {
                let (stream, peer) = listener.accept().await?;
                Incoming::Tls(stream, peer, tls.clone())
            }
        })
    }
}

impl Incoming {
    async fn greet(self, options: Options) -> Result<Accepted, AcceptError> {
        let (peer, patience) = (self.peer(), options.handshake);
        let greeted = match timeout(patience, self.start(peer.clone(), options)).await {
            Ok(greeted) => greeted,
            Err(_) => Err(SessionError::NoHello(patience)),
        };
        match greeted {
            Ok((session, events)) => Ok(Accepted { session, events }),
            Err(source) => Err(AcceptError::Peer { peer, source }),
        }
    }

    fn peer(&self) -> String {
        match self {
            Self::Unix(_, path) => path.clone(),
            Self::Tcp(_, peer) => Endpoint::Tcp((*peer).into()).to_string(),
            Self::Tls(_, peer, _) => Endpoint::Ssl((*peer).into()).to_string(),
        }
    }

    async fn start(
        self,
        peer: String,
        options: Options,
    ) -> Result<(Session, Events), SessionError> {
        match self {
            Self::Unix(stream, _) => Session::over(stream, peer, options).await,
            Self::Tcp(stream, _) => {
                stream.set_nodelay(true).map_err(SessionError::Io)?;
                Session::over(stream, peer, options).await
            }
            Self::Tls(stream, _, tls) => {
                stream.set_nodelay(true).map_err(SessionError::Io)?;
                let stream = tls.acceptor().accept(stream).await.map_err(SessionError::Io)?;
                Session::over(stream, peer, options).await
            }
        }
    }
}

/// Removes a socket that nobody listens on, as one is left by a process that was killed.
async fn remove_stale(path: &Path) -> io::Result<()> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    if !is_socket {
        return Ok(());
    }
    match UnixStream::connect(path).await {
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path),
        // In use: binding will say so.
        _ => Ok(()),
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        // If it is gone, that is what was wanted.
        let _ = std::fs::remove_file(&self.0);
    }
}
