//! What is wrong with objects of Kubernetes, in words: events on them, and a metric.
//!
//! A problem is told once, and again only when its words change; when it is gone, that is all. How
//! many events are written in a second is limited: what is wrong with a thousand objects has one
//! cause.

use crate::election::LEASE;
use crate::error::{failed, may_pass};
use crate::plan::Problem;
use crate::waits::Waits;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use osier_controller::Metrics;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Problems that are remembered; more are counted only in the log.
const MOST: usize = 10_000;
/// Events that may wait.
const QUEUE: usize = 256;
/// The time between two events.
const PACE: Duration = Duration::from_millis(100);
/// The longest note of an event.
const LONGEST: usize = 1000;
/// Tries to write an event while the API server is busy: some minutes.
const TRIES: usize = 10;

/// An object that something is wrong with.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Whose {
    api_version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    pub(crate) uid: String,
}

/// All that is wrong.
pub(crate) struct Problems {
    known: BTreeMap<(Whose, &'static str), String>,
    kinds: BTreeSet<&'static str>,
    events: mpsc::Sender<(Whose, Problem)>,
    metrics: Metrics,
}

// === impl Whose ===

impl Whose {
    pub(crate) fn node(name: &str) -> Self {
        // Kubelet's events of nodes have the name as the uid: `kubectl describe node` looks for it.
        let api_version = "v1";
        Self {
            api_version,
            kind: "Node",
            namespace: None,
            name: name.to_owned(),
            uid: name.to_owned(),
        }
    }

    pub(crate) fn pod(namespace: &str, name: &str, uid: &str) -> Self {
        Self::of("v1", "Pod", namespace, name, uid)
    }

    /// A Service, by the name that it has in the model.
    pub(crate) fn service(name: &str, uid: &str) -> Self {
        let (namespace, name) = name.split_once(':').unwrap_or(("", name));
        Self::of("v1", "Service", namespace, name, uid)
    }

    /// A slice of endpoints, by the name that it has in the model.
    pub(crate) fn slice(name: &str, uid: &str) -> Self {
        let (namespace, name) = name.split_once(':').unwrap_or(("", name));
        Self::of("discovery.k8s.io/v1", "EndpointSlice", namespace, name, uid)
    }

    /// A policy, by the name that it has in the model.
    pub(crate) fn policy(name: &str, uid: &str) -> Self {
        let (namespace, name) = name.split_once(':').unwrap_or(("", name));
        Self::of("networking.k8s.io/v1", "NetworkPolicy", namespace, name, uid)
    }

    /// The lease by which a controller leads: what is wrong with its leading.
    pub(crate) fn lease(namespace: &str, uid: &str) -> Self {
        Self::of("coordination.k8s.io/v1", "Lease", namespace, LEASE, uid)
    }

    pub(crate) fn service_cidr(name: &str, uid: &str) -> Self {
        let whose = Self::of("networking.k8s.io/v1", "ServiceCIDR", "", name, uid);
        Self { namespace: None, ..whose }
    }

    fn of(
        api_version: &'static str,
        kind: &'static str,
        namespace: &str,
        name: &str,
        uid: &str,
    ) -> Self {
        let namespace = Some(namespace.to_owned());
        Self { api_version, kind, namespace, name: name.to_owned(), uid: uid.to_owned() }
    }
}

// === impl Problems ===

impl Problems {
    /// Nothing is wrong yet.
    pub(crate) fn new(
        client: Client,
        identity: &str,
        metrics: Metrics,
        tasks: &mut JoinSet<&'static str>,
    ) -> Self {
        let (events, queue) = mpsc::channel(QUEUE);
        let reporter =
            Reporter { controller: "osier-controller".into(), instance: Some(identity.into()) };
        tasks.spawn(tell(Recorder::new(client, reporter), queue));
        Self { known: BTreeMap::new(), kinds: BTreeSet::new(), events, metrics }
    }

    /// What is counted so far is counted there, and all that comes.
    pub(crate) fn counted_by(&mut self, metrics: Metrics) {
        self.metrics = metrics;
        for kind in self.kinds.clone() {
            self.count(kind);
        }
    }

    /// Something is wrong with an object, and nothing else of these kinds.
    pub(crate) fn set(&mut self, whose: &Whose, among: &[&'static str], is: Option<Problem>) {
        for kind in among.iter().filter(|kind| is.as_ref().is_none_or(|p| p.reason != **kind)) {
            if self.known.remove(&(whose.clone(), kind)).is_some() {
                self.count(kind);
            }
        }
        let Some(problem) = is else { return };
        let key = (whose.clone(), problem.reason);
        if self.known.get(&key) == Some(&problem.text) || self.known.len() >= MOST {
            return;
        }
        tracing::warn!(object = %format_args!("{} {}", whose.kind, whose.name),
            reason = problem.reason, problem = %problem.text, "something is wrong");
        self.known.insert(key, problem.text.clone());
        self.count(problem.reason);
        // When there are too many, the metric still tells.
        let _ = self.events.try_send((whose.clone(), problem));
    }

    /// An object is gone, and what was wrong with it.
    pub(crate) fn forget(&mut self, whose: &Whose) {
        let gone: Vec<&'static str> =
            self.known.keys().filter(|(w, _)| w == whose).map(|(_, kind)| *kind).collect();
        for kind in gone {
            self.known.remove(&(whose.clone(), kind));
            self.count(kind);
        }
    }

    /// Only these objects of a kind have a problem of a reason.
    pub(crate) fn retain(&mut self, reason: &'static str, is_kept: impl Fn(&Whose) -> bool) {
        let before = self.known.len();
        self.known.retain(|(whose, kind), _| *kind != reason || is_kept(whose));
        if self.known.len() != before {
            self.count(reason);
        }
    }

    /// Where all is counted.
    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    fn count(&mut self, kind: &'static str) {
        self.kinds.insert(kind);
        let count = self.known.keys().filter(|(_, known)| *known == kind).count();
        self.metrics.kubernetes_problems(kind, count);
    }
}

/// Writes events, one after the other.
async fn tell(recorder: Recorder, mut queue: mpsc::Receiver<(Whose, Problem)>) -> &'static str {
    while let Some((whose, problem)) = queue.recv().await {
        let Whose { api_version, kind, namespace, name, uid } = whose;
        let reference = ObjectReference {
            api_version: Some(api_version.to_owned()),
            kind: Some(kind.to_owned()),
            namespace,
            name: Some(name),
            uid: Some(uid),
            ..ObjectReference::default()
        };
        let mut note = problem.text;
        while note.len() > LONGEST {
            note.pop();
        }
        let event = Event {
            type_: EventType::Warning,
            reason: problem.reason.to_owned(),
            note: Some(note),
            action: "Networking".to_owned(),
            secondary: None,
        };
        publish(&recorder, &event, &reference).await;
        tokio::time::sleep(PACE).await;
    }
    "the events"
}

async fn publish(recorder: &Recorder, event: &Event, reference: &ObjectReference) {
    let mut waits = Waits::default();
    for left in (0..TRIES).rev() {
        match recorder.publish(event, reference).await {
            Ok(()) => return,
            Err(error) if left > 0 && may_pass(&error) => waits.wait().await,
            Err(error) => {
                tracing::warn!(error = %failed(&error), "an event was lost");
                return;
            }
        }
    }
}
