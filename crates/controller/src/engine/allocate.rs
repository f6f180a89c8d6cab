//! What must be unique in the cluster and users need not choose: numbers of networks and routers,
//! blocks of nodes, addresses of ports.
//!
//! A write takes what it needs at once and frees nothing until it is stored ([`Allocator::settle`]);
//! one that is refused, or cannot be stored, is undone from a journal ([`Allocator::rollback`]).
//! Everything here is rebuilt from the stored resources at the start.

use super::blocks::BlockSpace;
use ipnet::IpNet;
use osier_model::{
    AddressPool, AllocateError, Intervals, Network, NetworkName, Pool, PoolName, Stock, Subnet,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::{Duration, Instant};
use thiserror::Error;

/// Numbers that are given: smaller ones are for people.
const VNIS: (u128, u128) = (4096, 0xff_ffff);
/// 0 is the default router's.
const VRFS: (u128, u128) = (1, 0xffff);

/// How much is given at once, and when again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AllocationRules {
    /// Length of a node's IPv4 block.
    pub block_v4: u8,
    /// Length of a node's IPv6 block.
    pub block_v6: u8,
    /// How long a freed address rests.
    pub cool_down: Duration,
}

impl Default for AllocationRules {
    fn default() -> Self {
        Self { block_v4: 24, block_v6: 64, cool_down: Duration::from_mins(1) }
    }
}

/// Why nothing could be given.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Exhausted {
    /// All numbers are in use.
    #[error("all numbers for {0} are in use")]
    Numbers(&'static str),
    /// The cluster's addresses are all in nodes' blocks.
    #[error("{prefix} has no free block of length {length}: give the fabric one more prefix")]
    Blocks {
        /// The prefix, or the last of several.
        prefix: IpNet,
        /// The length that was looked for.
        length: u8,
    },
    /// No address for a Service is free.
    #[error("{} have no free address", if *is_pooled { "its pools" } else { "the fabric's services" })]
    Services {
        /// Whether it has pools of its own.
        is_pooled: bool,
        /// What the last of them says.
        #[source]
        source: AllocateError,
    },
    /// No address is free.
    #[error("network {network} has no free address")]
    Addresses {
        /// Of which network.
        network: NetworkName,
        /// What the last pool says.
        #[source]
        source: AllocateError,
    },
}

/// A number's meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Number {
    Vni,
    Vrf,
}

/// Where addresses come from.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    Pool(PoolName),
    Subnet(NetworkName, IpNet),
    /// Addresses of Services.
    Services(IpNet),
}

/// Something that is one object's.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Thing {
    Number(Number, u32),
    Block(IpNet),
    Address(Source, IpAddr),
}

/// A pool, and what was given of it: to begin anew with other limits.
#[derive(Debug, Clone)]
struct PoolState {
    pool: AddressPool,
    stock: Stock,
    given: BTreeSet<IpAddr>,
}

/// Where a network's addresses come from.
#[derive(Debug, Clone, Default)]
struct NetworkState {
    pools: Vec<PoolName>,
    subnets: Vec<(Subnet, AddressPool)>,
}

enum Undo {
    Take(Thing),
    Pool(PoolName, Box<Option<PoolState>>),
    Network(NetworkName, Option<NetworkState>),
    Blocks(Vec<BlockSpace>),
    Services(Vec<AddressPool>),
}

/// A point to go back to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark(usize, usize, usize);

/// Who has what, and what is free.
pub(crate) struct Allocator {
    rules: AllocationRules,
    started: Instant,
    vnis: Intervals,
    vrfs: Intervals,
    blocks: Vec<BlockSpace>,
    services: Vec<AddressPool>,
    pools: HashMap<PoolName, PoolState>,
    networks: HashMap<NetworkName, NetworkState>,
    users: BTreeMap<PoolName, BTreeSet<NetworkName>>,
    journal: Vec<Undo>,
    frees: Vec<Thing>,
    /// What is in use after what is freed has gone.
    takes: Vec<Thing>,
}

// === impl Allocator ===

impl Allocator {
    pub(crate) fn new(rules: AllocationRules) -> Self {
        Self {
            rules,
            started: Instant::now(),
            vnis: Intervals::new(VNIS.0, VNIS.1),
            vrfs: Intervals::new(VRFS.0, VRFS.1),
            blocks: Vec::new(),
            services: Vec::new(),
            pools: HashMap::new(),
            networks: HashMap::new(),
            users: BTreeMap::new(),
            journal: Vec::new(),
            frees: Vec::new(),
            takes: Vec::new(),
        }
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark(self.journal.len(), self.frees.len(), self.takes.len())
    }

    /// Undoes all since a mark.
    pub(crate) fn rollback(&mut self, mark: Mark) {
        self.frees.truncate(mark.1);
        self.takes.truncate(mark.2);
        for undo in self.journal.split_off(mark.0).into_iter().rev() {
            match undo {
                Undo::Take(Thing::Number(number, n)) => {
                    self.numbers(number).undo(n.into(), n.into());
                }
                Undo::Take(thing) => self.release(&thing, Duration::ZERO),
                Undo::Pool(name, state) => drop(replace(&mut self.pools, name, *state)),
                Undo::Network(name, state) => drop(self.replace_network(name, state)),
                Undo::Blocks(blocks) => self.blocks = blocks,
                Undo::Services(pools) => self.services = pools,
            }
        }
    }

    /// All that was taken is stored; what was freed is free now.
    pub(crate) fn settle(&mut self) {
        self.journal.clear();
        let (frees, takes) = (std::mem::take(&mut self.frees), std::mem::take(&mut self.takes));
        if frees.is_empty() {
            return;
        }
        for thing in frees {
            self.release(&thing, self.rules.cool_down);
        }
        // What one freed, another has taken already, or the same one keeps.
        for thing in takes {
            self.claim(&thing);
        }
    }

    pub(crate) fn number(&mut self, number: Number) -> Result<u32, Exhausted> {
        let (numbers, of) = match number {
            Number::Vni => (&mut self.vnis, "networks"),
            Number::Vrf => (&mut self.vrfs, "routers"),
        };
        let taken = numbers.take(1).and_then(|n| u32::try_from(n).ok());
        let taken = taken.ok_or(Exhausted::Numbers(of))?;
        self.took(Thing::Number(number, taken));
        Ok(taken)
    }

    /// A block of each family that the fabric has.
    pub(crate) fn blocks(&mut self) -> Result<Vec<IpNet>, Exhausted> {
        let (mut blocks, mut failure) = (Vec::<IpNet>::new(), None);
        for is_v4 in [true, false] {
            let mut last = None;
            for space in &mut self.blocks {
                if space.is_v4() != is_v4 {
                    continue;
                }
                let length = space.block_length(&self.rules);
                match space.take(length) {
                    Some(block) => {
                        last = None;
                        blocks.push(block);
                        break;
                    }
                    None => last = Some(Exhausted::Blocks { prefix: space.prefix(), length }),
                }
            }
            if let Some(exhausted) = last {
                failure = Some(exhausted);
                break;
            }
        }
        for block in &blocks {
            self.took(Thing::Block(*block));
        }
        match failure {
            Some(exhausted) => Err(exhausted),
            None => Ok(blocks),
        }
    }

    /// An address of each family that the network has. `is_taken` knows what users chose.
    pub(crate) fn addresses(
        &mut self,
        network: &NetworkName,
        is_taken: impl Fn(IpAddr) -> bool,
    ) -> Result<Vec<IpAddr>, Exhausted> {
        let sources = self.sources(network);
        let given = self.of_each_family(&sources, is_taken);
        given.map_err(|source| Exhausted::Addresses { network: network.clone(), source })
    }

    /// An address of each family that these pools have, or Services if there are none. `is_taken` knows
    /// what users chose.
    pub(crate) fn service_addresses(
        &mut self,
        pools: &[PoolName],
        is_taken: impl Fn(IpAddr) -> bool,
    ) -> Result<Vec<IpAddr>, Exhausted> {
        let sources = self.service_sources(pools);
        self.of_each_family(&sources, is_taken)
            .map_err(|source| Exhausted::Services { is_pooled: !pools.is_empty(), source })
    }

    fn service_sources(&self, pools: &[PoolName]) -> Vec<(Source, IpNet)> {
        if pools.is_empty() {
            let prefixes = self.services.iter().map(AddressPool::prefix);
            return prefixes.map(|prefix| (Source::Services(prefix), prefix)).collect();
        }
        self.pool_sources(pools).collect()
    }

    fn pool_sources(&self, pools: &[PoolName]) -> impl Iterator<Item = (Source, IpNet)> {
        pools.iter().filter_map(|name| {
            Some((Source::Pool(name.clone()), self.pools.get(name)?.pool.prefix()))
        })
    }

    /// An address of each family that the sources have: of the first that has one left.
    fn of_each_family(
        &mut self,
        sources: &[(Source, IpNet)],
        is_taken: impl Fn(IpAddr) -> bool,
    ) -> Result<Vec<IpAddr>, AllocateError> {
        let mut addresses = Vec::new();
        for is_v4 in [true, false] {
            let mut last = None;
            for source in sources.iter().filter(|(_, prefix)| prefix.addr().is_ipv4() == is_v4) {
                match self.address_of(&source.0, &is_taken) {
                    Ok(address) => {
                        last = None;
                        addresses.push(address);
                        break;
                    }
                    Err(exhausted) => last = Some(exhausted),
                }
            }
            if let Some(exhausted) = last {
                return Err(exhausted);
            }
        }
        Ok(addresses)
    }

    fn address_of(
        &mut self,
        source: &Source,
        is_taken: impl Fn(IpAddr) -> bool,
    ) -> Result<IpAddr, AllocateError> {
        let now = self.started.elapsed();
        loop {
            let Some((pool, given)) = self.pool_mut(source) else {
                let unspecified = IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED);
                return Err(AllocateError::InUse(unspecified));
            };
            let address = pool.allocate(now)?;
            if let Some(given) = given {
                given.insert(address);
            }
            // One that somebody has stays taken until its owner goes.
            if !is_taken(address) {
                self.took(Thing::Address(source.clone(), address));
                return Ok(address);
            }
        }
    }

    /// A number that a user chose, or that was given before.
    pub(crate) fn note_number(&mut self, number: Number, n: u32) {
        self.note(Thing::Number(number, n));
    }

    /// Blocks that a user chose, or that were given before.
    pub(crate) fn note_blocks(&mut self, blocks: &[IpNet]) {
        for block in blocks {
            self.note(Thing::Block(*block));
        }
    }

    /// Addresses that a user chose, or that were given before.
    pub(crate) fn note_addresses(&mut self, network: &NetworkName, addresses: &[IpAddr]) {
        for (source, prefix) in self.sources(network) {
            for address in addresses.iter().filter(|address| prefix.contains(*address)) {
                self.note(Thing::Address(source.clone(), *address));
            }
        }
    }

    /// Addresses of a Service that a user chose, or that were given before.
    pub(crate) fn note_service(&mut self, pools: &[PoolName], addresses: &[IpAddr]) {
        for thing in self.of_services(pools, addresses) {
            self.note(thing);
        }
    }

    pub(crate) fn free_service(&mut self, pools: &[PoolName], addresses: &[IpAddr]) {
        let things = self.of_services(pools, addresses);
        self.frees.extend(things);
    }

    fn of_services(&self, pools: &[PoolName], addresses: &[IpAddr]) -> Vec<Thing> {
        let sources = self.service_sources(pools);
        let thing = |address: &IpAddr| {
            let (source, _) = sources.iter().find(|(_, prefix)| prefix.contains(address))?;
            Some(Thing::Address(source.clone(), *address))
        };
        addresses.iter().filter_map(thing).collect()
    }

    fn note(&mut self, thing: Thing) {
        if self.claim(&thing) {
            self.journal.push(Undo::Take(thing.clone()));
        }
        self.takes.push(thing);
    }

    fn took(&mut self, thing: Thing) {
        self.journal.push(Undo::Take(thing.clone()));
        self.takes.push(thing);
    }

    pub(crate) fn free_number(&mut self, number: Number, n: u32) {
        self.frees.push(Thing::Number(number, n));
    }

    pub(crate) fn free_blocks(&mut self, blocks: &[IpNet]) {
        self.frees.extend(blocks.iter().copied().map(Thing::Block));
    }

    pub(crate) fn free_addresses(&mut self, network: &NetworkName, addresses: &[IpAddr]) {
        for (source, prefix) in self.sources(network) {
            let inside = addresses.iter().filter(|address| prefix.contains(*address));
            self.frees.extend(inside.map(|address| Thing::Address(source.clone(), *address)));
        }
    }

    /// The fabric's prefixes are these; `blocks` are those of all nodes.
    pub(crate) fn set_cluster(&mut self, prefixes: &[IpNet], blocks: &[IpNet]) {
        let space = |prefix: &IpNet| BlockSpace::new(*prefix, blocks);
        let blocks = prefixes.iter().map(space).collect();
        self.journal.push(Undo::Blocks(std::mem::replace(&mut self.blocks, blocks)));
    }

    /// Services' addresses are of these prefixes. What of a new one is in use already is known to
    /// the model, and found there.
    pub(crate) fn set_services(&mut self, prefixes: &[IpNet]) {
        let pool = |prefix: &IpNet| {
            let known = self.services.iter().find(|pool| pool.prefix() == *prefix);
            let new = || AddressPool::new(*prefix, &[], self.rules.cool_down);
            known.cloned().unwrap_or_else(new)
        };
        let pools = prefixes.iter().map(pool).collect();
        self.journal.push(Undo::Services(std::mem::replace(&mut self.services, pools)));
    }

    /// A pool is so now, or gone.
    pub(crate) fn set_pool(&mut self, name: &PoolName, pool: Option<&Pool>) {
        let given = self.pools.get(name).map(|state| state.given.clone()).unwrap_or_default();
        let state = pool.map(|pool| {
            let mut addresses = AddressPool::new(pool.cidr, &pool.exclude, self.rules.cool_down);
            for address in &given {
                // One outside of the new limits stays its owner's, and is given to nobody.
                let _ = addresses.claim(*address);
            }
            PoolState { pool: addresses, stock: pool.stock(), given }
        });
        let before = replace(&mut self.pools, name.clone(), state);
        self.journal.push(Undo::Pool(name.clone(), Box::new(before)));
    }

    /// A network takes its addresses from here now, or is gone.
    pub(crate) fn set_network(
        &mut self,
        name: &NetworkName,
        network: Option<(&Network, &[PoolName])>,
    ) {
        let old = self.networks.get(name);
        let state = network.map(|(network, pools)| {
            let subnet = |subnet: &Subnet| {
                let known = old.and_then(|old| old.subnets.iter().find(|(s, _)| s == subnet));
                known.cloned().unwrap_or_else(|| {
                    let gateway: Vec<IpNet> = subnet.gateway.map(IpNet::from).into_iter().collect();
                    let pool = AddressPool::new(subnet.cidr, &gateway, self.rules.cool_down);
                    (*subnet, pool)
                })
            };
            // The default network's addresses are the nodes' own.
            let is_default = network.vni.get() == osier_span::DEFAULT_VNI;
            let subnets = if is_default || !pools.is_empty() { &[][..] } else { &network.subnets };
            let pools = if is_default { Vec::new() } else { pools.to_vec() };
            NetworkState { pools, subnets: subnets.iter().map(subnet).collect() }
        });
        let before = self.replace_network(name.clone(), state);
        self.journal.push(Undo::Network(name.clone(), before));
    }

    fn replace_network(
        &mut self,
        name: NetworkName,
        state: Option<NetworkState>,
    ) -> Option<NetworkState> {
        for pool in self.networks.get(&name).iter().flat_map(|state| &state.pools) {
            if let Some(users) = self.users.get_mut(pool) {
                users.remove(&name);
            }
        }
        for pool in state.iter().flat_map(|state| &state.pools) {
            self.users.entry(pool.clone()).or_default().insert(name.clone());
        }
        replace(&mut self.networks, name, state)
    }

    /// Whether there is such a pool.
    pub(crate) fn has_pool(&self, pool: &PoolName) -> bool {
        self.pools.contains_key(pool)
    }

    /// What each pool has to give.
    pub(crate) fn stocks(&self) -> impl Iterator<Item = (&PoolName, &Stock)> {
        self.pools.iter().map(|(name, state)| (name, &state.stock))
    }

    /// A network that takes its addresses from a pool.
    pub(crate) fn user_of(&self, pool: &PoolName) -> Option<&NetworkName> {
        self.users.get(pool)?.first()
    }

    /// How many addresses of a pool are in use.
    pub(crate) fn used(&self, pool: &PoolName) -> Option<usize> {
        self.pools.get(pool).map(|state| state.given.len())
    }

    /// Whether a network's addresses are given here.
    pub(crate) fn gives_for(&self, network: &NetworkName) -> bool {
        !self.sources(network).is_empty()
    }

    fn sources(&self, network: &NetworkName) -> Vec<(Source, IpNet)> {
        let Some(state) = self.networks.get(network) else { return Vec::new() };
        let pools = self.pool_sources(&state.pools);
        let subnets = state
            .subnets
            .iter()
            .map(|(subnet, _)| (Source::Subnet(network.clone(), subnet.cidr), subnet.cidr));
        pools.chain(subnets).collect()
    }

    fn pool_mut(
        &mut self,
        source: &Source,
    ) -> Option<(&mut AddressPool, Option<&mut BTreeSet<IpAddr>>)> {
        match source {
            Source::Pool(name) => {
                let state = self.pools.get_mut(name)?;
                Some((&mut state.pool, Some(&mut state.given)))
            }
            Source::Services(prefix) => {
                Some((self.services.iter_mut().find(|pool| pool.prefix() == *prefix)?, None))
            }
            Source::Subnet(network, cidr) => {
                let subnets = &mut self.networks.get_mut(network)?.subnets;
                let (_, pool) = subnets.iter_mut().find(|(subnet, _)| subnet.cidr == *cidr)?;
                Some((pool, None))
            }
        }
    }

    /// Whether it was free.
    fn claim(&mut self, thing: &Thing) -> bool {
        match thing {
            Thing::Number(number, n) => self.numbers(*number).cut((*n).into(), (*n).into()),
            Thing::Block(block) => {
                let mut was_free = true;
                for space in &mut self.blocks {
                    was_free &= space.claim(*block);
                }
                was_free
            }
            Thing::Address(source, address) => match self.pool_mut(source) {
                Some((pool, given)) => {
                    let is_new = given.is_none_or(|given| given.insert(*address));
                    pool.claim(*address).is_ok() && is_new
                }
                None => false,
            },
        }
    }

    fn release(&mut self, thing: &Thing, rest: Duration) {
        let now = self.started.elapsed();
        match thing {
            Thing::Number(number, n) => self.numbers(*number).join((*n).into(), (*n).into()),
            Thing::Block(block) => {
                for space in &mut self.blocks {
                    space.release(*block);
                }
            }
            Thing::Address(source, address) => {
                let cool_down = self.rules.cool_down;
                if let Some((pool, given)) = self.pool_mut(source) {
                    if let Some(given) = given {
                        given.remove(address);
                    }
                    // The pool adds its own rest.
                    pool.release(*address, (now + rest).saturating_sub(cool_down));
                }
            }
        }
    }

    fn numbers(&mut self, number: Number) -> &mut Intervals {
        match number {
            Number::Vni => &mut self.vnis,
            Number::Vrf => &mut self.vrfs,
        }
    }
}

fn replace<K: std::hash::Hash + Eq, V>(
    map: &mut HashMap<K, V>,
    key: K,
    value: Option<V>,
) -> Option<V> {
    match value {
        Some(value) => map.insert(key, value),
        None => map.remove(&key),
    }
}
