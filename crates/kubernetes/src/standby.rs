//! The API's port while another controller leads: it says that this one lives, and no more.

use crate::error::KubernetesError;
use axum::Router;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::get;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use osier_fleet::Authority;
use rustls::ServerConfig;
use rustls::crypto::ring;
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// How long its certificate holds: only who checks nothing asks it.
const LIFETIME: Duration = Duration::from_hours(24 * 365);
/// The header by which an answer of one that does not lead is known.
pub(crate) const STANDBY: &str = "x-osier-standby";
/// Connections at once.
const MOST: usize = 64;
/// How long a connection may last.
const PATIENCE: Duration = Duration::from_secs(30);

/// Serves until it is dropped.
pub(crate) async fn serve(address: SocketAddr) -> Result<(), KubernetesError> {
    let listener = listen(address).await?;
    let acceptor = TlsAcceptor::from(tls()?);
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        if connections.len() >= MOST {
            connections.join_next().await;
        }
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let acceptor = acceptor.clone();
        connections.spawn(tokio::time::timeout(PATIENCE, async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let service = TowerToHyperService::new(routes());
            let builder = Builder::new(TokioExecutor::new());
            // Whoever asked is gone, or heard.
            let _ = builder.serve_connection(TokioIo::new(stream), service).await;
        }));
    }
}

/// The port may still be that of our own leading, which is about to end.
async fn listen(address: SocketAddr) -> Result<TcpListener, KubernetesError> {
    let mut tries = 50;
    loop {
        match TcpListener::bind(address).await {
            Ok(listener) => return Ok(listener),
            Err(_) if tries > 0 => tries -= 1,
            Err(source) => return Err(KubernetesError::Listen { address, source }),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn routes() -> Router {
    let standby = || async {
        let said = "this controller does not lead: ask again";
        let error = json!({"error": {"code": "Standby", "message": said, "details": []}});
        let headers = [("retry-after", "1"), (STANDBY, "true")];
        (StatusCode::SERVICE_UNAVAILABLE, headers, axum::Json(error)).into_response()
    };
    Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(|| async { (StatusCode::SERVICE_UNAVAILABLE, "standby") }))
        .fallback(standby)
}

fn tls() -> Result<Arc<ServerConfig>, KubernetesError> {
    let now = SystemTime::now();
    let authority = Authority::generate("standby", now)?;
    let issued = authority.issue_server(&["localhost".to_owned()], &[], LIFETIME, now)?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?
        .with_no_client_auth()
        .with_single_cert(vec![issued.certificate], issued.key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
