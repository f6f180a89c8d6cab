//! The node's addresses: which are free, which a pod has, which cool down.
//!
//! Given out of the node's own blocks, without asking anyone: one of each family. Nothing is
//! written anywhere here: who has what stands in the ports' `external_ids`, and is claimed from
//! there at start; what cools down then is known by `freed`. Time is the caller's.

use ipnet::IpNet;
use osier_model::{AddressPool, AllocateError, Node};
use std::net::IpAddr;
use std::time::Duration;
use thiserror::Error;

/// Why a pod gets no address. Nothing was given out.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AddressError {
    /// The view has no block for this node.
    #[error("the node has no block of addresses")]
    NoBlock,
    /// All blocks of a family are full: the last one's reason.
    #[error(transparent)]
    Exhausted(AllocateError),
    /// A requested one cannot be had.
    #[error(transparent)]
    Refused(AllocateError),
    /// A requested one is of no block of this node.
    #[error("{address} is in none of this node's blocks: {blocks}")]
    NotOurs {
        /// The address.
        address: IpAddr,
        /// The blocks.
        blocks: String,
    },
    /// One is of no subnet of its network.
    #[error("{address} is in no subnet of network {network}: {subnets}")]
    Outside {
        /// The address.
        address: IpAddr,
        /// The network.
        network: String,
        /// Its subnets.
        subnets: String,
    },
    /// One is not what the view has for the port.
    #[error("{address} is not what the view has for the port: {has}")]
    NotWished {
        /// The address.
        address: IpAddr,
        /// What it has.
        has: String,
    },
    /// One is another port's.
    #[error("{address} is that of port {port}")]
    Taken {
        /// The address.
        address: IpAddr,
        /// Whose it is.
        port: String,
    },
}

/// The pools of the node's blocks.
#[derive(Debug)]
pub struct Addresses {
    pools: Vec<AddressPool>,
    /// In use, though no block of the node holds them any more, or ever did.
    strays: Vec<IpAddr>,
    /// Of blocks that we do not have yet, with the time from which they may be given.
    resting: Vec<(IpAddr, Duration)>,
    cool_down: Duration,
}

// === impl Addresses ===

impl Addresses {
    /// No blocks yet.
    pub fn new(cool_down: Duration) -> Self {
        Self { pools: Vec::new(), strays: Vec::new(), resting: Vec::new(), cool_down }
    }

    /// The node's blocks are these now. What is in use stays in use; a block that is gone takes
    /// its cooling addresses along.
    pub fn set_blocks(&mut self, blocks: &[IpNet], in_use: impl IntoIterator<Item = IpAddr>) {
        self.pools.retain(|pool| blocks.contains(&pool.prefix()));
        for block in blocks {
            if !self.pools.iter().any(|pool| pool.prefix() == *block) {
                let taken = [Some(Node::gateway_of(*block)), Node::service_address_of(*block)];
                let taken: Vec<IpNet> = taken.into_iter().flatten().map(IpNet::from).collect();
                self.pools.push(AddressPool::new(*block, &taken, self.cool_down));
            }
        }
        self.pools.sort_by_key(|pool| blocks.iter().position(|block| *block == pool.prefix()));
        for (address, until) in std::mem::take(&mut self.resting) {
            self.rest(address, until);
        }
        self.strays.clear();
        in_use.into_iter().for_each(|address| self.adopt(address));
    }

    /// This one is not given before then: somebody had it before we came.
    pub fn rest(&mut self, address: IpAddr, until: Duration) {
        match self.pools.iter_mut().find(|pool| pool.prefix().contains(&address)) {
            Some(pool) => pool.rest(address, until),
            None => self.resting.push((address, until)),
        }
    }

    /// Somebody has this one already, wherever it is from.
    pub fn adopt(&mut self, address: IpAddr) {
        let pool = self.pools.iter_mut().find(|pool| pool.prefix().contains(&address));
        let known = pool.is_some_and(|pool| pool.claim(address).is_ok() || pool.is_used(address));
        if !known {
            self.strays.push(address);
        }
    }

    /// Somebody else gave these: they are in use from now on, or none is.
    pub fn claim(&mut self, addresses: &[IpAddr], now: Duration) -> Result<(), AddressError> {
        let claimed = addresses.iter().position(|address| {
            let pool = self.pools.iter_mut().find(|pool| pool.prefix().contains(address));
            match pool {
                Some(pool) => pool.claim(*address).is_err(),
                None if self.strays.contains(address) => true,
                None => {
                    self.strays.push(*address);
                    false
                }
            }
        });
        let Some(at) = claimed else { return Ok(()) };
        let refused = addresses[at];
        self.release(&addresses[..at], now);
        let pool = self.pools.iter().find(|pool| pool.prefix().contains(&refused));
        Err(AddressError::Refused(match pool {
            Some(pool) if !pool.is_used(refused) => {
                AllocateError::NotHere { address: refused, prefix: pool.prefix() }
            }
            _ => AllocateError::InUse(refused),
        }))
    }

    /// Gives a pod its addresses: those that are requested, and one of each family that has a
    /// block and none requested.
    pub fn allocate(
        &mut self,
        requested: &[IpAddr],
        now: Duration,
    ) -> Result<Vec<IpAddr>, AddressError> {
        if self.pools.is_empty() {
            return Err(AddressError::NoBlock);
        }
        let mut given = Vec::new();
        let result = self.try_allocate(requested, now, &mut given);
        if result.is_err() {
            // Nobody has seen them: they need not cool down, but it does no harm.
            self.release(&given, now);
        }
        result.map(|()| {
            // IPv4 first, as pods and their runtimes expect.
            given.sort_by_key(IpAddr::is_ipv6);
            given
        })
    }

    fn try_allocate(
        &mut self,
        requested: &[IpAddr],
        now: Duration,
        given: &mut Vec<IpAddr>,
    ) -> Result<(), AddressError> {
        for address in requested {
            let pool = self.pools.iter_mut().find(|pool| pool.prefix().contains(address));
            let Some(pool) = pool else {
                let blocks: Vec<String> =
                    self.pools.iter().map(|pool| pool.prefix().to_string()).collect();
                let blocks = blocks.join(", ");
                return Err(AddressError::NotOurs { address: *address, blocks });
            };
            pool.claim(*address).map_err(AddressError::Refused)?;
            given.push(*address);
        }
        for v4 in [true, false] {
            let family = |address: &IpAddr| address.is_ipv4() == v4;
            if given.iter().any(family) {
                continue;
            }
            let mut full = None;
            let pools = self.pools.iter_mut().filter(|pool| family(&pool.prefix().addr()));
            for pool in pools {
                match pool.allocate(now) {
                    Ok(address) => {
                        given.push(address);
                        full = None;
                        break;
                    }
                    Err(error) => full = Some(error),
                }
            }
            if let Some(error) = full {
                return Err(AddressError::Exhausted(error));
            }
        }
        Ok(())
    }

    /// Takes addresses back; they cool down. Those that are not in use are left as they are.
    pub fn release(&mut self, addresses: &[IpAddr], now: Duration) {
        for address in addresses {
            self.strays.retain(|stray| stray != address);
            self.pools.iter_mut().for_each(|pool| pool.release(*address, now));
        }
    }

    /// The gateway for an address: that of its block.
    pub fn gateway_of(&self, address: IpAddr) -> Option<IpAddr> {
        let pool = self.pools.iter().find(|pool| pool.prefix().contains(&address))?;
        Some(Node::gateway_of(pool.prefix()))
    }

    /// How many are in use, by block.
    pub fn used(&self) -> impl Iterator<Item = (IpNet, usize)> {
        self.pools.iter().map(|pool| (pool.prefix(), pool.used()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COOL: Duration = Duration::from_mins(1);
    const START: Duration = Duration::ZERO;

    fn addresses(blocks: &[&str]) -> Addresses {
        let blocks: Vec<IpNet> = blocks.iter().map(|b| b.parse().unwrap()).collect();
        let mut addresses = Addresses::new(COOL);
        addresses.set_blocks(&blocks, []);
        addresses
    }

    fn text(given: &[IpAddr]) -> Vec<String> {
        given.iter().map(ToString::to_string).collect()
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn one_of_each_family_and_never_the_gateway() {
        let mut pools = addresses(&["fd01:0:0:1::/64", "10.1.1.0/24"]);
        assert_eq!(text(&pools.allocate(&[], START).unwrap()), ["10.1.1.2", "fd01:0:0:1::2"]);
        assert_eq!(pools.gateway_of(ip("10.1.1.9")), Some(ip("10.1.1.1")));
        assert_eq!(pools.gateway_of(ip("10.2.1.9")), None);
        let refused = pools.allocate(&[ip("10.1.1.1")], START).unwrap_err();
        assert!(matches!(refused, AddressError::Refused(_)), "{refused}");
    }

    #[test]
    fn a_requested_one_is_given_once_and_a_failure_gives_nothing() {
        let mut pools = addresses(&["10.1.1.0/24", "fd01:0:0:1::/64"]);
        let wish = [ip("fd01:0:0:1::77")];
        assert_eq!(text(&pools.allocate(&wish, START).unwrap()), ["10.1.1.2", "fd01:0:0:1::77"]);
        let error = pools.allocate(&[ip("10.1.1.9"), wish[0]], START).unwrap_err();
        assert_eq!(error.to_string(), "fd01:0:0:1::77 is in use");
        assert!(pools.allocate(&[ip("10.1.1.9")], START).is_ok(), "it was given back");
        let error = pools.allocate(&[ip("10.9.9.9")], START).unwrap_err();
        assert!(error.to_string().contains("none of this node's blocks: 10.1.1.0/24, fd01"));
    }

    #[test]
    fn full_blocks_say_so_and_freed_addresses_cool_down() {
        let mut pools = addresses(&["10.1.1.0/30"]);
        let given = pools.allocate(&[], START).unwrap();
        assert_eq!(text(&given), ["10.1.1.2"]);
        let error = pools.allocate(&[], START).unwrap_err().to_string();
        assert_eq!(error, "10.1.1.0/30 has no free address: 1 in use, 0 cooling down");
        pools.release(&given, START);
        assert!(pools.allocate(&[], COOL / 2).is_err());
        assert_eq!(pools.allocate(&[], COOL).unwrap(), given);
    }

    #[test]
    fn a_second_block_takes_over_and_a_view_without_blocks_gives_nothing() {
        let mut pools = addresses(&["10.1.1.0/30"]);
        let first = pools.allocate(&[], START).unwrap();
        let blocks = ["10.1.1.0/30".parse().unwrap(), "10.1.2.0/30".parse().unwrap()];
        pools.set_blocks(&blocks, first.clone());
        assert_eq!(text(&pools.allocate(&[], START).unwrap()), ["10.1.2.2"]);
        pools.set_blocks(&blocks[1..], first.clone());
        pools.set_blocks(&blocks, first);
        assert!(pools.allocate(&[], START).is_err(), "what was in use is so again");
        pools.set_blocks(&[], []);
        assert_eq!(pools.allocate(&[], START).unwrap_err(), AddressError::NoBlock);
    }

    #[test]
    fn what_others_give_is_claimed_whole_or_not_at_all() {
        let mut pools = addresses(&["10.1.1.0/29"]);
        pools.claim(&[ip("10.1.1.3"), ip("172.16.0.1")], START).unwrap();
        let error = pools.claim(&[ip("10.1.1.4"), ip("172.16.0.1")], START).unwrap_err();
        assert_eq!(error.to_string(), "172.16.0.1 is in use");
        assert!(pools.claim(&[ip("10.1.1.4")], START).is_ok(), "it was given back");
        let error = pools.claim(&[ip("10.1.1.1")], START).unwrap_err().to_string();
        assert!(error.contains("10.1.1.1 is not among"), "{error}");
    }

    #[test]
    fn what_cooled_down_before_we_came_does_so_to_its_end() {
        let mut pools = Addresses::new(COOL);
        pools.rest(ip("10.1.1.3"), COOL / 2);
        pools.rest(ip("10.1.1.2"), COOL / 4);
        pools.set_blocks(&["10.1.1.0/29".parse().unwrap()], [ip("10.1.1.3")]);
        pools.rest(ip("10.1.1.4"), COOL / 3);
        pools.rest(ip("10.1.1.3"), COOL * 9);
        assert_eq!(pools.used().next().unwrap().1, 1, "one that is in use does not rest");
        let given = [0, 0].map(|_| text(&pools.allocate(&[], START).unwrap())[0].clone());
        assert_eq!(given, ["10.1.1.5", "10.1.1.6"]);
        assert!(pools.allocate(&[], COOL / 5).is_err());
        assert_eq!(text(&pools.allocate(&[], COOL / 4).unwrap()), ["10.1.1.2"]);
        assert_eq!(text(&pools.allocate(&[], COOL / 3).unwrap()), ["10.1.1.4"]);
    }

    #[test]
    fn what_ports_have_is_not_given_again() {
        let mut pools = addresses(&["10.1.1.0/29"]);
        for address in ["10.1.1.2", "10.1.1.4", "172.16.0.1"] {
            pools.adopt(ip(address));
        }
        assert_eq!(text(&pools.allocate(&[], START).unwrap()), ["10.1.1.3"]);
        assert_eq!(text(&pools.allocate(&[], START).unwrap()), ["10.1.1.5"]);
        assert_eq!(pools.used().next().unwrap().1, 4);
    }
}
