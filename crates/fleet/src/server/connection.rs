//! Connections, and who is at their other end.

use super::visitors::{Visitor, Visitors};
use crate::pki::{ServerTls, Validity, identity_of};
use futures_util::Stream;
use osier_model::NodeName;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::Sleep;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::Connected;

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long a connection without a certificate may last: enough to join.
const VISIT: Duration = Duration::from_secs(30);

/// Who is at the other end.
#[derive(Debug, Clone, Default)]
pub struct Peer {
    /// From where.
    pub address: Option<IpAddr>,
    /// The node that its certificate names; nothing without one.
    pub node: Option<NodeName>,
    /// When that certificate ends.
    pub expires: Option<SystemTime>,
}

/// A connection, with who is at its other end.
#[derive(Debug)]
pub struct Connection<IO> {
    io: IO,
    peer: Peer,
    /// Its place among those that are allowed.
    _place: Option<OwnedSemaphorePermit>,
    /// Who is nobody yet may not stay.
    visit: Option<(Visitor, Pin<Box<Sleep>>)>,
}

// === impl Connection ===

impl<IO> Connection<IO> {
    /// A connection whose other end is known by other means than TLS: the caller vouches for it.
    pub fn trusted(io: IO, peer: Peer) -> Self {
        Self { io, peer, _place: None, visit: None }
    }
}

impl<IO> Connected for Connection<IO> {
    type ConnectInfo = Peer;
    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for Connection<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some((_, end)) = &mut self.visit
            && end.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Connection<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

/// Accepts connections with TLS, at most `most` at once; more wait. Handshakes run beside each
/// other: a slow one holds up nobody.
pub fn accept(
    listener: TcpListener,
    tls: &ServerTls,
    most: usize,
) -> impl Stream<Item = io::Result<Connection<TlsStream<TcpStream>>>> + use<> {
    let (sender, receiver) = mpsc::channel(16);
    let acceptor = TlsAcceptor::from(Arc::clone(&tls.config));
    let (places, visitors) = (Arc::new(Semaphore::new(most)), Visitors::default());
    tokio::spawn(async move {
        loop {
            let place = Arc::clone(&places).acquire_owned().await;
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = sender.closed() => return,
            };
            let (stream, address) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of descriptors, as a rule: others must close first.
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let Some(visitor) = visitors.enter(address.ip()) else {
                tracing::debug!(%address, "too many connections without a certificate");
                continue;
            };
            let (sender, acceptor) = (sender.clone(), acceptor.clone());
            tokio::spawn(async move {
                let _ = stream.set_nodelay(true);
                match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
                    Ok(Ok(io)) => {
                        let peer = peer(&io, address.ip());
                        let stranger = peer.node.is_none();
                        let visit =
                            stranger.then(|| (visitor, Box::pin(tokio::time::sleep(VISIT))));
                        let connection = Connection { io, peer, _place: place.ok(), visit };
                        let _ = sender.send(Ok(connection)).await;
                    }
                    Ok(Err(error)) => {
                        tracing::debug!(%address, %error, "handshake failed");
                    }
                    Err(_) => tracing::debug!(%address, "handshake took too long"),
                }
            });
        }
    });
    ReceiverStream::new(receiver)
}

fn peer(io: &TlsStream<TcpStream>, address: IpAddr) -> Peer {
    let certificate = io.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    let node = certificate.and_then(identity_of);
    let expires = certificate.and_then(Validity::of).map(|validity| validity.until);
    Peer { address: Some(address.to_canonical()), node, expires }
}
