//! One write: read what it changes, allocate what its users left out, and see what it means to the
//! model. Nothing is stored here.

use super::State;
use super::allocate::Number;
use super::staging::Staging;
use super::write::{Effect, Operation, Outcome, Write, WriteError};
use bytes::Bytes;
use osier_model::{Change, Key as ModelKey, Mac, Node, NodeName, Object, PoolName, Saying};
use osier_resource::{Document, Kind, Modelled, Resource};
use osier_store::{Key, Revision};
use std::collections::HashSet;
use std::net::IpAddr;

/// What tokens are kept under.
const TOKENS: &str = "tokens/";

/// What paused nodes are kept under.
pub(crate) const PAUSES: &str = "pauses/";

/// A resource as it is stored.
type Current = Option<(Resource, Revision)>;

impl State {
    /// What a write comes to, beside what the round has already.
    pub(super) async fn prepare(
        &mut self,
        round: &Staging,
        write: &Write,
    ) -> Result<(Staging, Vec<Outcome>), WriteError> {
        let mut seen = HashSet::new();
        for operation in &write.operations {
            let (key, called) = operation.subject();
            if !seen.insert(key) {
                return Err(WriteError::Twice(called));
            }
        }
        let mut order: Vec<usize> = (0..write.operations.len()).collect();
        order.sort_by_key(|i| write.operations[*i].rank());
        let mut draft = Staging::default();
        let mut outcomes: Vec<Option<Outcome>> = vec![None; write.operations.len()];
        for i in order {
            let operation = write.operations[i].clone();
            outcomes[i] = Some(self.operate(round, &mut draft, operation).await?);
        }
        // At the end: of a pool that takes another's place both are there meanwhile.
        self.check_apart(round, &draft)?;
        if !draft.changes.is_empty() {
            let changes = round.changes.iter().chain(&draft.changes).cloned().collect();
            self.hub.check(changes).map_err(WriteError::Refused)?;
        }
        draft.transaction().validate().map_err(WriteError::TooLarge)?;
        Ok((draft, outcomes.into_iter().flatten().collect()))
    }

    async fn operate(
        &mut self,
        round: &Staging,
        draft: &mut Staging,
        operation: Operation,
    ) -> Result<Outcome, WriteError> {
        match operation {
            Operation::Create(resource) => {
                let (kind, name) = (resource.kind(), resource.name().to_owned());
                match self.current(kind, &name).await? {
                    Some(_) => Err(WriteError::Exists { kind, name }),
                    None => self.put(round, draft, None, *resource),
                }
            }
            Operation::Replace(resource) => {
                let current = self.existing(resource.kind(), resource.name()).await?;
                self.put(round, draft, Some(current), *resource)
            }
            Operation::Apply(resource) => {
                let current = self.current(resource.kind(), resource.name()).await?;
                self.put(round, draft, current, *resource)
            }
            Operation::Restore(resource) => self.restore(round, draft, *resource).await,
            Operation::Patch { kind, name, patch } => {
                let current = self.existing(kind, &name).await?;
                let patched = current.0.patch(&patch);
                let patched = patched.map_err(|e| WriteError::of_change(current.0.called(), e))?;
                self.put(round, draft, Some(current), patched)
            }
            Operation::Delete { kind, name, version } => {
                let current = self.existing(kind, &name).await?;
                check_version(&current, version)?;
                if kind == Kind::Node {
                    // Whoever was removed does not come back with what it joined with.
                    for key in [format!("{TOKENS}{name}"), format!("{PAUSES}{name}")] {
                        self.keep(draft, self::key(&key)?, None).await?;
                    }
                }
                self.delete(draft, current)
            }
            Operation::Attach(resource) => self.attach(round, draft, *resource).await,
            Operation::Detach { name, node, generation } => {
                self.detach(draft, &name, &node, generation).await
            }
            Operation::Redeem(redemption) => self.redeem(round, draft, &redemption).await,
            Operation::Keep(key, value) => self.keep(draft, key, Some(value)).await,
            Operation::Drop(key) => self.keep(draft, key, None).await,
        }
    }

    /// Makes or replaces a resource.
    pub(super) fn put(
        &mut self,
        round: &Staging,
        draft: &mut Staging,
        current: Current,
        wanted: Resource,
    ) -> Result<Outcome, WriteError> {
        let called = wanted.called();
        let (before, base) = match current {
            Some((before, revision)) => (Some(before), Some(revision)),
            None => (None, None),
        };
        let resource = if let Some(before) = &before {
            before.replace(wanted).map_err(|e| WriteError::of_change(called, e))?
        } else {
            let created = wanted.create(self.uid(), super::now());
            created.map_err(|fault| WriteError::Invalid { resource: called, fault })?
        };
        self.settle(round, draft, (before, base), resource)
    }

    /// Makes one that was elsewhere before, with what was allocated for it there.
    async fn restore(
        &mut self,
        round: &Staging,
        draft: &mut Staging,
        wanted: Resource,
    ) -> Result<Outcome, WriteError> {
        let current = self.current(wanted.kind(), wanted.name()).await?;
        if current.is_some() {
            return self.put(round, draft, current, wanted);
        }
        let called = wanted.called();
        let restored = wanted.restore(self.uid(), super::now());
        let resource = restored.map_err(|fault| WriteError::Invalid { resource: called, fault })?;
        self.settle(round, draft, (None, None), resource)
    }

    /// Fills in what is left out of a resource, and drafts it in the place of what was before.
    fn settle(
        &mut self,
        round: &Staging,
        draft: &mut Staging,
        (before, base): (Option<Resource>, Option<Revision>),
        mut resource: Resource,
    ) -> Result<Outcome, WriteError> {
        self.fill(round, draft, before.as_ref(), &mut resource)?;
        if before.as_ref() == Some(&resource) {
            return Ok(outcome(Effect::Unchanged, Some(resource)));
        }
        let modelled = resource.to_model().map_err(WriteError::of_convert)?;
        let was = before.as_ref().and_then(|before| before.to_model().ok());
        if was.as_ref() != Some(&modelled) || pools_of(before.as_ref()) != pools_of(Some(&resource))
        {
            self.learn(round, draft, (was.as_ref(), before.as_ref()), &modelled, &resource)?;
        }
        let effect = if before.is_some() { Effect::Configured } else { Effect::Created };
        draft.document(key(&resource.key())?, base, Some(resource.to_stored().into()));
        Ok(outcome(effect, Some(resource)))
    }

    /// Allocates what is left out, and says in the status what is so.
    fn fill(
        &mut self,
        round: &Staging,
        draft: &Staging,
        before: Option<&Resource>,
        resource: &mut Resource,
    ) -> Result<(), WriteError> {
        let called = resource.called();
        let exhausted = |source| WriteError::Exhausted { resource: called.clone(), source };
        match resource {
            Resource::Router(Document { spec, status, .. }) => {
                status.vrf = spec.vrf.or(status.vrf);
                if status.vrf.is_none() {
                    let vrf = self.allocator.number(Number::Vrf).map_err(exhausted)?;
                    status.vrf = u16::try_from(vrf).ok().map(osier_model::VrfId);
                }
            }
            Resource::Network(Document { spec, status, .. }) => {
                status.vni = spec.vni.or(status.vni);
                if status.vni.is_none() {
                    let vni = self.allocator.number(Number::Vni).map_err(exhausted)?;
                    status.vni = osier_model::Vni::new(vni).ok();
                }
            }
            Resource::Node(Document { spec, status, .. }) => {
                if !spec.blocks.is_empty() {
                    status.blocks.clone_from(&spec.blocks);
                } else if status.blocks.is_empty() {
                    status.blocks = self.allocator.blocks().map_err(exhausted)?;
                }
            }
            Resource::Port(Document { spec, status, .. }) => {
                let moved = match before {
                    Some(Resource::Port(before)) => before.spec.network != spec.network,
                    // One that was restored has some.
                    _ => status.addresses.is_empty(),
                };
                if !spec.addresses.is_empty() {
                    status.addresses.clone_from(&spec.addresses);
                } else if moved {
                    self.settling.check()?;
                    let (hub, settling, network) = (&self.hub, &self.settling, &spec.network);
                    let is_taken = |address: IpAddr| {
                        round.has_address(network, address)
                            || draft.has_address(network, address)
                            || hub.holder(network, address).is_some()
                            || round.has_service_address(address)
                            || draft.has_service_address(address)
                            || hub.is_service_address(address)
                            || settling.uses(network, address)
                    };
                    status.addresses =
                        self.allocator.addresses(network, is_taken).map_err(exhausted)?;
                    status.mac = None;
                }
                let derived = status.addresses.first().filter(|a| a.is_ipv4()).map(|a| Mac::of(*a));
                let kept = status.mac.filter(|_| derived.is_none());
                status.mac = Some(spec.mac.or(derived).or(kept).unwrap_or_else(|| self.mac()));
            }
            Resource::Service(Document { spec, status, .. }) => {
                if !spec.addresses.is_empty() {
                    status.addresses.clone_from(&spec.addresses);
                } else if status.addresses.is_empty() {
                    let hub = &self.hub;
                    let is_taken = |address: IpAddr| {
                        round.has_service_address(address)
                            || draft.has_service_address(address)
                            || hub.is_service_address(address)
                    };
                    let given = self.allocator.service_addresses(&spec.pools, is_taken);
                    status.addresses = given.map_err(exhausted)?;
                }
            }
            Resource::Fabric(_)
            | Resource::Pool(_)
            | Resource::Endpoints(_)
            | Resource::Namespace(_)
            | Resource::NetworkPolicy(_)
            | Resource::Workload(_) => {}
        }
        Ok(())
    }

    /// What a resource means to the model and to who allocates.
    fn learn(
        &mut self,
        round: &Staging,
        draft: &mut Staging,
        (was, before): (Option<&Modelled>, Option<&Resource>),
        now: &Modelled,
        resource: &Resource,
    ) -> Result<(), WriteError> {
        if let Some(Modelled::Object(was)) = was {
            self.forget(was, pools_of(before));
        }
        match now {
            Modelled::Fabric(fabric) => {
                let mut blocks = self.all_blocks();
                for change in round.changes.iter().chain(&draft.changes) {
                    if let Change::Put(Object::Node(node)) = change {
                        blocks.extend(&node.blocks);
                    }
                }
                self.allocator.set_cluster(&fabric.cluster, &blocks);
                self.allocator.set_services(&fabric.services);
                draft.fabric = Some(fabric.clone());
            }
            Modelled::Pool(pool) => {
                self.allocator.set_pool(&pool.name, Some(pool));
                draft.pools.push(pool.name.clone());
            }
            Modelled::Stated(statement) => draft.sayings.push(Saying::Put(statement.clone())),
            Modelled::Object(object) => {
                self.check_pools(resource)?;
                self.note(object, pools_of(Some(resource)));
                // Endpoints that are another Service's now are another object.
                if let Some(Modelled::Object(was)) = was
                    && was.key() != object.key()
                {
                    draft.change(Change::Delete(was.key()));
                }
                draft.change(Change::Put(object.clone()));
            }
        }
        Ok(())
    }

    fn check_pools(&self, resource: &Resource) -> Result<(), WriteError> {
        let unknown = |(_, pool): &(usize, &PoolName)| !self.allocator.has_pool(pool);
        match pools_of(Some(resource)).iter().enumerate().find(unknown) {
            Some((i, pool)) => {
                let said = format!("there is no pool {pool}");
                let fault = osier_resource::Fault { field: format!("spec.pools[{i}]"), said };
                Err(WriteError::Invalid { resource: resource.called(), fault })
            }
            None => Ok(()),
        }
    }

    /// An object's numbers and addresses are its own.
    pub(super) fn note(&mut self, object: &Object, pools: &[PoolName]) {
        let allocator = &mut self.allocator;
        match object {
            Object::Node(node) => allocator.note_blocks(&node.blocks),
            Object::Router(router) => allocator.note_number(Number::Vrf, router.vrf.0.into()),
            Object::Network(network) => {
                allocator.note_number(Number::Vni, network.vni.get());
                allocator.set_network(&network.name, Some((network, pools)));
            }
            Object::Port(port) => allocator.note_addresses(&port.network, &port.addresses),
            Object::Service(service) => allocator.note_service(pools, &service.addresses),
            // They have no numbers of their own.
            Object::Endpoints(_)
            | Object::Selection(_)
            | Object::Policy(_)
            | Object::Guard(_)
            | Object::Workload(_) => {}
        }
    }

    /// They are nobody's, as soon as that is stored.
    fn forget(&mut self, object: &Object, pools: &[PoolName]) {
        let allocator = &mut self.allocator;
        match object {
            Object::Node(node) => allocator.free_blocks(&node.blocks),
            Object::Router(router) => allocator.free_number(Number::Vrf, router.vrf.0.into()),
            Object::Network(network) => allocator.free_number(Number::Vni, network.vni.get()),
            Object::Port(port) => allocator.free_addresses(&port.network, &port.addresses),
            Object::Service(service) => allocator.free_service(pools, &service.addresses),
            // They have no numbers of their own.
            Object::Endpoints(_)
            | Object::Selection(_)
            | Object::Policy(_)
            | Object::Guard(_)
            | Object::Workload(_) => {}
        }
    }

    pub(super) fn delete(
        &mut self,
        draft: &mut Staging,
        (resource, revision): (Resource, Revision),
    ) -> Result<Outcome, WriteError> {
        match resource.to_model().map_err(WriteError::of_convert)? {
            Modelled::Object(object) => {
                self.forget(&object, pools_of(Some(&resource)));
                if let Object::Network(network) = &object {
                    self.allocator.set_network(&network.name, None);
                }
                draft.change(Change::Delete(object.key()));
            }
            Modelled::Pool(pool) => {
                if let Some(network) = self.allocator.user_of(&pool.name) {
                    let (pool, network) = (pool.name.clone(), network.clone());
                    return Err(WriteError::PoolInUse { pool, network });
                }
                self.allocator.set_pool(&pool.name, None);
            }
            Modelled::Fabric(_) => {
                self.allocator.set_cluster(&[], &[]);
                self.allocator.set_services(&[]);
                draft.fabric = Some(osier_model::Fabric::default());
            }
            Modelled::Stated(statement) => {
                draft.sayings.push(Saying::Delete(statement.key()));
            }
        }
        draft.document(key(&resource.key())?, Some(revision), None);
        Ok(outcome(Effect::Deleted, Some(resource)))
    }

    async fn keep(
        &mut self,
        draft: &mut Staging,
        key: Key,
        value: Option<Bytes>,
    ) -> Result<Outcome, WriteError> {
        let entry = self.store.get(&key).await.map_err(WriteError::Store)?;
        let effect = match (&entry, &value) {
            (None, None) => return Ok(outcome(Effect::Unchanged, None)),
            (Some(entry), Some(value)) if entry.value == *value => {
                return Ok(outcome(Effect::Unchanged, None));
            }
            (None, Some(_)) => Effect::Created,
            (Some(_), Some(_)) => Effect::Configured,
            (Some(_), None) => Effect::Deleted,
        };
        draft.document(key, entry.map(|entry| entry.modified), value);
        Ok(outcome(effect, None))
    }

    async fn existing(&self, kind: Kind, name: &str) -> Result<(Resource, Revision), WriteError> {
        let not_found = || WriteError::NotFound { kind, name: name.to_owned() };
        self.current(kind, name).await?.ok_or_else(not_found)
    }

    pub(super) async fn current(&self, kind: Kind, name: &str) -> Result<Current, WriteError> {
        // The model is in memory: what is new need not be looked for on the disk.
        let is_new = match kind {
            // The model knows endpoints by their Service, too; and not what policies are made of.
            Kind::Fabric
            | Kind::Pool
            | Kind::Endpoints
            | Kind::Namespace
            | Kind::NetworkPolicy
            | Kind::Workload => false,
            Kind::Service => {
                self.is_new(osier_model::ServiceName::new(name).ok().map(ModelKey::Service))
            }
            Kind::Node => self.is_new(NodeName::new(name).ok().map(ModelKey::Node)),
            Kind::Router => {
                self.is_new(osier_model::RouterName::new(name).ok().map(ModelKey::Router))
            }
            Kind::Network => {
                self.is_new(osier_model::NetworkName::new(name).ok().map(ModelKey::Network))
            }
            Kind::Port => self.is_new(osier_resource::port_key(name).ok().map(ModelKey::Port)),
        };
        if is_new {
            return Ok(None);
        }
        let key = key(&kind.key(name))?;
        let Some(entry) = self.store.get(&key).await.map_err(WriteError::Store)? else {
            return Ok(None);
        };
        let damaged = |fault| WriteError::Damaged { key: key.to_string(), fault };
        let read = Resource::from_stored(&entry.value, entry.modified.0).map_err(damaged)?;
        Ok(Some((read, entry.modified)))
    }

    fn is_new(&self, key: Option<ModelKey>) -> bool {
        key.is_none_or(|key| self.hub.get(&key).is_none())
    }

    pub(super) fn all_blocks(&self) -> Vec<ipnet::IpNet> {
        let node = |name: NodeName| -> Option<Node> {
            match self.hub.get(&ModelKey::Node(name))?.object() {
                Object::Node(node) => Some(node.clone()),
                _ => None,
            }
        };
        self.hub.node_names().into_iter().filter_map(node).flat_map(|node| node.blocks).collect()
    }

    fn uid(&self) -> String {
        super::uuid(self.random())
    }

    /// One of our own: locally administered.
    fn mac(&self) -> Mac {
        let [_, _, a, b, c, d, ..] = self.random();
        Mac([0x0a, 0x5a, a, b, c, d])
    }

    fn random(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        // It fails only where there is no kernel.
        let _ = ring::rand::SecureRandom::fill(&self.entropy, &mut bytes);
        bytes
    }
}

pub(super) fn outcome(effect: Effect, resource: Option<Resource>) -> Outcome {
    Outcome { effect, resource, joined: None }
}

/// Where a network's or a Service's addresses come from.
pub(super) fn pools_of(resource: Option<&Resource>) -> &[PoolName] {
    match resource {
        Some(Resource::Service(service)) => &service.spec.pools,
        Some(Resource::Network(network)) => &network.spec.pools,
        _ => &[],
    }
}

fn check_version(
    current: &(Resource, Revision),
    version: Option<String>,
) -> Result<(), WriteError> {
    let is = current.1.to_string();
    match version {
        Some(found) if found != is => Err(WriteError::Stale {
            resource: current.0.called(),
            source: osier_resource::ChangeError::Stale { found, current: is },
        }),
        _ => Ok(()),
    }
}

/// Where a node's token is kept.
pub(crate) fn token_key(node: &NodeName) -> Result<Key, WriteError> {
    key(&format!("{TOKENS}{node}"))
}

/// Names fit in keys: both have limits, and the keys' are wider.
pub(crate) fn key(text: &str) -> Result<Key, WriteError> {
    Key::new(text).map_err(|error| WriteError::Invalid {
        resource: text.to_owned(),
        fault: osier_resource::Fault { field: "metadata.name".to_owned(), said: error.to_string() },
    })
}
