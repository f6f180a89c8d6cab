//! The controller of a Kubernetes cluster: asked through the API server that a kubeconfig names.

use super::error::ClientError;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::{Request, Response};
use osier_kubernetes::{PeopleError, Proxy};
use std::path::PathBuf;
use tokio::sync::OnceCell;

/// Where our controller is, unless told otherwise.
pub(crate) const NAMESPACE: &str = "osier-system";

/// The name of the binary as a plugin of `kubectl`.
const PLUGIN: &str = "kubectl-osier";

/// Which cluster is meant.
#[derive(Debug, Clone)]
pub(crate) struct Cluster {
    pub(crate) kubeconfig: Option<PathBuf>,
    pub(crate) context: Option<String>,
    pub(crate) namespace: String,
}

/// A cluster, asked when it is needed first.
pub(crate) struct Proxied {
    cluster: Cluster,
    proxy: OnceCell<Proxy>,
}

/// Whether `kubectl osier` was said.
pub(crate) fn is_plugin() -> bool {
    let name = std::env::args_os().next().map(PathBuf::from);
    name.is_some_and(|path| path.file_name().is_some_and(|name| name == PLUGIN))
}

// === impl Proxied ===

impl Proxied {
    pub(crate) fn new(cluster: Cluster) -> Self {
        Self { cluster, proxy: OnceCell::new() }
    }

    /// How it is called in messages.
    pub(crate) fn called(&self) -> String {
        let server = self.proxy.get().map_or("its API server", |proxy| proxy.server());
        format!("the controller in namespace {} behind {server}", self.cluster.namespace)
    }

    /// What must not be shown.
    pub(crate) fn secret(&self) -> Option<&str> {
        self.proxy.get().map(Proxy::token)
    }

    pub(crate) async fn send(
        &self,
        request: Request<Bytes>,
    ) -> Result<Response<super::Body>, ClientError> {
        let Cluster { kubeconfig, context, namespace } = &self.cluster;
        let open = || Proxy::open(kubeconfig.as_deref(), context.as_deref(), namespace);
        let proxy = self.proxy.get_or_try_init(open).await?;
        let answer = proxy.send(request).await?;
        Ok(answer.map(|body| body.map_err(Into::into).boxed_unsync()))
    }
}

impl From<PeopleError> for ClientError {
    fn from(error: PeopleError) -> Self {
        Self::Cluster(Box::new(error))
    }
}
