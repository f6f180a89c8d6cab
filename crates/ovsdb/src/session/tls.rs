//! TLS as Open vSwitch uses it: both sides show a certificate, both trust one authority, and names
//! in certificates mean nothing (ovs-vswitchd(8), "Public Key Infrastructure Options"). Files are
//! read anew for each connection, so that certificates can be renewed under us.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, ServerConfig,
    SignatureScheme,
};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// Who we are and whom we trust, in PEM files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// Our private key.
    pub private_key: PathBuf,
    /// Our certificate, and those between it and the authority.
    pub certificate: PathBuf,
    /// The authority that signed the peer's certificate.
    pub ca_certificate: PathBuf,
}

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// `ssl:` without [`TlsFiles`].
    #[error("no private key, certificate and authority are configured")]
    Missing,
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: pem::Error,
    },
    /// Key and certificates do not fit together.
    #[error("key, certificate or authority cannot be used")]
    Material(#[from] Error),
    /// The authority cannot verify anyone.
    #[error("the authority cannot be used")]
    Authority(#[from] VerifierBuilderError),
    /// The host is neither a name nor an address.
    #[error("{0:?} is no host name")]
    Host(String),
}

// === impl TlsFiles ===

impl TlsFiles {
    /// For who accepts connections itself. Clients have to have a certificate of the authority.
    pub fn acceptor(&self) -> Result<TlsAcceptor, TlsError> {
        acceptor(self)
    }
}

struct Material {
    provider: Arc<CryptoProvider>,
    roots: Arc<RootCertStore>,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

fn load(files: &TlsFiles) -> Result<Material, TlsError> {
    let certificates = |path: &PathBuf| {
        CertificateDer::pem_file_iter(path)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|source| TlsError::File { path: path.clone(), source })
    };
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&files.ca_certificate)? {
        roots.add(certificate)?;
    }
    let key = PrivateKeyDer::from_pem_file(&files.private_key)
        .map_err(|source| TlsError::File { path: files.private_key.clone(), source })?;
    Ok(Material {
        provider: Arc::new(rustls::crypto::ring::default_provider()),
        roots: Arc::new(roots),
        chain: certificates(&files.certificate)?,
        key,
    })
}

/// For dialling.
pub(super) fn connector(files: &TlsFiles) -> Result<TlsConnector, TlsError> {
    let Material { provider, roots, chain, key } = load(files)?;
    let inner =
        WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider)).build()?;
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyName(inner)))
        .with_client_auth_cert(chain, key)?;
    Ok(TlsConnector::from(Arc::new(config)))
}

/// For being dialled.
pub(super) fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor, TlsError> {
    let Material { provider, roots, chain, key } = load(files)?;
    let verifier =
        WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider)).build()?;
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

pub(super) fn server_name(host: &str) -> Result<ServerName<'static>, TlsError> {
    ServerName::try_from(host.to_owned()).map_err(|_| TlsError::Host(host.to_owned()))
}

/// Checks the chain up to the authority, but not the name.
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verdict =
            self.0.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verdict {
            // The name is looked at last: the chain has been found good.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
