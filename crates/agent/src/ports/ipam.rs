//! Addresses by another plugin, where the configuration names one.

use super::PortError;
use osier_cni::config::Ipam;
use osier_cni::delegate::Delegate;
use osier_cni::rpc::Request;
use osier_cni::spec::{AddResult, Command, Environment};
use std::net::IpAddr;
use std::time::{Duration, Instant};
use tracing::warn;

/// How long a plugin has to take addresses back.
const UNDO_PATIENCE: Duration = Duration::from_secs(10);

/// The plugin's name and the addresses that it gives; `None` if we give them.
pub(super) async fn add(
    ipam: &Ipam,
    request: &Request,
    deadline: Instant,
) -> Result<Option<(String, Vec<IpAddr>)>, PortError> {
    let Ipam::Delegate(name) = ipam else { return Ok(None) };
    let patience = deadline.saturating_duration_since(Instant::now());
    let result = run(name, Command::Add, request, patience).await?;
    let addresses: Vec<IpAddr> =
        result.into_iter().flat_map(|result| result.ips).map(|ip| ip.address.address).collect();
    if addresses.is_empty() {
        undo(ipam, request).await;
        return Err(PortError::NothingGiven(name.clone()));
    }
    Ok(Some((name.clone(), addresses)))
}

/// Gives back what [`add`] got, or what an ADD of the past did.
pub(super) async fn undo(ipam: &Ipam, request: &Request) {
    let Ipam::Delegate(name) = ipam else { return };
    if let Err(error) = run(name, Command::Del, request, UNDO_PATIENCE).await {
        warn!(plugin = name, %error, "addresses were not taken back");
    }
}

/// Passes a call on as it is.
pub(super) async fn run(
    name: &str,
    command: Command,
    request: &Request,
    patience: Duration,
) -> Result<Option<AddResult>, PortError> {
    let environment = Environment { command, ..request.environment.clone() };
    let (name, config) = (name.to_owned(), request.config.get().to_owned());
    let work = move || -> Result<_, PortError> {
        let delegate = Delegate::find(&name, &environment.path)?;
        Ok(delegate.run(&environment, &config, patience)?)
    };
    tokio::task::spawn_blocking(work).await.map_err(|_| PortError::Panicked)?
}
