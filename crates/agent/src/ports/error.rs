//! Why a port is not made, and what the runtime hears of it.

use crate::addresses::AddressError;
use crate::netlink::{NamespaceError, NetlinkError};
use crate::switch::SwitchError;
use osier_cni::delegate::DelegateError;
use osier_cni::spec::{Code, Error};
use osier_model::NameError;
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
    /// Another network than pods' own was asked for.
    #[error("pods of this node are attached to the default network only, not to {0}")]
    OtherNetwork(String),
    /// Another bridge was asked for.
    #[error("the configuration is for bridge {found}, the agent's is {ours}: make them equal")]
    Bridge {
        /// The one of the configuration.
        found: String,
        /// The agent's.
        ours: String,
    },
    /// A member of the configuration that nothing is done about.
    #[error("{0} is not supported: leave it out")]
    Unsupported(&'static str),
    /// A name that cannot be.
    #[error("the container has no usable name")]
    Name(#[source] NameError),
    /// No address.
    #[error("no address for the pod: {0}")]
    Address(#[from] AddressError),
    /// Another plugin gives addresses, and did not.
    #[error(transparent)]
    Ipam(#[from] DelegateError),
    /// Another plugin gave none.
    #[error("the plugin {0} gave no address")]
    NothingGiven(String),
    /// The pod's namespace.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// The kernel.
    #[error(transparent)]
    Kernel(#[from] NetlinkError),
    /// The switch.
    #[error(transparent)]
    Switch(#[from] SwitchError),
    /// Something needed is not there.
    #[error("{0} is away")]
    Away(&'static str),
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
            Self::NoNode(_) | Self::NoNetwork | Self::Away(_) | Self::Deadline(_) => {
                Code::TRY_AGAIN_LATER
            }
            Self::OtherNetwork(_) | Self::Unsupported(_) => Code::UNSUPPORTED_FIELD,
            Self::Bridge { .. } => Code::INVALID_CONFIG,
            Self::Name(_) | Self::Namespace(_) => Code::INVALID_ENVIRONMENT,
            Self::Address(_) => Code::NO_ADDRESS,
            Self::NothingGiven(_) | Self::Ipam(_) => Code::DELEGATE_FAILED,
            Self::Kernel(_) | Self::Switch(_) | Self::Panicked => Code::AGENT_FAILED,
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
