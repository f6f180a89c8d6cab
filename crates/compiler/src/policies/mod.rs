//! Which flows policies come to, and whose they are.
//!
//! Rules that grant the same are one rule to the switch, whichever policies they stand in; rules that
//! have a subject, a peer or a port in common share the flow for it. So flows grow with what
//! selectors select, not with products of it, and a change touches the clauses that it changes.
//!
//! A receiver is known by its identity only where it is: what matches targets is there only for
//! identities of this node's own ports.

mod grant;

pub use grant::Clause;
pub(crate) use grant::Grant;

use crate::conntrack::REFUSED;
use crate::cookie::hash;
use osier_model::{Direction, Identity, Policy, PolicyName, RuleRef, Selection, SelectionId, View};
use std::collections::{BTreeMap, BTreeSet};

/// A rule's number: in conjunctions, in cookies, and in the labels of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleId(pub u32);

/// What policies own in the switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Article {
    /// What one flow of a direction matches, for all rules that need it.
    Clause(Direction, Clause),
    /// What becomes of a packet that a rule grants.
    Rule(RuleId),
    /// That ports of this identity are under policies.
    Subject(Identity),
}

/// That a clause counts for a part of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Part {
    pub(crate) rule: RuleId,
    pub(crate) nth: u8,
    pub(crate) of: u8,
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Policies {
    grants: BTreeMap<Grant, Granted>,
    numbers: BTreeMap<RuleId, Grant>,
    said: BTreeMap<PolicyName, Known>,
    /// Which rules depend on a selection.
    users: BTreeMap<SelectionId, BTreeSet<RuleId>>,
    /// How many policies isolate those who are selected: ingress and egress.
    isolating: BTreeMap<SelectionId, [usize; 2]>,
    clauses: BTreeMap<(Direction, Clause), BTreeSet<Part>>,
    /// How many ports of this node have an identity.
    local: BTreeMap<Identity, usize>,
    /// Into how many priorities rules are spread, so that no flow has more parts than fit.
    bands: u16,
    /// Follows from all policies and selections.
    epoch: u64,
}

#[derive(Debug, Clone)]
struct Granted {
    id: RuleId,
    by: BTreeSet<RuleRef>,
}

#[derive(Debug, Clone)]
struct Known {
    policy: Policy,
    grants: BTreeMap<Grant, BTreeSet<RuleRef>>,
}

/// How many rules one priority takes: each may be a part of one flow, and 4,000 fit its message.
const BAND: usize = 2048;

// === impl RuleId ===

impl RuleId {
    /// Its own node talks to a port.
    pub const NODE: Self = Self(1);
    /// A port talks to itself.
    pub const ITSELF: Self = Self(2);
    /// The receiver's node judges.
    pub const ELSEWHERE: Self = Self(3);
    const FIRST: u32 = 256;
    const LAST: u32 = u32::MAX >> 1;
}

// === impl Policies ===

impl Policies {
    /// Follows a policy that may have changed; tells what is touched.
    pub(crate) fn follow_policy(&mut self, name: &PolicyName, view: &View) -> BTreeSet<Article> {
        let policy = view.policies().get(name);
        let mut touched = BTreeSet::new();
        let before = self.said.remove(name);
        let was = before.as_ref().map(|known| &known.policy);
        for policy in was.into_iter().chain(policy) {
            self.epoch ^= hash(&format!("{policy:?}"));
        }
        let isolates = |p: &Policy| (p.subjects, p.ingress.is_some(), p.egress.is_some());
        if was.map(isolates) != policy.map(isolates) {
            for (policy, more) in
                was.map(|p| (p, false)).into_iter().chain(policy.map(|p| (p, true)))
            {
                self.count_isolating(policy, view, more, &mut touched);
            }
        }
        let known = policy.map(|policy| Known { policy: policy.clone(), grants: grants(policy) });
        let nothing = BTreeMap::new();
        let was = before.as_ref().map_or(&nothing, |known| &known.grants);
        let now = known.as_ref().map_or(&nothing, |known| &known.grants);
        // What comes is made before what goes, so that what stays keeps its number.
        for (grant, refs) in now.iter().filter(|(grant, refs)| was.get(*grant) != Some(refs)) {
            let id = self.granted(grant, view, &mut touched);
            if let Some(granted) = self.grants.get_mut(grant) {
                granted.by.retain(|by| by.policy != *name);
                granted.by.extend(refs.iter().cloned());
            }
            touched.insert(Article::Rule(id));
        }
        for grant in was.keys().filter(|grant| !now.contains_key(*grant)) {
            self.withdraw(grant, name, view, &mut touched);
        }
        if let Some(known) = known {
            self.said.insert(name.clone(), known);
        }
        self.spread(&mut touched);
        touched
    }

    /// Follows a selection that may have changed from what it was.
    pub(crate) fn follow_selection(
        &mut self,
        id: SelectionId,
        was: Option<&Selection>,
        view: &View,
    ) -> BTreeSet<Article> {
        let now = view.selections().get(&id);
        for selection in was.into_iter().chain(now) {
            self.epoch ^= hash(&format!("{selection:?}"));
        }
        let (none, nowhere) = (BTreeSet::new(), BTreeSet::new());
        let members = |s: Option<&Selection>| s.map_or(none.clone(), |s| s.members.clone());
        let changed: Vec<Identity> =
            members(was).symmetric_difference(&members(now)).copied().collect();
        let addresses = |s: Option<&Selection>| s.map_or(nowhere.clone(), |s| s.addresses.clone());
        let moved = addresses(was) != addresses(now);
        let mut touched = BTreeSet::new();
        if self.isolating.contains_key(&id) {
            touched.extend(changed.iter().map(|identity| Article::Subject(*identity)));
        }
        let users: Vec<RuleId> = self.users.get(&id).into_iter().flatten().copied().collect();
        for rule in users {
            let Some(grant) = self.numbers.get(&rule).cloned() else { continue };
            if moved {
                self.forget_clauses(rule, &grant, &mut touched);
                self.add_clauses(rule, &grant, view, &mut touched);
                continue;
            }
            for identity in &changed {
                self.refresh(rule, &grant, *identity, view, &mut touched);
            }
        }
        touched
    }

    /// Follows a port of this node that has another identity, or is new, or gone.
    pub(crate) fn follow_port(
        &mut self,
        was: Option<Identity>,
        now: Option<Identity>,
    ) -> BTreeSet<Article> {
        let mut touched = BTreeSet::new();
        if was == now {
            return touched;
        }
        if let Some(identity) = now {
            let count = self.local.entry(identity).or_default();
            *count += 1;
            if *count == 1 {
                touched.extend(Article::of_target(identity));
            }
        }
        if let Some(identity) = was
            && let Some(count) = self.local.get_mut(&identity)
        {
            *count -= 1;
            if *count == 0 {
                self.local.remove(&identity);
                touched.extend(Article::of_target(identity));
            }
        }
        touched
    }

    /// All that policies own.
    pub(crate) fn articles(&self) -> impl Iterator<Item = Article> {
        let clauses = self.clauses.keys().map(|(d, clause)| Article::Clause(*d, *clause));
        let rules = self.numbers.keys().copied().map(Article::Rule);
        let subjects = self.local.keys().copied().map(Article::Subject);
        clauses.chain(rules).chain(subjects)
    }

    /// What a clause counts for, by priority; nothing if it can match nothing here.
    pub(crate) fn parts(&self, direction: Direction, clause: Clause) -> BTreeMap<u16, Vec<Part>> {
        let mut bands: BTreeMap<u16, Vec<Part>> = BTreeMap::new();
        if let Clause::Target(identity) = clause
            && !self.local.contains_key(&identity)
        {
            return bands;
        }
        for part in self.clauses.get(&(direction, clause)).into_iter().flatten() {
            bands.entry(self.band(part.rule)).or_default().push(*part);
        }
        bands
    }

    /// The direction of a rule.
    pub(crate) fn direction(&self, rule: RuleId) -> Option<Direction> {
        self.numbers.get(&rule).map(|grant| grant.direction)
    }

    /// The rules of policies that a number stands for.
    pub(crate) fn rules(&self, rule: RuleId) -> impl Iterator<Item = &RuleRef> {
        let granted = self.numbers.get(&rule).and_then(|grant| self.grants.get(grant));
        granted.into_iter().flat_map(|granted| &granted.by)
    }

    /// The numbers of all rules.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = RuleId> {
        self.numbers.keys().copied()
    }

    /// How much below the others a rule's flows are.
    pub(crate) fn band(&self, rule: RuleId) -> u16 {
        u16::try_from(rule.0 % u32::from(self.bands.max(1))).unwrap_or(0)
    }

    /// Whether ports of an identity are isolated: what comes to them, what they send.
    pub(crate) fn isolation(&self, identity: Identity, view: &View) -> Option<[bool; 2]> {
        if !self.local.contains_key(&identity) {
            return None;
        }
        if identity == Identity::QUARANTINED {
            return Some([true; 2]);
        }
        let mut isolated = [false; 2];
        for (id, counts) in &self.isolating {
            if view.selections().get(id).is_some_and(|s| s.members.contains(&identity)) {
                isolated = [isolated[0] || counts[0] > 0, isolated[1] || counts[1] > 0];
            }
        }
        isolated.contains(&true).then_some(isolated)
    }

    /// A number for what policies say now.
    pub(crate) fn epoch(&self) -> u32 {
        let epoch = u32::try_from(self.epoch & 0xff_ffff).unwrap_or(0);
        if epoch == REFUSED { 0 } else { epoch }
    }

    fn count_isolating(
        &mut self,
        policy: &Policy,
        view: &View,
        more: bool,
        touched: &mut BTreeSet<Article>,
    ) {
        let counts = self.isolating.entry(policy.subjects).or_default();
        let before = counts.map(|count| count > 0);
        let speaks = [policy.ingress.is_some(), policy.egress.is_some()];
        for (count, _) in counts.iter_mut().zip(speaks).filter(|(_, speaks)| *speaks) {
            *count = if more { *count + 1 } else { count.saturating_sub(1) };
        }
        let now = counts.map(|count| count > 0);
        if *counts == [0; 2] {
            self.isolating.remove(&policy.subjects);
        }
        if before != now {
            let subjects = view.selections().get(&policy.subjects);
            let members = subjects.into_iter().flat_map(|s| &s.members).copied();
            touched.extend(members.map(Article::Subject));
        }
    }

    /// The number of what is granted, which is new or not.
    fn granted(&mut self, grant: &Grant, view: &View, touched: &mut BTreeSet<Article>) -> RuleId {
        if let Some(granted) = self.grants.get(grant) {
            return granted.id;
        }
        let id = self.free_number(grant);
        self.numbers.insert(id, grant.clone());
        self.grants.insert(grant.clone(), Granted { id, by: BTreeSet::new() });
        for selection in grant.selections() {
            self.users.entry(selection).or_default().insert(id);
        }
        self.add_clauses(id, grant, view, touched);
        id
    }

    /// A number follows from what is granted, so that it is the same after a restart, but for the few
    /// that meet.
    fn free_number(&self, grant: &Grant) -> RuleId {
        let all = u64::from(RuleId::LAST - RuleId::FIRST);
        let wish = u32::try_from(hash(&format!("{grant:?}")) % all).unwrap_or_default();
        let wish = RuleId::FIRST + wish;
        let mut numbers = (wish..=RuleId::LAST).chain(RuleId::FIRST..wish).map(RuleId);
        let free = numbers.find(|number| !self.numbers.contains_key(number));
        free.expect("there are more numbers than memory has rules")
    }

    /// A policy no longer grants it.
    fn withdraw(
        &mut self,
        grant: &Grant,
        name: &PolicyName,
        view: &View,
        touched: &mut BTreeSet<Article>,
    ) {
        let Some(granted) = self.grants.get_mut(grant) else { return };
        let id = granted.id;
        granted.by.retain(|by| by.policy != *name);
        if !granted.by.is_empty() {
            return;
        }
        self.grants.remove(grant);
        self.numbers.remove(&id);
        let of = grant.parts();
        for (clause, nth) in grant.clauses(view.selections()) {
            self.remove(grant.direction, clause, Part { rule: id, nth, of }, touched);
        }
        for selection in grant.selections() {
            if let Some(users) = self.users.get_mut(&selection) {
                users.remove(&id);
                if users.is_empty() {
                    self.users.remove(&selection);
                }
            }
        }
        touched.insert(Article::Rule(id));
    }

    fn add_clauses(
        &mut self,
        rule: RuleId,
        grant: &Grant,
        view: &View,
        touched: &mut BTreeSet<Article>,
    ) {
        let of = grant.parts();
        for (clause, nth) in grant.clauses(view.selections()) {
            self.insert(grant.direction, clause, Part { rule, nth, of }, touched);
        }
    }

    /// Removes all that a rule needs, by looking at everything: for addresses, of which nobody knows
    /// any more which they were.
    fn forget_clauses(&mut self, rule: RuleId, grant: &Grant, touched: &mut BTreeSet<Article>) {
        let direction = grant.direction;
        let parts: Vec<(Clause, Part)> = self
            .clauses
            .iter()
            .filter(|((d, _), _)| *d == direction)
            .flat_map(|((_, clause), parts)| {
                let range = Part { rule, nth: 0, of: 0 }..=Part { rule, nth: u8::MAX, of: u8::MAX };
                parts.range(range).map(|part| (*clause, *part))
            })
            .collect();
        for (clause, part) in parts {
            self.remove(direction, clause, part, touched);
        }
    }

    /// An identity may be in other selections of a rule than it was.
    fn refresh(
        &mut self,
        rule: RuleId,
        grant: &Grant,
        identity: Identity,
        view: &View,
        touched: &mut BTreeSet<Article>,
    ) {
        let (direction, of) = (grant.direction, grant.parts());
        let now = grant.parts_of(identity, view.selections());
        for clause in [Clause::Source(identity), Clause::Target(identity)] {
            for nth in 1..=of {
                let part = Part { rule, nth, of };
                match now.contains(&(clause, nth)) {
                    true => self.insert(direction, clause, part, touched),
                    false => self.remove(direction, clause, part, touched),
                }
            }
        }
    }

    fn insert(
        &mut self,
        direction: Direction,
        clause: Clause,
        part: Part,
        touched: &mut BTreeSet<Article>,
    ) {
        if self.clauses.entry((direction, clause)).or_default().insert(part) {
            touched.insert(Article::Clause(direction, clause));
        }
    }

    fn remove(
        &mut self,
        direction: Direction,
        clause: Clause,
        part: Part,
        touched: &mut BTreeSet<Article>,
    ) {
        let Some(parts) = self.clauses.get_mut(&(direction, clause)) else { return };
        if parts.remove(&part) {
            touched.insert(Article::Clause(direction, clause));
        }
        if parts.is_empty() {
            self.clauses.remove(&(direction, clause));
        }
    }

    /// Spreads rules over as many priorities as they need. It follows from how many there are; when
    /// that changes all of them move, which is rare.
    fn spread(&mut self, touched: &mut BTreeSet<Article>) {
        let bands = match self.numbers.len() {
            0..=BAND => 1,
            more => (more / (BAND / 2)).next_power_of_two().min(64),
        };
        let bands = u16::try_from(bands).unwrap_or(64);
        if bands != self.bands.max(1) {
            self.bands = bands;
            touched.extend(self.articles());
        }
    }
}

// === impl Article ===

impl Article {
    /// What matches a receiver by its identity, and that it is under policies.
    fn of_target(identity: Identity) -> [Self; 3] {
        let target = |direction| Self::Clause(direction, Clause::Target(identity));
        [target(Direction::Ingress), target(Direction::Egress), Self::Subject(identity)]
    }
}

impl std::fmt::Display for Article {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Clause(direction, clause) => write!(f, "policies, {direction} {clause}"),
            Self::Rule(rule) => write!(f, "policy rule {}", rule.0),
            Self::Subject(identity) => write!(f, "subjects of policies, {}", identity.0),
        }
    }
}

fn grants(policy: &Policy) -> BTreeMap<Grant, BTreeSet<RuleRef>> {
    let mut grants: BTreeMap<Grant, BTreeSet<RuleRef>> = BTreeMap::new();
    for direction in [Direction::Ingress, Direction::Egress] {
        for (index, rule) in policy.rules(direction).unwrap_or_default().iter().enumerate() {
            for grant in Grant::of_rule(direction, policy.subjects, rule) {
                let policy = policy.name.clone();
                grants.entry(grant).or_default().insert(RuleRef { policy, direction, index });
            }
        }
    }
    grants
}
