//! TLS on both sides.

use crate::SERVER_NAME;
use crate::pki::{Issued, Validity};
use crate::token::{Fingerprint, sha256};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, ServerConfig,
    SignatureScheme,
};
use std::sync::{Arc, PoisonError, RwLock};
use thiserror::Error as ThisError;

/// HTTP/2, and nothing else.
const ALPN: &[u8] = b"h2";

/// Keys and certificates that do not fit.
#[derive(Debug, ThisError)]
pub enum TlsError {
    /// Not usable.
    #[error("the certificate or its key cannot be used")]
    Certificate(#[from] Error),
    /// The authority cannot be used to check others.
    #[error("the authority's certificate cannot be used")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
    /// It has no dates.
    #[error("the certificate cannot be read")]
    Unreadable,
}

/// The server's side. Clients may come without a certificate: to join.
#[derive(Debug, Clone)]
pub struct ServerTls {
    pub(crate) config: Arc<ServerConfig>,
    current: Arc<Current>,
}

/// An agent's side: whom it trusts and who it is.
#[derive(Debug)]
pub struct AgentTls {
    /// The cluster's authority.
    pub authority: CertificateDer<'static>,
    /// The agent's certificate.
    pub certificate: CertificateDer<'static>,
    /// Its key.
    pub key: PrivateKeyDer<'static>,
}

/// The server's certificate, which changes while it runs.
#[derive(Debug)]
struct Current {
    authority: CertificateDer<'static>,
    key: RwLock<Arc<CertifiedKey>>,
}

// === impl ServerTls ===

impl ServerTls {
    /// Serves with this certificate, for clients of this authority.
    pub fn new(authority: &CertificateDer<'static>, issued: Issued) -> Result<Self, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let key = certified(authority, issued, &provider)?;
        let current =
            Arc::new(Current { authority: authority.clone(), key: RwLock::new(Arc::new(key)) });
        let verifier = WebPkiClientVerifier::builder_with_provider(
            Arc::new(roots(authority)?),
            Arc::clone(&provider),
        )
        .allow_unauthenticated()
        .build()?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::clone(&current) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![ALPN.to_vec()];
        // A resumed session would not look at the certificate's end again.
        config.send_tls13_tickets = 0;
        Ok(Self { config: Arc::new(config), current })
    }

    /// Serves new connections with another certificate.
    pub fn replace(&self, issued: Issued) -> Result<(), TlsError> {
        let provider = ring::default_provider();
        let key = Arc::new(certified(&self.current.authority, issued, &provider)?);
        *self.current.key.write().unwrap_or_else(PoisonError::into_inner) = key;
        Ok(())
    }

    /// When its certificate holds.
    pub fn validity(&self) -> Option<Validity> {
        let key = self.current.key.read().unwrap_or_else(PoisonError::into_inner);
        Validity::of(key.cert.first()?)
    }
}

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.key.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

// === impl AgentTls ===

impl AgentTls {
    /// When its certificate holds.
    pub fn validity(&self) -> Result<Validity, TlsError> {
        Validity::of(&self.certificate).ok_or(TlsError::Unreadable)
    }
}

/// A joining node finds the authority in the server's chain, by its fingerprint.
fn certified(
    authority: &CertificateDer<'static>,
    issued: Issued,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, TlsError> {
    let chain = vec![issued.certificate, authority.clone()];
    let key = CertifiedKey::new(chain, provider.key_provider.load_private_key(issued.key)?);
    key.keys_match()?;
    Ok(key)
}

fn roots(authority: &CertificateDer<'static>) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    roots.add(authority.clone())?;
    Ok(roots)
}

pub(crate) fn server_name() -> ServerName<'static> {
    ServerName::try_from(SERVER_NAME).expect("it is a DNS name")
}

/// An agent's connections, with its certificate.
pub(crate) fn client_config(tls: &AgentTls) -> Result<ClientConfig, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots(&tls.authority)?)
        .with_client_auth_cert(vec![tls.certificate.clone()], tls.key.clone_key())?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(config)
}

/// Connections of a node that joins: it knows the authority by its fingerprint only.
pub(crate) fn joining_config(authority: Fingerprint) -> Result<ClientConfig, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let pinned = Arc::new(Pinned { authority, provider: Arc::clone(&provider) });
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(pinned)
        .with_no_client_auth();
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(config)
}

/// Trusts the one authority that has the fingerprint, if the server shows it.
#[derive(Debug)]
struct Pinned {
    authority: Fingerprint,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let unknown = || Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let is_it = |shown: &&CertificateDer<'_>| sha256(shown) == self.authority.0;
        let authority = intermediates.iter().find(is_it).ok_or_else(unknown)?;
        let roots = roots(&authority.clone().into_owned()).map_err(|_| unknown())?;
        let provider = Arc::clone(&self.provider);
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|_| unknown())?
            .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
