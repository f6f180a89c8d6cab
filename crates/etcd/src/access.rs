//! Where etcd is, and who we are to it: TLS, with a certificate of ours or without, and a name with a
//! password.

use crate::client::{EtcdError, PATIENCE};
use crate::proto::AuthenticateRequest;
use crate::proto::auth_client::AuthClient;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Request, Status};

/// What is needed to reach etcd.
#[derive(Clone, Default)]
pub struct Access {
    /// Its members: `http://HOST:PORT`, or `https`.
    pub members: Vec<String>,
    /// For `https`.
    pub tls: Option<Tls>,
    /// A user's name and password.
    pub login: Option<(String, String)>,
}

/// PEM texts for TLS.
#[derive(Clone, Default)]
pub struct Tls {
    /// Whose certificates members have.
    pub authority: String,
    /// Our certificate and its key, where members ask for one.
    pub identity: Option<(String, String)>,
}

/// A connection that says who we are.
pub(crate) type Link = InterceptedService<Channel, Token>;

/// What etcd gave for a password; it is forgotten there after minutes without a request.
#[derive(Clone, Default)]
pub(crate) struct Token(Arc<RwLock<Option<MetadataValue<Ascii>>>>);

/// A name and a password, if there are any, and what etcd gave for them.
#[derive(Clone, Default)]
pub(crate) struct Login {
    login: Option<(String, String)>,
    token: Token,
}

// === impl Access ===

impl Access {
    /// To members that want to know nothing of us.
    pub fn open(members: &[String]) -> Self {
        Self { members: members.to_vec(), ..Self::default() }
    }

    /// A channel to each member, which is connected when it is needed.
    pub(crate) fn channels(&self) -> Result<Vec<Channel>, EtcdError> {
        self.members.iter().map(|address| self.channel(address)).collect()
    }

    fn channel(&self, address: &str) -> Result<Channel, EtcdError> {
        let wrong = || EtcdError::Address(address.to_owned());
        let mut endpoint = Endpoint::from_shared(address.to_owned()).map_err(|_| wrong())?;
        endpoint.uri().host().ok_or_else(wrong)?;
        match (endpoint.uri().scheme_str(), &self.tls) {
            (Some("http"), None) => {}
            (Some("https"), Some(tls)) => {
                let tls_config = tls.config();
                endpoint = endpoint.tls_config(tls_config).map_err(|source| EtcdError::Tls {
                    member: address.to_owned(),
                    source: Arc::new(source),
                })?;
            }
            (Some("https"), None) => return Err(EtcdError::NoAuthority(address.to_owned())),
            _ => return Err(wrong()),
        }
        Ok(endpoint.connect_timeout(PATIENCE).timeout(PATIENCE).connect_lazy())
    }
}

/// Secrets are not shown.
impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access").field("members", &self.members).finish_non_exhaustive()
    }
}

// === impl Tls ===

impl Tls {
    fn config(&self) -> ClientTlsConfig {
        let authority = Certificate::from_pem(&self.authority);
        let config = ClientTlsConfig::new().ca_certificate(authority);
        match &self.identity {
            Some((certificate, key)) => config.identity(Identity::from_pem(certificate, key)),
            None => config,
        }
    }
}

// === impl Token ===

impl Interceptor for Token {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let token = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(token) = &*token {
            request.metadata_mut().insert("token", token.clone());
        }
        Ok(request)
    }
}

// === impl Login ===

impl Login {
    pub(crate) fn new(login: Option<(String, String)>) -> Self {
        Self { login, token: Token::default() }
    }

    pub(crate) fn link(&self, channel: Channel) -> Link {
        InterceptedService::new(channel, self.token.clone())
    }

    /// Whether the password was not asked for yet. It comes before a certificate's name.
    pub(crate) fn is_new(&self) -> bool {
        let token = self.token.0.read().unwrap_or_else(PoisonError::into_inner);
        self.login.is_some() && token.is_none()
    }

    /// Whether a refusal may be over with a new token.
    pub(crate) fn is_due(&self, refusal: &Status) -> bool {
        self.login.is_some() && refusal.code() == Code::Unauthenticated
    }

    /// Gets a token for the password.
    pub(crate) async fn renew(&self, channel: Channel) -> Result<(), Status> {
        let Some((name, password)) = self.login.clone() else { return Ok(()) };
        let request = AuthenticateRequest { name, password };
        let answer = AuthClient::new(channel).authenticate(request).await?.into_inner();
        let token = MetadataValue::try_from(answer.token);
        let token = token.map_err(|_| Status::internal("its token cannot be sent"))?;
        *self.token.0.write().unwrap_or_else(PoisonError::into_inner) = Some(token);
        Ok(())
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Login").field(&self.login.as_ref().map(|(name, _)| name)).finish()
    }
}
