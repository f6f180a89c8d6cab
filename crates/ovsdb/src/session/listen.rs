//! Being dialled: `punix:PATH`, `ptcp:[PORT][:IP]`, `pssl:[PORT][:IP]` (ovsdb(7), "Passive Database
//! Connection Methods"). A switch whose manager is set to us connects here; each connection becomes
//! a session of its own.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_rustls::TlsAcceptor;

use super::error::SessionError;
use super::remote::{DEFAULT_PORT, Remote, RemoteError, Stream};
use super::tls::{self, TlsError, TlsFiles};

/// Accepts connections.
pub struct Listener {
    kind: Kind,
    tls: Option<TlsFiles>,
}

enum Kind {
    Unix { listener: UnixListener, path: PathBuf },
    Tcp(TcpListener),
}

/// A connection that has been accepted; TLS has yet to shake hands.
pub struct Incoming {
    peer: String,
    socket: Socket,
    acceptor: Option<TlsAcceptor>,
}

enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

// === impl Listener ===

impl Listener {
    /// Listens. The files are needed for `pssl:` only.
    pub async fn bind(address: &str, tls: Option<TlsFiles>) -> Result<Self, SessionError> {
        let Some((method, rest)) = address.split_once(':') else { return Err(unknown(address)) };
        let (kind, tls) = match method {
            "punix" => (bind_unix(rest.into()).await.map_err(SessionError::Connect)?, None),
            "ptcp" => (bind_tcp(address, rest).await?, None),
            "pssl" => {
                let files = tls.ok_or(TlsError::Missing)?;
                // Wrong files are better found now than with the first connection.
                tls::acceptor(&files)?;
                (bind_tcp(address, rest).await?, Some(files))
            }
            _ => return Err(unknown(address)),
        };
        Ok(Self { kind, tls })
    }

    /// Where it listens, if on TCP: of use when the port was given as 0.
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        match &self.kind {
            Kind::Tcp(listener) => listener.local_addr().ok(),
            Kind::Unix { .. } => None,
        }
    }

    /// The next connection. Safe to cancel.
    pub async fn accept(&self) -> Result<Incoming, SessionError> {
        let (socket, peer) = match &self.kind {
            Kind::Unix { listener, path } => {
                let (stream, _) = listener.accept().await.map_err(SessionError::Connect)?;
                (Socket::Unix(stream), format!("punix:{}", path.display()))
            }
            Kind::Tcp(listener) => {
                let (stream, peer) = listener.accept().await.map_err(SessionError::Connect)?;
                let method = if self.tls.is_some() { "ssl" } else { "tcp" };
                (Socket::Tcp(stream), format!("{method}:{peer}"))
            }
        };
        let acceptor = self.tls.as_ref().map(tls::acceptor).transpose()?;
        Ok(Incoming { peer, socket, acceptor })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Kind::Unix { path, .. } = &self.kind {
            // Nobody listens there any more; if it is gone already, so much the better.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn unknown(address: &str) -> SessionError {
    let expected = "punix:, ptcp:, pssl:";
    RemoteError::Method { remote: address.to_owned(), expected }.into()
}

async fn bind_unix(path: PathBuf) -> io::Result<Kind> {
    let listener = match UnixListener::bind(&path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            // A socket file outlives its process. Take its place only if nobody answers.
            match UnixStream::connect(&path).await {
                Err(refused) if refused.kind() == io::ErrorKind::ConnectionRefused => {}
                _ => return Err(error),
            }
            std::fs::remove_file(&path)?;
            UnixListener::bind(&path)?
        }
        other => other?,
    };
    Ok(Kind::Unix { listener, path })
}

async fn bind_tcp(address: &str, rest: &str) -> Result<Kind, SessionError> {
    let wrong = |what| RemoteError::Address { remote: address.to_owned(), what };
    let (port, host) = match rest.split_once(':') {
        Some((port, host)) => (port, Some(host)),
        None => (rest, None),
    };
    let port =
        if port.is_empty() { DEFAULT_PORT } else { port.parse().map_err(|_| wrong("port"))? };
    let host = match host {
        Some(host) => host.trim_matches(['[', ']']).parse::<IpAddr>().map_err(|_| wrong("host"))?,
        None => Ipv4Addr::UNSPECIFIED.into(),
    };
    let listener = TcpListener::bind((host, port)).await.map_err(SessionError::Connect)?;
    Ok(Kind::Tcp(listener))
}

// === impl Incoming ===

impl Incoming {
    /// Who connected, as far as the socket tells.
    pub fn peer(&self) -> Remote {
        Remote::Given(self.peer.clone())
    }

    /// The connection, after the TLS handshake if there is one.
    pub async fn establish(self) -> Result<Stream, SessionError> {
        match (self.socket, self.acceptor) {
            (Socket::Unix(stream), _) => Ok(Box::new(stream)),
            (Socket::Tcp(stream), acceptor) => {
                stream.set_nodelay(true).map_err(SessionError::Connect)?;
                match acceptor {
                    None => Ok(Box::new(stream)),
                    Some(acceptor) => {
                        let stream =
                            acceptor.accept(stream).await.map_err(SessionError::Connect)?;
                        Ok(Box::new(stream))
                    }
                }
            }
        }
    }
}
