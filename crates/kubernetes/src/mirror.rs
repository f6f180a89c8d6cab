//! The model made equal to what Kubernetes says, resource by resource.
//!
//! What is wanted is compared with what the engine took; only differences are written. A resource
//! that is refused holds up nobody, keeps what it was before, and is tried again when something else
//! has changed. Only a policy does not: what it was before, or nothing at all, may let through what it
//! is to stop, so it is closed meanwhile.

use crate::error::failed;
use futures_util::future::join_all;
use osier_controller::{Engine, Operation, Write, WriteError, Written};
use osier_resource::{Document, Kind, NetworkPolicySpec, Resource};
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
        let mut closing = Vec::new();
        for ((name, wanted), answer) in some.iter().zip(answers) {
            match answer {
                Ok(written) => {
                    self.take(name, wanted, written);
                    self.refused.remove(name);
                    progress = true;
                }
                Err(error) => {
                    let why = failed(&error);
                    tracing::info!(resource = %wanted.called(), why, "refused");
                    self.refused.insert(name.clone(), why);
                    if !is_outage(&error) {
                        closing.push((name, wanted));
                    }
                }
            }
        }
        for (name, wanted) in closing {
            progress |= self.close(engine, name, wanted).await;
        }
        progress
    }

    fn take(&mut self, name: &Name, wanted: &Arc<Resource>, written: Written) {
        let is = written.outcomes.into_iter().find_map(|outcome| outcome.resource);
        let is = is.filter(|is| has_own(is.kind()));
        let revision = written.position.revision.0;
        self.taken.insert(name.clone(), Taken { wanted: Arc::clone(wanted), is, revision });
    }

    /// Has a policy that was refused let nothing through; says whether that is new.
    async fn close(&mut self, engine: &Engine, name: &Name, refused: &Resource) -> bool {
        let Resource::NetworkPolicy(policy) = refused else { return false };
        let like = |spec: NetworkPolicySpec| {
            let (metadata, status) = (policy.metadata.clone(), policy.status.clone());
            Arc::new(Resource::NetworkPolicy(Document { metadata, spec, status }))
        };
        let closed = policy.spec.closed();
        // If even whom it is about is too much, it is about all of its namespace.
        let whole =
            NetworkPolicySpec { pod_selector: osier_model::Selector::default(), ..closed.clone() };
        for closed in [like(closed), like(whole)] {
            if self.taken.get(name).is_some_and(|taken| taken.wanted == closed) {
                return false;
            }
            let write = Write::one(Operation::Restore(Box::new(Resource::clone(&closed))));
            match engine.write(write).await {
                Ok(written) => {
                    self.take(name, &closed, written);
                    return true;
                }
                Err(error) => {
                    let why = failed(&error);
                    tracing::warn!(resource = %closed.called(), why, "cannot be closed");
                    if is_outage(&error) {
                        return false;
                    }
                }
            }
        }
        false
    }
}

/// Whether nothing was judged.
fn is_outage(error: &WriteError) -> bool {
    matches!(error, WriteError::Store(_) | WriteError::Stopping)
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

#[cfg(test)]
mod tests {
    use super::*;
    use osier_controller::config::Config;
    use osier_controller::{Metrics, Started};
    use osier_model::{Direction, Key, Object};
    use osier_resource::{Metadata, NetworkPolicyStatus};
    use osier_store::{Epoch, History, Memory, Store};
    use serde_json::json;

    const NAME: &str = "shop:web";
    const HISTORY: History = History { revisions: 100, bytes: 1 << 20 };

    /// A policy about `app: web` of so many rules that are so long.
    fn policy(rules: usize, excepts: usize, selector: &serde_json::Value) -> Resource {
        let rule = |n: usize| {
            let (high, low) = (n / 256, n % 256);
            let except: Vec<String> =
                (0..excepts).map(|last| format!("10.{high}.{low}.{last}/32")).collect();
            let cidr = format!("10.{high}.{low}.0/24");
            json!({"from": [{"ipBlock": {"cidr": cidr, "except": except}}]})
        };
        let ingress: Vec<_> = (0..rules).map(rule).collect();
        let spec = json!({"podSelector": selector, "ingress": ingress});
        let spec: NetworkPolicySpec = serde_json::from_value(spec).unwrap();
        let (metadata, status) = (Metadata::named(NAME.to_owned()), NetworkPolicyStatus::default());
        Resource::NetworkPolicy(Document { metadata, spec, status })
    }

    fn web() -> serde_json::Value {
        json!({"matchLabels": {"app": "web"}})
    }

    /// How many rules the policy has, if it is there, and whether it speaks of what goes out.
    fn rules(engine: &Engine) -> Option<(usize, bool)> {
        let shared = engine.hub().get(&Key::Policy(NAME.parse().unwrap()))?;
        let Object::Policy(policy) = shared.object() else { return None };
        let has = |direction| policy.rules(direction).map(<[_]>::len);
        Some((has(Direction::Ingress)?, has(Direction::Egress).is_some()))
    }

    #[tokio::test]
    async fn a_policy_that_is_refused_is_closed() {
        let store = Arc::new(Memory::new(Epoch(1), HISTORY)) as Arc<dyn Store>;
        let started = Engine::start(store, Config::default().rules(), Metrics::default()).await;
        let Started { engine, .. } = started.unwrap();
        let key = (Kind::NetworkPolicy, NAME.to_owned());
        let mut mirror = Mirror::default();
        let mut after = async |resource: Resource| {
            mirror.want(resource);
            mirror.settle(&engine).await;
            let again = mirror.is_settled();
            assert!(again, "it does not go round");
            (rules(&engine), mirror.why(&key).map(str::to_owned))
        };
        // As many as there may be, if they fit.
        assert_eq!(after(policy(10_000, 0, &web())).await, (Some((10_000, false)), None));
        let (closed, why) = after(policy(10_000, 8, &web())).await;
        assert_eq!(closed, Some((0, false)), "what it was is not what it is to be");
        assert!(why.unwrap().contains("too large"));
        // It is what it says again as soon as that can be.
        assert_eq!(after(policy(1, 8, &web())).await, (Some((1, false)), None));
        // One whose subjects are too many words is about all of its namespace.
        let values: Vec<String> = (0..20_000).map(|n| format!("{n:060}")).collect();
        let words =
            json!({"matchExpressions": [{"key": "app", "operator": "In", "values": values}]});
        let (closed, why) = after(policy(1, 0, &words)).await;
        assert!(closed == Some((0, false)) && why.is_some());
        assert_eq!(after(policy(2, 0, &web())).await, (Some((2, false)), None));

        // A new one is closed, too, and stays so however often it is tried; it goes like any other.
        mirror.drop(Kind::NetworkPolicy, NAME);
        mirror.settle(&engine).await;
        assert_eq!(rules(&engine), None);
        mirror.want(policy(10_000, 8, &web()));
        mirror.settle(&engine).await;
        let since = mirror.is(&key).map(|(_, revision)| revision);
        mirror.retry();
        assert_eq!(mirror.settle(&engine).await, std::slice::from_ref(&key));
        assert_eq!((rules(&engine), mirror.why(&key).is_some()), (Some((0, false)), true));
        assert_eq!(mirror.is(&key).map(|(_, revision)| revision), since, "nothing was written");
        mirror.drop(Kind::NetworkPolicy, NAME);
        mirror.settle(&engine).await;
        assert_eq!((rules(&engine), mirror.why(&key)), (None, None));
    }
}
