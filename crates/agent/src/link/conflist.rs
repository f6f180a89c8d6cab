//! The CNI configuration: written when the agent can serve, so that a runtime that finds it finds
//! the agent, too.

use super::journal::write;
use crate::config::Config;
use crate::ports::Ports;
use serde_json::json;
use std::time::Duration;
use tracing::{info, warn};

/// How often it is looked at: somebody may delete it.
const LOOK: Duration = Duration::from_secs(10);
const SOON: Duration = Duration::from_millis(200);

/// Keeps it there, for ever.
pub(super) async fn keep(config: &Config, ports: &Ports) {
    let Some(path) = &config.cni_config else { return std::future::pending().await };
    let text = text(config);
    loop {
        if ports.status().await.is_err() {
            tokio::time::sleep(SOON).await;
            continue;
        }
        if std::fs::read(path).ok().as_deref() != Some(text.as_bytes()) {
            match write(path, text.as_bytes()) {
                Ok(()) => info!(path = %path.display(), "the CNI configuration is written"),
                Err(error) => {
                    warn!(%error, path = %path.display(), "the CNI configuration is not written");
                }
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn text(config: &Config) -> String {
    let mut osier = json!({
        "type": "osier",
        "capabilities": {"ips": true, "mac": true, "bandwidth": true, "portMappings": true},
    });
    if config.cni_socket != std::path::Path::new(osier_cni::config::DEFAULT_SOCKET) {
        osier["agentSocket"] = json!(config.cni_socket);
    }
    // Runtimes from before 1.1.0 refuse that version, and know no list of versions.
    let list = json!({
        "cniVersion": "1.0.0",
        "cniVersions": ["1.0.0", "1.1.0"],
        "name": "osier",
        "plugins": [osier],
    });
    format!("{list:#}\n")
}
