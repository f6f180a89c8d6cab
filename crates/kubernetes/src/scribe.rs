//! What is written back to Kubernetes: statuses, node conditions, a taint that goes.
//!
//! Whoever owes a write hands it over and goes on. Writes are made by few hands, one after the other
//! for each, and tried again while the API server is away or busy: what was tried often goes to the end
//! of the queue, so that the rest goes on. What it refuses for good is logged.

use crate::custom::{api_resource, port_object};
use crate::error::{failed, is_conflict, is_missing, may_pass};
use crate::world::identity::IdentityObject;
use crate::world::node::{NETWORK_UNAVAILABLE, TAINT};
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use osier_resource::{API_VERSION, Kind};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Whose fields are ours.
pub(crate) const MANAGER: &str = "osier";

/// Creates and replaces as ourselves: where an object must be new, or as it was read, apply would not do.
pub(crate) fn ours() -> PostParams {
    PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() }
}

/// Merges as ourselves what apply cannot say: an entry of a list without keys, or a member to take away.
pub(crate) fn merged() -> PatchParams {
    PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() }
}

/// Writes that may wait.
const QUEUE: usize = 1024;
/// Writes at once.
const HANDS: usize = 8;
/// The least time that a hand takes for a write: so there are at most 80 in a second.
const PACE: Duration = Duration::from_millis(100);
/// Tries, and the longest wait between two.
const TRIES: u32 = 8;
const LONGEST: Duration = Duration::from_secs(30);
/// How long a write may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is owed.
#[derive(Debug, Clone)]
pub(crate) enum Duty {
    /// The status of one of our resources.
    Status { kind: Kind, object: String, status: Value },
    /// Whether a node has a network.
    Network { node: String, status: &'static str, reason: &'static str, message: String },
    /// A node is ready for pods.
    Untaint { node: String },
    /// A port whose node is gone.
    DeletePort { name: String },
    /// An identity that was given.
    Identity { number: u32, spec: Value },
    /// One that is forgotten.
    Forget { number: u32 },
}

/// Who hands writes over.
#[derive(Clone)]
pub(crate) struct Scribe(mpsc::Sender<Duty>);

// === impl Scribe ===

impl Scribe {
    pub(crate) fn new(client: Client, tasks: &mut JoinSet<&'static str>) -> Self {
        let (sender, queue) = mpsc::channel(QUEUE);
        let again = sender.downgrade();
        tasks.spawn(async move {
            let duties = futures_util::stream::unfold(queue, |mut queue| async move {
                Some((queue.recv().await?, queue))
            });
            duties.for_each_concurrent(HANDS, |duty| fulfil(&client, duty, &again)).await;
            "the writes to Kubernetes"
        });
        Self(sender)
    }

    /// Hands a write over; false if too many wait.
    pub(crate) fn owe(&self, duty: Duty) -> bool {
        self.0.try_send(duty).is_ok()
    }
}

async fn fulfil(client: &Client, duty: Duty, again: &mpsc::WeakSender<Duty>) {
    let mut wait = Duration::from_millis(500);
    for _ in 0..TRIES {
        let done = tokio::time::timeout(PATIENCE, write(client, &duty)).await;
        tokio::time::sleep(PACE).await;
        match done {
            Ok(Ok(())) => return,
            // It was deleted meanwhile: nothing is owed any more.
            Ok(Err(error)) if is_missing(&error) => return,
            Ok(Err(error)) if !may_pass(&error) && !is_conflict(&error) => {
                tracing::warn!(?duty, error = %failed(&error), "a write was refused");
                return;
            }
            Ok(Err(error)) => tracing::debug!(error = %failed(&error), "a write has to wait"),
            Err(_) => tracing::debug!("a write was not answered"),
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(LONGEST);
    }
    tracing::warn!(?duty, "a write waits for long");
    // What is owed since is seen when this is written late, and written after it.
    if let Some(queue) = again.upgrade()
        && let Err(lost) = queue.try_send(duty)
    {
        tracing::warn!(duty = ?lost.into_inner(), "a write was given up");
    }
}

async fn write(client: &Client, duty: &Duty) -> Result<(), kube::Error> {
    match duty {
        Duty::Status { kind, object, status } => status_of(client, *kind, object, status).await,
        Duty::Network { node, status, reason, message } => {
            let nodes: Api<Node> = Api::all(client.clone());
            let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
            let body = json!({
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": node},
                "status": {"conditions": [{
                    "type": NETWORK_UNAVAILABLE, "status": status, "reason": reason,
                    "message": message, "lastTransitionTime": now, "lastHeartbeatTime": now,
                }]},
            });
            let ours = PatchParams::apply(MANAGER).force();
            nodes.patch_status(node, &ours, &Patch::Apply(body)).await.map(drop)
        }
        Duty::Untaint { node } => untaint(client, node).await,
        Duty::DeletePort { name } => {
            let ports = api(client, Kind::Port);
            ports.delete(&port_object(name), &DeleteParams::default()).await.map(drop)
        }
        Duty::Identity { number, spec } => {
            let identities: Api<IdentityObject> = Api::all(client.clone());
            let object = IdentityObject::of(*number, spec.clone());
            match identities.create(&ours(), &object).await {
                // It is there already, from a try that was not answered.
                Err(error) if is_conflict(&error) => Ok(()),
                made => made.map(drop),
            }
        }
        Duty::Forget { number } => {
            let identities: Api<IdentityObject> = Api::all(client.clone());
            let parameters = DeleteParams::default();
            identities.delete(&number.to_string(), &parameters).await.map(drop)
        }
    }
}

/// Objects of one of our kinds.
pub(crate) fn api(client: &Client, kind: Kind) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &api_resource(kind))
}

/// Writes the status of one of our resources.
pub(crate) async fn status_of(
    client: &Client,
    kind: Kind,
    object: &str,
    status: &Value,
) -> Result<(), kube::Error> {
    let body = json!({
        "apiVersion": API_VERSION,
        "kind": kind.name(),
        "metadata": {"name": object},
        "status": status,
    });
    let ours = PatchParams::apply(MANAGER).force();
    api(client, kind).patch_status(object, &ours, &Patch::Apply(body)).await.map(drop)
}

/// Takes our taint away, and leaves those of others as they are.
async fn untaint(client: &Client, name: &str) -> Result<(), kube::Error> {
    let nodes: Api<Node> = Api::all(client.clone());
    let node = nodes.get(name).await?;
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    let taints: Vec<_> = taints.into_iter().flatten().collect();
    let left: Vec<_> = taints.iter().filter(|taint| taint.key != TAINT).collect();
    if left.len() == taints.len() {
        return Ok(());
    }
    // Taints are one list to the API server: with the version, nobody else's change is lost.
    let version = &node.metadata.resource_version;
    let patch = json!({"metadata": {"resourceVersion": version}, "spec": {"taints": left}});
    nodes.patch(name, &merged(), &Patch::Merge(patch)).await.map(drop)
}
