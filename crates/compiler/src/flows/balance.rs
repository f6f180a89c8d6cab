//! Endpoints in groups, so that each gets its share.
//!
//! Open vSwitch hashes a connection to one of at most 256 slots of a group, and gives each endpoint
//! a number of them. Few slots make coarse shares, so all 256 are asked for. Where endpoints are too
//! many for that, connections are spread over several groups first, by bits of the client's port: not
//! by the lowest, which Linux prefers to be even. Only those bits become part of what the datapath
//! caches. All groups' slots are dealt out as one row, so an endpoint may be in two of them; shares
//! of equals differ by a tenth, by a sixth above 400 endpoints.
//!
//! A change in a row moves all that is behind it. Where groups are many, each endpoint has one group
//! instead, by its own address ([`deal`]): then one that comes or goes changes a few groups. Shares of
//! equals differ by an eighth there, by a sixth above 2,000.
//!
//! Services that keep their clients choose otherwise: see `affinity`.

use super::affinity;
use crate::conntrack::to_endpoint;
use crate::pipeline::Table;
use crate::plan::{Emitter, Rule};
use crate::registers::Register;
use crate::services::MAX_SHARDS;
use osier_model::{Backend, Transport};
use osier_openflow::action::Action;
use osier_openflow::field::Field;
use osier_openflow::group::{Bucket, Group, GroupType, SelectField, Selection};
use std::net::IpAddr;

/// Slots of a group.
const SLOTS: u32 = 256;
/// How many endpoints share the slots of a group finely; and how many share sixteen groups.
const FINE: usize = 25;
const ROW: usize = 640;
/// How many fit a group's message.
const FIT: usize = 200;

/// Endpoints that connections are spread over.
#[derive(Debug, Clone)]
pub(crate) struct Choice {
    /// The first of its groups.
    pub(crate) group: u32,
    pub(crate) zone: u16,
    pub(crate) transport: Transport,
    /// The Service's port.
    pub(crate) port: u16,
    pub(crate) ipv6: bool,
    /// For how long a client stays with its endpoint.
    pub(crate) affinity: Option<u32>,
    pub(crate) backends: Vec<Backend>,
}

/// A way in to a Service: whom it is for, and where the client's port is told, if it is.
#[derive(Debug, Clone)]
pub(crate) struct Door {
    pub(crate) rule: Rule,
    pub(crate) source: Option<Field>,
}

// === impl Choice ===

impl Choice {
    pub(super) fn shards(&self) -> u32 {
        let (one, four, row) =
            if self.affinity.is_some() { (FIT, 4 * FIT, 16 * FIT) } else { (FINE, 4 * FINE, ROW) };
        match self.backends.len() {
            n if n <= one => 1,
            n if n <= four => 4,
            n if n <= row => 16,
            _ => MAX_SHARDS,
        }
    }

    pub(super) fn translate(&self, backend: &Backend) -> Action {
        to_endpoint(self.zone, self.transport, self.port, backend)
    }

    /// Endpoints in as many groups as there are, as many in each.
    pub(super) fn dealt(&self) -> Vec<Vec<Backend>> {
        deal(&self.backends, self.shards())
    }

    /// Who has how many slots of each group.
    fn shares(&self) -> Vec<Vec<(Backend, u16)>> {
        let (backends, groups) = (self.backends.as_slice(), self.shards());
        let equal = backends.iter().all(|b| b.weight == backends[0].weight);
        if groups < MAX_SHARDS || !equal {
            return shares(backends, groups);
        }
        deal(backends, groups).iter().flat_map(|some| shares(some, 1)).collect()
    }
}

/// Leads connections to the endpoints.
pub(crate) fn lead(out: &mut Emitter, door: &Door, choice: &Choice) {
    let rule = door.rule.clone().through(Table::Admission).load(Register::FROM_SERVICE, 1_u8);
    if choice.affinity.is_some() {
        let rule = rule.load(Register::SERVICE, choice.group).through(Table::Affinity);
        return out.add(rule.to(Table::Endpoint));
    }
    if let [only] = choice.backends.as_slice() {
        return out.add(rule.then(choice.translate(only)));
    }
    let Some(source) = door.source.filter(|_| choice.shards() > 1) else {
        return out.add(rule.then(Action::Group(choice.group)));
    };
    for shard in 0..choice.shards() {
        // Not by the lowest bit.
        let rule = rule.clone().masked(source, shard << 1, (choice.shards() - 1) << 1);
        out.add(rule.then(Action::Group(choice.group + shard)));
    }
}

/// What connections are led to: once, however many addresses lead there.
pub(crate) fn groups(out: &mut Emitter, choice: &Choice) {
    if choice.affinity.is_some() {
        return affinity::keep_clients(out, choice);
    }
    if choice.backends.len() < 2 {
        return;
    }
    for (id, shares) in (choice.group..).zip(choice.shares()) {
        let bucket = |(backend, slots): (Backend, u16)| (slots, vec![choice.translate(&backend)]);
        out.add_group(select(id, "dp_hash", Vec::new(), shares.into_iter().map(bucket)));
    }
}

pub(super) fn select(
    id: u32,
    method: &str,
    fields: Vec<SelectField>,
    buckets: impl Iterator<Item = (u16, Vec<Action>)>,
) -> Group {
    let bucket = |(id, (weight, actions))| Bucket { id, weight, ..Bucket::from(actions) };
    let selection = Some(Selection { method: method.to_owned(), param: 0, fields });
    Group {
        id,
        kind: GroupType::Select,
        selection,
        buckets: (0..).zip(buckets).map(bucket).collect(),
    }
}

/// Endpoints dealt into groups, as many into each, so that one more or less changes few of them. Each
/// wishes for a group, by a hash of its own. Groups that too many wish for keep those with the lowest; the
/// others fill what is left elsewhere, each place by the lowest hash of the two together: then one of
/// either that comes or goes moves two or three others.
fn deal(backends: &[Backend], groups: u32) -> Vec<Vec<Backend>> {
    if groups <= 1 {
        return vec![backends.to_vec()];
    }
    let all = groups as usize;
    let mut dealt: Vec<Vec<(u64, usize)>> = vec![Vec::new(); all];
    for (i, backend) in backends.iter().enumerate() {
        let hash = hash_of(backend);
        let wish = usize::try_from(hash % u64::from(groups)).unwrap_or_default();
        dealt[wish].push((hash, i));
    }
    let (mut left_over, mut places) = (Vec::new(), Vec::new());
    for (group, some) in dealt.iter_mut().enumerate() {
        let room = backends.len() / all + usize::from(group < backends.len() % all);
        some.sort_unstable();
        places.extend((some.len()..room).map(|place| (group, mix((group << 16 | place) as u64))));
        left_over.extend(some.drain(room.min(some.len())..));
    }
    let mut pairs: Vec<(u64, usize, usize)> = Vec::with_capacity(left_over.len() * places.len());
    for (i, (hash, _)) in left_over.iter().enumerate() {
        let with = |(j, (_, place)): (usize, &(usize, u64))| (mix(hash ^ place), i, j);
        pairs.extend(places.iter().enumerate().map(with));
    }
    pairs.sort_unstable();
    let (mut placed, mut taken) = (vec![false; left_over.len()], vec![false; places.len()]);
    for (_, i, j) in pairs {
        if !placed[i] && !taken[j] {
            (placed[i], taken[j]) = (true, true);
            dealt[places[j].0].push(left_over[i]);
        }
    }
    let of_group = |mut some: Vec<(u64, usize)>| {
        some.sort_unstable_by_key(|(_, i)| *i);
        some.into_iter().map(|(_, i)| backends[i]).collect()
    };
    dealt.into_iter().map(of_group).collect()
}

/// The same after every restart.
fn hash_of(backend: &Backend) -> u64 {
    let address = match backend.address {
        IpAddr::V4(v4) => u128::from(u32::from(v4)),
        IpAddr::V6(v6) => u128::from(v6),
    };
    let half = |bits: u128| u64::try_from(bits & u128::from(u64::MAX)).unwrap_or_default();
    mix(mix(mix(half(address >> 64)) ^ half(address)) ^ u64::from(backend.port))
}

/// A number that tells nothing of another (`SplitMix64`).
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// Who has how many slots of each group, dealt out as one row. Each group has one of a single slot: then the switch makes
/// as many as there are in all.
fn shares(backends: &[Backend], groups: u32) -> Vec<Vec<(Backend, u16)>> {
    let mut shares = vec![Vec::new()];
    let mut left = SLOTS;
    for (backend, mut slots) in backends.iter().zip(slots(backends, groups * SLOTS)) {
        while slots > 0 {
            if left == 0 {
                shares.push(Vec::new());
                left = SLOTS;
            }
            let here = slots.min(left);
            let group = shares.len() - 1;
            shares[group].push((*backend, u16::try_from(here).unwrap_or(u16::MAX)));
            (slots, left) = (slots - here, left - here);
        }
    }
    for group in &mut shares {
        let largest = group.iter_mut().max_by_key(|(_, slots)| *slots);
        if let Some((backend, slots)) = largest.filter(|(_, slots)| *slots > 1) {
            *slots -= 1;
            let one = (*backend, 1);
            group.push(one);
        }
    }
    shares.truncate(groups as usize);
    shares
}

/// How many buckets of equal weight make each endpoint's share: one, if they are equal.
pub(super) fn times(backends: &[Backend]) -> Vec<usize> {
    let equal = backends.iter().all(|b| b.weight == backends[0].weight);
    let all = if equal { backends.len() } else { SLOTS as usize };
    let all = u32::try_from(all).unwrap_or(SLOTS);
    slots(backends, all).into_iter().map(|slots| slots as usize).collect()
}

/// How many of all slots each endpoint has: by weight, the rest to whom it is due most; at least
/// one, as long as there are enough.
fn slots(backends: &[Backend], all: u32) -> Vec<u32> {
    let total: u64 = backends.iter().map(|b| u64::from(b.weight)).sum::<u64>().max(1);
    let due = |b: &Backend| u64::from(b.weight) * u64::from(all);
    let whole = |b: &Backend| u32::try_from(due(b) / total).unwrap_or(all);
    let mut slots: Vec<u32> = backends.iter().map(whole).collect();
    let mut order: Vec<usize> = (0..backends.len()).collect();
    order.sort_by_key(|i| std::cmp::Reverse(due(&backends[*i]) % total));
    let rest = all - slots.iter().sum::<u32>();
    for i in order.into_iter().cycle().take(if slots.is_empty() { 0 } else { rest as usize }) {
        slots[i] += 1;
    }
    for i in 0..slots.len() {
        if slots[i] == 0
            && let Some(richest) = (0..slots.len()).max_by_key(|i| slots[*i])
            && slots[richest] > 1
        {
            slots[richest] -= 1;
            slots[i] = 1;
        }
    }
    slots
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn backends(weights: &[u16]) -> Vec<Backend> {
        let of = |(i, weight): (u32, &u16)| Backend {
            address: std::net::Ipv4Addr::from(0x0a00_0000 + i).into(),
            port: 80,
            weight: *weight,
        };
        (0..).zip(weights).map(of).collect()
    }

    fn choice(backends: Vec<Backend>) -> Choice {
        let (transport, port) = (Transport::Tcp, 80);
        Choice { group: 0, zone: 2, transport, port, ipv6: false, affinity: None, backends }
    }

    /// Slots of each endpoint, over all groups of a choice.
    fn shared(weights: &[u16]) -> Vec<u32> {
        let backends = backends(weights);
        let choice = choice(backends.clone());
        let groups = choice.shares();
        assert_eq!(groups.len(), choice.shards() as usize);
        for group in &groups {
            assert_eq!(group.iter().map(|(_, slots)| u32::from(*slots)).sum::<u32>(), SLOTS);
            assert!(group.len() <= 256 && group.iter().any(|(_, slots)| *slots == 1));
        }
        let of = |b: &Backend| {
            let all = groups.iter().flatten().filter(|(other, _)| other.address == b.address);
            all.map(|(_, slots)| u32::from(*slots)).sum()
        };
        backends.iter().map(of).collect()
    }

    #[test]
    fn shares_of_equals_differ_little() {
        for n in (2..=130).chain([200, 400, 401, 640, 641, 700, 999, 1600, 2000, 2500]) {
            let slots = shared(&vec![1; n]);
            let (least, most) = (slots.iter().min().unwrap(), slots.iter().max().unwrap());
            assert!(f64::from(*most) / f64::from(*least) <= 1.17, "{n}: {least} to {most}");
        }
    }

    #[test]
    fn one_of_thousands_changes_a_few_groups() {
        const TURNS: usize = 16;
        for n in [700_u16, 2000, 5000] {
            let all = backends(&vec![1; n.into()]);
            let was = choice(all.clone()).shares();
            let changed = |now: Vec<Backend>| {
                let now = choice(now).shares();
                assert_eq!(was.len(), now.len());
                was.iter().zip(&now).filter(|(was, now)| was != now).count()
            };
            let mut sum = 0;
            for i in 0..TURNS {
                let one = usize::from(n) * i / TURNS;
                let (mut less, mut other) = (all.clone(), all.clone());
                less.remove(one);
                other[one].port += 1;
                let (gone, replaced) = (changed(less), changed(other));
                assert!(gone <= 12 && replaced <= 16, "{n}: {gone} and {replaced} of 64");
                sum += gone;
            }
            assert!(sum <= TURNS * 8, "{n}: {sum} groups for {TURNS} changes");
        }
    }

    #[test]
    fn dealt_are_all_as_many_in_each() {
        for n in [0, 1, 3, 64, 100, 1001, 4000] {
            let all = backends(&vec![1; n]);
            for groups in [1, 4, 16, 64] {
                let dealt = deal(&all, groups);
                assert_eq!(dealt.len(), groups as usize);
                let (least, most) =
                    (dealt.iter().map(Vec::len).min(), dealt.iter().map(Vec::len).max());
                assert!(most.zip(least).is_some_and(|(most, least)| most - least <= 1));
                let mut found: Vec<IpAddr> = dealt.iter().flatten().map(|b| b.address).collect();
                found.sort_unstable();
                assert!(found.iter().eq(all.iter().map(|b| &b.address)), "{n} in {groups}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(50))]
        #[test]
        fn weights_count(weights in prop::collection::vec(1..1000_u16, 2..200)) {
            let slots = shared(&weights);
            prop_assert!(slots.iter().all(|s| *s > 0));
            for (a, b) in (0..slots.len()).flat_map(|a| (0..slots.len()).map(move |b| (a, b))) {
                prop_assert!(weights[a] < weights[b] || slots[a] + 1 >= slots[b]);
            }
        }
    }
}
