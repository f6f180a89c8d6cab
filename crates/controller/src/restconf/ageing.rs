//! Pods that are gone from their switch, and whose end a client lost.

use super::{Restconf, removed};
use osier_model::PortKey;
use osier_restconf::Edited;
use std::collections::BTreeSet;

/// Whose writes they are.
const NOBODY: &str = "ageing";

impl Restconf {
    /// Removes the pods of ports that no switch has any more.
    pub(crate) async fn age(&self, ports: &BTreeSet<PortKey>) {
        let mut state = self.state.lock().await;
        for port in ports {
            let units = state.coe.pods_of(&port.to_string());
            let count = units.len();
            if count == 0 {
                continue;
            }
            let edited = Edited { changes: removed(units), ..Edited::default() };
            match self.make(&mut state, &edited, NOBODY).await {
                Ok(_) => {
                    tracing::info!(%port, "its switch has had it no more for long: it is gone");
                    self.metrics.restconf_aged(count);
                }
                Err(error) => tracing::warn!(%port, %error, "what its switch has no more stays"),
            }
        }
    }
}
