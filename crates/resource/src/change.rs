//! Changes that users ask for: what they may change, and what stays the controller's.

use crate::parse::Fault;
use crate::policy::{NamespaceStatus, NetworkPolicyStatus, WorkloadStatus};
use crate::resource::{Document, Resource};
use crate::service::{EndpointsStatus, ServiceStatus};
use crate::status::{
    FabricStatus, NetworkStatus, NodeStatus, PoolStatus, PortStatus, RouterStatus,
};
use serde_json::{Map, Value};
use thiserror::Error;

/// Why a change was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ChangeError {
    /// It is of something else.
    #[error("{field} is {found:?}, but it cannot be changed from {current:?}")]
    Fixed {
        /// Which field.
        field: &'static str,
        /// As it should be.
        found: String,
        /// As it is.
        current: String,
    },
    /// It was made from an old version.
    #[error("the resource was changed: its version is {current}, the change is of {found}")]
    Stale {
        /// The version that the change is of.
        found: String,
        /// As it is.
        current: String,
    },
    /// A part that users do not write.
    #[error("{field} cannot be patched: only spec and metadata.labels can")]
    NotYours {
        /// Which.
        field: String,
    },
    /// The result cannot be.
    #[error("the changed resource is not valid")]
    Invalid(#[from] Fault),
}

/// Makes a value what a patch says, by RFC 7386: null deletes, maps are merged, all else replaces.
pub fn merge(value: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        patch.clone_into(value);
        return;
    };
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    if let Value::Object(map) = value {
        for (key, inner) in patch {
            match inner {
                Value::Null => drop(map.remove(key)),
                inner => merge(map.entry(key).or_insert(Value::Null), inner),
            }
        }
    }
}

// === impl Resource ===

impl Resource {
    /// A new resource: what users wrote, and what only the controller may say.
    pub fn create(mut self, uid: String, now: String) -> Result<Self, Fault> {
        self.validate()?;
        self.forget_status();
        let metadata = self.metadata_mut();
        metadata.uid = Some(uid);
        metadata.creation_timestamp = Some(now);
        metadata.generation = Some(1);
        metadata.resource_version = None;
        Ok(self)
    }

    /// A resource that was there before, with the status that it had: only what it says is believed
    /// of it, and the model still may refuse it.
    pub fn restore(mut self, uid: String, now: String) -> Result<Self, Fault> {
        self.validate()?;
        let metadata = self.metadata_mut();
        metadata.uid.get_or_insert(uid);
        metadata.creation_timestamp.get_or_insert(now);
        metadata.generation.get_or_insert(1);
        metadata.resource_version = None;
        Ok(self)
    }

    /// This resource with the spec and the labels of another, by which it is replaced. Its
    /// generation counts specs; its status stays. A version that the other carries has to be this
    /// one's.
    pub fn replace(&self, new: Self) -> Result<Self, ChangeError> {
        new.validate()?;
        let (old, given) = (self.metadata(), new.metadata());
        let fixed = |field, found: &str, current: &str| {
            if found == current {
                return Ok(());
            }
            let (found, current) = (found.to_owned(), current.to_owned());
            Err(ChangeError::Fixed { field, found, current })
        };
        fixed("kind", new.kind().name(), self.kind().name())?;
        fixed("metadata.name", &given.name, &old.name)?;
        if let (Some(found), Some(current)) = (&given.uid, &old.uid) {
            fixed("metadata.uid", found, current)?;
        }
        check_version(given.resource_version.as_deref(), old.resource_version.as_deref())?;
        let (mut result, labels) = (self.clone(), given.labels.clone());
        let is_changed = result.take_spec(new);
        let metadata = result.metadata_mut();
        metadata.labels = labels;
        if is_changed {
            metadata.generation = Some(metadata.generation.unwrap_or(0) + 1);
        }
        Ok(result)
    }

    /// This resource with a JSON merge patch on its spec and labels.
    pub fn patch(&self, patch: &Value) -> Result<Self, ChangeError> {
        let whole = self.to_value();
        let Value::Object(parts) = patch else {
            return Err(Fault::new("", "a merge patch of a resource is a map").into());
        };
        for (part, inner) in parts {
            match part.as_str() {
                "spec" => {}
                "metadata" => check_metadata(&whole["metadata"], inner)?,
                _ if whole.get(part) == Some(inner) => {}
                _ => return Err(ChangeError::NotYours { field: part.clone() }),
            }
        }
        let mut merged = whole;
        merge(&mut merged, patch);
        self.replace(Self::from_value(&merged)?)
    }

    fn forget_status(&mut self) {
        match self {
            Self::Fabric(d) => d.status = FabricStatus::default(),
            Self::Node(d) => d.status = NodeStatus::default(),
            Self::Pool(d) => d.status = PoolStatus::default(),
            Self::Router(d) => d.status = RouterStatus::default(),
            Self::Network(d) => d.status = NetworkStatus::default(),
            Self::Port(d) => d.status = PortStatus::default(),
            Self::Service(d) => d.status = ServiceStatus::default(),
            Self::Endpoints(d) => d.status = EndpointsStatus::default(),
            Self::Namespace(d) => d.status = NamespaceStatus::default(),
            Self::NetworkPolicy(d) => d.status = NetworkPolicyStatus::default(),
            Self::Workload(d) => d.status = WorkloadStatus::default(),
        }
    }

    /// Takes the spec of another of the same kind, and says whether it was different.
    fn take_spec(&mut self, new: Self) -> bool {
        fn take<S: PartialEq, T>(old: &mut Document<S, T>, new: Document<S, T>) -> bool {
            let is_changed = old.spec != new.spec;
            old.spec = new.spec;
            is_changed
        }
        match (self, new) {
            (Self::Fabric(old), Self::Fabric(new)) => take(old, new),
            (Self::Node(old), Self::Node(new)) => take(old, new),
            (Self::Pool(old), Self::Pool(new)) => take(old, new),
            (Self::Router(old), Self::Router(new)) => take(old, new),
            (Self::Network(old), Self::Network(new)) => take(old, new),
            (Self::Port(old), Self::Port(new)) => take(old, new),
            (Self::Service(old), Self::Service(new)) => take(old, new),
            (Self::Endpoints(old), Self::Endpoints(new)) => take(old, new),
            (Self::Namespace(old), Self::Namespace(new)) => take(old, new),
            (Self::NetworkPolicy(old), Self::NetworkPolicy(new)) => take(old, new),
            (Self::Workload(old), Self::Workload(new)) => take(old, new),
            _ => false,
        }
    }
}

fn check_version(found: Option<&str>, current: Option<&str>) -> Result<(), ChangeError> {
    match (found, current) {
        (Some(found), Some(current)) if found != current => {
            let (found, current) = (found.to_owned(), current.to_owned());
            Err(ChangeError::Stale { found, current })
        }
        _ => Ok(()),
    }
}

/// A patch of metadata may change labels, and name the version that it is of; the rest may only
/// stand there as it is.
fn check_metadata(current: &Value, patch: &Value) -> Result<(), ChangeError> {
    let Value::Object(patch) = patch else {
        return Err(ChangeError::NotYours { field: "metadata".to_owned() });
    };
    for (field, inner) in patch {
        let is_fine = matches!(field.as_str(), "labels" | "resourceVersion")
            || current.get(field) == Some(inner);
        if !is_fine {
            return Err(ChangeError::NotYours { field: format!("metadata.{field}") });
        }
    }
    Ok(())
}
