//! One connection: TCP, TLS that trusts the pinned authority and nobody else, HTTP/1.1.

use super::access::Access;
use super::error::ClientError;
use super::server::{Server, Servers};
use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

/// How long a server may take to take a connection.
const CONNECT: Duration = Duration::from_secs(5);

/// What trusts the authority that access comes with.
pub(super) fn trusting(access: &Access) -> Result<Arc<ClientConfig>, ClientError> {
    let bad = || ClientError::Authority { origin: access.authority_origin.clone() };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(access.authority.as_bytes()) {
        let certificate = certificate.map_err(|_| bad())?;
        roots.add(certificate).map_err(|_| bad())?;
    }
    if roots.is_empty() {
        return Err(bad());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|_| bad())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// A connection; it lives as long as its request.
type Sender = SendRequest<Full<Bytes>>;

/// Opens one to whoever answers, and says who that is. All are asked at once: one that waits to lead
/// refuses, and one that hangs holds up nobody.
pub(super) async fn open(
    servers: &Servers,
    tls: &Arc<ClientConfig>,
) -> Result<(Sender, Server), ClientError> {
    let mut tries = JoinSet::new();
    for server in servers.all() {
        let (server, tls) = (server.clone(), Arc::clone(tls));
        tries.spawn(async move { open_one(&server, &tls).await.map(|sender| (sender, server)) });
    }
    let mut said = None;
    while let Some(tried) = tries.join_next().await {
        match tried {
            Ok(Ok(opened)) => return Ok(opened),
            // Who answers wrongly tells more than who does not.
            Ok(Err(error)) => match &said {
                Some(before) if !ClientError::is_absence(before) => {}
                _ => said = Some(error),
            },
            Err(_) => {}
        }
    }
    let nobody = || ClientError::Nobody { servers: servers.to_string() };
    match said {
        Some(error) if servers.all().len() == 1 || !error.is_absence() => Err(error),
        _ => Err(nobody()),
    }
}

async fn open_one(server: &Server, tls: &Arc<ClientConfig>) -> Result<Sender, ClientError> {
    let named = server.to_string();
    let connect = TcpStream::connect((server.host(), server.port()));
    let stream = match tokio::time::timeout(CONNECT, connect).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(source)) => return Err(ClientError::Connect { server: named, source }),
        Err(_) => {
            return Err(ClientError::Timeout { server: named, seconds: CONNECT.as_secs() });
        }
    };
    // Small questions, small answers: nothing is gained by waiting for more. It works without.
    let _ = stream.set_nodelay(true);
    let connector = TlsConnector::from(Arc::clone(tls));
    let stream = connector
        .connect(server.name(), stream)
        .await
        .map_err(|source| ClientError::of_handshake(named.clone(), source))?;
    let (sender, connection) = handshake(TokioIo::new(stream))
        .await
        .map_err(|source| ClientError::Broken { server: named, source: source.into() })?;
    // Its errors come out of the request as well.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}
