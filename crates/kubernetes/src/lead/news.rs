//! What is told by the API server, and what of it is kept.

use super::Leader;
use crate::custom::{CustomSeen, KINDS, api_resource, read, status_of};
use crate::plan::Problem;
use crate::problems::Whose;
use crate::scribe::Duty;
use crate::world::block::{BlockObject, BlockSeen};
use crate::world::cidr::CidrObject;
use crate::world::identity::IdentityObject;
use crate::world::node::{NodeObject, NodeSeen};
use crate::world::pod::PodObject;
use crate::world::policy::{NamespaceObject, PolicyObject};
use crate::world::service::{self, ServiceObject};
use crate::world::slice::SliceObject;
use crate::world::watch::{self, Broken, Told};
use kube::core::DynamicObject;
use kube::{Api, Client, Resource};
use osier_controller::config;
use osier_resource::Kind;
use std::collections::BTreeSet;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Kinds of what may be wrong with a node itself.
const OF_NODES: [&str; 6] = [
    "NodeWithoutAddress",
    "BadAnnotation",
    "BadPodCIDR",
    "PodCIDROverlapsNodes",
    "NodeWithoutPodCIDR",
    "NodeRefused",
];

/// What is told.
pub(super) enum News {
    Node(Told<NodeObject>),
    Pod(Told<PodObject>),
    Block(Told<BlockObject>),
    Custom(Kind, Told<DynamicObject>),
    Service(Told<ServiceObject>),
    Slice(Told<SliceObject>),
    Cidr(Told<CidrObject>),
    Namespace(Told<NamespaceObject>),
    Policy(Told<PolicyObject>),
    Identity(Told<IdentityObject>),
    Broken(Broken),
}

impl From<Broken> for News {
    fn from(broken: Broken) -> Self {
        Self::Broken(broken)
    }
}

/// What was not heard to its end yet.
pub(super) struct Pending(BTreeSet<&'static str>);

/// What is watched only where the API server has it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Watched {
    pub(super) cidrs: bool,
}

/// Watches all that matters.
pub(super) fn watch(
    client: &Client,
    watched: Watched,
    queue: &mpsc::Sender<News>,
    tasks: &mut JoinSet<&'static str>,
) {
    watch::spawn(tasks, "nodes", Api::all(client.clone()), "", queue.clone(), News::Node);
    watch::spawn(tasks, "pods", Api::all(client.clone()), "", queue.clone(), News::Pod);
    watch::spawn(tasks, "addressblocks", Api::all(client.clone()), "", queue.clone(), News::Block);
    watch::spawn(tasks, "namespaces", Api::all(client.clone()), "", queue.clone(), News::Namespace);
    watch::spawn(
        tasks,
        "networkpolicies",
        Api::all(client.clone()),
        "",
        queue.clone(),
        News::Policy,
    );
    watch::spawn(tasks, "identities", Api::all(client.clone()), "", queue.clone(), News::Identity);
    for kind in KINDS {
        let api = Api::all_with(client.clone(), &api_resource(kind));
        watch::spawn(tasks, kind.plural(), api, "", queue.clone(), move |told| {
            News::Custom(kind, told)
        });
    }
    let (services, slices) = (Api::all(client.clone()), Api::all(client.clone()));
    watch::spawn(tasks, "services", services, service::OURS, queue.clone(), News::Service);
    watch::spawn(tasks, "endpointslices", slices, service::OURS, queue.clone(), News::Slice);
    if watched.cidrs {
        let cidrs = Api::all(client.clone());
        watch::spawn(tasks, "servicecidrs", cidrs, "", queue.clone(), News::Cidr);
    }
}

// === impl Pending ===

impl Pending {
    pub(super) fn all(watched: Watched) -> Self {
        let mut all = BTreeSet::from([
            "nodes",
            "pods",
            "addressblocks",
            "namespaces",
            "networkpolicies",
            "identities",
            "services",
            "endpointslices",
        ]);
        all.extend(KINDS.map(Kind::plural));
        if watched.cidrs {
            all.insert("servicecidrs");
        }
        Self(all)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn ended(&mut self, news: &News) {
        let plural = match news {
            News::Node(Told::End) => "nodes",
            News::Pod(Told::End) => "pods",
            News::Block(Told::End) => "addressblocks",
            News::Custom(kind, Told::End) => kind.plural(),
            News::Service(Told::End) => "services",
            News::Slice(Told::End) => "endpointslices",
            News::Cidr(Told::End) => "servicecidrs",
            News::Namespace(Told::End) => "namespaces",
            News::Policy(Told::End) => "networkpolicies",
            News::Identity(Told::End) => "identities",
            _ => return,
        };
        self.0.remove(plural);
    }
}

// === impl Leader ===

impl Leader {
    pub(super) fn hear(&mut self, news: News) {
        match news {
            News::Node(told) => self.hear_node(told),
            News::Block(told) => self.hear_block(told),
            News::Custom(kind, told) => self.hear_custom(kind, told),
            News::Service(told) => self.hear_service(told),
            News::Slice(told) => self.hear_slice(told),
            News::Cidr(told) => self.hear_cidr(told),
            News::Pod(told) => self.hear_pod(told),
            News::Namespace(told) => self.hear_namespace(told),
            News::Policy(told) => self.hear_policy(told),
            News::Identity(told) => self.hear_identity(told),
            News::Broken(broken) => self.hear_broken(broken),
        }
    }

    fn hear_node(&mut self, told: Told<NodeObject>) {
        match told {
            Told::Begin => self.nodes.begin(),
            Told::Put(node) => {
                let mut node = NodeSeen::from(node);
                if self.setup.kubernetes.services == config::Services::KubeProxy {
                    // Nobody chooses endpoints by it.
                    node.zone = None;
                }
                if let Some(standing) = self.standing.get_mut(&node.name) {
                    standing.sent = None;
                }
                self.is_stale |= self.nodes.put(node.name.clone(), node);
            }
            Told::Gone(node) => {
                let name = node.metadata.name.unwrap_or_default();
                self.is_stale |= self.nodes.remove(&name).is_some();
            }
            Told::End => self.is_stale |= !self.nodes.end().is_empty(),
        }
    }

    fn hear_block(&mut self, told: Told<BlockObject>) {
        match told {
            Told::Begin => self.blocks.begin(),
            Told::Put(block) => {
                let name = block.meta().name.clone().unwrap_or_default();
                self.is_stale |= self.blocks.put(name, BlockSeen::from(block));
            }
            Told::Gone(block) => {
                let name = block.meta().name.clone().unwrap_or_default();
                if let Some(block) = self.blocks.remove(&name) {
                    self.addresses.lost(block);
                    self.is_stale = true;
                }
            }
            Told::End => {
                for (_, block) in self.blocks.end() {
                    self.addresses.lost(block);
                    self.is_stale = true;
                }
            }
        }
    }

    fn hear_custom(&mut self, kind: Kind, told: Told<DynamicObject>) {
        match told {
            Told::Begin => self.customs.begin_where(|(known, _)| *known == kind),
            Told::Put(object) => {
                let (name, seen) = read(kind, object);
                self.sent.remove(&(kind, name.clone()));
                if !self.customs.put((kind, name.clone()), seen.clone()) {
                    return;
                }
                if let Ok(resource) = seen.resource {
                    self.mirror.want(resource);
                }
                self.tell(&[(kind, name)]);
            }
            Told::Gone(object) => {
                let (name, _) = read(kind, object);
                if self.customs.remove(&(kind, name.clone())).is_some() {
                    self.mirror.drop(kind, &name);
                }
            }
            Told::End => {
                for ((kind, name), _) in self.customs.end() {
                    self.mirror.drop(kind, &name);
                }
            }
        }
    }

    /// Tells what became of resources: in their statuses, or in events of nodes.
    pub(super) fn tell(&mut self, names: &[(Kind, String)]) {
        // Nobody hears it before the controller is there.
        if self.states.is_none() {
            return;
        }
        for name in names {
            if name.0 == Kind::Node {
                let refused = self.mirror.why(name).map(|why| Problem {
                    reason: "NodeRefused",
                    text: format!("the node cannot be part of the network: {why}"),
                });
                if refused.is_some() || self.mirror.is(name).is_some() {
                    let whose = Whose::node(&name.1);
                    self.problems.set(&whose, &["NodeRefused"], refused);
                }
            } else if matches!(name.0, Kind::Service | Kind::Endpoints) {
                self.tell_service(name);
            } else if name.0 == Kind::NetworkPolicy {
                self.tell_policy(&name.1);
            } else if let Some(seen) = self.customs.get(name) {
                let duty = self.status_duty(name, seen);
                if let Some((status, duty)) = duty
                    && self.scribe.owe(duty)
                {
                    self.sent.insert(name.clone(), status);
                }
            }
        }
    }

    /// What a resource's status should say, if it does not yet.
    fn status_duty(
        &self,
        name: &(Kind, String),
        seen: &CustomSeen,
    ) -> Option<(serde_json::Value, Duty)> {
        let is = self.mirror.is(name).map(|(resource, _)| resource);
        let why = match &seen.resource {
            Err(fault) => Some(fault.as_str()),
            Ok(_) => self.mirror.why(name),
        };
        if is.is_none() && why.is_none() {
            // Nobody has judged it yet.
            return None;
        }
        let status = status_of(is, seen, why);
        if status == seen.status || self.sent.get(name) == Some(&status) {
            return None;
        }
        let (kind, object) = (name.0, seen.object.clone());
        Some((status.clone(), Duty::Status { kind, object, status }))
    }

    /// Tells of everything that was found at the start.
    pub(super) fn tell_all(&mut self) {
        let customs: Vec<_> = self.customs.iter().map(|(name, _)| name.clone()).collect();
        let nodes: Vec<_> = self.nodes.iter().map(|(name, _)| (Kind::Node, name.clone())).collect();
        self.tell(&customs);
        self.tell(&nodes);
        self.tell(&self.mirror.refused());
        self.tell_bad();
        self.tell_bad_policies();
        self.is_stale = true;
    }

    /// What is wrong with a node itself.
    pub(super) fn node_problem(&mut self, name: &str, problem: Option<Problem>) {
        // A node that has just come gets its addresses in a moment.
        let is_early = problem.as_ref().is_some_and(|p| p.reason == "NodeWithoutPodCIDR")
            && self.addresses.is_early(name);
        if self.states.is_some() && !is_early {
            let among: Vec<&'static str> =
                OF_NODES.into_iter().filter(|kind| *kind != "NodeRefused").collect();
            self.problems.set(&Whose::node(name), &among, problem);
        }
    }
}
