//! Networks that the view does not have yet: a node hears only of those that it has ports of. So the
//! controller is asked for the port first, and the network follows.

use super::{PortError, Ports, port_key};
use crate::controller::PortRequest;
use crate::desired::Giver;
use osier_cni::config::AttachRequest;
use osier_model::{Mac, NetworkName, View};
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout_at};

/// How often the view is looked at.
const LOOK: Duration = Duration::from_millis(10);

impl Ports {
    /// Lets the view have the network that a call names. True if the port was granted for that.
    pub(super) async fn introduce(
        &self,
        call: &AttachRequest,
        deadline: Instant,
    ) -> Result<bool, PortError> {
        let Some(name) = call.config.network.as_deref() else { return Ok(false) };
        let has = |view: &View| view.networks().keys().any(|known| known.as_str() == name);
        if !self.0.controller.knows_all() || self.0.switch.with_view(has).await {
            return Ok(false);
        }
        let unknown = || PortError::UnknownNetwork(name.to_owned());
        let ask = PortRequest {
            key: port_key(call)?,
            node: self.0.config.node.clone(),
            network: NetworkName::new(name).map_err(|_| unknown())?,
            mac: call.config.runtime.mac.map(|mac| Mac(mac.0)),
            addresses: call.config.runtime.ips.iter().map(|cidr| cidr.address).collect(),
        };
        let started = Instant::now();
        let granted = timeout_at(deadline.into(), self.0.controller.grant(ask)).await;
        granted.map_err(|_| PortError::Deadline(started.elapsed()))??;
        while !self.0.switch.with_view(has).await {
            if Instant::now() >= deadline {
                self.withdraw(call).await;
                return Err(unknown());
            }
            sleep(LOOK).await;
        }
        Ok(true)
    }

    /// Gives back what was granted for a port that is not made.
    pub(super) async fn withdraw(&self, call: &AttachRequest) {
        if let Ok(key) = port_key(call) {
            self.released(&Giver::Controller, &key).await;
        }
    }
}
