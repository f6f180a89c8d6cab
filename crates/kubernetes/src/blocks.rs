//! Our own blocks of pods' addresses: which is free, which node needs one more, which has one too
//! many; pure. Claiming one is making its object.

use ipnet::IpNet;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;
use tokio::time::Instant;

/// Addresses of a block that pods cannot have: its own, the gateway's and the last one.
const RESERVED: u128 = 3;

/// How large blocks are, and how long an empty one stays.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    pub(crate) cluster: Vec<IpNet>,
    pub(crate) v4: u8,
    pub(crate) v6: u8,
    pub(crate) rest: Duration,
}

/// Which blocks were given last, and how long those that are empty have been so.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Behind which the next one is looked for, so that what was returned rests.
    last: BTreeMap<IpNet, IpNet>,
    empty: BTreeMap<IpNet, Instant>,
}

/// What a node's blocks come to, of one family.
struct Filling {
    capacity: u128,
    used: u128,
}

// === impl Rules ===

impl Rules {
    fn length(&self, prefix: &IpNet) -> u8 {
        let length = if matches!(prefix, IpNet::V4(_)) { self.v4 } else { self.v6 };
        length.max(prefix.prefix_len())
    }

    /// Whether there is a prefix of this family.
    fn has(&self, v4: bool) -> bool {
        self.cluster.iter().any(|prefix| is_v4(prefix) == v4)
    }
}

// === impl Ledger ===

impl Ledger {
    /// A block that nobody has: the next one behind the last that was given.
    pub(crate) fn next(
        &mut self,
        rules: &Rules,
        v4: bool,
        taken: &BTreeSet<IpNet>,
        machines: &BTreeSet<IpAddr>,
    ) -> Option<IpNet> {
        let is_free = |block: &IpNet| {
            let around = taken.iter().any(|other| overlap(other, block));
            !around && machines.range(block.network()..=block.broadcast()).next().is_none()
        };
        for prefix in rules.cluster.iter().filter(|prefix| is_v4(prefix) == v4) {
            let length = rules.length(prefix);
            let last = self.last.get(prefix).copied();
            let last = last.or_else(|| taken.iter().rev().find(|b| prefix.contains(*b)).copied());
            // No more than this many can be in the way.
            let most = taken.len() + machines.len() + 1;
            let begin = first(prefix, length);
            let mut at = last.and_then(|last| after(prefix, &last, length)).or(begin);
            for _ in 0..=most {
                let Some(block) = at else { break };
                if is_free(&block) {
                    self.last.insert(*prefix, block);
                    return Some(block);
                }
                at = after(prefix, &block, length).or(begin);
            }
        }
        None
    }

    /// Families of which a node needs one more block: it has none, or less than a quarter is free.
    pub(crate) fn needs(rules: &Rules, blocks: &[IpNet], used: Option<&[IpAddr]>) -> Vec<bool> {
        let lacks = |v4: &bool| {
            let Filling { capacity, used } = filling(blocks, used.unwrap_or(&[]), *v4);
            capacity == 0 || capacity.saturating_sub(used) * 4 < capacity
        };
        [true, false].into_iter().filter(|v4| rules.has(*v4)).filter(lacks).collect()
    }

    /// A block that a node can do without: empty for a while, and half of the rest is free.
    pub(crate) fn spare(
        &mut self,
        rules: &Rules,
        blocks: &[IpNet],
        used: &[IpAddr],
        now: Instant,
    ) -> Option<IpNet> {
        for block in blocks {
            match used.iter().any(|address| block.contains(address)) {
                true => drop(self.empty.remove(block)),
                false => drop(self.empty.entry(*block).or_insert(now)),
            }
        }
        let can_go = |block: &&IpNet| {
            let rests = self.empty.get(*block).is_some_and(|since| now - *since >= rules.rest);
            let others: Vec<IpNet> = blocks.iter().filter(|b| b != block).copied().collect();
            let Filling { capacity, used } = filling(&others, used, is_v4(block));
            rests && capacity > 0 && capacity.saturating_sub(used) * 2 >= capacity
        };
        // The last that was given goes first.
        blocks.iter().rev().find(can_go).copied()
    }

    /// A block is no longer of a node.
    pub(crate) fn forget(&mut self, block: &IpNet) {
        self.empty.remove(block);
    }
}

fn filling(blocks: &[IpNet], used: &[IpAddr], v4: bool) -> Filling {
    let own: Vec<&IpNet> = blocks.iter().filter(|block| is_v4(block) == v4).collect();
    let capacity = own.iter().map(|block| size(block).saturating_sub(RESERVED)).sum();
    let used = used.iter().filter(|address| own.iter().any(|block| block.contains(*address)));
    Filling { capacity, used: used.count() as u128 }
}

fn is_v4(prefix: &IpNet) -> bool {
    matches!(prefix, IpNet::V4(_))
}

fn size(block: &IpNet) -> u128 {
    1_u128.checked_shl(u32::from(block.max_prefix_len() - block.prefix_len())).unwrap_or(u128::MAX)
}

fn overlap(one: &IpNet, other: &IpNet) -> bool {
    one.contains(other) || other.contains(one)
}

fn first(prefix: &IpNet, length: u8) -> Option<IpNet> {
    IpNet::new(prefix.network(), length).ok()
}

/// The block of a length behind another, if the prefix goes on there.
fn after(prefix: &IpNet, block: &IpNet, length: u8) -> Option<IpNet> {
    let next = match block.broadcast() {
        IpAddr::V4(last) => IpAddr::from(u32::from(last).checked_add(1)?.to_be_bytes()),
        IpAddr::V6(last) => IpAddr::from(u128::from(last).checked_add(1)?.to_be_bytes()),
    };
    // A larger one may begin in the middle of nowhere: at its own beginning.
    let next = IpNet::new(next, length).ok()?.trunc();
    let next = if next.network() <= block.network() { after(prefix, &next, length)? } else { next };
    prefix.contains(&next).then_some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(cluster: &[&str], v4: u8) -> Rules {
        let cluster = cluster.iter().map(|text| text.parse().unwrap()).collect();
        Rules { cluster, v4, v6: 122, rest: Duration::from_mins(1) }
    }

    #[test]
    fn blocks_never_meet_and_all_are_given() {
        let rules = rules(&["10.0.0.0/24", "fd00::/112"], 28);
        let (mut ledger, mut taken) = (Ledger::default(), BTreeSet::new());
        let machines = BTreeSet::from(["10.0.0.17".parse().unwrap()]);
        for _ in 0..15 {
            let block = ledger.next(&rules, true, &taken, &machines).unwrap();
            assert!(taken.iter().all(|other| !overlap(other, &block)), "{block}");
            taken.insert(block);
        }
        // The sixteenth has a node in it.
        assert_eq!(ledger.next(&rules, true, &taken, &machines), None);
        let gone: IpNet = "10.0.0.64/28".parse().unwrap();
        taken.remove(&gone);
        assert_eq!(ledger.next(&rules, true, &taken, &machines), Some(gone));
        let six = ledger.next(&rules, false, &taken, &machines).unwrap();
        assert_eq!(six.to_string(), "fd00::/122");
        taken.insert(six);
        assert_eq!(
            ledger.next(&rules, false, &taken, &machines).unwrap().to_string(),
            "fd00::40/122"
        );
    }

    #[test]
    fn blocks_of_other_lengths_are_walked_around() {
        let rules = rules(&["10.0.0.0/24"], 26);
        let taken =
            BTreeSet::from(["10.0.0.0/28".parse().unwrap(), "10.0.0.64/28".parse().unwrap()]);
        let block = Ledger::default().next(&rules, true, &taken, &BTreeSet::new()).unwrap();
        assert_eq!(block.to_string(), "10.0.0.128/26");
    }

    #[test]
    fn a_node_gets_more_before_it_has_none_and_gives_back_what_it_does_not_need() {
        let rules = rules(&["10.0.0.0/16"], 28);
        let one: IpNet = "10.0.0.0/28".parse().unwrap();
        let two: IpNet = "10.0.0.16/28".parse().unwrap();
        let used = |n: u8| -> Vec<IpAddr> { (2..2 + n).map(|i| [10, 0, 0, i].into()).collect() };
        assert_eq!(Ledger::needs(&rules, &[], None), [true]);
        assert!(Ledger::needs(&rules, &[one], Some(&used(9))).is_empty());
        assert_eq!(Ledger::needs(&rules, &[one], Some(&used(10))), [true]);
        let (mut ledger, begin) = (Ledger::default(), Instant::now());
        let later = begin + rules.rest;
        assert_eq!(ledger.spare(&rules, &[one, two], &used(10), begin), None);
        // Ten of thirteen is too full to do without the second.
        assert_eq!(ledger.spare(&rules, &[one, two], &used(10), later), None);
        assert_eq!(ledger.spare(&rules, &[one, two], &used(5), later), Some(two));
        assert_eq!(ledger.spare(&rules, &[one], &[], later), None);
    }
}
