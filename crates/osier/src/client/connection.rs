//! One connection: TCP, TLS that trusts the pinned authority and nobody else, HTTP/1.1.

use super::access::Access;
use super::error::ClientError;
use super::server::Server;
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

/// Opens one to the server; it lives as long as its request.
pub(super) async fn open(
    server: &Server,
    tls: &Arc<ClientConfig>,
) -> Result<SendRequest<Full<Bytes>>, ClientError> {
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
