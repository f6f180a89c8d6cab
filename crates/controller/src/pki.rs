//! The authority, which is kept in the store, and the controller's own certificates, which are made
//! at each start and renewed in time.

use crate::metrics::Metrics;
use osier_fleet::pki::{Issued, ServerTls, TlsError, Validity};
use osier_fleet::{Authority, AuthorityError};
use osier_store::{CommitError, Condition, Key, Store, Transaction, Unavailable};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};
use thiserror::Error;

/// Where the authority is kept.
const AUTHORITY: &str = "pki/authority";

#[derive(Serialize, Deserialize)]
struct Kept {
    certificate: String,
    key: String,
}

/// Why there are no certificates.
#[derive(Debug, Error)]
pub enum PkiError {
    /// The store cannot be read.
    #[error("the authority cannot be read")]
    Read(#[from] Unavailable),
    /// The authority cannot be stored.
    #[error("the authority cannot be stored")]
    Store(#[from] CommitError),
    /// What is stored is no authority.
    #[error("what is stored in {AUTHORITY} is no authority")]
    Damaged,
    /// No certificate.
    #[error("a certificate cannot be made")]
    Issue(#[from] AuthorityError),
    /// TLS cannot be set up.
    #[error("TLS cannot be used")]
    Tls(#[from] TlsError),
    /// TLS cannot be set up.
    #[error("TLS cannot be used for the API")]
    Api(#[from] rustls::Error),
}

/// The authority of the store; a new one for a new store.
pub(crate) async fn authority(store: &dyn Store, cluster: &str) -> Result<Authority, PkiError> {
    let key = Key::new(AUTHORITY).expect("it is short and plain");
    if let Some(entry) = store.get(&key).await? {
        let kept: Kept = serde_json::from_slice(&entry.value).map_err(|_| PkiError::Damaged)?;
        let certificate = pem::parse(kept.certificate).map_err(|_| PkiError::Damaged)?;
        return Ok(Authority::load(certificate.contents(), &kept.key)?);
    }
    let authority = Authority::generate(cluster, SystemTime::now())?;
    let kept = Kept { certificate: certificate_pem(&authority), key: authority.key_pem() };
    let value = serde_json::to_vec(&kept).unwrap_or_default();
    let absent = Condition::Absent(key.clone());
    store.commit(Transaction::new().when(absent).put(key, value)).await?;
    Ok(authority)
}

/// An authority that is kept elsewhere, as the store has it: for a store that is filled before the
/// controller starts.
pub fn kept_authority(certificate: String, key: String) -> (Key, Vec<u8>) {
    let kept = serde_json::to_vec(&Kept { certificate, key }).unwrap_or_default();
    (Key::new(AUTHORITY).expect("it is short and plain"), kept)
}

/// The authority's certificate, for clients.
pub fn certificate_pem(authority: &Authority) -> String {
    pem::encode(&pem::Pem::new("CERTIFICATE", authority.certificate().to_vec()))
}

/// The controller's own certificates, one for each port.
pub(crate) struct Certificates {
    pub(crate) authority: Arc<Authority>,
    pub(crate) fleet: ServerTls,
    api: Arc<Current>,
    names: Vec<String>,
    addresses: Vec<IpAddr>,
    lifetime: Duration,
    metrics: Metrics,
}

/// The API's certificate, which changes while it is served.
#[derive(Debug)]
struct Current(RwLock<Arc<CertifiedKey>>);

// === impl Certificates ===

impl Certificates {
    pub(crate) fn new(
        authority: Arc<Authority>,
        names: Vec<String>,
        addresses: Vec<IpAddr>,
        lifetime: Duration,
        metrics: Metrics,
    ) -> Result<Self, PkiError> {
        let issue = || authority.issue_server(&names, &addresses, lifetime, SystemTime::now());
        let fleet = ServerTls::new(authority.certificate(), issue()?)?;
        let api = certified(&authority, issue()?)?;
        let api = Arc::new(Current(RwLock::new(Arc::new(api))));
        let made = Self { authority, fleet, api, names, addresses, lifetime, metrics };
        made.tell();
        Ok(made)
    }

    /// TLS for the API: HTTP/2, and HTTP/1.1 for who does not speak it.
    pub(crate) fn api(&self) -> Result<Arc<ServerConfig>, PkiError> {
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&self.api) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    /// When they hold.
    pub(crate) fn validity(&self) -> Option<Validity> {
        let key = self.api.0.read().unwrap_or_else(PoisonError::into_inner);
        Validity::of(key.cert.first()?)
    }

    fn renew(&self) -> Result<(), PkiError> {
        let now = SystemTime::now();
        let issue =
            || self.authority.issue_server(&self.names, &self.addresses, self.lifetime, now);
        self.fleet.replace(issue()?)?;
        let api = Arc::new(certified(&self.authority, issue()?)?);
        *self.api.0.write().unwrap_or_else(PoisonError::into_inner) = api;
        self.tell();
        Ok(())
    }

    fn tell(&self) {
        if let Some(validity) = self.validity() {
            self.metrics.certificate("controller", validity.until);
        }
        if let Some(validity) = Validity::of(self.authority.certificate()) {
            self.metrics.certificate("authority", validity.until);
        }
    }

    /// Renews them when two thirds of their time are over, for ever.
    pub(crate) async fn keep(self: Arc<Self>) {
        loop {
            let due = self.validity().map_or(SystemTime::now(), Validity::renewal);
            let wait = due.duration_since(SystemTime::now()).unwrap_or_default();
            // A clock that is set forward is noticed within a minute.
            tokio::time::sleep(wait.clamp(Duration::from_secs(1), Duration::from_mins(1))).await;
            if SystemTime::now() < due {
                continue;
            }
            if let Err(error) = self.renew() {
                tracing::error!(%error, "the controller's certificates could not be renewed");
            }
        }
    }
}

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

fn certified(authority: &Authority, issued: Issued) -> Result<CertifiedKey, PkiError> {
    let key = ring::default_provider().key_provider.load_private_key(issued.key)?;
    let chain = vec![issued.certificate, authority.certificate().clone()];
    Ok(CertifiedKey::new(chain, key))
}
