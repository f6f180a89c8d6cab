//! Policies, and what they select: namespaces and pods with their labels. And the numbers that labels
//! got, kept in objects.
//!
//! A pod is told as soon as it is there, before it has a node: its number is known everywhere before
//! its first packet.

use super::Leader;
use crate::plan::Problem;
use crate::problems::Whose;
use crate::scribe::Duty;
use crate::world::held::Held;
use crate::world::identity::IdentityObject;
use crate::world::pod::PodObject;
use crate::world::policy::{NamespaceObject, Planned, PolicyObject};
use crate::world::watch::Told;
use osier_controller::{Engine, IDENTITIES, kept_identity};
use osier_model::{Key as ModelKey, Object, PolicyName, Transport};
use osier_resource::{Kind, Resource};
use osier_store::{Position, Query, Transaction};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;
use std::time::Duration;
use tokio::time::Instant;

/// Kinds of what may be wrong with a policy.
const BAD: &str = "PolicyNotUnderstood";
const REFUSED: &str = "PolicyRefused";
const IDLE: &str = "PolicySelectsNothing";
const INEXACT: &str = "PolicyPrefixTruncated";
const NAMELESS: &str = "PolicyPortUnknown";
/// How long a policy may select nobody before an event says so: pods often come after it.
const EARLY: Duration = Duration::from_secs(10);
/// How often is looked for those.
const LOOK: Duration = Duration::from_secs(5);
/// Identities that are stored in one transaction at the start.
const AT_ONCE: usize = 200;

/// Who there is.
#[derive(Default)]
pub(super) struct Policies {
    /// Their uids, and since when they are known.
    known: Held<String, (Box<str>, Option<Instant>)>,
    namespaces: Held<String, ()>,
    /// As objects have them.
    identities: Held<u32, Value>,
    /// Those that were handed over, until they are seen.
    sent: BTreeSet<u32>,
    dropped: BTreeSet<u32>,
    /// What was wrong at the start, when nobody could hear of it.
    early: Vec<(Whose, Problem)>,
    looked: Option<Instant>,
    /// How far the store was when all of its identities were written down.
    kept: Option<Position>,
}

// === impl Leader ===

impl Leader {
    pub(super) fn hear_namespace(&mut self, told: Told<NamespaceObject>) {
        match told {
            Told::Begin => self.policies.namespaces.begin(),
            Told::Put(object) => {
                self.mirror.want(object.plan());
                self.policies.namespaces.put(object.name(), ());
            }
            Told::Gone(object) => {
                self.policies.namespaces.remove(&object.name());
                self.mirror.drop(Kind::Namespace, &object.name());
            }
            Told::End => {
                for (name, ()) in self.policies.namespaces.end() {
                    self.mirror.drop(Kind::Namespace, &name);
                }
            }
        }
    }

    pub(super) fn hear_policy(&mut self, told: Told<PolicyObject>) {
        match told {
            Told::Begin => self.policies.known.begin(),
            Told::Put(object) => {
                let name = object.name();
                let uid: Box<str> = object.metadata.uid.as_deref().unwrap_or_default().into();
                let Planned { resource, bad, inexact } = object.plan();
                self.mirror.want(resource);
                let since = self.policies.known.get(&name).and_then(|(_, since)| *since);
                let whose = Whose::policy(&name, &uid);
                let now = Some(since.unwrap_or_else(Instant::now));
                self.policies.known.put(name, (uid, now));
                self.bad_policy(&whose, bad, &inexact);
            }
            Told::Gone(object) => {
                let name = object.name();
                if let Some((uid, _)) = self.policies.known.remove(&name) {
                    self.policy_gone(&name, &uid);
                }
            }
            Told::End => {
                for (name, (uid, _)) in self.policies.known.end() {
                    self.policy_gone(&name, &uid);
                }
            }
        }
    }

    fn policy_gone(&mut self, name: &str, uid: &str) {
        self.mirror.drop(Kind::NetworkPolicy, name);
        self.problems.forget(&Whose::policy(name, uid));
    }

    pub(super) fn hear_pod(&mut self, told: Told<PodObject>) {
        let shared = std::sync::Arc::clone(&self.shared);
        let mut pods = shared.pods.write().unwrap_or_else(PoisonError::into_inner);
        match told {
            Told::Begin => pods.begin(),
            Told::Put(pod) => {
                match pod.workload() {
                    Some(workload) => drop(self.mirror.want(workload)),
                    None => self.mirror.drop(Kind::Workload, &pod.name()),
                }
                pods.put(pod);
            }
            Told::Gone(pod) => {
                self.mirror.drop(Kind::Workload, &pod.name());
                pods.remove(pod);
            }
            Told::End => {
                for (namespace, name) in pods.end() {
                    self.mirror.drop(Kind::Workload, &format!("{namespace}:{name}"));
                }
            }
        }
    }

    pub(super) fn hear_identity(&mut self, told: Told<IdentityObject>) {
        let policies = &mut self.policies;
        match told {
            Told::Begin => policies.identities.begin(),
            Told::Put(object) => {
                if let Some(number) = object.number() {
                    policies.sent.remove(&number);
                    policies.identities.put(number, object.spec);
                }
            }
            Told::Gone(object) => {
                if let Some(number) = object.number() {
                    policies.dropped.remove(&number);
                    policies.identities.remove(&number);
                }
            }
            Told::End => drop(policies.identities.end()),
        }
    }

    fn bad_policy(&mut self, whose: &Whose, bad: Option<String>, inexact: &[String]) {
        let bad = bad.map(|why| Problem {
            reason: BAD,
            text: format!("it lets nothing through, for it is not understood: {why}"),
        });
        let inexact = (!inexact.is_empty()).then(|| Problem {
            reason: INEXACT,
            text: format!(
                "bits behind the length of a prefix are not looked at: {}",
                inexact.join(", ")
            ),
        });
        for (reason, problem) in [(BAD, bad), (INEXACT, inexact)] {
            match problem {
                // Nobody hears it before the controller is there.
                Some(problem) if self.states.is_none() => {
                    self.policies.early.push((whose.clone(), problem));
                }
                problem => self.problems.set(whose, &[reason], problem),
            }
        }
    }

    /// Tells what was wrong at the start.
    pub(super) fn tell_bad_policies(&mut self) {
        for (whose, problem) in std::mem::take(&mut self.policies.early) {
            self.problems.set(&whose, &[problem.reason], Some(problem));
        }
    }

    /// Tells what became of a policy.
    pub(super) fn tell_policy(&mut self, name: &str) {
        let Some((uid, _)) = self.policies.known.get(&name.to_owned()) else { return };
        let whose = Whose::policy(name, uid);
        let key = (Kind::NetworkPolicy, name.to_owned());
        let problem = self.mirror.why(&key).map(|why| Problem {
            reason: REFUSED,
            text: match self.mirror.is(&key) {
                Some(_) => format!("it lets nothing through, for it cannot be: {why}"),
                None => format!("it is not in force: {why}"),
            },
        });
        self.problems.set(&whose, &[REFUSED], problem);
    }

    /// The identities that are known, for a store that begins.
    pub(super) fn kept_identities(&self) -> Vec<Transaction> {
        let all: Vec<(&u32, &Value)> = self.policies.identities.iter().collect();
        let transaction = |some: &[(&u32, &Value)]| {
            let kept = some.iter().filter_map(|(number, spec)| kept_identity(**number, spec));
            kept.fold(Transaction::new(), |all, (key, value)| all.put(key, value))
        };
        all.chunks(AT_ONCE).map(transaction).collect()
    }

    /// Writes down what was given, and deletes what is forgotten. Numbers that were given and are
    /// lost with this leader are not given to others: the next one leaps over them.
    pub(super) async fn keep_identities(&mut self, engine: &Engine) {
        let position = engine.store().position().await.ok();
        if position.is_none() || position == self.policies.kept {
            return;
        }
        let mut given = BTreeMap::new();
        let mut query = Query::under(IDENTITIES);
        loop {
            let Ok(page) = engine.store().list(query.clone()).await else { return };
            for (key, entry) in &page.entries {
                let number = key.as_str().strip_prefix(IDENTITIES).and_then(|n| n.parse().ok());
                let spec = serde_json::from_slice::<Value>(&entry.value).ok();
                given.extend(number.zip(spec));
            }
            if !page.more {
                break;
            }
            query = query.behind(&page);
        }
        let policies = &mut self.policies;
        let gone: Vec<u32> = policies
            .identities
            .iter()
            .map(|(number, _)| *number)
            .filter(|number| !given.contains_key::<u32>(number))
            .collect();
        for (number, spec) in given {
            let is_kept = policies.identities.get(&number).is_some();
            if !is_kept && !policies.sent.contains(&number) {
                if !self.scribe.owe(Duty::Identity { number, spec }) {
                    return;
                }
                policies.sent.insert(number);
            }
        }
        for number in gone {
            if !policies.dropped.contains(&number) && self.scribe.owe(Duty::Forget { number }) {
                policies.dropped.insert(number);
            }
        }
        policies.kept = position;
    }

    /// Policies that select nobody, or name ports that nobody has, are told of, after a while.
    pub(super) fn look_at_policies(&mut self, engine: &Engine) {
        let now = Instant::now();
        if self.policies.looked.is_some_and(|at| now - at < LOOK) {
            return;
        }
        self.policies.looked = Some(now);
        let hub = engine.hub();
        let is_idle = |name: &str| {
            let name = PolicyName::new(name).ok()?;
            let policy = hub.get(&ModelKey::Policy(name))?;
            let Object::Policy(policy) = policy.object() else { return None };
            let subjects = hub.get(&ModelKey::Selection(policy.subjects))?;
            match subjects.object() {
                Object::Selection(selection) => Some(selection.members.is_empty()),
                _ => None,
            }
        };
        let known = self.policies.known.iter();
        let named = self.named_ports();
        let found: Vec<(Whose, bool, Vec<String>)> = known
            .filter(|(_, (_, since))| since.is_some_and(|since| now - since >= EARLY))
            .filter_map(|(name, (uid, _))| {
                let unknown = self.unknown_ports(name, &named);
                Some((Whose::policy(name, uid), is_idle(name)?, unknown))
            })
            .collect();
        for (whose, is_idle, unknown) in found {
            let nameless = (!unknown.is_empty()).then(|| Problem {
                reason: NAMELESS,
                text: format!("no pod has a port that is called so: {}", unknown.join(", ")),
            });
            self.problems.set(&whose, &[NAMELESS], nameless);
            let problem = is_idle.then(|| Problem {
                reason: IDLE,
                text: "no pod of its namespace has the labels of its podSelector".to_owned(),
            });
            self.problems.set(&whose, &[IDLE], problem);
        }
    }

    /// Names that pods give to ports.
    fn named_ports(&self) -> BTreeSet<(String, Transport)> {
        let workloads = self.mirror.all(Kind::Workload).filter_map(|resource| match resource {
            Resource::Workload(workload) => Some(&workload.spec.ports),
            _ => None,
        });
        workloads.flatten().map(|port| (port.name.clone(), port.transport)).collect()
    }

    /// Ports that a policy calls by a name that no pod gives.
    fn unknown_ports(&self, policy: &str, named: &BTreeSet<(String, Transport)>) -> Vec<String> {
        let Some(Resource::NetworkPolicy(policy)) = self.mirror.wanted(Kind::NetworkPolicy, policy)
        else {
            return Vec::new();
        };
        let names = policy.spec.port_names().map(|(name, protocol)| (name, protocol.transport()));
        let unknown =
            names.filter(|(name, transport)| !named.contains(&((*name).to_owned(), *transport)));
        unknown.map(|(name, transport)| format!("{name}/{transport}")).collect()
    }
}
