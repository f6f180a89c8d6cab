//! Whom the agent asks for what it cannot decide itself: addresses of networks whose subnets span
//! nodes. The default network never needs it, and nothing that lives does.

use osier_model::{Mac, NetworkName, NodeName, Port, PortKey};
use std::fmt::Debug;
use std::net::IpAddr;
use std::pin::Pin;
use thiserror::Error;

/// A port that addresses are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortRequest {
    /// Which one. Asking twice for one port gives the same.
    pub key: PortKey,
    /// On which node.
    pub node: NodeName,
    /// Of which network.
    pub network: NetworkName,
    /// The Ethernet address that it shall have, if that matters.
    pub mac: Option<Mac>,
    /// The addresses that it shall have, if that matters.
    pub addresses: Vec<IpAddr>,
}

/// Why a controller gave nothing.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AskError {
    /// There is none, or it does not answer: the same call may succeed later.
    #[error("{0}")]
    Later(String),
    /// It will not: no address is left, or the one asked for is taken.
    #[error("the controller refused: {0}")]
    Refused(String),
}

/// What is answered some time later.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Gives ports addresses, for all nodes.
pub trait Controller: Debug + Send + Sync {
    /// Gives a port its addresses: the port as it shall be, with at least one address of the
    /// network's subnets. The caller stops waiting when its own caller does.
    fn grant(&self, request: PortRequest) -> Answer<'_, Result<Port, AskError>>;

    /// A port is gone, or was never made. Not known any more is as good; what fails is for the
    /// controller to find out by itself.
    fn release<'a>(&'a self, node: &'a NodeName, key: &'a PortKey) -> Answer<'a, ()>;

    /// Whether all ports of all nodes are its to know: then also addresses that somebody asks for
    /// by name are for it to give.
    fn knows_all(&self) -> bool {
        false
    }

    /// Whether the view may have a port only because it was granted: then not the view, but the
    /// controller is to be asked for it again.
    fn gave(&self, _key: &PortKey) -> bool {
        false
    }
}

/// No controller: a network's addresses must come from elsewhere.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoController;

// === impl NoController ===

impl Controller for NoController {
    fn grant(&self, request: PortRequest) -> Answer<'_, Result<Port, AskError>> {
        let PortRequest { key, network, .. } = request;
        let why = format!(
            "nobody gives addresses of network {network}: put port {key} with its addresses into \
             the view, ask for them in runtimeConfig.ips, or name an `ipam` plugin"
        );
        Box::pin(std::future::ready(Err(AskError::Later(why))))
    }

    fn release<'a>(&'a self, _: &'a NodeName, _: &'a PortKey) -> Answer<'a, ()> {
        Box::pin(std::future::ready(()))
    }
}
