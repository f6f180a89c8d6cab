//! What callers ask for, and what they get.

use super::allocate::Exhausted;
use bytes::Bytes;
use osier_fleet::{JoinRefused, Redemption};
use osier_model::{Node, NodeName, PoolName};
use osier_resource::{ChangeError, ConvertError, Fault, Kind, Resource};
use osier_span::Refused;
use osier_store::{Key, Position, TransactionError, Unavailable};
use serde_json::Value;
use thiserror::Error;

/// Operations that are made together, or not at all.
#[derive(Debug, Clone, Default)]
pub struct Write {
    /// What is done; no resource stands here twice.
    pub operations: Vec<Operation>,
    /// Only tell what would be done.
    pub dry_run: bool,
}

/// What is done.
#[derive(Debug, Clone)]
pub enum Operation {
    /// Makes a resource that is not there.
    Create(Box<Resource>),
    /// Replaces one that is there; a version that it carries has to be the current one.
    Replace(Box<Resource>),
    /// Makes or replaces one.
    Apply(Box<Resource>),
    /// Makes one with the status that it had elsewhere, or replaces one: what was allocated stays.
    Restore(Box<Resource>),
    /// Changes one by a JSON merge patch.
    Patch {
        /// Of which kind.
        kind: Kind,
        /// Which.
        name: String,
        /// The patch.
        patch: Value,
    },
    /// Deletes one that is there.
    Delete {
        /// Of which kind.
        kind: Kind,
        /// Which.
        name: String,
        /// The version that it has to have.
        version: Option<String>,
    },
    /// A node's agent wants a port: makes it, or finds what was made for it before.
    Attach(Box<Resource>),
    /// A node's agent has removed a port that was made for it.
    Detach {
        /// The port's name.
        name: String,
        /// The node.
        node: NodeName,
        /// Of the request that it undoes: a later one stays.
        generation: u64,
    },
    /// Uses a node's token up, and makes the node if it is new.
    Redeem(Redemption),
    /// Stores a document that is no resource.
    Keep(Key, Bytes),
    /// Removes a document that is no resource.
    Drop(Key),
}

/// What was done.
#[derive(Debug, Clone)]
pub struct Written {
    /// Where the store is now.
    pub position: Position,
    /// One for each operation, in their order.
    pub outcomes: Vec<Outcome>,
}

/// What one operation did.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// How it ended.
    pub effect: Effect,
    /// The resource as it is now, or was before it was deleted.
    pub resource: Option<Resource>,
    /// A node that joined.
    pub joined: Option<Node>,
}

/// How an operation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It is new.
    Created,
    /// It is another.
    Configured,
    /// It was so already.
    Unchanged,
    /// It is gone.
    Deleted,
}

/// Why nothing was done.
#[derive(Debug, Error)]
pub enum WriteError {
    /// It should be new.
    #[error("{kind} {name} exists already")]
    Exists {
        /// Of which kind.
        kind: Kind,
        /// Which.
        name: String,
    },
    /// It should be there.
    #[error("there is no {kind} {name}")]
    NotFound {
        /// Of which kind.
        kind: Kind,
        /// Which.
        name: String,
    },
    /// Someone else was faster.
    #[error("{resource} was changed by someone else: read it again")]
    Stale {
        /// Which, as users call it.
        resource: String,
        /// Both versions.
        #[source]
        source: ChangeError,
    },
    /// It cannot be so.
    #[error("{resource} cannot be so")]
    Invalid {
        /// Which, as users call it.
        resource: String,
        /// What is wrong.
        #[source]
        fault: Fault,
    },
    /// A part that users do not write.
    #[error("{resource} cannot be changed so")]
    NotYours {
        /// Which, as users call it.
        resource: String,
        /// What.
        #[source]
        source: ChangeError,
    },
    /// A resource stands in two operations.
    #[error("{0} stands twice in one request")]
    Twice(String),
    /// It contradicts others.
    #[error("the change contradicts the model")]
    Refused(#[source] Refused),
    /// Others need a pool.
    #[error("pool {pool} cannot go: network {network} needs it")]
    PoolInUse {
        /// Which.
        pool: PoolName,
        /// One that needs it.
        network: osier_model::NetworkName,
    },
    /// A port that a node asks for is another's.
    #[error("port {port} is {owner}'s already")]
    PortElsewhere {
        /// Which.
        port: String,
        /// Whose, in words.
        owner: String,
    },
    /// Nothing is left to give.
    #[error("nothing is left to allocate for {resource}")]
    Exhausted {
        /// For which resource.
        resource: String,
        /// Of what.
        #[source]
        source: Exhausted,
    },
    /// A store that was restored does not know yet what is in use.
    #[error(
        "the store was restored, and no address is given before its nodes have told which they use \
         (missing: {nodes}), or in {seconds} s"
    )]
    Settling {
        /// Who is missing.
        nodes: String,
        /// How long at most.
        seconds: u64,
    },
    /// A node may not join.
    #[error("the node may not join")]
    Join(#[source] JoinRefused),
    /// More than one transaction can hold.
    #[error("the request is too large for one transaction")]
    TooLarge(#[source] TransactionError),
    /// What is stored is no resource.
    #[error("{key} cannot be read from the store")]
    Damaged {
        /// Which document.
        key: String,
        /// Why.
        #[source]
        fault: Fault,
    },
    /// The store cannot answer.
    #[error("the store cannot be used now; nothing was changed")]
    Store(#[source] Unavailable),
    /// The engine has ended.
    #[error("the controller is stopping")]
    Stopping,
}

// === impl Write ===

impl Write {
    /// One operation.
    pub fn one(operation: Operation) -> Self {
        Self { operations: vec![operation], dry_run: false }
    }

    /// Only tell what would be done.
    #[must_use]
    pub fn dry(self, dry_run: bool) -> Self {
        Self { dry_run, ..self }
    }
}

// === impl Operation ===

impl Operation {
    /// What it is about: the key of the document that it may change, and how users call it.
    pub(crate) fn subject(&self) -> (String, String) {
        let of = |kind: Kind, name: &str| (kind.key(name), format!("{kind} {name}"));
        match self {
            Self::Create(resource)
            | Self::Replace(resource)
            | Self::Apply(resource)
            | Self::Restore(resource)
            | Self::Attach(resource) => of(resource.kind(), resource.name()),
            Self::Patch { kind, name, .. } | Self::Delete { kind, name, .. } => of(*kind, name),
            Self::Detach { name, .. } => of(Kind::Port, name),
            Self::Redeem(redemption) => of(Kind::Node, redemption.node.as_str()),
            Self::Keep(key, _) | Self::Drop(key) => (key.to_string(), key.to_string()),
        }
    }

    /// In which order operations of one write are prepared: what is referred to comes first, and
    /// goes last; what says its numbers and addresses comes before what takes any that are free.
    pub(crate) fn rank(&self) -> (usize, bool) {
        let place = |kind: Kind| Kind::ALL.iter().position(|k| *k == kind).unwrap_or(0);
        let rank = match self {
            Self::Create(resource)
            | Self::Replace(resource)
            | Self::Apply(resource)
            | Self::Restore(resource)
            | Self::Attach(resource) => Kind::ALL.len() + place(resource.kind()),
            Self::Patch { kind, .. } => Kind::ALL.len() + place(*kind),
            Self::Delete { kind, .. } => Kind::ALL.len() - 1 - place(*kind),
            Self::Detach { .. } => 0,
            Self::Redeem(_) => Kind::ALL.len() + place(Kind::Node),
            Self::Keep(..) | Self::Drop(_) => 2 * Kind::ALL.len(),
        };
        let takes_any = match self {
            Self::Create(resource)
            | Self::Replace(resource)
            | Self::Apply(resource)
            | Self::Restore(resource)
            | Self::Attach(resource) => takes_any(resource),
            _ => false,
        };
        (rank, takes_any)
    }
}

/// Whether a resource leaves it to us which of the free ones it gets.
fn takes_any(resource: &Resource) -> bool {
    match resource {
        Resource::Fabric(_)
        | Resource::Pool(_)
        | Resource::Endpoints(_)
        | Resource::Namespace(_)
        | Resource::NetworkPolicy(_)
        | Resource::Workload(_) => false,
        Resource::Node(node) => node.spec.blocks.is_empty(),
        Resource::Router(router) => router.spec.vrf.is_none(),
        Resource::Network(network) => network.spec.vni.is_none(),
        Resource::Port(port) => port.spec.addresses.is_empty(),
        Resource::Service(service) => service.spec.addresses.is_empty(),
    }
}

// === impl Effect ===

impl Effect {
    /// As it stands in answers.
    pub fn word(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Configured => "configured",
            Self::Unchanged => "unchanged",
            Self::Deleted => "deleted",
        }
    }
}

// === impl WriteError ===

impl WriteError {
    /// A change that was refused by the resource itself.
    pub(crate) fn of_change(resource: String, source: ChangeError) -> Self {
        match source {
            ChangeError::Stale { .. } => Self::Stale { resource, source },
            ChangeError::Invalid(fault) => Self::Invalid { resource, fault },
            ChangeError::Fixed { .. } | ChangeError::NotYours { .. } => {
                Self::NotYours { resource, source }
            }
        }
    }

    pub(crate) fn of_convert(error: ConvertError) -> Self {
        match error {
            ConvertError::Invalid { resource, fault } => Self::Invalid { resource, fault },
            ConvertError::Unallocated { resource, field } => {
                let fault = Fault { field: format!("spec.{field}"), said: "is missing".to_owned() };
                Self::Invalid { resource, fault }
            }
        }
    }
}
