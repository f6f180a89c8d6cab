//! What the controller asks of Kubernetes: who may come in, which pods there are, and to remember.

use crate::custom::{port_object, port_of, read, status_of};
use crate::error::{failed, is_missing};
use crate::review::{Bearer, Reviewer};
use crate::scribe::{self, MANAGER};
use crate::world::node::PAUSED;
use crate::world::pod::Pods;
use futures_util::future::BoxFuture;
use k8s_openapi::api::core::v1::{Node, Pod as CorePod};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client};
use osier_controller::credentials::Role;
use osier_controller::{Caller, Northbound, Pod};
use osier_fleet::{JoinRefused, Proof, Redemption};
use osier_model::NodeName;
use osier_resource::{Kind, Resource};
use serde_json::json;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// The agents' service account.
const AGENT: &str = "osier-agent";
/// The service accounts of people, and what they may.
const PEOPLE: [(&str, Role); 2] = [("osier-viewer", Role::Read), ("osier-operator", Role::Write)];
/// How long a write may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// What others than the leader's task look at.
#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) pods: RwLock<Pods>,
    /// Addresses of the nodes' machines.
    pub(crate) machines: RwLock<HashMap<String, Vec<IpAddr>>>,
}

/// Kubernetes, as the controller knows it.
pub(crate) struct North {
    client: Client,
    namespace: String,
    reviewer: Reviewer,
    shared: Arc<Shared>,
}

// === impl North ===

impl North {
    pub(crate) fn new(client: Client, namespace: String, shared: Arc<Shared>) -> Self {
        Self { reviewer: Reviewer::new(client.clone()), client, namespace, shared }
    }

    fn account(&self, name: &str) -> String {
        format!("system:serviceaccount:{}:{name}", self.namespace)
    }

    /// The node that a token is of: said by the token, or by its pod.
    async fn node_of(&self, bearer: &Bearer) -> Result<Option<String>, String> {
        let name = match (&bearer.node, &bearer.pod) {
            (Some(node), _) => return Ok(Some(node.clone())),
            (None, None) => return Ok(None),
            (None, Some(name)) => name,
        };
        let known = {
            let pods = self.shared.pods.read().unwrap_or_else(PoisonError::into_inner);
            pods.get(&self.namespace, name).and_then(|pod| pod.node.clone())
        };
        if let Some(node) = known {
            return Ok(Some(node.to_string()));
        }
        let pods: Api<CorePod> = Api::namespaced(self.client.clone(), &self.namespace);
        let pod = pods.get_opt(name).await.map_err(|error| failed(&error))?;
        Ok(pod.and_then(|pod| pod.spec?.node_name))
    }

    async fn check(&self, by: &Redemption) -> Result<(), String> {
        let Proof::ServiceAccount(token) = &by.proof else {
            return Err("in Kubernetes agents join with their service account".to_owned());
        };
        let bearer = self.reviewer.review(&token.0).await?;
        let bearer = bearer.ok_or("its token is not good, or not for the controller")?;
        if bearer.user != self.account(AGENT) {
            return Err(format!("{} is not the agents' service account", bearer.user));
        }
        match self.node_of(&bearer).await? {
            Some(node) if node == by.node.as_str() => {}
            Some(node) => return Err(format!("its token is of node {node}")),
            None => return Err("its token does not say of which node it is".to_owned()),
        }
        let machines = self.shared.machines.read().unwrap_or_else(PoisonError::into_inner);
        let own = machines.get(by.node.as_str()).ok_or("there is no such node")?;
        let from = by.address.to_canonical();
        match own.iter().any(|address| address.to_canonical() == from) {
            true => Ok(()),
            false => Err(format!("it comes from {from}, which is no address of that node")),
        }
    }

    async fn keep_port(&self, port: &Resource) -> Result<(), kube::Error> {
        let (object, body) = (port_object(port.name()), port_of(port));
        let ours = PatchParams::apply(MANAGER).force();
        let ports = scribe::api(&self.client, Kind::Port);
        let made = ports.patch(&object, &ours, &Patch::Apply(body)).await?;
        let (_, seen) = read(Kind::Port, made);
        let status = status_of(Some(port), &seen, None);
        scribe::status_of(&self.client, Kind::Port, &object, &status).await
    }
}

async fn in_time<T>(
    what: impl Future<Output = Result<T, kube::Error>>,
) -> Result<Option<T>, String> {
    match tokio::time::timeout(PATIENCE, what).await {
        Ok(Ok(done)) => Ok(Some(done)),
        Ok(Err(error)) if is_missing(&error) => Ok(None),
        Ok(Err(error)) => Err(format!("the API server: {}", failed(&error))),
        Err(_) => Err("the API server does not answer".to_owned()),
    }
}

impl Northbound for North {
    fn read_only(&self) -> &'static str {
        "in Kubernetes the model is written with kubectl: kubectl apply, edit and delete Networks, \
         Routers, Pools and Ports of osier.dev/v1alpha1"
    }

    fn review<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Option<Caller>> {
        Box::pin(async move {
            let bearer = self.reviewer.recall(token).await?;
            let role =
                |(name, role): &(&str, Role)| (bearer.user == self.account(name)).then_some(*role);
            let role = PEOPLE.iter().find_map(role)?;
            Some(Caller { name: bearer.user.clone(), role })
        })
    }

    fn admit<'a>(&'a self, by: &'a Redemption) -> BoxFuture<'a, Result<(), JoinRefused>> {
        Box::pin(async move {
            let refused = |why| JoinRefused::Stranger { node: by.node.clone(), why };
            self.check(by).await.map_err(refused)
        })
    }

    fn record<'a>(&'a self, port: &'a Resource) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move { in_time(self.keep_port(port)).await.map(drop) })
    }

    fn erase<'a>(&'a self, port: &'a str) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let ports = scribe::api(&self.client, Kind::Port);
            let parameters = DeleteParams::default();
            in_time(ports.delete(&port_object(port), &parameters)).await.map(drop)
        })
    }

    fn pause<'a>(&'a self, node: &'a NodeName, paused: bool) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let nodes: Api<Node> = Api::all(self.client.clone());
            let said = if paused { json!("true") } else { json!(null) };
            let patch = json!({"metadata": {"annotations": {PAUSED: said}}});
            let (ours, patch) = (scribe::merged(), Patch::Merge(patch));
            in_time(nodes.patch(node.as_str(), &ours, &patch)).await.map(drop)
        })
    }

    fn pods(&self) -> Vec<Pod> {
        let pods = self.shared.pods.read().unwrap_or_else(PoisonError::into_inner);
        let row =
            |((namespace, name), pod): (&(Arc<str>, Box<str>), &crate::world::pod::PodSeen)| Pod {
                namespace: namespace.to_string(),
                name: name.to_string(),
                node: pod.node.as_deref().map(str::to_owned),
                addresses: pod.addresses.to_vec(),
                phase: Some(pod.phase.word().to_owned()),
                host_network: pod.host_network,
            };
        pods.iter().map(row).collect()
    }
}
