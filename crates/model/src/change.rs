//! Changes as values.

use crate::error::Invalid;
use crate::name::{
    DeviceName, EndpointsKey, NamespaceName, NetworkName, NodeName, PolicyName, PortKey,
    RouterName, ServiceName,
};
use crate::policy::{Guard, Policy, Selection, SelectionId};
use crate::{Endpoints, Fabric, Network, Node, Port, Router, Service, Workload};
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
    /// What a selector selects.
    Selection(Selection),
    /// A policy.
    Policy(Policy),
    /// A namespace that has policies.
    Guard(Guard),
    /// What a device is to policies.
    Workload(Workload),
    /// A port.
    Port(Port),
    /// A Service.
    Service(Service),
    /// Endpoints of a Service.
    Endpoints(Endpoints),
}

/// Which object. In the order of reference; what policies say comes before the ports that they are
/// about, so that no port is there without them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "kind", content = "name", rename_all = "lowercase")]
pub enum Key {
    /// A node.
    Node(NodeName),
    /// A router.
    Router(RouterName),
    /// A network.
    Network(NetworkName),
    /// What a selector selects.
    Selection(SelectionId),
    /// A policy.
    Policy(PolicyName),
    /// A namespace that has policies.
    Guard(NamespaceName),
    /// What a device is to policies.
    Workload(DeviceName),
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
            Self::Selection(selection) => Key::Selection(selection.id),
            Self::Policy(policy) => Key::Policy(policy.name.clone()),
            Self::Guard(guard) => Key::Guard(guard.namespace.clone()),
            Self::Workload(workload) => Key::Workload(workload.device.clone()),
            Self::Port(port) => Key::Port(port.key.clone()),
            Self::Service(service) => Key::Service(service.name.clone()),
            Self::Endpoints(endpoints) => Key::Endpoints(endpoints.key.clone()),
        }
    }

    /// Checks what can be checked without other objects.
    pub fn validate(&self) -> Result<(), Invalid> {
        match self {
            Self::Node(node) => node.validate(),
            Self::Network(network) => network.validate(),
            Self::Port(port) => port.validate(),
            Self::Service(service) => service.validate(),
            Self::Endpoints(endpoints) => endpoints.validate(),
            Self::Policy(policy) => policy.validate(),
            Self::Router(_) | Self::Selection(_) | Self::Guard(_) | Self::Workload(_) => Ok(()),
        }
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Node(name) => write!(f, "node {name}"),
            Self::Router(name) => write!(f, "router {name}"),
            Self::Network(name) => write!(f, "network {name}"),
            Self::Selection(id) => write!(f, "selection {id}"),
            Self::Policy(name) => write!(f, "policy {name}"),
            Self::Guard(namespace) => write!(f, "guard {namespace}"),
            Self::Workload(device) => write!(f, "workload {device}"),
            Self::Port(key) => write!(f, "port {key}"),
            Self::Service(name) => write!(f, "service {name}"),
            Self::Endpoints(key) => write!(f, "endpoints {key}"),
        }
    }
}
