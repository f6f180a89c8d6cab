//! Resources: an envelope around the spec and the status of a kind.

use crate::kind::Kind;
use crate::metadata::Metadata;
use crate::parse::Fault;
use crate::policy::{
    NamespaceSpec, NamespaceStatus, NetworkPolicySpec, NetworkPolicyStatus, WorkloadSpec,
    WorkloadStatus,
};
use crate::service::{EndpointsSpec, EndpointsStatus, ServiceSpec, ServiceStatus};
use crate::spec::{FabricSpec, NetworkSpec, NodeSpec, PoolSpec, PortSpec, RouterSpec};
use crate::status::{
    FabricStatus, NetworkStatus, NodeStatus, PoolStatus, PortStatus, RouterStatus,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

/// The version of all kinds.
pub const API_VERSION: &str = "osier.dev/v1alpha1";

/// What is wanted and what is, with its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document<S, T> {
    /// What every resource has.
    pub metadata: Metadata,
    /// What users want.
    pub spec: S,
    /// What the controller reports.
    pub status: T,
}

/// A resource of any kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resource {
    /// What holds for the whole cluster.
    Fabric(Document<FabricSpec, FabricStatus>),
    /// A machine with a switch.
    Node(Document<NodeSpec, NodeStatus>),
    /// Addresses to give out.
    Pool(Document<PoolSpec, PoolStatus>),
    /// An L3 domain.
    Router(Document<RouterSpec, RouterStatus>),
    /// An L2 domain with subnets.
    Network(Document<NetworkSpec, NetworkStatus>),
    /// An attachment of a device to a network.
    Port(Document<PortSpec, PortStatus>),
    /// Addresses behind which endpoints answer.
    Service(Document<ServiceSpec, ServiceStatus>),
    /// Some of a Service's endpoints.
    Endpoints(Document<EndpointsSpec, EndpointsStatus>),
    /// What workloads are in, with labels.
    Namespace(Document<NamespaceSpec, NamespaceStatus>),
    /// Who may talk to whom.
    NetworkPolicy(Document<NetworkPolicySpec, NetworkPolicyStatus>),
    /// What has ports, with labels.
    Workload(Document<WorkloadSpec, WorkloadStatus>),
}

/// Does the same with the document of whatever kind it is.
macro_rules! with_document {
    ($resource:expr, $document:ident => $what:expr) => {
        match $resource {
            Resource::Fabric($document) => $what,
            Resource::Node($document) => $what,
            Resource::Pool($document) => $what,
            Resource::Router($document) => $what,
            Resource::Network($document) => $what,
            Resource::Port($document) => $what,
            Resource::Service($document) => $what,
            Resource::Endpoints($document) => $what,
            Resource::Namespace($document) => $what,
            Resource::NetworkPolicy($document) => $what,
            Resource::Workload($document) => $what,
        }
    };
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a, S, T> {
    api_version: &'static str,
    kind: &'static str,
    metadata: &'a Metadata,
    spec: &'a S,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'a T>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Read<S, T> {
    #[serde(rename = "apiVersion")]
    _api_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    metadata: Metadata,
    spec: S,
    #[serde(default)]
    status: Option<T>,
}

fn said<T: Default + PartialEq>(status: &T) -> Option<&T> {
    Some(status).filter(|status| **status != T::default())
}

// === impl Resource ===

impl Resource {
    /// Which kind it is.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Fabric(_) => Kind::Fabric,
            Self::Node(_) => Kind::Node,
            Self::Pool(_) => Kind::Pool,
            Self::Router(_) => Kind::Router,
            Self::Network(_) => Kind::Network,
            Self::Port(_) => Kind::Port,
            Self::Service(_) => Kind::Service,
            Self::Endpoints(_) => Kind::Endpoints,
            Self::Namespace(_) => Kind::Namespace,
            Self::NetworkPolicy(_) => Kind::NetworkPolicy,
            Self::Workload(_) => Kind::Workload,
        }
    }

    /// What every resource has.
    pub fn metadata(&self) -> &Metadata {
        with_document!(self, document => &document.metadata)
    }

    /// What every resource has, to change.
    pub fn metadata_mut(&mut self) -> &mut Metadata {
        with_document!(self, document => &mut document.metadata)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.metadata().name
    }

    /// The key that it is stored under: `ports/shop:web`.
    pub fn key(&self) -> String {
        self.kind().key(self.name())
    }

    /// Its conditions, of any kind.
    pub fn conditions(&self) -> &[crate::Condition] {
        with_document!(self, document => &document.status.conditions)
    }

    /// As JSON.
    pub fn to_value(&self) -> Value {
        // Names are text and numbers finite in all of our types.
        serde_json::to_value(self).unwrap_or_default()
    }

    /// As it is stored: JSON without the version, which the store itself knows.
    pub fn to_stored(&self) -> Vec<u8> {
        let mut value = self.to_value();
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("resourceVersion");
        }
        value.to_string().into_bytes()
    }

    /// From how it is stored, with the revision that changed it last.
    pub fn from_stored(bytes: &[u8], modified: u64) -> Result<Self, Fault> {
        let value = serde_json::from_slice(bytes).map_err(|e| Fault::new("", e.to_string()))?;
        let mut resource = Self::from_value(&value)?;
        resource.metadata_mut().resource_version = Some(modified.to_string());
        Ok(resource)
    }

    /// From JSON. Unknown fields are refused, with what may have been meant.
    pub fn from_value(value: &Value) -> Result<Self, Fault> {
        let kind = kind_of(value)?;
        crate::strict::check(kind, value)?;
        Ok(match kind {
            Kind::Fabric => Self::Fabric(Document::read(kind, value)?),
            Kind::Node => Self::Node(Document::read(kind, value)?),
            Kind::Pool => Self::Pool(Document::read(kind, value)?),
            Kind::Router => Self::Router(Document::read(kind, value)?),
            Kind::Network => Self::Network(Document::read(kind, value)?),
            Kind::Port => Self::Port(Document::read(kind, value)?),
            Kind::Service => Self::Service(Document::read(kind, value)?),
            Kind::Endpoints => Self::Endpoints(Document::read(kind, value)?),
            Kind::Namespace => Self::Namespace(Document::read(kind, value)?),
            Kind::NetworkPolicy => Self::NetworkPolicy(Document::read(kind, value)?),
            Kind::Workload => Self::Workload(Document::read(kind, value)?),
        })
    }
}

/// The kind that a document says it is, if it is of our version.
fn kind_of(value: &Value) -> Result<Kind, Fault> {
    let Some(object) = value.as_object() else {
        return Err(Fault::new("", "a resource is a map with apiVersion, kind, metadata and spec"));
    };
    let text = |field: &str| match object.get(field) {
        Some(Value::String(text)) => Ok(text.as_str()),
        Some(_) => Err(Fault::new(field, "this has to be text")),
        None => Err(Fault::new("", format!("{field} is missing"))),
    };
    let version = text("apiVersion")?;
    if version != API_VERSION {
        return Err(Fault::new(
            "apiVersion",
            format!("{version:?} is not known here: did you mean {API_VERSION}?"),
        ));
    }
    let name = text("kind")?;
    let exact = Kind::ALL.into_iter().find(|kind| kind.name() == name);
    exact.ok_or_else(|| {
        let said = crate::kind::UnknownKind { found: name.to_owned() }.to_string();
        let meant = crate::strict::closest(name, Kind::ALL.map(Kind::name));
        Fault::new("kind", meant.map_or(said.clone(), |m| format!("{said}; did you mean {m}?")))
    })
}

impl<S: DeserializeOwned, T: DeserializeOwned + Default> Document<S, T> {
    fn read(kind: Kind, value: &Value) -> Result<Self, Fault> {
        // A spec of which nothing is needed may be left out.
        let mut value = value.clone();
        if let Some(object) = value.as_object_mut() {
            let spec = object.entry("spec").or_insert(Value::Null);
            if spec.is_null() {
                *spec = Value::Object(serde_json::Map::new());
            }
        }
        let read: Read<S, T> = serde_path_to_error::deserialize(value).map_err(|error| {
            let field = error.path().to_string();
            let field = if field == "." { String::new() } else { field };
            Fault::new(field, error.into_inner().to_string())
        })?;
        kind.check_name(&read.metadata.name)
            .map_err(|e| Fault::new("metadata.name", e.to_string()))?;
        if let Some((key, said)) = read.metadata.bad_label() {
            return Err(Fault::new(format!("metadata.labels.{key}"), said));
        }
        let status = read.status.unwrap_or_default();
        Ok(Self { metadata: read.metadata, spec: read.spec, status })
    }
}

impl Serialize for Resource {
    fn serialize<Z: Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
        let (api_version, kind) = (API_VERSION, self.kind().name());
        with_document!(self, document => {
            let Document { metadata, spec, status } = document;
            Written { api_version, kind, metadata, spec, status: said(status) }.serialize(serializer)
        })
    }
}

impl<'de> Deserialize<'de> for Resource {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Self::from_value(&value).map_err(serde::de::Error::custom)
    }
}
