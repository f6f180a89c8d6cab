//! RESTCONF in the controller: the data that its clients wrote, kept with the model.
//!
//! A request becomes one write of the engine: the units that it changes, and the resources that
//! those mean ([`osier_restconf::Coe`]). Either all of it is stored or nothing, so the data and the
//! model never disagree. What HTTP is, and who may ask, is [`routes`]'s.

mod ageing;
mod follow;
mod healing;
mod routes;

pub(crate) use follow::follow;
pub(crate) use healing::heal;
pub(crate) use routes::router;

use crate::engine::{Effect, Engine, Operation, Write, WriteError, Written};
use crate::metrics::Metrics;
use bytes::Bytes;
use healing::RollCalls;
use osier_model::NodeName;
use osier_resource::{Document, Kind, PortSpec, PortStatus, Resource};
use osier_restconf::coe::is_ours;
use osier_restconf::{
    Coe, Datastore, Edit, Edited, ErrorTag, Isolation, Method, Path, Problem, Target, UnitChange,
    View, Views,
};
use osier_store::{Key, ListError, Revision, list_all};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use thiserror::Error;
use tokio::sync::{Mutex, watch};

/// What units are kept under.
const UNITS: &str = "restconf/";
/// Resources of one write, when there are many: each is at most a condition and an operation.
const CHUNK: usize = 1000;

/// A unit, as it is stored.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    /// Who wrote it last.
    client: String,
    data: Value,
}

/// All of RESTCONF's data, and what it means. Edits come one after the other.
pub(crate) struct Restconf {
    engine: Engine,
    metrics: Metrics,
    state: Mutex<State>,
}

struct State {
    data: Datastore,
    coe: Coe,
    /// Who wrote each unit last.
    clients: HashMap<String, String>,
    calls: RollCalls,
}

/// Why an edit was not made.
#[derive(Debug, Error)]
pub(crate) enum EditError {
    /// The request is wrong, or contradicts the data.
    #[error("{0}")]
    Problem(#[from] Problem),
    /// The model refuses it, or it cannot be stored.
    #[error("the model was not changed")]
    Write(#[from] WriteError),
}

/// A request that changes data.
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) path: Path,
    pub(crate) body: Option<Value>,
    pub(crate) client: String,
    /// What the tag of the target has to be (RFC 7232).
    pub(crate) condition: Option<TagCondition>,
}

/// What a tag has to be, or not.
#[derive(Debug, Clone)]
pub(crate) enum TagCondition {
    /// One of these; `*` is any.
    IfMatch(Vec<String>),
    /// None of these.
    IfNoneMatch(Vec<String>),
}

/// What an edit did.
pub(crate) struct Done {
    pub(crate) is_new: bool,
    pub(crate) written: Option<Written>,
}

// === impl Restconf ===

impl Restconf {
    /// Reads what is stored, and makes the model what it means: settings may have changed.
    pub(crate) async fn open(
        engine: Engine,
        metrics: Metrics,
        isolation: Isolation,
    ) -> Result<Arc<Self>, OpenError> {
        let page = list_all(engine.store().as_ref(), UNITS).await?;
        let mut units: Vec<(Revision, String, Kept)> = Vec::new();
        for (key, entry) in page.entries {
            let damaged = |source| OpenError::Damaged { key: key.to_string(), source };
            let kept = serde_json::from_slice(&entry.value).map_err(damaged)?;
            units.push((entry.modified, key.as_str()[UNITS.len()..].to_owned(), kept));
        }
        // In the order in which they were written: later pods take addresses over.
        units.sort_by_key(|(modified, ..)| *modified);
        let mut state = State {
            data: Datastore::default(),
            coe: Coe::new(isolation),
            clients: HashMap::new(),
            calls: RollCalls::default(),
        };
        state.coe.set_hosts(hosts(&engine).await?);
        for (_, unit, kept) in units {
            let change = [(unit.clone(), Some(kept.data))];
            if let Err(problem) = state.coe.learn(&change) {
                tracing::warn!(%problem, "a unit means nothing to the model any more");
            }
            state.data.apply(&change);
            state.clients.insert(unit, kept.client);
        }
        let ports = list_all(engine.store().as_ref(), &Kind::Port.prefix()).await?;
        for (_, entry) in &ports.entries {
            let read = Resource::from_stored(&entry.value, entry.modified.0);
            if let Ok(Resource::Port(port)) = read {
                state.coe.set_given(&port.metadata.name, given_to(&port));
            }
        }
        let targets = state.coe.targets();
        let restconf = Self { engine, metrics, state: Mutex::new(state) };
        restconf.bring_about(targets).await;
        Ok(Arc::new(restconf))
    }

    /// The data at a path, if there is any.
    pub(crate) async fn get(&self, path: &Path) -> Result<Option<Value>, ListError> {
        if View::of(&path.steps).is_none() {
            return Ok(self.state.lock().await.data.get(&path.steps));
        }
        let mut resources = Vec::new();
        for kind in [Kind::Router, Kind::Network, Kind::Port, Kind::Service, Kind::Endpoints] {
            let page = list_all(self.engine.store().as_ref(), &kind.prefix()).await?;
            let read = page.entries.iter().filter_map(|(_, entry)| {
                Resource::from_stored(&entry.value, entry.modified.0).ok()
            });
            resources.extend(read);
        }
        Ok(Views::new(resources).get(&path.steps))
    }

    /// All data that clients wrote.
    pub(crate) async fn all(&self) -> Vec<(&'static osier_restconf::Node, Value)> {
        self.state.lock().await.data.all()
    }

    /// Makes an edit, all of it or nothing. Must not be given up on its way: data and model would
    /// differ in memory.
    pub(crate) async fn edit(&self, request: Request) -> Result<Done, EditError> {
        let Request { method, path, body, client, condition } = request;
        let mut state = self.state.lock().await;
        if let Some(condition) = condition {
            condition.check(&path, state.data.get(&path.steps).as_ref())?;
        }
        let edit = Edit { method, path: &path, body: body.as_ref() };
        let edited = edit.of(&state.data)?;
        let written = self.make(&mut state, &edited, &client).await?;
        for (rule, count) in edited.normalised.iter() {
            self.metrics.restconf_normalised(rule.word(), count);
        }
        state.calls.note(&client, method, &path, &edited.named);
        Ok(Done { is_new: edited.is_new, written })
    }

    /// Stores units, and makes the model what they mean.
    async fn make(
        &self,
        state: &mut State,
        edited: &Edited,
        client: &str,
    ) -> Result<Option<Written>, EditError> {
        let (targets, undo) = state.coe.learn(&edited.changes)?;
        let operations = async {
            let mut operations = self.operations(&state.coe, targets).await?;
            operations.extend(documents(state, edited, client)?);
            Ok::<_, EditError>(operations)
        };
        let written = match operations.await {
            Ok(operations) if operations.is_empty() => Ok(None),
            Ok(operations) => self.write(operations).await.map(Some).map_err(EditError::from),
            Err(error) => Err(error),
        };
        match written {
            Ok(written) => {
                state.adopt(edited, client);
                self.follow_given(state, written.as_ref()).await;
                Ok(written)
            }
            Err(error) => {
                state.coe.undo(undo);
                Err(error)
            }
        }
    }

    /// All of it or nothing; but workloads, which mean nothing without the policy that they are made for,
    /// may go ahead of it where they are too many for one write.
    async fn write(&self, mut operations: Vec<Operation>) -> Result<Written, WriteError> {
        if operations.len() > CHUNK {
            let is_workload = |operation: &Operation| matches!(operation, Operation::Apply(made) if made.kind() == Kind::Workload);
            let (ahead, rest): (Vec<_>, Vec<_>) = operations.into_iter().partition(is_workload);
            for chunk in ahead.chunks(CHUNK) {
                let write = Write { operations: chunk.to_vec(), dry_run: false };
                self.engine.write(write).await?;
            }
            operations = rest;
        }
        self.engine.write(Write { operations, dry_run: false }).await
    }

    /// What makes resources what they have to be. Others' routers and nodes are used as they are.
    async fn operations(
        &self,
        coe: &Coe,
        targets: BTreeSet<Target>,
    ) -> Result<Vec<Operation>, EditError> {
        let (mut made, mut deleted) = (Vec::new(), Vec::new());
        for target in targets {
            let (kind, name) = &target;
            let current = self.current(*kind, name).await?;
            let is_theirs = current.as_ref().is_some_and(|current| !is_ours(current));
            let wanted = coe.wanted(&target).map(|wanted| with_mac_of(wanted, current.as_ref()));
            match (wanted, current) {
                (Some(_), _)
                    if is_theirs && matches!(kind, Kind::Router | Kind::Node | Kind::Workload) => {}
                (Some(_), _) if is_theirs => {
                    let said = format!("{kind} {name} is there already, and was not made here");
                    return Err(Problem::new(ErrorTag::InUse, "", said).into());
                }
                (Some(wanted), Some(current)) if spec(&wanted) == spec(&current) => {}
                (Some(wanted), _) => made.push(Operation::Apply(Box::new(wanted))),
                (None, Some(_)) if !is_theirs => {
                    let (kind, name) = target;
                    deleted.push(Operation::Delete { kind, name, version: None });
                }
                (None, _) => {}
            }
        }
        deleted.reverse();
        made.extend(deleted);
        Ok(made)
    }

    async fn current(&self, kind: Kind, name: &str) -> Result<Option<Resource>, WriteError> {
        let key = crate::engine::key(&kind.key(name))?;
        let Some(entry) = self.engine.store().get(&key).await.map_err(WriteError::Store)? else {
            return Ok(None);
        };
        let damaged = |fault| WriteError::Damaged { key: key.to_string(), fault };
        Resource::from_stored(&entry.value, entry.modified.0).map(Some).map_err(damaged)
    }

    /// What ports were given from pools, others may name: endpoints of Services.
    async fn follow_given(&self, state: &mut State, written: Option<&Written>) {
        let outcomes = written.iter().flat_map(|written| &written.outcomes);
        let mut targets = BTreeSet::new();
        for outcome in outcomes {
            if let Some(Resource::Port(port)) = &outcome.resource {
                let is_there = outcome.effect != Effect::Deleted;
                let given = if is_there { given_to(port) } else { &[] };
                targets.extend(state.coe.set_given(&port.metadata.name, given));
            }
        }
        if !targets.is_empty() {
            self.make_so(&state.coe, targets).await;
        }
    }

    /// Makes resources what they have to be, in as many writes as it takes. What is refused is
    /// logged, and tried again with the next change that has to do with it.
    async fn bring_about(&self, targets: BTreeSet<Target>) {
        let state = self.state.lock().await;
        self.make_so(&state.coe, targets).await;
    }

    async fn make_so(&self, coe: &Coe, targets: BTreeSet<Target>) {
        let operations = match self.operations(coe, targets).await {
            Ok(operations) => operations,
            Err(error) => return tracing::warn!(%error, "what RESTCONF's data means is not made"),
        };
        for chunk in operations.chunks(CHUNK) {
            let write = Write { operations: chunk.to_vec(), dry_run: false };
            if let Err(error) = self.engine.write(write).await {
                tracing::warn!(%error, "what RESTCONF's data means is not made");
            }
        }
    }
}

/// Why RESTCONF cannot be served.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The store cannot be read.
    #[error("the store cannot be read")]
    List(#[from] ListError),
    /// What is stored is no unit.
    #[error("{key} in the store is no unit of RESTCONF's data")]
    Damaged {
        /// Which.
        key: String,
        /// Why.
        source: serde_json::Error,
    },
}

// === impl State ===

impl State {
    fn adopt(&mut self, edited: &Edited, client: &str) {
        self.data.apply(&edited.changes);
        for unit in &edited.named {
            self.clients.insert(unit.clone(), client.to_owned());
        }
        for (unit, _) in edited.changes.iter().filter(|(_, value)| value.is_none()) {
            self.clients.remove(unit);
        }
    }
}

// === impl TagCondition ===

impl TagCondition {
    fn check(&self, path: &Path, data: Option<&Value>) -> Result<(), Problem> {
        let tag = data.map(routes::tag);
        let is_in = |tags: &[String]| {
            tag.as_ref().is_some_and(|tag| tags.iter().any(|one| one == "*" || one == tag))
        };
        let (holds, said) = match self {
            Self::IfMatch(tags) => (is_in(tags), "it was changed by someone else: read it again"),
            Self::IfNoneMatch(tags) => (!is_in(tags), "it is there already"),
        };
        match holds {
            true => Ok(()),
            false => Err(Problem::new(ErrorTag::PreconditionFailed, path.to_text(), said)),
        }
    }
}

/// What stores units, and who wrote them.
fn documents(state: &State, edited: &Edited, client: &str) -> Result<Vec<Operation>, Problem> {
    let key = |unit: &str| {
        Key::new(&format!("{UNITS}{unit}"))
            .map_err(|e| Problem::new(ErrorTag::InvalidValue, format!("/{unit}"), e.to_string()))
    };
    let mut operations = Vec::new();
    let mut keep = |unit: &str, data: &Value| -> Result<(), Problem> {
        let kept = Kept { client: client.to_owned(), data: data.clone() };
        let value = Bytes::from(serde_json::to_vec(&kept).unwrap_or_default());
        operations.push(Operation::Keep(key(unit)?, value));
        Ok(())
    };
    let changed: BTreeMap<&String, &Option<Value>> =
        edited.changes.iter().map(|(unit, value)| (unit, value)).collect();
    for (unit, value) in &changed {
        if let Some(value) = value {
            keep(unit, value)?;
        }
    }
    // Who says the same again as another is the one whose it is.
    for unit in edited.named.iter().filter(|unit| !changed.contains_key(unit)) {
        let is_anothers = state.clients.get(unit).is_none_or(|was| was != client);
        if let Some(value) = state.data.unit(unit).filter(|_| is_anothers) {
            keep(unit, value)?;
        }
    }
    for (unit, _) in edited.changes.iter().filter(|(_, value)| value.is_none()) {
        operations.push(Operation::Drop(key(unit)?));
    }
    Ok(operations)
}

/// The changes that remove units.
fn removed(units: impl IntoIterator<Item = String>) -> Vec<UnitChange> {
    units.into_iter().map(|unit| (unit, None)).collect()
}

async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // Nobody who could say it any more is as good as said.
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

/// A port whose client says no Ethernet address keeps what its switch has said.
fn with_mac_of(mut wanted: Resource, current: Option<&Resource>) -> Resource {
    if let (Resource::Port(port), Some(Resource::Port(current))) = (&mut wanted, current)
        && port.spec.node == current.spec.node
    {
        port.spec.mac = port.spec.mac.or(current.spec.mac);
    }
    wanted
}

/// What a port was given that names no address itself.
fn given_to(port: &Document<PortSpec, PortStatus>) -> &[IpAddr] {
    match port.spec.addresses.is_empty() {
        true => &port.status.addresses,
        false => &[],
    }
}

fn spec(resource: &Resource) -> Value {
    resource.to_value()["spec"].take()
}

/// Nodes that others made, by their addresses.
async fn hosts(engine: &Engine) -> Result<BTreeMap<IpAddr, NodeName>, ListError> {
    let page = list_all(engine.store().as_ref(), &Kind::Node.prefix()).await?;
    let mut hosts = BTreeMap::new();
    for (_, entry) in &page.entries {
        let read = Resource::from_stored(&entry.value, entry.modified.0);
        let Ok(resource) = read else { continue };
        if let (Resource::Node(node), false) = (&resource, is_ours(&resource))
            && let Ok(name) = NodeName::new(&node.metadata.name)
        {
            let addresses = [node.spec.tunnel].into_iter().chain(node.spec.addresses.clone());
            hosts.extend(addresses.map(|address| (address, name.clone())));
        }
    }
    Ok(hosts)
}
