//! Who the agent is to its controller: a certificate, got once for a token and then renewed; in
//! Kubernetes got for the agent's service account, as often as it is needed.

use crate::Chain;
use crate::config::{Config, ControllerConfig, Joining};
use futures_util::future::BoxFuture;
use osier_fleet::client::{
    Controllers, Credentials, CredentialsError, JoinError, Joined, Rejoin, TlsTransport, join,
};
use osier_fleet::pki::{AgentTls, identity_of};
use osier_fleet::{Fingerprint, NodeConfiguration, ParseTokenError, Ticket, Token};
use osier_model::NodeName;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use thiserror::Error;
use tokio::sync::watch;
use tracing::{info, warn};

/// How long until the next try to join.
const AGAIN: Duration = Duration::from_secs(2);
/// The longest file with a token or a certificate that is read, in bytes.
const MAX_FILE: u64 = 16 << 10;

/// Why an agent cannot be its node's.
#[derive(Debug, Error)]
pub enum LinkError {
    /// Its certificate cannot be read.
    #[error("the agent's certificate cannot be used")]
    Credentials(#[from] CredentialsError),
    /// The certificate is another's.
    #[error("the certificate in {} is not node {node}'s: remove it to join anew", folder.display())]
    Other {
        /// Where it is.
        folder: PathBuf,
        /// Who it should be of.
        node: NodeName,
    },
    /// What the controller gave is not known.
    #[error("what the controller gave to this node cannot be kept")]
    Journal(#[source] io::Error),
}

/// Why the node has not joined.
#[derive(Debug, Error)]
enum TicketError {
    #[error("the node has not joined, and `token_file` is not set")]
    NotSet,
    #[error("{} cannot be read", .0.display())]
    Read(PathBuf, #[source] io::Error),
    #[error("{} holds no token", .0.display())]
    Parse(PathBuf, #[source] ParseTokenError),
    #[error("the token is for node {found}, and this is {node}")]
    Node { found: NodeName, node: NodeName },
    #[error("{} holds no certificate", .0.display())]
    Authority(PathBuf),
    #[error("no controller is known")]
    NoController,
    #[error("the node did not join")]
    Join(#[from] JoinError),
}

/// What an agent that has joined has.
pub(super) struct Identity {
    pub(super) transport: TlsTransport,
    /// What the cluster says of it.
    pub(super) mtu: Option<u16>,
}

/// All that joining takes.
#[derive(Debug, Clone)]
struct Applicant {
    node: NodeName,
    controllers: Controllers,
    joining: Joining,
    credentials: Credentials,
    /// Where the answer is kept.
    configuration: PathBuf,
}

/// The node's certificate: the one on disk, or a new one, tried until there is one.
pub(super) async fn obtain(
    config: &Config,
    controller: &ControllerConfig,
    stop: &mut watch::Receiver<bool>,
) -> Result<Option<Identity>, LinkError> {
    let folder = config.state_dir.join("credentials");
    let applicant = Applicant {
        node: config.node.clone(),
        controllers: controller.addresses.clone(),
        joining: controller.joining.clone(),
        credentials: Credentials::new(&folder),
        configuration: config.state_dir.join("node.json"),
    };
    let mut found = applicant.credentials.load()?;
    if let Some(tls) = &found
        && identity_of(&tls.certificate).as_ref() != Some(&config.node)
    {
        return Err(LinkError::Other { folder, node: config.node.clone() });
    }
    if let Some(tls) = &found
        && applicant.is_due(tls)
    {
        warn!("the certificate is no longer good: joining anew");
        found = None;
    }
    let tls = match found {
        Some(tls) => tls,
        None => loop {
            tokio::select! {
                joined = applicant.join() => match joined {
                    Ok(tls) => break tls,
                    Err(error) => {
                        warn!(error = %Chain(&error), "not joined yet");
                        tokio::time::sleep(AGAIN).await;
                    }
                },
                _ = stop.wait_for(|stop| *stop) => return Ok(None),
            }
        },
    };
    let configuration = std::fs::read(&applicant.configuration).ok();
    let configuration =
        configuration.and_then(|bytes| serde_json::from_slice::<NodeConfiguration>(&bytes).ok());
    let mtu = configuration.and_then(|configuration| configuration.mtu);
    let (addresses, credentials) = (controller.addresses.clone(), applicant.credentials.clone());
    let transport = TlsTransport::new(addresses, tls, Some(credentials));
    Ok(Some(Identity { transport: transport.rejoining(Arc::new(applicant)), mtu }))
}

// === impl Applicant ===

impl Applicant {
    async fn join(&self) -> Result<AgentTls, TicketError> {
        let ticket = self.ticket()?;
        let read = |source| match &self.controllers {
            Controllers::File(path) => TicketError::Read(path.clone(), source),
            Controllers::Fixed(_) => TicketError::NoController,
        };
        let mut refused = TicketError::NoController;
        for address in &self.controllers.list().map_err(read)? {
            match join(address, ticket.clone(), &self.credentials).await {
                Ok(Joined { tls, configuration }) => {
                    info!(node = %self.node, "joined");
                    keep(&self.configuration, &configuration);
                    return Ok(tls);
                }
                Err(error) => refused = error.into(),
            }
        }
        Err(refused)
    }

    fn ticket(&self) -> Result<Ticket, TicketError> {
        match &self.joining {
            Joining::Token(None) => Err(TicketError::NotSet),
            Joining::Token(Some(path)) => {
                let text = read(path)?;
                let token: Token =
                    text.trim().parse().map_err(|e| TicketError::Parse(path.clone(), e))?;
                match token.node == self.node {
                    true => Ok(Ticket::from(&token)),
                    false => Err(TicketError::Node { found: token.node, node: self.node.clone() }),
                }
            }
            Joining::ServiceAccount { token_file, authority_file } => {
                let authority = authority(authority_file)?;
                let token = read(token_file)?.trim().to_owned();
                Ok(Ticket::service_account(self.node.clone(), authority, token))
            }
        }
    }
}

impl Rejoin for Applicant {
    fn is_due(&self, current: &AgentTls) -> bool {
        let now = SystemTime::now();
        let is_over = current.validity().is_ok_and(|validity| validity.until <= now);
        match &self.joining {
            Joining::Token(path) => is_over && path.as_ref().is_some_and(|path| path.exists()),
            // Whoever cannot read which authority there is now keeps to the one it knows.
            Joining::ServiceAccount { authority_file, .. } => {
                let known = Fingerprint::of(&current.authority);
                is_over || authority(authority_file).is_ok_and(|authority| authority != known)
            }
        }
    }

    fn rejoin(&self) -> BoxFuture<'static, io::Result<AgentTls>> {
        let this = self.clone();
        Box::pin(async move { this.join().await.map_err(io::Error::other) })
    }
}

fn authority(path: &Path) -> Result<Fingerprint, TicketError> {
    Fingerprint::of_pem(&read(path)?).ok_or_else(|| TicketError::Authority(path.to_owned()))
}

fn read(path: &Path) -> Result<String, TicketError> {
    let failed = |source| TicketError::Read(path.to_owned(), source);
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    match file.take(MAX_FILE + 1).read_to_string(&mut text).map_err(failed)? {
        long if long as u64 > MAX_FILE => {
            Err(failed(io::Error::other(format!("more than {MAX_FILE} bytes"))))
        }
        _ => Ok(text),
    }
}

/// It is told again only to who joins again; without it defaults hold.
fn keep(path: &Path, configuration: &NodeConfiguration) {
    let bytes = serde_json::to_vec_pretty(configuration).unwrap_or_default();
    if let Err(error) = super::journal::write(path, &bytes) {
        warn!(%error, path = %path.display(), "the node's configuration is not kept");
    }
}
