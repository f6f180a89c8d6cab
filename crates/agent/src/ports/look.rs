//! Looking at ports, for who tells others of them.

use super::{PortError, Ports};
use crate::desired::PodPort;
use osier_model::Port;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Ports {
    /// All of them.
    pub fn living(&self) -> Vec<Arc<PodPort>> {
        self.state().all()
    }

    /// A port as the model has it.
    pub fn object(&self, port: &PodPort) -> Port {
        port.object(&self.0.config.node)
    }

    /// What ports made now have as their MTU at most.
    pub fn mtu(&self) -> u16 {
        self.0.mtu.load(Ordering::Relaxed)
    }

    /// Whether somebody told the agent to change nothing.
    pub fn is_paused(&self) -> bool {
        self.0.switch.rows().status().paused
    }

    pub(super) fn check_paused(&self) -> Result<(), PortError> {
        match self.is_paused() {
            true => Err(PortError::Paused(self.0.config.node.to_string())),
            false => Ok(()),
        }
    }
}
