//! The controller's API, as the verbs use it: HTTPS with a pinned authority, JSON both ways.
//!
//! [`access`] knows whom to ask and with what credential, [`Client`] asks, and [`ClientError`] says
//! what went wrong and what can be done. What the answers mean is the verbs' and [`answers`]'.

pub(crate) mod access;
pub(crate) mod answers;
mod cluster;
mod connection;
pub(crate) mod contexts;
mod error;
mod lines;
mod local;
mod resources;
mod secret;
mod server;

pub(crate) use access::{Access, Connection};
pub(crate) use cluster::is_plugin;
pub(crate) use error::{ClientError, Refusal};
pub(crate) use resources::{Follower, Listing, News};
pub(crate) use secret::Credential;
pub(crate) use server::Servers;

use bytes::Bytes;
use cluster::Proxied;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, RETRY_AFTER, USER_AGENT};
use hyper::{Method, Request, Response, StatusCode};
use lines::Lines;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// Where resources are.
pub(crate) const BASE: &str = "/apis/osier.dev/v1alpha1";
/// The largest answer that is taken as a whole.
const MAX_ANSWER: usize = 256 << 20;
/// How often a question is asked that changes nothing.
const TRIES: u32 = 3;
/// The longest that we let a busy server make us wait.
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// What broke on the way.
pub(crate) type BrokenBy = Box<dyn std::error::Error + Send + Sync>;
/// An answer, as it comes.
pub(crate) type Body = UnsyncBoxBody<Bytes, BrokenBy>;

/// One who asks a controller.
pub(crate) struct Client {
    way: Way,
    timeout: Duration,
}

/// How a controller is reached.
enum Way {
    /// By its own address, with a credential of its own.
    Direct { access: Box<Access>, tls: Arc<rustls::ClientConfig> },
    /// Through the API server of its cluster.
    Cluster(Box<Proxied>),
}

impl Client {
    pub(crate) fn new(access: Access, timeout: Duration) -> Result<Self, ClientError> {
        let tls = connection::trusting(&access)?;
        Ok(Self { way: Way::Direct { access: Box::new(access), tls }, timeout })
    }

    /// For the controller of a Kubernetes cluster.
    pub(crate) fn of_cluster(cluster: cluster::Cluster, timeout: Duration) -> Self {
        Self { way: Way::Cluster(Box::new(Proxied::new(cluster))), timeout }
    }

    /// Whom it asks, in words.
    pub(crate) fn server(&self) -> String {
        match &self.way {
            Way::Direct { access, .. } => access.server.to_string(),
            Way::Cluster(proxied) => proxied.called(),
        }
    }

    /// What it is known by: a secret.
    pub(crate) fn secret(&self) -> &str {
        match &self.way {
            Way::Direct { access, .. } => access.credential.expose(),
            Way::Cluster(proxied) => proxied.secret().unwrap_or_default(),
        }
    }

    /// How it is known, in words.
    fn known_as(&self) -> String {
        match &self.way {
            Way::Direct { access, .. } => access.origin.clone(),
            Way::Cluster(_) => "The token of your service account".to_owned(),
        }
    }

    /// Asks for something that is below the base.
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.read(&format!("{BASE}{path}")).await
    }

    /// Asks for something by its whole path; again, if the connection breaks or the server is busy.
    pub(crate) async fn read<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.understand(&self.read_bytes(path).await?)
    }

    /// The bytes that are at a path.
    pub(crate) async fn read_bytes(&self, path: &str) -> Result<Bytes, ClientError> {
        let mut tries = 1;
        loop {
            match self.ask(Method::GET, path, None).await {
                Err(error) if tries < TRIES && error.may_pass() => {
                    tokio::time::sleep(error.pause().min(MAX_PAUSE)).await;
                    tries += 1;
                }
                outcome => return outcome,
            }
        }
    }

    /// Sends a question below the base, once.
    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &Value,
    ) -> Result<T, ClientError> {
        let answer = self.ask(Method::POST, &format!("{BASE}{path}"), Some(body)).await?;
        self.understand(if answer.is_empty() { b"null" } else { &answer })
    }

    /// Sends a change below the base, once.
    pub(crate) async fn change<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &Value,
    ) -> Result<T, ClientError> {
        self.post(path, body).await.map_err(|mut error| {
            if let Some(refusal) = error.refusal_mut() {
                refusal.is_change = true;
            }
            error
        })
    }

    /// Opens a stream of something below the base.
    pub(crate) async fn stream(&self, path: &str) -> Result<Body, ClientError> {
        let path = format!("{BASE}{path}");
        let answer = self.in_time(self.begin(Method::GET, &path, None)).await?;
        Ok(self.accepted(answer).await?.into_body())
    }

    /// When the server believes that it is, if it says so.
    pub(crate) async fn clock(&self) -> Result<Option<String>, ClientError> {
        let answer = self.in_time(self.begin(Method::GET, "/healthz", None)).await?;
        let date = answer.headers().get(hyper::header::DATE);
        Ok(date.and_then(|date| date.to_str().ok()).map(str::to_owned))
    }

    /// One question and its whole answer.
    async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Bytes, ClientError> {
        let whole = async {
            let answer = self.begin(method, path, body).await?;
            self.collect(self.accepted(answer).await?.into_body()).await
        };
        self.in_time(whole).await
    }

    async fn in_time<T>(
        &self,
        what: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        let late =
            |_| ClientError::Timeout { server: self.server(), seconds: self.timeout.as_secs() };
        tokio::time::timeout(self.timeout, what).await.map_err(late)?
    }

    /// A question on a connection of its own: its answer's head.
    async fn begin(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Response<Body>, ClientError> {
        let body = body.map(|body| Bytes::from(body.to_string())).unwrap_or_default();
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(USER_AGENT, concat!("osier/", env!("CARGO_PKG_VERSION")))
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/json");
        let impossible = |source| ClientError::Question { source };
        match &self.way {
            Way::Direct { access, tls } => {
                let (mut sender, server) = connection::open(&access.server, tls).await?;
                let request = request
                    .header(HOST, server.authority())
                    .header(AUTHORIZATION, access.credential.bearer())
                    .body(Full::new(body))
                    .map_err(impossible)?;
                let answer = sender.send_request(request).await;
                let answer = answer.map_err(|source| self.broken(source.into()))?;
                Ok(answer.map(|body| body.map_err(Into::into).boxed_unsync()))
            }
            Way::Cluster(proxied) => proxied.send(request.body(body).map_err(impossible)?).await,
        }
    }

    /// The answer, if it is a good one; what it says, if not.
    async fn accepted(&self, answer: Response<Body>) -> Result<Response<Body>, ClientError> {
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        let retry_after = answer.headers().get(RETRY_AFTER).cloned();
        let body = self.collect(answer.into_body()).await?;
        let mut refusal = Refusal::read(status.as_u16(), &body);
        refusal.retry_after = retry_after.and_then(|after| after.to_str().ok()?.parse().ok());
        let known_as = self.known_as();
        Err(match status {
            StatusCode::UNAUTHORIZED => ClientError::Unauthorized { known_as, refusal },
            _ => ClientError::Refused(refusal),
        })
    }

    async fn collect(&self, body: Body) -> Result<Bytes, ClientError> {
        match Limited::new(body, MAX_ANSWER).collect().await {
            Ok(whole) => Ok(whole.to_bytes()),
            Err(error) if error.is::<LengthLimitError>() => {
                Err(ClientError::TooLarge { server: self.server(), limit: MAX_ANSWER })
            }
            Err(error) => Err(self.broken(error)),
        }
    }

    fn understand<T: DeserializeOwned>(&self, bytes: &[u8]) -> Result<T, ClientError> {
        let server = self.server();
        serde_json::from_slice(bytes).map_err(|source| ClientError::Answer { server, source })
    }

    fn broken(&self, source: BrokenBy) -> ClientError {
        ClientError::Broken { server: self.server(), source }
    }
}

/// Text as part of a path or a query (RFC 3986, 2.1).
pub(crate) fn escaped(text: &str) -> String {
    use std::fmt::Write as _;
    text.bytes().fold(String::with_capacity(text.len()), |mut to, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~:@".contains(&byte) {
            to.push(byte.into());
        } else {
            let _ = write!(to, "%{byte:02X}");
        }
        to
    })
}

#[cfg(test)]
mod tests;
