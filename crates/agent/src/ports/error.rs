//! Why a port is not made, and what the runtime hears of it.

use crate::addresses::AddressError;
use crate::controller::AskError;
use crate::gateway::GatewayError;
use crate::netlink::{NamespaceError, NetlinkError};
use crate::switch::SwitchError;
use osier_cni::delegate::DelegateError;
use osier_cni::spec::{Code, Error};
use osier_model::NameError;
use osier_ovsdb::session::TransactError;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error as ThisError;

/// Why a port is not made, or not right.
#[derive(Debug, ThisError)]
pub enum PortError {
    /// The view does not know this node.
    #[error("the view has no node {0}: add it, or correct `node` in the agent's configuration")]
    NoNode(String),
    /// The view has no default network.
    #[error("the view has no network with VNI 1, which pods are attached to: add it")]
    NoNetwork,
    /// The view has no such network.
    #[error("the view has no network {0}: add it, or correct the configuration")]
    UnknownNetwork(String),
    /// The network has another number than the configuration says.
    #[error("network {network} has VNI {has}, the configuration says {said}: make them equal")]
    Vni {
        /// The network.
        network: String,
        /// Its number.
        has: u32,
        /// The configuration's.
        said: u32,
    },
    /// The view has the port in another network.
    #[error(
        "the view has port {key} in network {wished}, the configuration in {said}: make them equal"
    )]
    WishedElsewhere {
        /// The port.
        key: String,
        /// The view's network.
        wished: String,
        /// The configuration's.
        said: String,
    },
    /// The container is attached, and other than is asked for now.
    #[error("the container is attached already, and {0}: set forceAddress, or delete it first")]
    AttachedOtherwise(String),
    /// The interface is there already, by another plugin of the list.
    #[error(
        "{0} is there already, made by a plugin before this one: this plugin makes the interface \
         itself, so put it first, and remove the one that made it"
    )]
    Chained(String),
    /// Another bridge was asked for.
    #[error("the configuration is for bridge {found}, the agent's is {ours}: make them equal")]
    Bridge {
        /// The one of the configuration.
        found: String,
        /// The agent's.
        ours: String,
    },
    /// A name that cannot be.
    #[error("the container has no usable name")]
    Name(#[source] NameError),
    /// No address.
    #[error("no address for the pod: {0}")]
    Address(#[from] AddressError),
    /// The controller gives addresses, and did not.
    #[error(transparent)]
    Controller(#[from] AskError),
    /// The firewall.
    #[error(transparent)]
    Firewall(#[from] GatewayError),
    /// Another plugin gives addresses, and did not.
    #[error(transparent)]
    Ipam(#[from] DelegateError),
    /// Another plugin gave none.
    #[error("the plugin {0} gave no address")]
    NothingGiven(String),
    /// Another plugin cannot be heard in the network.
    #[error(
        "the plugin {plugin} asks all of the network, and {network} is routed, without broadcast: \
         use a bridged network, or other address management"
    )]
    NotBridged {
        /// The plugin.
        plugin: String,
        /// The network.
        network: String,
    },
    /// Another plugin was told an address that is not the port's.
    #[error("the plugin {plugin} got {address}, which is not the port's")]
    LeasedOtherwise {
        /// The plugin.
        plugin: String,
        /// The address.
        address: IpAddr,
    },
    /// The pod's namespace.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// The kernel.
    #[error(transparent)]
    Kernel(#[from] NetlinkError),
    /// The switch.
    #[error(transparent)]
    Switch(#[from] SwitchError),
    /// The database fails again and again.
    #[error("the switch's database does not take changes: see its disk and its log")]
    Database(#[source] Arc<TransactError>),
    /// Something needed is not there.
    #[error("{0} is away")]
    Away(&'static str),
    /// The switch is not there, so pods may not reach one another.
    #[error("the switch is away: see whether ovs-vswitchd runs; pods here may be cut off")]
    CutOff,
    /// Somebody told the agent to change nothing.
    #[error("the node is paused: run `osier node resume {0}`")]
    Paused(String),
    /// It took too long.
    #[error("the port was not ready within {0:?}, and was undone")]
    Deadline(Duration),
    /// CHECK: something is not as it was made.
    #[error("the attachment is damaged: {0}")]
    Damaged(String),
    /// CHECK: nothing was made.
    #[error("the container is not attached")]
    Unknown,
    /// A defect of ours.
    #[error("a part of the agent panicked: see its log")]
    Panicked,
}

impl PortError {
    fn code(&self) -> Code {
        match self {
            Self::NoNode(_)
            | Self::NoNetwork
            | Self::UnknownNetwork(_)
            | Self::Away(_)
            | Self::Paused(_)
            | Self::Database(_)
            | Self::Controller(AskError::Later(_))
            | Self::Deadline(_) => Code::TRY_AGAIN_LATER,
            Self::CutOff => Code::LIMITED_CONNECTIVITY,
            Self::Bridge { .. }
            | Self::Vni { .. }
            | Self::WishedElsewhere { .. }
            | Self::Chained(_)
            | Self::NotBridged { .. }
            | Self::AttachedOtherwise(_) => Code::INVALID_CONFIG,
            Self::Name(_) | Self::Namespace(_) => Code::INVALID_ENVIRONMENT,
            Self::Address(_) | Self::Controller(AskError::Refused(_)) => Code::NO_ADDRESS,
            Self::NothingGiven(_) | Self::LeasedOtherwise { .. } | Self::Ipam(_) => {
                Code::DELEGATE_FAILED
            }
            Self::Kernel(_) | Self::Switch(_) | Self::Firewall(_) | Self::Panicked => {
                Code::AGENT_FAILED
            }
            Self::Damaged(_) => Code::ATTACHMENT_DAMAGED,
            Self::Unknown => Code::UNKNOWN_CONTAINER,
        }
    }
}

impl From<PortError> for Error {
    fn from(error: PortError) -> Self {
        match error {
            PortError::Ipam(error) => error.into(),
            error => Self::new(error.code(), error.to_string()).with_causes_of(&error),
        }
    }
}
