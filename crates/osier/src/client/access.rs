//! Whom to ask, and as whom: from options, the environment, a context, or the controller on this
//! machine, in that order.

use super::cluster::{Cluster, NAMESPACE, is_plugin};
use super::contexts::{Context, Contexts, ContextsError};
use super::error::ClientError;
use super::secret::{Credential, SecretError};
use super::server::{BadServer, Servers};
use super::{Client, local};
use clap::Args;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;

/// The options of all verbs that ask a controller.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct Connection {
    /// Ask the controller of this context, instead of the current one
    #[arg(long, env = "OSIER_CONTEXT", value_name = "NAME", hide_env_values = true)]
    pub(crate) context: Option<String>,
    /// Ask the controller there; of several, with commas between, the one that leads
    #[arg(long, env = "OSIER_SERVER", value_name = "URL", hide_env_values = true)]
    pub(crate) server: Option<Servers>,
    /// Trust this authority (PEM), and no other
    #[arg(long, env = "OSIER_CA", value_name = "FILE", hide_env_values = true)]
    pub(crate) ca: Option<PathBuf>,
    /// Be known by the credential in this file
    #[arg(long, env = "OSIER_CREDENTIAL_FILE", value_name = "FILE", hide_env_values = true)]
    pub(crate) credential_file: Option<PathBuf>,
    /// Ask the controller of the Kubernetes cluster that this file names
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Ask the controller of the Kubernetes cluster of this context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    pub(crate) kube_context: Option<String>,
    /// Where Osier's controller is in that cluster
    #[arg(long, env = "OSIER_NAMESPACE", value_name = "NAMESPACE", default_value = NAMESPACE,
          hide_env_values = true)]
    pub(crate) osier_namespace: String,
    /// Wait so many seconds for an answer
    #[arg(long, value_name = "SECONDS", default_value_t = 30,
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) timeout: u64,
}

/// All that is needed to ask.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    pub(crate) server: Servers,
    /// Whom to trust, as PEM.
    pub(crate) authority: String,
    /// Where that came from.
    pub(crate) authority_origin: String,
    pub(crate) credential: Credential,
    /// Where the credential came from.
    pub(crate) origin: String,
}

/// Why nobody can be asked.
#[derive(Debug, Error)]
pub(crate) enum AccessError {
    #[error(transparent)]
    Contexts(#[from] ContextsError),
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error(transparent)]
    Server(#[from] BadServer),
    #[error("there is no context {found:?}: {}", all_or_none(known))]
    NoContext { found: String, known: Vec<String> },
    #[error(
        "no controller is known: `osier login https://HOST --ca FILE` once, or give --server, --ca and \
         --credential-file, or --kubeconfig, or run this as root on the controller's machine"
    )]
    Unknown,
    #[error(
        "--ca names another authority than {origin}: give --credential-file as well, for its \
         credential is not for others"
    )]
    Foreign { origin: String },
    #[error("{} cannot be read", path.display())]
    Authority {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
}

fn all_or_none(known: &[String]) -> String {
    match known {
        [] => "there are none".to_owned(),
        known => format!("there are {}", known.join(", ")),
    }
}

// === impl Access ===

impl Access {
    /// To the controller that left this file for its administrator; none if it left none.
    pub(crate) fn of_admin(path: &Path) -> Result<Option<Self>, AccessError> {
        let Some(Context { server, ca, credential }) = local::load(path)? else { return Ok(None) };
        let origin = path.display().to_string();
        let credential = Credential::new(&credential, &origin)?;
        let authority_origin = origin.clone();
        Ok(Some(Self { server, authority: ca, authority_origin, credential, origin }))
    }
}

// === impl Connection ===

impl Connection {
    /// A client for whom these options mean.
    pub(crate) fn client(&self) -> Result<Client, ClientError> {
        let timeout = Duration::from_secs(self.timeout);
        if self.kubeconfig.is_some() || self.kube_context.is_some() || is_plugin() {
            return Ok(Client::of_cluster(self.cluster(), timeout));
        }
        match self.resolve(&Contexts::path()?, Path::new(local::PATH)) {
            // Who said nothing at all, and has a cluster, means that one.
            Err(AccessError::Unknown)
                if self.server.is_none() && osier_kubernetes::kubeconfig_is_there() =>
            {
                Ok(Client::of_cluster(self.cluster(), timeout))
            }
            access => Client::new(access?, timeout),
        }
    }

    /// The cluster that they mean.
    fn cluster(&self) -> Cluster {
        Cluster {
            kubeconfig: self.kubeconfig.clone(),
            context: self.kube_context.clone(),
            namespace: self.osier_namespace.clone(),
        }
    }

    /// What they mean, with these files.
    fn resolve(&self, contexts: &Path, local: &Path) -> Result<Access, AccessError> {
        let known = match (&self.server, &self.ca, &self.credential_file) {
            // Nothing is missing: no file has to be right, or there.
            (Some(_), Some(_), Some(_)) => None,
            _ => self.known(contexts, local)?,
        };
        let (known, origin) = known.unzip();
        let origin = origin.unwrap_or_default();
        let server = self.server.clone().or_else(|| Some(known.as_ref()?.server.clone()));
        let (authority, authority_origin) = match (&self.ca, &known) {
            (Some(path), _) => (read_authority(path)?, path.display().to_string()),
            (None, Some(known)) => (known.ca.clone(), origin.clone()),
            (None, None) => return Err(AccessError::Unknown),
        };
        let (credential, origin) = match (&self.credential_file, known) {
            (Some(path), _) => {
                (Credential::load(path)?, format!("The credential in {}", path.display()))
            }
            (None, Some(known)) if known.ca.trim() == authority.trim() => (
                Credential::new(&known.credential, &origin)?,
                format!("The credential of {origin}"),
            ),
            (None, Some(_)) => return Err(AccessError::Foreign { origin }),
            (None, None) => return Err(AccessError::Unknown),
        };
        let server = server.ok_or(AccessError::Unknown)?;
        Ok(Access { server, authority, authority_origin, credential, origin })
    }

    /// The context that is meant, and what it is called in errors.
    fn known(
        &self,
        contexts: &Path,
        local: &Path,
    ) -> Result<Option<(Context, String)>, AccessError> {
        let mut file = Contexts::load(contexts)?;
        if let Some(name) = self.context.as_ref().or(file.current.as_ref()).cloned() {
            let Some(context) = file.contexts.remove(&name) else {
                let known = file.contexts.into_keys().collect();
                return Err(AccessError::NoContext { found: name, known });
            };
            return Ok(Some((context, format!("context {name}"))));
        }
        Ok(local::load(local)?.map(|context| (context, "this machine's controller".to_owned())))
    }
}

/// The text of a file with certificates.
pub(crate) fn read_authority(path: &Path) -> Result<String, AccessError> {
    std::fs::read_to_string(path)
        .map_err(|source| AccessError::Authority { path: path.to_owned(), source })
}

impl From<ContextsError> for ClientError {
    fn from(error: ContextsError) -> Self {
        Self::Access(error.into())
    }
}

#[cfg(test)]
mod tests;
