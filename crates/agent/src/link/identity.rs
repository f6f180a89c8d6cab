//! Who the agent is to its controller: a certificate, got once for a token and then renewed.

use crate::Chain;
use crate::config::{Config, ControllerConfig};
use osier_fleet::client::{Credentials, CredentialsError, JoinError, Joined, TlsTransport, join};
use osier_fleet::pki::{AgentTls, identity_of};
use osier_fleet::{NodeConfiguration, ParseTokenError, Token};
use osier_model::NodeName;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};
use thiserror::Error;
use tokio::sync::watch;
use tracing::{info, warn};

/// How long until the next try to join.
const AGAIN: Duration = Duration::from_secs(2);
/// The longest token file that is read, in bytes.
const MAX_TOKEN: u64 = 4096;

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

/// A token that cannot be used.
#[derive(Debug, Error)]
enum TokenError {
    #[error("the node has not joined, and `token_file` is not set")]
    NotSet,
    #[error("the token {} cannot be read", .0.display())]
    Read(PathBuf, #[source] io::Error),
    #[error("{} holds no token", .0.display())]
    Parse(PathBuf, #[source] ParseTokenError),
    #[error("the token is for node {found}, and this is {node}")]
    Node { found: NodeName, node: NodeName },
    #[error("the node did not join")]
    Join(#[from] JoinError),
}

/// What an agent that has joined has.
pub(super) struct Identity {
    pub(super) transport: TlsTransport,
    /// What the cluster says of it.
    pub(super) mtu: Option<u16>,
}

/// The node's certificate: the one on disk, or a new one for the token, tried until there is one.
pub(super) async fn obtain(
    config: &Config,
    controller: &ControllerConfig,
    stop: &mut watch::Receiver<bool>,
) -> Result<Option<Identity>, LinkError> {
    let folder = config.state_dir.join("credentials");
    let credentials = Credentials::new(&folder);
    let kept = config.state_dir.join("node.json");
    let usable =
        |tls: &AgentTls| tls.validity().is_ok_and(|validity| validity.until > SystemTime::now());
    let mut found = credentials.load()?;
    if let Some(tls) = &found
        && identity_of(&tls.certificate).as_ref() != Some(&config.node)
    {
        return Err(LinkError::Other { folder, node: config.node.clone() });
    }
    if let Some(tls) = &found
        && !usable(tls)
        && controller.token_file.as_ref().is_some_and(|path| path.exists())
    {
        warn!("the certificate has expired: joining anew");
        found = None;
    }
    let tls = match found {
        Some(tls) => tls,
        None => loop {
            tokio::select! {
                joined = try_join(config, controller, &credentials) => match joined {
                    Ok(Joined { tls, configuration }) => {
                        info!(node = %config.node, "joined");
                        keep(&kept, &configuration);
                        break tls;
                    }
                    Err(error) => {
                        warn!(error = %Chain(&error), "not joined yet");
                        tokio::time::sleep(AGAIN).await;
                    }
                },
                _ = stop.wait_for(|stop| *stop) => return Ok(None),
            }
        },
    };
    let configuration = std::fs::read(&kept).ok();
    let configuration =
        configuration.and_then(|bytes| serde_json::from_slice::<NodeConfiguration>(&bytes).ok());
    let mtu = configuration.and_then(|configuration| configuration.mtu);
    let addresses = controller.addresses.clone();
    Ok(Some(Identity { transport: TlsTransport::new(addresses, tls, Some(credentials)), mtu }))
}

async fn try_join(
    config: &Config,
    controller: &ControllerConfig,
    credentials: &Credentials,
) -> Result<Joined, TokenError> {
    let path = controller.token_file.clone().ok_or(TokenError::NotSet)?;
    let read = std::fs::metadata(&path).and_then(|found| match found.len() {
        0..=MAX_TOKEN => std::fs::read_to_string(&path),
        size => Err(io::Error::other(format!("{size} bytes, where {MAX_TOKEN} are allowed"))),
    });
    let text = read.map_err(|source| TokenError::Read(path.clone(), source))?;
    let token: Token = text.trim().parse().map_err(|source| TokenError::Parse(path, source))?;
    if token.node != config.node {
        return Err(TokenError::Node { found: token.node, node: config.node.clone() });
    }
    let mut refused = TokenError::NotSet;
    for address in &controller.addresses {
        match join(address, &token, credentials).await {
            Ok(joined) => return Ok(joined),
            Err(error) => refused = error.into(),
        }
    }
    Err(refused)
}

/// It is told again only to who joins again; without it defaults hold.
fn keep(path: &std::path::Path, configuration: &NodeConfiguration) {
    let bytes = serde_json::to_vec_pretty(configuration).unwrap_or_default();
    if let Err(error) = super::journal::write(path, &bytes) {
        warn!(%error, path = %path.display(), "the node's configuration is not kept");
    }
}
