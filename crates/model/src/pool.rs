//! Pools: addresses to give out, each to one at a time.
//!
//! Addresses are given in turn ([`Intervals`]), not lowest first, and a freed one cools down before it
//! is given again: connections and caches of its last owner die meanwhile.

use crate::error::{Invalid, Problem};
use crate::intervals::Intervals;
use crate::name::PoolName;
use crate::network::{check_prefix, is_usable};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::Duration;
use thiserror::Error;

/// Addresses to give out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// Its name.
    pub name: PoolName,
    /// The prefix that they are of.
    pub cidr: IpNet,
    /// What is not given out: the gateway, other people's addresses.
    #[serde(default)]
    pub exclude: Vec<IpNet>,
}

/// What a pool has to give, all in all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stock {
    prefix: IpNet,
    /// First and last of each run, in order.
    runs: Vec<(u128, u128)>,
}

/// The state of a pool. Time is the caller's: any clock that does not go back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressPool {
    prefix: IpNet,
    free: Intervals,
    used: BTreeSet<u128>,
    /// Freed ones, with the time from which they may be given again.
    cooling: VecDeque<(Duration, u128)>,
    cool_down: Duration,
}

/// Why there is no address.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AllocateError {
    /// All are in use.
    #[error("{prefix} has no free address: {used} in use, {cooling} cooling down")]
    Exhausted {
        /// The pool's prefix.
        prefix: IpNet,
        /// Addresses in use.
        used: usize,
        /// Addresses that were freed a moment ago.
        cooling: usize,
    },
    /// The one asked for is taken.
    #[error("{0} is in use")]
    InUse(IpAddr),
    /// The one asked for is not of this pool.
    #[error("{address} is not among the addresses that {prefix} gives out")]
    NotHere {
        /// The address.
        address: IpAddr,
        /// The pool's prefix.
        prefix: IpNet,
    },
}

// === impl Pool ===

impl Pool {
    /// Checks it.
    pub fn validate(&self) -> Result<(), Invalid> {
        let object = format!("pool {}", self.name);
        check_prefix(self.cidr).map_err(|p| Invalid::new(&object, "cidr", p))?;
        for (i, exclude) in self.exclude.iter().enumerate() {
            let field = format!("exclude[{i}]");
            check_prefix(*exclude).map_err(|p| Invalid::new(&object, &field, p))?;
            if !self.cidr.contains(exclude) {
                let (address, prefix) = (exclude.network(), self.cidr.to_string());
                return Err(Invalid::new(object, field, Problem::NotInside { address, prefix }));
            }
        }
        Ok(())
    }

    /// What it has to give.
    pub fn stock(&self) -> Stock {
        let whole = AddressPool::new(self.cidr, &self.exclude, Duration::ZERO);
        Stock { prefix: self.cidr, runs: whole.free.runs().collect() }
    }
}

// === impl Stock ===

impl Stock {
    /// All addresses of a prefix.
    pub fn of(prefix: IpNet) -> Self {
        Self { prefix, runs: vec![bounds(prefix)] }
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The first address that another has, too.
    pub fn shared_with(&self, other: &Self) -> Option<IpAddr> {
        if self.prefix.addr().is_ipv4() != other.prefix.addr().is_ipv4() {
            return None;
        }
        let (mut ours, mut theirs) = (self.runs.iter().peekable(), other.runs.iter().peekable());
        while let (Some((first, last)), Some((from, to))) = (ours.peek(), theirs.peek()) {
            let (begin, end) = (first.max(from), last.min(to));
            if begin <= end {
                return Some(from_number(self.prefix, *begin));
            }
            // Whichever ends first meets nothing more.
            if last < to {
                ours.next()
            } else {
                theirs.next()
            };
        }
        None
    }
}

// === impl AddressPool ===

impl AddressPool {
    /// A pool of a prefix less what is excluded; freed addresses wait for `cool_down`.
    pub fn new(prefix: IpNet, exclude: &[IpNet], cool_down: Duration) -> Self {
        let (mut first, mut last) = bounds(prefix);
        if !is_usable(prefix, from_number(prefix, first)) {
            first += 1;
        }
        if !is_usable(prefix, from_number(prefix, last)) {
            last -= 1;
        }
        let mut free = Intervals::new(first, last);
        for exclude in exclude {
            let (first, last) = bounds(*exclude);
            free.cut(first, last);
        }
        Self { prefix, free, used: BTreeSet::new(), cooling: VecDeque::new(), cool_down }
    }

    /// The prefix.
    pub fn prefix(&self) -> IpNet {
        self.prefix
    }

    /// How many are in use.
    pub fn used(&self) -> usize {
        self.used.len()
    }

    /// Whether an address is in use.
    pub fn is_used(&self, address: IpAddr) -> bool {
        self.number(address).is_some_and(|n| self.used.contains(&n))
    }

    /// Gives one out.
    pub fn allocate(&mut self, now: Duration) -> Result<IpAddr, AllocateError> {
        self.thaw(now);
        let Some(number) = self.free.take(1) else {
            let (used, cooling) = (self.used.len(), self.cooling.len());
            return Err(AllocateError::Exhausted { prefix: self.prefix, used, cooling });
        };
        self.used.insert(number);
        Ok(from_number(self.prefix, number))
    }

    /// Gives a particular one out, also while it cools down: its last owner may ask for it again.
    pub fn claim(&mut self, address: IpAddr) -> Result<(), AllocateError> {
        let prefix = self.prefix;
        let not_here = || AllocateError::NotHere { address, prefix };
        let number = self.number(address).ok_or_else(not_here)?;
        if self.used.contains(&number) {
            return Err(AllocateError::InUse(address));
        }
        if let Some(at) = self.cooling.iter().position(|(_, n)| *n == number) {
            self.cooling.remove(at);
            self.used.insert(number);
            return Ok(());
        }
        if !self.free.contains(number) {
            return Err(not_here());
        }
        self.free.cut(number, number);
        self.used.insert(number);
        Ok(())
    }

    /// Takes one back. One that is not in use is left as it is, so that it may be said twice.
    pub fn release(&mut self, address: IpAddr, now: Duration) {
        let Some(number) = self.number(address) else { return };
        if self.used.remove(&number) {
            self.cooling.push_back((now + self.cool_down, number));
        }
    }

    /// Keeps a free one back until then: somebody had it a moment ago.
    pub fn rest(&mut self, address: IpAddr, until: Duration) {
        let Some(number) = self.number(address).filter(|n| self.free.contains(*n)) else {
            return;
        };
        self.free.cut(number, number);
        let at = self.cooling.partition_point(|(time, _)| *time <= until);
        self.cooling.insert(at, (until, number));
    }

    fn number(&self, address: IpAddr) -> Option<u128> {
        self.prefix.contains(&address).then(|| to_number(address))
    }

    /// What has cooled down is free again.
    fn thaw(&mut self, now: Duration) {
        while let Some((_, number)) = self.cooling.front().filter(|(at, _)| *at <= now).copied() {
            self.cooling.pop_front();
            self.free.join(number, number);
        }
    }
}

fn to_number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_bits().into(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

fn from_number(prefix: IpNet, number: u128) -> IpAddr {
    match prefix {
        IpNet::V4(_) => std::net::Ipv4Addr::from(u32::try_from(number).unwrap_or(u32::MAX)).into(),
        IpNet::V6(_) => std::net::Ipv6Addr::from(number).into(),
    }
}

fn bounds(prefix: IpNet) -> (u128, u128) {
    (to_number(prefix.network()), to_number(prefix.broadcast()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn ends_and_excluded_addresses_are_not_given() {
        let exclude = ["10.0.0.1/32".parse().unwrap(), "10.0.0.4/31".parse().unwrap()];
        let mut pool = AddressPool::new("10.0.0.0/29".parse().unwrap(), &exclude, at(0));
        let all: Vec<String> =
            std::iter::from_fn(|| pool.allocate(at(0)).ok()).map(|a| a.to_string()).collect();
        assert_eq!(all, ["10.0.0.2", "10.0.0.3", "10.0.0.6"]);
        let said = pool.allocate(at(0)).unwrap_err().to_string();
        assert_eq!(said, "10.0.0.0/29 has no free address: 3 in use, 0 cooling down");
    }

    #[test]
    fn pools_share_what_both_give_out_and_nothing_else() {
        let pool = |cidr: &str, exclude: &[&str]| Pool {
            name: PoolName::new("p").unwrap(),
            cidr: cidr.parse().unwrap(),
            exclude: exclude.iter().map(|prefix| prefix.parse().unwrap()).collect(),
        };
        let shared = |one: &Pool, other: &Pool| {
            let [there, back] = [(one, other), (other, one)]
                .map(|(one, other)| one.stock().shared_with(&other.stock()));
            assert_eq!(there, back);
            there.map(|address| address.to_string())
        };
        let low = pool("10.0.0.0/24", &["10.0.0.128/25"]);
        let high = pool("10.0.0.0/24", &["10.0.0.0/25"]);
        assert_eq!(shared(&low, &high), None);
        assert_eq!(shared(&low, &pool("10.0.0.0/8", &[])), Some("10.0.0.1".to_owned()));
        assert_eq!(
            shared(&high, &pool("10.0.0.0/16", &["10.0.0.0/25", "10.0.0.128/30"])),
            Some("10.0.0.132".to_owned())
        );
        assert_eq!(shared(&low, &pool("::/0", &[])), None);
        let whole = Stock::of("10.0.0.128/25".parse().unwrap());
        assert_eq!(low.stock().shared_with(&whole), None);
        assert_eq!(high.stock().shared_with(&whole), Some([10, 0, 0, 128].into()));
        assert!(pool("10.0.0.0/30", &["10.0.0.1/32", "10.0.0.2/32"]).stock().is_empty());
    }

    #[test]
    fn an_ipv6_prefix_costs_what_is_used_of_it() {
        let mut pool = AddressPool::new("fd00::/64".parse().unwrap(), &[], at(0));
        assert_eq!(pool.allocate(at(0)).unwrap().to_string(), "fd00::1");
        pool.claim("fd00::ffff:ffff:ffff:ffff".parse().unwrap()).unwrap();
    }

    #[test]
    fn freed_addresses_cool_down_but_may_be_claimed() {
        let mut pool = AddressPool::new("10.0.0.0/30".parse().unwrap(), &[], at(60));
        let (one, two) = (pool.allocate(at(0)).unwrap(), pool.allocate(at(0)).unwrap());
        pool.release(one, at(1));
        pool.release(two, at(2));
        assert!(pool.allocate(at(60)).is_err());
        pool.claim(two).unwrap();
        assert_eq!(pool.claim(two), Err(AllocateError::InUse(two)));
        assert_eq!(pool.allocate(at(61)).unwrap(), one);
    }

    #[derive(Debug, Clone)]
    enum Step {
        Allocate,
        Claim(u8),
        Release(u8),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            3 => Just(Step::Allocate),
            1 => any::<u8>().prop_map(Step::Claim),
            2 => any::<u8>().prop_map(Step::Release),
        ];
        prop::collection::vec(step, 0..400)
    }

    proptest! {
        /// Against a model that remembers when each address was freed.
        #[test]
        fn no_address_is_given_twice_or_too_early(steps in steps()) {
            let prefix: IpNet = "10.9.8.0/25".parse().unwrap();
            let mut pool = AddressPool::new(prefix, &[], at(50));
            let mut used = std::collections::HashSet::new();
            let mut freed: HashMap<IpAddr, u64> = HashMap::new();
            let of = |n: u8| IpAddr::from(std::net::Ipv4Addr::new(10, 9, 8, n));
            for (now, step) in (0_u64..).zip(steps) {
                match step {
                    Step::Allocate => match pool.allocate(at(now)) {
                        Ok(address) => {
                            prop_assert!(prefix.contains(&address));
                            prop_assert!(used.insert(address), "{address} was given twice");
                            prop_assert!(freed.get(&address).is_none_or(|t| now >= t + 50));
                        }
                        Err(_) => prop_assert!(used.len() + freed.len() >= 126),
                    },
                    Step::Claim(n) => {
                        let right = (1..127).contains(&n) && !used.contains(&of(n));
                        prop_assert_eq!(pool.claim(of(n)).is_ok(), right);
                        if right {
                            used.insert(of(n));
                            freed.remove(&of(n));
                        }
                    }
                    Step::Release(n) => {
                        pool.release(of(n), at(now));
                        if used.remove(&of(n)) {
                            freed.insert(of(n), now);
                        }
                    }
                }
                prop_assert_eq!(pool.used(), used.len());
            }
        }
    }
}
