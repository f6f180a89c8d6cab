//! How an agent reaches its controllers.

use super::credentials::{Asked, Credentials};
use crate::pki::{AgentTls, TlsError, Validity, client_config, server_name};
use futures_util::future::BoxFuture;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(10);

/// How much of a file with controllers' addresses is read, in bytes.
const MAX_ADDRESSES: u64 = 64 << 10;

/// A byte stream.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// Any byte stream.
pub type BoxIo = Box<dyn Io>;

/// How an agent reaches its controllers.
pub trait Transport: Send + Sync + 'static {
    /// A new connection; each call may try another controller.
    fn connect(&self) -> BoxFuture<'static, io::Result<BoxIo>>;

    /// When the certificate in use holds, if there is one.
    fn validity(&self) -> Option<Validity> {
        None
    }

    /// A request for the next certificate.
    fn renewal(&self) -> Option<Renewal> {
        None
    }
}

/// A request for a certificate, and what to do with it.
pub struct Renewal {
    /// PKCS #10, DER.
    pub request: Vec<u8>,
    /// Takes the authority's certificate and the new one.
    #[expect(clippy::type_complexity, reason = "it is used once")]
    pub install: Box<dyn FnOnce(&[u8], &[u8]) -> io::Result<()> + Send>,
}

/// Where controllers are: `host:port` of each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Controllers {
    /// Always these.
    Fixed(Vec<String>),
    /// Those of a file, a line each, read anew for each connection.
    File(PathBuf),
}

/// Gets an agent another certificate, if the one that it has can no longer be renewed.
pub trait Rejoin: Send + Sync + 'static {
    /// Whether it is time: the certificate has ended, or the cluster has another authority.
    fn is_due(&self, current: &AgentTls) -> bool;

    /// Joins anew.
    fn rejoin(&self) -> BoxFuture<'static, io::Result<AgentTls>>;
}

/// TCP and TLS, with the agent's certificate.
pub struct TlsTransport {
    controllers: Controllers,
    next: AtomicUsize,
    current: Arc<Mutex<Arc<AgentTls>>>,
    credentials: Option<Credentials>,
    rejoin: Option<Arc<dyn Rejoin>>,
}

// === impl TlsTransport ===

impl TlsTransport {
    /// With this certificate; later ones are kept in `credentials`.
    pub fn new(
        controllers: impl Into<Controllers>,
        tls: AgentTls,
        credentials: Option<Credentials>,
    ) -> Self {
        let current = Arc::new(Mutex::new(Arc::new(tls)));
        let (controllers, next) = (controllers.into(), AtomicUsize::new(0));
        Self { controllers, next, current, credentials, rejoin: None }
    }

    /// With somebody who gets another certificate when this one cannot be renewed.
    #[must_use]
    pub fn rejoining(self, rejoin: Arc<dyn Rejoin>) -> Self {
        Self { rejoin: Some(rejoin), ..self }
    }

    fn current(&self) -> Arc<AgentTls> {
        Arc::clone(&lock(&self.current))
    }
}

fn lock(current: &Mutex<Arc<AgentTls>>) -> MutexGuard<'_, Arc<AgentTls>> {
    current.lock().unwrap_or_else(PoisonError::into_inner)
}

// === impl Controllers ===

impl From<Vec<String>> for Controllers {
    fn from(addresses: Vec<String>) -> Self {
        Self::Fixed(addresses)
    }
}

impl Controllers {
    /// All of them, as they are now.
    pub fn list(&self) -> io::Result<Vec<String>> {
        let path = match self {
            Self::Fixed(addresses) => return Ok(addresses.clone()),
            Self::File(path) => path,
        };
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("{} cannot be read: {error}", path.display()))
        };
        let mut text = String::new();
        let file = std::fs::File::open(path).map_err(named)?;
        file.take(MAX_ADDRESSES).read_to_string(&mut text).map_err(named)?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        Ok(lines.map(str::to_owned).collect())
    }
}

impl Transport for TlsTransport {
    fn connect(&self) -> BoxFuture<'static, io::Result<BoxIo>> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let controllers = self.controllers.list();
        let (current, rejoin) = (Arc::clone(&self.current), self.rejoin.clone());
        Box::pin(async move {
            let controllers = controllers?;
            let none = || io::Error::new(io::ErrorKind::NotFound, "no controller is known");
            let controller = controllers.get(turn % controllers.len().max(1));
            let controller = controller.cloned().ok_or_else(none)?;
            let mut tls = Arc::clone(&lock(&current));
            if let Some(rejoin) = rejoin.filter(|rejoin| rejoin.is_due(&tls)) {
                tls = Arc::new(rejoin.rejoin().await?);
                *lock(&current) = Arc::clone(&tls);
            }
            let config = client_config(&tls).map_err(io::Error::other)?;
            secure(&controller, config).await
        })
    }

    fn validity(&self) -> Option<Validity> {
        self.current().validity().ok()
    }

    fn renewal(&self) -> Option<Renewal> {
        let asked = Asked::new().ok()?;
        let (key, current) = (asked.private_key(), Arc::clone(&self.current));
        let credentials = self.credentials.clone();
        let install = move |authority: &[u8], certificate: &[u8]| {
            let tls = AgentTls {
                authority: authority.to_vec().into(),
                certificate: certificate.to_vec().into(),
                key,
            };
            usable(&tls).map_err(io::Error::other)?;
            if let Some(credentials) = credentials {
                credentials.store(&tls).map_err(io::Error::other)?;
            }
            *lock(&current) = Arc::new(tls);
            Ok(())
        };
        Some(Renewal { request: asked.request, install: Box::new(install) })
    }
}

/// Whether connections can be made with it, before the old one is given up.
fn usable(tls: &AgentTls) -> Result<(), TlsError> {
    client_config(tls)?;
    match tls.validity()?.left(SystemTime::now()) {
        Some(_) => Ok(()),
        None => Err(TlsError::Unreadable),
    }
}

/// TCP and TLS to a controller, whatever its address is.
pub(crate) async fn secure(controller: &str, config: rustls::ClientConfig) -> io::Result<BoxIo> {
    let connect = async {
        let stream = TcpStream::connect(controller).await?;
        stream.set_nodelay(true)?;
        TlsConnector::from(Arc::new(config)).connect(server_name(), stream).await
    };
    match tokio::time::timeout(CONNECT, connect).await {
        Ok(stream) => Ok(Box::new(stream?)),
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, format!("{controller} is silent"))),
    }
}

impl std::fmt::Debug for TlsTransport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "to {:?}", self.controllers)
    }
}

impl std::fmt::Debug for Renewal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "renewal with {} bytes", self.request.len())
    }
}
