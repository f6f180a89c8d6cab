//! The controller's half: one service for any transport.
//!
//! It checks who calls, how often and in which version, and moves views and reports; what they
//! mean is for [`Views`], [`Reports`] and [`Joins`] to know.

mod agents;
mod allowance;
mod connection;
mod follow;
pub(crate) mod parts;
mod sessions;
mod visitors;

pub use agents::{Agents, Answer, AskError, AskLimits};
pub use connection::{Connection, Peer, accept};

use crate::attach::{AttachError, Attachments, Nothing};
use crate::pki::Authority;
use crate::token::{Proof, Redemption, ServiceAccountToken, sha256};
use crate::views::{Joins, Reports, Views};
use crate::wire::proto::fleet_server::{Fleet, FleetServer as Service};
use crate::wire::{MAX_FROM_AGENT, OLDEST_VERSION, VERSION, proto};
use allowance::Allowance;
use futures_util::Stream;
use futures_util::stream::{BoxStream, StreamExt};
use osier_model::NodeName;
use sessions::Sessions;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::io::{AsyncRead, AsyncWrite};
use tonic::{Request, Response, Status, Streaming};

/// The longest token of a service account, in bytes.
const MAX_SERVICE_ACCOUNT: usize = 16 << 10;

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
    agents: Agents,
    attachments: Arc<dyn Attachments>,
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
        let (agents, attachments) = (Agents::default(), Arc::new(Nothing));
        let inner = Inner {
            views,
            reports,
            joins,
            authority,
            options,
            sessions,
            agents,
            attachments,
            joining,
        };
        Self { inner: Arc::new(inner) }
    }

    /// With somebody who gives ports addresses. Before it serves: later it changes nothing.
    #[must_use]
    pub fn with_attachments(mut self, attachments: Arc<dyn Attachments>) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.attachments = attachments;
        }
        self
    }

    /// The agents that are connected, to be asked.
    pub fn agents(&self) -> Agents {
        self.inner.agents.clone()
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
            self.inner.agents.end_all();
        };
        tonic::transport::Server::builder()
            .http2_keepalive_interval(Some(interval))
            .http2_keepalive_timeout(Some(timeout))
            .max_concurrent_streams(32)
            // Answers that nobody reads fill their own windows, never the connection's.
            .initial_stream_window_size(64 << 10)
            .initial_connection_window_size(4 << 20)
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

// === impl FleetServer, for nodes ===

impl FleetServer {
    /// The caller, whose certificate holds and which the model still has.
    fn member<T>(&self, request: &Request<T>) -> Result<(NodeName, Peer), Status> {
        let (node, peer) = caller(request)?;
        if left(&peer).is_some_and(|left| left.is_zero()) {
            return Err(Status::unauthenticated("the certificate has expired"));
        }
        if let Err(unknown) = self.inner.views.follow(&node, None) {
            return Err(Status::permission_denied(unknown.to_string()));
        }
        Ok((node, peer))
    }
}

/// How long the caller's certificate holds.
fn left(peer: &Peer) -> Option<Duration> {
    peer.expires.map(|end| end.duration_since(SystemTime::now()).unwrap_or_default())
}

fn refused(error: AttachError) -> Status {
    match error {
        AttachError::Later(why) => Status::unavailable(why),
        AttachError::Refused(why) => Status::failed_precondition(why),
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
    type QuestionsStream = BoxStream<'static, Result<proto::Ask, Status>>;

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
        let key = crate::pki::key_hash(&certificate);
        let proof = match request.service_account_token {
            token if token.is_empty() => Proof::Token(sha256(&request.secret)),
            token if token.len() > MAX_SERVICE_ACCOUNT => return Err(denied()),
            token => Proof::ServiceAccount(ServiceAccountToken(token)),
        };
        let redemption = Redemption { node: node.clone(), proof, address, key, now };
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
        let (node, _) = self.member(&request)?;
        let now = SystemTime::now();
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

    async fn questions(
        &self,
        request: Request<proto::QuestionsRequest>,
    ) -> Result<Response<Self::QuestionsStream>, Status> {
        let (node, peer) = self.member(&request)?;
        let questions = self.inner.agents.enter(&node);
        let expiry = left(&peer).map(tokio::time::sleep);
        Ok(Response::new(match expiry {
            Some(expiry) => questions.take_until(expiry).boxed(),
            None => questions.boxed(),
        }))
    }

    async fn answer(
        &self,
        request: Request<Streaming<proto::AnswerPart>>,
    ) -> Result<Response<proto::AnswerReceipt>, Status> {
        let (node, _) = caller(&request)?;
        self.inner.agents.answered(&node, request.into_inner()).await?;
        Ok(Response::new(proto::AnswerReceipt {}))
    }

    async fn attach(
        &self,
        request: Request<proto::AttachRequest>,
    ) -> Result<Response<proto::AttachAnswer>, Status> {
        let (node, _) = self.member(&request)?;
        let wanted = serde_json::from_slice(&request.into_inner().request)
            .map_err(|error| Status::invalid_argument(format!("the request: {error}")))?;
        let port = self.inner.attachments.attach(&node, &wanted).await.map_err(refused)?;
        let port = serde_json::to_vec(&port).unwrap_or_default().into();
        Ok(Response::new(proto::AttachAnswer { port }))
    }

    async fn detach(
        &self,
        request: Request<proto::DetachRequest>,
    ) -> Result<Response<proto::DetachAnswer>, Status> {
        let (node, _) = self.member(&request)?;
        let proto::DetachRequest { key, generation } = request.into_inner();
        let key = serde_json::from_slice(&key)
            .map_err(|error| Status::invalid_argument(format!("the key: {error}")))?;
        let detached = self.inner.attachments.detach(&node, &key, generation).await;
        let revision = detached.map_err(refused)?;
        Ok(Response::new(proto::DetachAnswer { revision }))
    }
}

impl std::fmt::Debug for FleetServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "server of {} followers", self.followers())
    }
}
