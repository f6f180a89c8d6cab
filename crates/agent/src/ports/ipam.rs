//! Addresses by another plugin, where the configuration names one.

use super::PortError;
use osier_cni::config::Ipam;
use osier_cni::delegate::{Delegate, DelegateError};
use osier_cni::rpc::Request;
use osier_cni::spec::{AddResult, Command, Environment};
use std::time::{Duration, Instant};
use tracing::warn;

/// How long a plugin has to take addresses back.
const UNDO_PATIENCE: Duration = Duration::from_secs(10);

/// What the plugin of this name gives.
pub(super) async fn add(
    name: &str,
    request: &Request,
    deadline: Instant,
) -> Result<AddResult, PortError> {
    let patience = deadline.saturating_duration_since(Instant::now());
    let failed = match run(name, Command::Add, request, patience).await {
        Ok(Some(result)) if !result.ips.is_empty() => return Ok(result),
        Ok(_) => PortError::NothingGiven(name.to_owned()),
        // It never ran.
        Err(PortError::Ipam(
            error @ (DelegateError::Name(_)
            | DelegateError::NotFound { .. }
            | DelegateError::Config(_)),
        )) => return Err(error.into()),
        Err(error) => error,
    };
    // One that was killed, or failed half-way, may have given something all the same.
    undo(name, request).await;
    Err(failed)
}

/// Gives back what [`add`] got, or what an ADD of the past did.
pub(super) async fn undo(name: &str, request: &Request) {
    if let Err(error) = run(name, Command::Del, request, UNDO_PATIENCE).await {
        warn!(plugin = name, %error, "addresses were not taken back");
    }
}

/// Has the plugin release what it gave. One that is not there can never do so, and must not keep the
/// pod for ever.
pub(super) async fn delete(ipam: &Ipam, request: &Request) -> Result<(), PortError> {
    match pass(ipam, Command::Del, request).await {
        Err(PortError::Ipam(error @ DelegateError::NotFound { .. })) => {
            warn!(%error, "what it may have given is not taken back");
            Ok(())
        }
        result => result,
    }
}

/// Passes a call on to the plugin, if there is one.
pub(super) async fn pass(
    ipam: &Ipam,
    command: Command,
    request: &Request,
) -> Result<(), PortError> {
    let Ipam::Delegate(name) = ipam else { return Ok(()) };
    run(name, command, request, request.timeout()).await.map(drop)
}

/// Passes a call on as it is.
async fn run(
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
