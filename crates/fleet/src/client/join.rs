//! Joining: a token for a certificate.

use super::credentials::{Credentials, CredentialsError};
use super::session::channel;
use super::transport::secure;
use crate::NodeConfiguration;
use crate::pki::{AgentTls, TlsError, identity_of, joining_config};
use crate::token::{Secret, ServiceAccountToken, Ticket, sha256};
use crate::wire::proto::fleet_client::FleetClient;
use crate::wire::{VERSION, proto};
use std::io;
use std::time::Duration;
use thiserror::Error;

/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(20);

/// What a node has when it has joined.
#[derive(Debug)]
pub struct Joined {
    /// Its certificate, stored already.
    pub tls: AgentTls,
    /// How its network is made.
    pub configuration: NodeConfiguration,
}

/// Why a node did not join.
#[derive(Debug, Error)]
pub enum JoinError {
    /// The controller cannot be reached, or is not the token's.
    #[error("the controller {controller} cannot be reached")]
    Connect {
        /// Which.
        controller: String,
        /// Why.
        source: io::Error,
    },
    /// The controller said no.
    #[error("the controller refused: {0}")]
    Refused(String),
    /// The answer is wrong.
    #[error("the controller's answer is wrong: {0}")]
    Answer(&'static str),
    /// Keys cannot be kept.
    #[error("the certificate cannot be kept")]
    Credentials(#[from] CredentialsError),
    /// TLS cannot be set up.
    #[error("TLS cannot be used")]
    Tls(#[from] TlsError),
}

/// Joins: shows the ticket to the controller whose authority the ticket names, and keeps the
/// certificate that comes back.
pub async fn join(
    controller: &str,
    ticket: impl Into<Ticket>,
    credentials: &Credentials,
) -> Result<Joined, JoinError> {
    let ticket = ticket.into();
    let connect =
        |source: io::Error| JoinError::Connect { controller: controller.to_owned(), source };
    let asked = credentials.joining_key()?;
    let io = secure(controller, joining_config(ticket.authority)?).await.map_err(connect)?;
    let channel = channel(io, None).await.map_err(|e| connect(io::Error::other(e)))?;
    let (secret, service_account_token) = match ticket.secret {
        Secret::Token(secret) => (secret.to_vec(), String::new()),
        Secret::ServiceAccount(ServiceAccountToken(token)) => (Vec::new(), token),
    };
    let request = proto::JoinRequest {
        version: VERSION,
        node: ticket.node.to_string(),
        secret: secret.into(),
        request: asked.request.clone().into(),
        service_account_token,
    };
    let mut request = tonic::Request::new(request);
    request.set_timeout(ANSWER);
    let answer = FleetClient::new(channel).join(request).await;
    let answer = answer.map_err(|status| JoinError::Refused(status.message().to_owned()))?;
    let answer = answer.into_inner();
    if sha256(&answer.authority) != ticket.authority.0 {
        return Err(JoinError::Answer("another authority than the ticket's"));
    }
    let tls = AgentTls {
        authority: answer.authority.to_vec().into(),
        certificate: answer.certificate.to_vec().into(),
        key: asked.private_key(),
    };
    if identity_of(&tls.certificate).as_ref() != Some(&ticket.node) {
        return Err(JoinError::Answer("a certificate for another node"));
    }
    crate::pki::client_config(&tls)?;
    let configuration = serde_json::from_slice(&answer.configuration)
        .map_err(|_| JoinError::Answer("a configuration that cannot be read"))?;
    credentials.store(&tls)?;
    credentials.joined();
    Ok(Joined { tls, configuration })
}
