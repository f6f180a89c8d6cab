//! Connections of the API: TLS, HTTP/2 and HTTP/1.1, each with limits.

use super::Api;
use super::guard::Peer;
use super::routes::router;
use axum::extract::Request;
use axum::middleware::map_request;
use axum::{Extension, Router};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use ipnet::IpNet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;

/// How long requests have to end when the controller stops.
const GRACE: Duration = Duration::from_secs(3);

/// Where clients come in.
pub(crate) struct Door {
    pub(crate) listener: TcpListener,
    /// Nothing: in the clear.
    pub(crate) tls: Option<Arc<rustls::ServerConfig>>,
    /// From where they may come; nothing: from everywhere.
    pub(crate) allow: Option<Vec<IpNet>>,
    pub(crate) routes: Router,
}

// === impl Door ===

impl Door {
    fn admits(&self, peer: SocketAddr) -> bool {
        let address = peer.ip().to_canonical();
        self.allow.as_ref().is_none_or(|allow| allow.iter().any(|p| p.contains(&address)))
    }
}

/// Serves the model until the controller stops.
pub(crate) async fn serve(api: Arc<Api>, listener: TcpListener, tls: Arc<rustls::ServerConfig>) {
    let routes = router(&api);
    serve_at(api, Door { listener, tls: Some(tls), allow: None, routes }).await;
}

/// Serves at a door until the controller stops.
pub(crate) async fn serve_at(api: Arc<Api>, door: Door) {
    let limits = &api.config.limits;
    let places = Arc::new(Semaphore::new(limits.connections));
    let acceptor = door.tls.clone().map(TlsAcceptor::from);
    let handshake = Duration::from_secs(limits.header_seconds.into());
    let builder = Arc::new(builder(&api));
    let mut stopping = api.stopping.clone();
    loop {
        let place = Arc::clone(&places).acquire_owned().await;
        let accepted = tokio::select! {
            accepted = door.listener.accept() => accepted,
            () = stopped(&mut stopping) => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of descriptors, as a rule: others must close first.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        if !door.admits(peer) {
            tracing::debug!(%peer, "it may not come in here");
            continue;
        }
        let (acceptor, builder, stopping) =
            (acceptor.clone(), Arc::clone(&builder), api.stopping.clone());
        let routes = door.routes.clone().layer(Extension(Peer(peer)));
        tokio::spawn(async move {
            let _place = place;
            let Some(acceptor) = acceptor else {
                return talk(&builder, stream, (routes, handshake), peer, stopping).await;
            };
            match tokio::time::timeout(handshake, secure(&acceptor, stream)).await {
                Ok(Ok(io)) => talk(&builder, io, (routes, handshake), peer, stopping).await,
                Ok(Err(error)) => tracing::debug!(%peer, %error, "handshake failed"),
                Err(_) => tracing::debug!(%peer, "handshake took too long"),
            }
        });
    }
    // Those that talk have the grace; then their places are all free.
    let most = u32::try_from(api.config.limits.connections).unwrap_or(u32::MAX);
    let _ = tokio::time::timeout(GRACE, places.acquire_many(most)).await;
}

type Secured = tokio_rustls::server::TlsStream<TcpStream>;

async fn secure(acceptor: &TlsAcceptor, stream: TcpStream) -> std::io::Result<Secured> {
    stream.set_nodelay(true)?;
    acceptor.accept(stream).await
}

fn builder(api: &Api) -> Builder<TokioExecutor> {
    let limits = &api.config.limits;
    let head = Duration::from_secs(limits.header_seconds.into());
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(head)
        .max_headers(100)
        .max_buf_size(limits.header_bytes);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX))
        .max_concurrent_streams(100)
        .keep_alive_interval(Duration::from_secs(20))
        .keep_alive_timeout(Duration::from_secs(20));
    builder
}

async fn talk(
    builder: &Builder<TokioExecutor>,
    io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    (routes, patience): (Router, Duration),
    peer: SocketAddr,
    mut stopping: watch::Receiver<bool>,
) {
    let asked = Arc::new(AtomicBool::new(false));
    let noted = Arc::clone(&asked);
    let routes = routes.layer(map_request(move |request: Request| {
        noted.store(true, Ordering::Relaxed);
        std::future::ready(request)
    }));
    // Until it is known which HTTP it is, nobody else counts the time.
    let mute = async {
        tokio::time::sleep(patience).await;
        if asked.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    };
    let service = TowerToHyperService::new(routes);
    let connection = builder.serve_connection(TokioIo::new(io), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = mute => return tracing::debug!(%peer, "it asked nothing in time"),
        () = stopped(&mut stopping) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%peer, %error, "a connection ended badly");
    }
}

async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // Nobody who could say it any more is as good as said.
    let _ = stopping.wait_for(|stopping| *stopping).await;
}
