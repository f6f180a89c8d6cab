//! People's way to the controller: through the API server, as whom their kubeconfig says they are.
//!
//! The API server's proxy leads to the controller's Service, and keeps `Authorization` for itself; so
//! a token of one of our service accounts goes in a header of its own. Who may make such tokens, and
//! so who may look or act, is for the cluster's administrators to say.

use crate::error::{KubernetesError, failed};
use crate::review::AUDIENCE;
use crate::standby::STANDBY;
use bytes::Bytes;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;

/// Our Service, and its port.
const SERVICE: &str = "https:osier-controller:api";
/// The accounts of people: whoever may act may also look.
const ACCOUNTS: [&str; 2] = ["osier-operator", "osier-viewer"];
/// How long tokens hold: a command takes less. The API server gives none for less.
const LIFETIME: i64 = 600;
/// Tries to meet the one that leads, and the time between them.
const TRIES: usize = 20;
const PAUSE: Duration = Duration::from_millis(250);
/// The header of the token.
const HEADER: &str = "x-osier-authorization";

/// Why the controller cannot be asked through the API server.
#[derive(Debug, Error)]
pub enum PeopleError {
    /// There is no way to the API server.
    #[error("the kubeconfig cannot be used")]
    Kubeconfig(#[source] Box<KubernetesError>),
    /// Nobody may say who this is.
    #[error(
        "you may not make tokens of service account {namespace}/osier-viewer: ask for the role \
         osier-viewer there"
    )]
    Forbidden {
        /// Where.
        namespace: String,
    },
    /// The accounts are not there.
    #[error("there is no service account {namespace}/osier-viewer: is Osier installed there?")]
    NotInstalled {
        /// Where.
        namespace: String,
    },
    /// The API server cannot be asked.
    #[error("the API server {server} cannot be asked: {why}")]
    Away {
        /// Which.
        server: String,
        /// Why.
        why: String,
    },
}

/// A way to the controller.
pub struct Proxy {
    client: Client,
    server: String,
    namespace: String,
    token: String,
}

/// Where a kubeconfig is, if there is one without being told.
pub fn kubeconfig_is_there() -> bool {
    let said = std::env::var_os("KUBECONFIG").filter(|value| !value.is_empty());
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".kube/config"));
    said.is_some() || home().is_some_and(|path| path.is_file())
}

// === impl Proxy ===

impl Proxy {
    /// Finds the API server, and becomes known to the controller behind it.
    pub async fn open(
        kubeconfig: Option<&Path>,
        context: Option<&str>,
        namespace: &str,
    ) -> Result<Self, PeopleError> {
        let bad =
            |error| PeopleError::Kubeconfig(Box::new(KubernetesError::Kubeconfig(Box::new(error))));
        let options = KubeConfigOptions {
            context: context.map(str::to_owned),
            ..KubeConfigOptions::default()
        };
        let config = match kubeconfig {
            Some(path) => {
                let file = Kubeconfig::read_from(path).map_err(bad)?;
                Config::from_custom_kubeconfig(file, &options).await.map_err(bad)?
            }
            None => Config::from_kubeconfig(&options).await.map_err(bad)?,
        };
        let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        let client = crate::client::client(&config)
            .map_err(|error| PeopleError::Kubeconfig(Box::new(error)))?;
        let token = token(&client, &server, namespace).await?;
        Ok(Self { client, server, namespace: namespace.to_owned(), token })
    }

    /// The API server.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The token by which the controller knows us: a secret.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Asks the controller.
    pub async fn send(
        &self,
        request: axum::http::Request<Bytes>,
    ) -> Result<axum::http::Response<Body>, PeopleError> {
        let away = |why: String| PeopleError::Away { server: self.server.clone(), why };
        let (mut head, body) = request.into_parts();
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        let namespace = &self.namespace;
        let uri = format!("/api/v1/namespaces/{namespace}/services/{SERVICE}/proxy{path}");
        head.uri = uri.parse().map_err(|error| away(format!("{error}")))?;
        head.headers.remove(axum::http::header::HOST);
        head.headers.remove(axum::http::header::AUTHORIZATION);
        let bearer = format!("Bearer {}", self.token);
        let bearer = bearer.parse().map_err(|error| away(format!("{error}")))?;
        head.headers.insert(HEADER, bearer);
        let mut tries = TRIES;
        loop {
            let request = axum::http::Request::from_parts(head.clone(), Body::from(body.to_vec()));
            let answer = self.client.send(request).await;
            let answer = answer.map_err(|error| away(failed(&error)))?;
            // The Service leads to any of several controllers; one that does not lead did nothing.
            if tries == 0 || !answer.headers().contains_key(STANDBY) {
                return Ok(answer);
            }
            tries -= 1;
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// A token of the account that may do more, of those that we may make tokens of.
async fn token(client: &Client, server: &str, namespace: &str) -> Result<String, PeopleError> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let request = TokenRequest {
        spec: TokenRequestSpec {
            audiences: vec![AUDIENCE.to_owned()],
            expiration_seconds: Some(LIFETIME),
            ..TokenRequestSpec::default()
        },
        ..TokenRequest::default()
    };
    let namespace = namespace.to_owned();
    let mut refused = PeopleError::Forbidden { namespace: namespace.clone() };
    for account in ACCOUNTS {
        let made = accounts.create_token_request(account, &PostParams::default(), &request).await;
        match made {
            Ok(made) => return Ok(made.status.map(|status| status.token).unwrap_or_default()),
            Err(kube::Error::Api(status)) if status.code == 403 => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {
                refused = PeopleError::NotInstalled { namespace: namespace.clone() };
            }
            Err(error) => {
                return Err(PeopleError::Away { server: server.to_owned(), why: failed(&error) });
            }
        }
    }
    Err(refused)
}
