//! Changes as values.

use crate::name::{EndpointsKey, NetworkName, NodeName, PortKey, RouterName, ServiceName};
use crate::{Endpoints, Fabric, Network, Node, Port, Router, Service};
use serde::{Deserialize, Serialize};

/// An object of the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Object {
    /// A node.
    Node(Node),
    /// A router.
    Router(Router),
    /// A network.
    Network(Network),
    /// A port.
    Port(Port),
    /// A Service.
    Service(Service),
    /// Endpoints of a Service.
    Endpoints(Endpoints),
}

/// Which object.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "kind", content = "name", rename_all = "lowercase")]
pub enum Key {
    /// A node.
    Node(NodeName),
    /// A router.
    Router(RouterName),
    /// A network.
    Network(NetworkName),
    /// A port.
    Port(PortKey),
    /// A Service.
    Service(ServiceName),
    /// Endpoints of a Service.
    Endpoints(EndpointsKey),
}

/// One step from what was to what is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// It is now so, whether it was there before or not.
    Put(Object),
    /// It is gone.
    Delete(Key),
}

/// What a source says of a view, at once: all of it, or what changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ViewContent {
    /// All of it: what it does not have is gone. The first that a source says, and the first after
    /// a break.
    Snapshot {
        /// What holds for the whole cluster.
        fabric: Fabric,
        /// Objects, in any order, each once.
        objects: Vec<Object>,
    },
    /// Steps from what was said before, in an order in which each can be made. They may be none.
    Changes {
        /// What holds for the whole cluster, if that changed.
        fabric: Option<Fabric>,
        /// The steps.
        changes: Vec<Change>,
    },
}

impl Object {
    /// Which one it is.
    pub fn key(&self) -> Key {
        match self {
            Self::Node(node) => Key::Node(node.name.clone()),
            Self::Router(router) => Key::Router(router.name.clone()),
            Self::Network(network) => Key::Network(network.name.clone()),
            Self::Port(port) => Key::Port(port.key.clone()),
            Self::Service(service) => Key::Service(service.name.clone()),
            Self::Endpoints(endpoints) => Key::Endpoints(endpoints.key.clone()),
        }
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Node(name) => write!(f, "node {name}"),
            Self::Router(name) => write!(f, "router {name}"),
            Self::Network(name) => write!(f, "network {name}"),
            Self::Port(key) => write!(f, "port {key}"),
            Self::Service(name) => write!(f, "service {name}"),
            Self::Endpoints(key) => write!(f, "endpoints {key}"),
        }
    }
}
