//! Why a change is refused.

use osier_model::{Invalid, Key};
use thiserror::Error;

/// Why changes were refused. The cluster is as it was.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Refused {
    /// An object that cannot be, alone or beside the others.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// An object cannot go while another refers to it.
    #[error("{object} cannot go: {by} needs it")]
    InUse {
        /// What should go.
        object: Key,
        /// What refers to it.
        by: Key,
    },
    /// How a network's ports reach one another is fixed while it has ports: they are made for it.
    #[error("{object}: reach: it cannot change while the network has ports, such as {port}")]
    ReachInUse {
        /// The network.
        object: Key,
        /// One of its ports.
        port: Key,
    },
}
