//! TLS as switches do it: both sides show a certificate, and whoever the authority has signed is a
//! peer. Names are checked only if asked for, because switches are configured by address.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::client::{
    WebPkiServerVerifier, verify_server_cert_signed_by_trust_anchor,
};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::{Error as PemError, PemObject};
use tokio_rustls::rustls::pki_types::{
    CertificateDer, InvalidDnsNameError, PrivateKeyDer, ServerName, UnixTime,
};
use tokio_rustls::rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use tokio_rustls::rustls::{
    ClientConfig, DigitallySignedStruct, Error as TlsProtocolError, RootCertStore, ServerConfig,
    SignatureScheme, version,
};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// A key, a certificate and an authority, loaded; cheap to clone.
#[derive(Clone)]
pub struct Tls {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    roots: Arc<RootCertStore>,
    /// The name that a server's certificate must have.
    name: Option<ServerName<'static>>,
}

/// Where they are, as PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// Our private key.
    pub private_key: PathBuf,
    /// Our certificate, and those between it and the authority.
    pub certificate: PathBuf,
    /// The authority that signs our peers.
    pub ca_certificate: PathBuf,
}

/// Why there is no TLS.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A file cannot be read, or is not PEM.
    #[error("cannot read {what} from {}", path.display())]
    File {
        /// What should be in it.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        source: PemError,
    },
    /// A file without what it is for.
    #[error("no {what} in {}", path.display())]
    Missing {
        /// What should be in it.
        what: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// An authority that cannot be one.
    #[error("{} cannot be an authority", path.display())]
    Authority {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: TlsProtocolError,
    },
    /// Key and certificate do not fit, or are of a kind that we cannot use.
    #[error("key and certificate cannot be used")]
    Identity(#[source] TlsProtocolError),
    /// Certificates cannot be checked with this authority.
    #[error("certificates cannot be checked")]
    Verifier(#[source] tokio_rustls::rustls::server::VerifierBuilderError),
    /// The name to expect is no name.
    #[error("`{name}` can be no certificate's name")]
    Name {
        /// The name.
        name: String,
        /// Why not.
        source: InvalidDnsNameError,
    },
}

// === impl Tls ===

impl Tls {
    /// Loads the files; names of servers are not checked.
    pub fn load(files: &TlsFiles) -> Result<Self, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let roots = Arc::new(authority(&files.ca_certificate)?);
        let chain = certificates("certificate", &files.certificate)?;
        let key = private_key(&files.private_key)?;
        let by_chain = ChainOnly { roots: Arc::clone(&roots), provider: Arc::clone(&provider) };
        let versions = [&version::TLS13, &version::TLS12];

        let client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&versions)
            .map_err(TlsError::Identity)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(by_chain))
            .with_client_auth_cert(chain.clone(), key.clone_key())
            .map_err(TlsError::Identity)?;
        let clients =
            WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider))
                .build()
                .map_err(TlsError::Verifier)?;
        let server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions)
            .map_err(TlsError::Identity)?
            .with_client_cert_verifier(clients)
            .with_single_cert(chain, key)
            .map_err(TlsError::Identity)?;
        Ok(Self { client: Arc::new(client), server: Arc::new(server), roots, name: None })
    }

    /// Demands that servers' certificates have this name, or IP address.
    pub fn expecting(mut self, name: &str) -> Result<Self, TlsError> {
        let refused = |source| TlsError::Name { name: name.to_owned(), source };
        self.name = Some(ServerName::try_from(name.to_owned()).map_err(refused)?);
        let provider = Arc::clone(self.client.crypto_provider());
        let roots = Arc::clone(&self.roots);
        let by_name = WebPkiServerVerifier::builder_with_provider(roots, provider)
            .build()
            .map_err(TlsError::Verifier)?;
        Arc::make_mut(&mut self.client).dangerous().set_certificate_verifier(by_name);
        Ok(self)
    }

    pub(super) fn connector(&self) -> TlsConnector {
        TlsConnector::from(Arc::clone(&self.client))
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.server))
    }

    /// The name to expect of a server: the one that was asked for, or where it is, which is then
    /// only said to it.
    pub(super) fn server_name(&self, host: &str) -> Result<ServerName<'static>, TlsError> {
        if let Some(name) = &self.name {
            return Ok(name.clone());
        }
        let address = host.split_once('%').map_or(host, |(address, _)| address);
        ServerName::try_from(address.to_owned())
            .map_err(|source| TlsError::Name { name: host.to_owned(), source })
    }
}

impl fmt::Debug for Tls {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("name", &self.name).finish_non_exhaustive()
    }
}

fn certificates(what: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed = |source| TlsError::File { what, path: path.to_owned(), source };
    let found: Vec<_> = CertificateDer::pem_file_iter(path)
        .map_err(failed)?
        .collect::<Result<_, _>>()
        .map_err(failed)?;
    if found.is_empty() {
        return Err(TlsError::Missing { what, path: path.to_owned() });
    }
    Ok(found)
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let what = "private key";
    PrivateKeyDer::from_pem_file(path).map_err(|source| match source {
        PemError::NoItemsFound => TlsError::Missing { what, path: path.to_owned() },
        source => TlsError::File { what, path: path.to_owned(), source },
    })
}

fn authority(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates("authority's certificate", path)? {
        roots
            .add(certificate)
            .map_err(|source| TlsError::Authority { path: path.to_owned(), source })?;
    }
    Ok(roots)
}

/// Accepts any server that the authority has signed.
#[derive(Debug)]
struct ChainOnly {
    roots: Arc<RootCertStore>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for ChainOnly {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, TlsProtocolError> {
        verify_server_cert_signed_by_trust_anchor(
            &ParsedCertificate::try_from(end_entity)?,
            &self.roots,
            intermediates,
            now,
            self.provider.signature_verification_algorithms.all,
        )?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsProtocolError> {
        let algorithms = &self.provider.signature_verification_algorithms;
        tokio_rustls::rustls::crypto::verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsProtocolError> {
        let algorithms = &self.provider.signature_verification_algorithms;
        tokio_rustls::rustls::crypto::verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
