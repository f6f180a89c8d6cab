//! Why Kubernetes cannot be used, and what its answers mean.

use osier_controller::ControllerError;
use osier_fleet::AuthorityError;
use osier_fleet::pki::TlsError;
use std::error::Error;
use std::io;
use std::net::SocketAddr;
use thiserror::Error;

/// Why the controller cannot run in Kubernetes.
#[derive(Debug, Error)]
pub enum KubernetesError {
    /// It does not know where the API server is.
    #[error("there is no way to the API server: no service account of a pod, and no kubeconfig")]
    Unknown(#[source] Box<kube::config::InferConfigError>),
    /// The kubeconfig is of no use.
    #[error("the kubeconfig cannot be used")]
    Kubeconfig(#[source] Box<kube::config::KubeconfigError>),
    /// The client cannot be made.
    #[error("no client for the API server can be made")]
    Client(#[source] Box<kube::Error>),
    /// The API server refused something that is needed.
    #[error("{what} failed")]
    Api {
        /// What.
        what: String,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
    /// What is in the Secret is no authority.
    #[error("Secret {0} is no authority: it needs tls.crt and tls.key")]
    Authority(&'static str),
    /// An authority, or a certificate of it, cannot be made.
    #[error("there is no certificate")]
    Issue(#[from] AuthorityError),
    /// TLS cannot be used.
    #[error("TLS cannot be used")]
    Tls(#[from] TlsError),
    /// TLS cannot be used.
    #[error("TLS cannot be used")]
    Rustls(#[from] rustls::Error),
    /// The port cannot be had.
    #[error("{address} cannot be listened at")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The controller cannot run.
    #[error("the controller cannot lead")]
    Controller(#[from] ControllerError),
    /// The system does not let us.
    #[error("no threads can be started")]
    Runtime(#[source] io::Error),
    /// The configuration says nothing of Kubernetes.
    #[error("the configuration has no [kubernetes]")]
    Unconfigured,
    /// The model cannot be begun.
    #[error("the model cannot be begun: {0}")]
    Model(String),
    /// A part has ended that should not.
    #[error("{0} has ended")]
    Ended(&'static str),
}

/// An error with its causes, on one line.
pub(crate) fn failed(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        // Some say their cause themselves.
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = error.source();
    }
    text
}

/// What the API server answered.
pub(crate) fn code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

/// Somebody else has changed or made it.
pub(crate) fn is_conflict(error: &kube::Error) -> bool {
    code(error) == Some(409)
}

/// It is not there.
pub(crate) fn is_missing(error: &kube::Error) -> bool {
    code(error) == Some(404)
}

/// The API server has too much to do.
pub(crate) fn is_busy(error: &kube::Error) -> bool {
    matches!(code(error), Some(429 | 503))
}

/// Whether the same may be accepted later: nothing is wrong with it itself.
pub(crate) fn may_pass(error: &kube::Error) -> bool {
    match code(error) {
        Some(code) => code == 429 || code >= 500 || code == 401 || code == 403,
        None => true,
    }
}
