//! The model made equal to what Kubernetes says, resource by resource.
//!
//! What is wanted is compared with what the engine took; only differences are written. A resource
//! that is refused holds up nobody, keeps what it was before, and is tried again when something else
//! has changed.

use crate::error::failed;
use futures_util::future::join_all;
use osier_controller::{Engine, Operation, Write, WriteError};
use osier_resource::{Kind, Resource};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Writes at once: the engine makes as many in one round.
const AT_ONCE: usize = 64;

/// A resource's kind and name.
pub(crate) type Name = (Kind, String);

/// What is wanted, and what was taken.
#[derive(Default)]
pub(crate) struct Mirror {
    wanted: BTreeMap<Name, Arc<Resource>>,
    taken: BTreeMap<Name, Taken>,
    refused: BTreeMap<Name, String>,
    dirty: BTreeSet<Name>,
}

struct Taken {
    /// As it was wanted then.
    wanted: Arc<Resource>,
    /// As it is, with what was allocated, if that can be something else.
    is: Option<Resource>,
    /// The model's revision with it.
    revision: u64,
}

// === impl Mirror ===

impl Mirror {
    /// Wants a resource; says whether that is new.
    pub(crate) fn want(&mut self, resource: Resource) -> bool {
        let name = (resource.kind(), resource.name().to_owned());
        let is_new = self.wanted.get(&name).map(AsRef::as_ref) != Some(&resource);
        if is_new {
            self.dirty.insert(name.clone());
            self.wanted.insert(name, Arc::new(resource));
        }
        is_new
    }

    /// Wants it no longer.
    pub(crate) fn drop(&mut self, kind: Kind, name: &str) {
        let name = (kind, name.to_owned());
        self.refused.remove(&name);
        if self.wanted.remove(&name).is_some() || self.taken.contains_key(&name) {
            self.dirty.insert(name);
        }
    }

    /// A resource as it is, with what was allocated, and since which revision.
    pub(crate) fn is<'a>(&'a self, name: &Name) -> Option<(&'a Resource, u64)> {
        let is = |taken: &'a Taken| (taken.is.as_ref().unwrap_or(&taken.wanted), taken.revision);
        self.taken.get(name).map(is)
    }

    pub(crate) fn wanted(&self, kind: Kind, name: &str) -> Option<&Resource> {
        self.wanted.get(&(kind, name.to_owned())).map(AsRef::as_ref)
    }

    /// Why a resource was refused.
    pub(crate) fn why(&self, name: &Name) -> Option<&str> {
        self.refused.get(name).map(String::as_str)
    }

    /// What was refused.
    pub(crate) fn refused(&self) -> Vec<Name> {
        self.refused.keys().cloned().collect()
    }

    /// All that are wanted, of a kind.
    pub(crate) fn all(&self, kind: Kind) -> impl Iterator<Item = &Resource> {
        let those = self.wanted.range((kind, String::new())..);
        those.take_while(move |(name, _)| name.0 == kind).map(|(_, resource)| resource.as_ref())
    }

    /// Whether there is anything to do.
    pub(crate) fn is_settled(&self) -> bool {
        self.dirty.is_empty()
    }

    /// Tries again what was refused.
    pub(crate) fn retry(&mut self) {
        self.dirty.extend(self.refused.keys().cloned());
    }

    /// Makes the model what is wanted, as far as it can be. Returns what was changed or refused.
    pub(crate) async fn settle(&mut self, engine: &Engine) -> Vec<Name> {
        let mut touched = BTreeSet::new();
        loop {
            let dirty = std::mem::take(&mut self.dirty);
            let progress = self.delete(engine, &dirty).await | self.put(engine, &dirty).await;
            touched.extend(dirty);
            if !progress || self.refused.is_empty() {
                return touched.into_iter().collect();
            }
            // What was in the way may be gone.
            self.retry();
        }
    }

    /// Deletes what is no longer wanted: what refers to others first.
    async fn delete(&mut self, engine: &Engine, dirty: &BTreeSet<Name>) -> bool {
        let mut progress = false;
        for name in dirty.iter().rev() {
            if self.wanted.contains_key(name) || !self.taken.contains_key(name) {
                continue;
            }
            let (kind, called) = name.clone();
            let delete = Operation::Delete { kind, name: called, version: None };
            match engine.write(Write::one(delete)).await {
                Ok(_) | Err(WriteError::NotFound { .. }) => {
                    self.taken.remove(name);
                    self.refused.remove(name);
                    progress = true;
                }
                Err(error) => drop(self.refused.insert(name.clone(), failed(&error))),
            }
        }
        progress
    }

    /// Puts what is wanted: what others refer to first, and of those what has its numbers.
    async fn put(&mut self, engine: &Engine, dirty: &BTreeSet<Name>) -> bool {
        let mut progress = false;
        for kind in Kind::ALL {
            for is_allocated in [true, false] {
                let mut due: Vec<(Name, Arc<Resource>)> = dirty
                    .iter()
                    .filter(|name| name.0 == kind)
                    .filter_map(|name| Some((name.clone(), self.wanted.get(name)?.clone())))
                    .filter(|(_, resource)| has_numbers(resource) == is_allocated)
                    .filter(|(name, resource)| {
                        self.taken.get(name).is_none_or(|taken| taken.wanted != *resource)
                    })
                    .collect();
                // Of two that want the same, the older one has it.
                due.sort_by(|(_, one), (_, other)| made(one).cmp(&made(other)));
                for some in due.chunks(AT_ONCE) {
                    progress |= self.put_some(engine, some).await;
                }
            }
        }
        progress
    }

    async fn put_some(&mut self, engine: &Engine, some: &[(Name, Arc<Resource>)]) -> bool {
        let write = |(_, resource): &(Name, Arc<Resource>)| {
            engine.write(Write::one(Operation::Restore(Box::new(Resource::clone(resource)))))
        };
        let answers = join_all(some.iter().map(write)).await;
        let mut progress = false;
        for ((name, wanted), answer) in some.iter().zip(answers) {
            match answer {
                Ok(written) => {
                    let is = written.outcomes.into_iter().find_map(|outcome| outcome.resource);
                    let is = is.filter(|is| has_own(is.kind()));
                    let revision = written.position.revision.0;
                    let taken = Taken { wanted: Arc::clone(wanted), is, revision };
                    self.taken.insert(name.clone(), taken);
                    self.refused.remove(name);
                    progress = true;
                }
                Err(error) => {
                    let why = failed(&error);
                    tracing::info!(resource = %wanted.called(), why, "refused");
                    self.refused.insert(name.clone(), why);
                }
            }
        }
        progress
    }
}

fn made(resource: &Resource) -> Option<&str> {
    resource.metadata().creation_timestamp.as_deref()
}

/// Whether something of what a resource is was allocated, and must be told.
fn has_own(kind: Kind) -> bool {
    match kind {
        Kind::Fabric | Kind::Node | Kind::Pool | Kind::Router | Kind::Network | Kind::Port => true,
        Kind::Service
        | Kind::Endpoints
        | Kind::Namespace
        | Kind::NetworkPolicy
        | Kind::Workload => false,
    }
}

/// Whether a resource says itself, or was told before, what it gets.
fn has_numbers(resource: &Resource) -> bool {
    match resource {
        Resource::Router(router) => router.spec.vrf.or(router.status.vrf).is_some(),
        Resource::Network(network) => network.spec.vni.or(network.status.vni).is_some(),
        Resource::Port(port) => {
            !(port.spec.addresses.is_empty() && port.status.addresses.is_empty())
        }
        Resource::Service(service) => {
            !(service.spec.addresses.is_empty() && service.status.addresses.is_empty())
        }
        Resource::Fabric(_)
        | Resource::Node(_)
        | Resource::Pool(_)
        | Resource::Endpoints(_)
        | Resource::Namespace(_)
        | Resource::NetworkPolicy(_)
        | Resource::Workload(_) => true,
    }
}
