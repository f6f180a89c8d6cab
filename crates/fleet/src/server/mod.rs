//! The controller's half: one service for any transport.
//!
//! It checks who calls, how often and in which version, and moves views and reports; what they
//! mean is for [`Views`], [`Reports`] and [`Joins`] to know.

mod allowance;
mod connection;
mod follow;
pub(crate) mod parts;
mod sessions;
mod visitors;

pub use connection::{Connection, Peer, accept};

use crate::pki::Authority;
use crate::token::{Redemption, sha256};
use crate::views::{Joins, Reports, Views};
use crate::wire::proto::fleet_server::{Fleet, FleetServer as Service};
use crate::wire::{MAX_FROM_AGENT, OLDEST_VERSION, VERSION, proto};
use allowance::Allowance;
use futures_util::Stream;
use futures_util::stream::BoxStream;
use osier_model::NodeName;
use sessions::Sessions;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::io::{AsyncRead, AsyncWrite};
use tonic::{Request, Response, Status, Streaming};

/// How the server behaves.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// How long an agent's certificate holds.
    pub certificate_lifetime: Duration,
    /// How long a client may take to say who it is.
    pub hello_timeout: Duration,
    /// How often a silent connection is tried, and how long an answer may take.
    pub keep_alive: (Duration, Duration),
    /// Messages of one agent: in a second, and at once.
    pub messages: (u32, u32),
    /// Requests to join, of all nodes: in a second, and at once.
    pub joins: (u32, u32),
    /// What the controller can do.
    pub features: u64,
}

/// The controller's half.
#[derive(Clone)]
pub struct FleetServer {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    views: Arc<dyn Views>,
    reports: Arc<dyn Reports>,
    joins: Arc<dyn Joins>,
    authority: Arc<Authority>,
    options: ServerOptions,
    sessions: Sessions,
    joining: Mutex<Allowance>,
}

// === impl ServerOptions ===

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            certificate_lifetime: Duration::from_hours(24),
            hello_timeout: Duration::from_secs(10),
            keep_alive: (Duration::from_secs(10), Duration::from_secs(10)),
            messages: (20, 200),
            joins: (10, 50),
            features: 0,
        }
    }
}

// === impl FleetServer ===

impl FleetServer {
    /// A server over what the controller provides.
    pub fn new(
        views: Arc<dyn Views>,
        reports: Arc<dyn Reports>,
        joins: Arc<dyn Joins>,
        authority: Arc<Authority>,
        options: ServerOptions,
    ) -> Self {
        let joining = Mutex::new(Allowance::new(options.joins));
        let sessions = Sessions::default();
        let inner = Inner { views, reports, joins, authority, options, sessions, joining };
        Self { inner: Arc::new(inner) }
    }

    /// Serves connections, such as [`accept`] makes them, until `shutdown` is there. Streams end
    /// then: agents go on with what they have.
    pub async fn serve<IO>(
        &self,
        incoming: impl Stream<Item = io::Result<Connection<IO>>>,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), tonic::transport::Error>
    where
        IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (interval, timeout) = self.inner.options.keep_alive;
        let service = Service::new(self.clone())
            .max_decoding_message_size(MAX_FROM_AGENT)
            .max_encoding_message_size(crate::MAX_FROM_CONTROLLER);
        let end = async {
            shutdown.await;
            // The server waits for its streams; they would wait for ever.
            self.inner.sessions.end_all();
        };
        tonic::transport::Server::builder()
            .http2_keepalive_interval(Some(interval))
            .http2_keepalive_timeout(Some(timeout))
            .max_concurrent_streams(8)
            .initial_stream_window_size(256 << 10)
            .initial_connection_window_size(512 << 10)
            .http2_max_header_list_size(16 << 10)
            .add_service(service)
            .serve_with_incoming_shutdown(incoming, end)
            .await
    }

    /// How many agents follow their views.
    pub fn followers(&self) -> usize {
        self.inner.sessions.len()
    }
}

/// The caller, by its certificate.
fn caller<T>(request: &Request<T>) -> Result<(NodeName, Peer), Status> {
    let peer = request.extensions().get::<Peer>().cloned().unwrap_or_default();
    match peer.node.clone() {
        Some(node) => Ok((node, peer)),
        None => Err(Status::unauthenticated("a certificate of a node is needed")),
    }
}

fn check_version(version: u32) -> Result<(), Status> {
    match version {
        OLDEST_VERSION..=VERSION => Ok(()),
        _ => Err(Status::failed_precondition(format!(
            "version {version} of the protocol is not spoken here, but {OLDEST_VERSION} to {VERSION}"
        ))),
    }
}

#[tonic::async_trait]
impl Fleet for FleetServer {
    type FollowStream = BoxStream<'static, Result<proto::FromController, Status>>;

    async fn join(
        &self,
        request: Request<proto::JoinRequest>,
    ) -> Result<Response<proto::JoinAnswer>, Status> {
        let inner = &self.inner;
        let peer = request.extensions().get::<Peer>().cloned().unwrap_or_default();
        if !inner.joining.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return Err(Status::resource_exhausted("too many nodes join: try again"));
        }
        let request = request.into_inner();
        check_version(request.version)?;
        // Whoever has no right to join learns nothing of why.
        let denied = || Status::permission_denied("this node may not join with this token");
        let node = NodeName::new(&request.node).map_err(|_| denied())?;
        let address = peer.address.ok_or_else(denied)?;
        let now = SystemTime::now();
        // Before the token is used up for it.
        let lifetime = inner.options.certificate_lifetime;
        let certificate =
            inner.authority.issue_agent(&node, &request.request, lifetime, now).map_err(|e| {
                tracing::warn!(%node, %address, error = %e, "certificate request refused");
                Status::invalid_argument("the certificate request is wrong")
            })?;
        let (hash, key) = (sha256(&request.secret), crate::pki::key_hash(&certificate));
        let redemption = Redemption { node: node.clone(), hash, address, key, now };
        let configuration = inner.joins.redeem(&redemption).await.map_err(|refused| {
            tracing::warn!(%node, %address, reason = %refused, "join refused");
            denied()
        })?;
        tracing::info!(%node, %address, "node joined");
        let configuration = serde_json::to_vec(&configuration)
            .map_err(|_| Status::internal("the configuration cannot be told"))?;
        Ok(Response::new(proto::JoinAnswer {
            authority: inner.authority.certificate().to_vec().into(),
            certificate: certificate.to_vec().into(),
            configuration: configuration.into(),
        }))
    }

    async fn renew(
        &self,
        request: Request<proto::RenewRequest>,
    ) -> Result<Response<proto::RenewAnswer>, Status> {
        let (node, peer) = caller(&request)?;
        let now = SystemTime::now();
        if peer.expires.is_some_and(|end| end <= now) {
            return Err(Status::unauthenticated("the certificate has expired"));
        }
        // Who was removed from the model gets no new one.
        if let Err(unknown) = self.inner.views.follow(&node, None) {
            return Err(Status::permission_denied(unknown.to_string()));
        }
        let lifetime = self.inner.options.certificate_lifetime;
        let authority = &self.inner.authority;
        let certificate = authority
            .issue_agent(&node, &request.into_inner().request, lifetime, now)
            .map_err(|_| Status::invalid_argument("the certificate request is wrong"))?;
        Ok(Response::new(proto::RenewAnswer {
            authority: authority.certificate().to_vec().into(),
            certificate: certificate.to_vec().into(),
        }))
    }

    async fn follow(
        &self,
        request: Request<Streaming<proto::FromAgent>>,
    ) -> Result<Response<Self::FollowStream>, Status> {
        let (node, peer) = caller(&request)?;
        follow::start(Arc::clone(&self.inner), node, peer, request.into_inner()).await
    }
}

impl std::fmt::Debug for FleetServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "server of {} followers", self.followers())
    }
}
