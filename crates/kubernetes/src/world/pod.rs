//! Pods: a table of what is told of them, small for there may be many.

use super::held::Held;
use super::service::transport;
use super::{called, partial, slim};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use osier_model::{NamedPort, NodeName};
use osier_resource::{Document, Metadata, Resource, WorkloadSpec, WorkloadStatus};
use serde::Deserialize;
use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

/// The label by which controllers know each other's pods.
pub(crate) const COMPONENT: (&str, &str) = ("app.kubernetes.io/component", "controller");

/// A pod, as it is read.
#[derive(Deserialize, Debug, Clone)]
pub(crate) struct PodObject {
    #[serde(deserialize_with = "slim", default)]
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

partial!(PodObject, NamespaceResourceScope, "", "v1", "Pod", "pods");

#[derive(Deserialize, Debug, Clone, Default)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    node_name: Option<String>,
    host_network: bool,
    containers: Vec<Container>,
    /// Some of them go on as long as the pod.
    init_containers: Vec<Container>,
}

#[derive(Deserialize, Debug, Clone, Default)]
#[serde(default)]
struct Container {
    ports: Vec<ContainerPort>,
}

#[derive(Deserialize, Debug, Clone, Default)]
#[serde(default)]
struct ContainerPort {
    name: Option<String>,
    protocol: Option<String>,
    #[serde(rename = "containerPort")]
    number: u16,
}

#[derive(Deserialize, Debug, Clone, Default)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    phase: Option<String>,
    #[serde(rename = "podIPs")]
    pod_ips: Vec<PodIp>,
}

#[derive(Deserialize, Debug, Clone, Default)]
#[serde(default)]
struct PodIp {
    ip: String,
}

/// How far a pod is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Pending,
    Running,
    Succeeded,
    Failed,
    Unknown,
}

/// A pod, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PodSeen {
    pub(crate) uid: Arc<str>,
    pub(crate) node: Option<Arc<str>>,
    pub(crate) host_network: bool,
    pub(crate) phase: Phase,
    pub(crate) addresses: Box<[IpAddr]>,
    /// One of our own controllers.
    pub(crate) is_controller: bool,
}

/// Namespace and name.
pub(crate) type PodKey = (Arc<str>, Box<str>);

/// All pods.
#[derive(Default)]
pub(crate) struct Pods {
    table: Held<PodKey, PodSeen>,
    /// Words that stand in many pods are kept once.
    words: HashSet<Arc<str>>,
}

// === impl PodObject ===

impl PodObject {
    /// `namespace:pod`.
    pub(crate) fn name(&self) -> String {
        called(&self.metadata)
    }

    /// What it is to policies; nothing if its network is its node's, or it is over.
    pub(crate) fn workload(&self) -> Option<Resource> {
        let phase = Phase::of(self.status.phase.as_deref());
        if self.spec.host_network || matches!(phase, Phase::Succeeded | Phase::Failed) {
            return None;
        }
        let all = self.spec.containers.iter().chain(&self.spec.init_containers);
        let port = |port: &ContainerPort| {
            Some(NamedPort {
                name: port.name.clone().filter(|name| !name.is_empty())?,
                transport: transport(port.protocol.as_deref().unwrap_or_default())?,
                port: Some(port.number).filter(|number| *number > 0)?,
            })
        };
        let ports = all.flat_map(|container| &container.ports).filter_map(port).collect();
        let node = self.spec.node_name.as_deref().and_then(|name| NodeName::new(name).ok());
        let labels = self.metadata.labels.clone().unwrap_or_default();
        Some(Resource::Workload(Document {
            metadata: Metadata { labels, ..Metadata::named(self.name()) },
            spec: WorkloadSpec { node, ports },
            status: WorkloadStatus::default(),
        }))
    }
}

// === impl Phase ===

impl Phase {
    fn of(text: Option<&str>) -> Self {
        match text {
            Some("Running") => Self::Running,
            Some("Succeeded") => Self::Succeeded,
            Some("Failed") => Self::Failed,
            Some("Pending") | None => Self::Pending,
            Some(_) => Self::Unknown,
        }
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::Unknown => "Unknown",
        }
    }
}

// === impl Pods ===

impl Pods {
    fn word(&mut self, text: &str) -> Arc<str> {
        if let Some(word) = self.words.get(text) {
            return Arc::clone(word);
        }
        let word: Arc<str> = text.into();
        self.words.insert(Arc::clone(&word));
        word
    }

    fn read(&mut self, pod: PodObject) -> (PodKey, PodSeen) {
        let PodObject { metadata, spec, status } = pod;
        let namespace = self.word(metadata.namespace.as_deref().unwrap_or_default());
        let node = spec.node_name.filter(|node| !node.is_empty()).map(|node| self.word(&node));
        let labels = metadata.labels.unwrap_or_default();
        let name = metadata.name.unwrap_or_default().into_boxed_str();
        let seen = PodSeen {
            uid: metadata.uid.unwrap_or_default().into(),
            node,
            host_network: spec.host_network,
            phase: Phase::of(status.phase.as_deref()),
            addresses: status.pod_ips.iter().filter_map(|ip| ip.ip.parse().ok()).collect(),
            is_controller: labels.get(COMPONENT.0).is_some_and(|found| found == COMPONENT.1),
        };
        ((namespace, name), seen)
    }

    pub(crate) fn begin(&mut self) {
        self.table.begin();
    }

    pub(crate) fn put(&mut self, pod: PodObject) {
        let (key, seen) = self.read(pod);
        self.table.put(key, seen);
    }

    pub(crate) fn remove(&mut self, pod: PodObject) {
        let (key, _) = self.read(pod);
        self.table.remove(&key);
    }

    /// All were told; words that no pod has any more go. Returns who is gone.
    pub(crate) fn end(&mut self) -> Vec<PodKey> {
        let gone = self.table.end().into_iter().map(|(key, _)| key).collect();
        self.words.retain(|word| Arc::strong_count(word) > 1);
        gone
    }

    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<&PodSeen> {
        let namespace = self.words.get(namespace)?;
        self.table.get(&(Arc::clone(namespace), name.into()))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&PodKey, &PodSeen)> {
        self.table.iter()
    }

    /// Where our controllers are, if they are pods of a namespace.
    pub(crate) fn controllers(&self, namespace: &str) -> BTreeSet<IpAddr> {
        let is_one = |(key, pod): &(&PodKey, &PodSeen)| pod.is_controller && &*key.0 == namespace;
        self.iter().filter(is_one).flat_map(|(_, pod)| pod.addresses.iter().copied()).collect()
    }
}
