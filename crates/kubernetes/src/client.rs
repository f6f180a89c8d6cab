//! The way to the API server.

use crate::courtesy::Courtesy;
use crate::error::KubernetesError;
use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use osier_controller::config::KubernetesConfig;
use std::time::Duration;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(5);
/// How long the server may be silent: it ends watches itself before that.
const SILENCE: Duration = Duration::from_secs(295);

/// How the API server is reached.
pub(crate) async fn way(config: &KubernetesConfig) -> Result<Config, KubernetesError> {
    let bad = |error| KubernetesError::Kubeconfig(Box::new(error));
    let mut way = match &config.kubeconfig {
        Some(path) => {
            let file = Kubeconfig::read_from(path).map_err(bad)?;
            let options = KubeConfigOptions::default();
            Config::from_custom_kubeconfig(file, &options).await.map_err(bad)?
        }
        None => Config::infer().await.map_err(|error| KubernetesError::Unknown(Box::new(error)))?,
    };
    way.connect_timeout = Some(CONNECT);
    way.read_timeout = Some(SILENCE);
    way.write_timeout = Some(CONNECT);
    Ok(way)
}

/// A client of its own: its connection is its own too, and ends with the runtime that made it. What
/// fails is told at once: when to try again is for the caller to know.
pub(crate) fn client(way: &Config) -> Result<Client, KubernetesError> {
    let builder = ClientBuilder::try_from(tried_once(way)).map_err(unusable)?;
    Ok(builder.build())
}

/// The same for those who can wait when the server is busy.
pub(crate) fn courteous(way: &Config, courtesy: &Courtesy) -> Result<Client, KubernetesError> {
    let builder = ClientBuilder::try_from(tried_once(way)).map_err(unusable)?;
    Ok(builder.with_layer(courtesy).build())
}

/// Without tries of the client's own.
fn tried_once(way: &Config) -> Config {
    let mut way = way.clone();
    way.default_retry = false;
    way
}

fn unusable(error: kube::Error) -> KubernetesError {
    KubernetesError::Client(Box::new(error))
}
