//! What a rule grants, taken apart into what single flows can match.
//!
//! A grant is a product: these subjects, these peers, these ports. A conjunction makes a sum of it:
//! a flow for each subject, each peer and each port, which only count together.

use ipnet::IpNet;
use osier_model::{
    Block, Direction, Identity, Peer, PolicyRule, PortRange, Selection, SelectionId, Transport,
};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// What a rule grants, whichever policies it stands in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Grant {
    pub(crate) direction: Direction,
    pub(crate) subjects: SelectionId,
    peers: Option<BTreeSet<Peer>>,
    /// Only to receivers that are in this selection.
    of: Option<SelectionId>,
    ports: Option<BTreeSet<(Transport, Option<PortRange>)>>,
}

/// What one flow of a policy table matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Clause {
    /// Who sends it.
    Source(Identity),
    /// Who is to receive it.
    Target(Identity),
    /// Where it comes from.
    SourceIn(IpNet),
    /// Where it goes.
    TargetIn(IpNet),
    /// The receiver's port: these bits of it.
    Port {
        /// What carries it.
        transport: Transport,
        /// The bits.
        value: u16,
        /// Which bits.
        mask: u16,
    },
    /// Whatever it is, of IPv6 or of IPv4. A prefix without length is this, too: no two clauses match
    /// the same.
    Family {
        /// Of which.
        ipv6: bool,
    },
}

/// Selections, by what they are called.
pub(crate) type Selections = BTreeMap<SelectionId, Selection>;

/// One of the things that must all hold.
#[derive(Debug, Clone, Copy)]
enum Dimension<'a> {
    Subjects,
    Peers(&'a BTreeSet<Peer>),
    Of(SelectionId),
    Ports(&'a BTreeSet<(Transport, Option<PortRange>)>),
    Everything,
}

// === impl Grant ===

impl Grant {
    /// What a rule grants: one for its numbered ports, and one for each number that a name stands for.
    /// What matches nothing grants nothing.
    pub(crate) fn of_rule(
        direction: Direction,
        subjects: SelectionId,
        rule: &PolicyRule,
    ) -> BTreeSet<Self> {
        let peers: Option<BTreeSet<Peer>> =
            rule.peers.as_ref().map(|peers| peers.iter().cloned().collect());
        if peers.as_ref().is_some_and(BTreeSet::is_empty) {
            return BTreeSet::new();
        }
        let grant = |peers, of, ports| Self { direction, subjects, peers, of, ports };
        let Some(ports) = &rule.ports else { return BTreeSet::from([grant(peers, None, None)]) };
        let mut by_receiver: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for port in ports {
            by_receiver.entry(port.of).or_default().insert((port.transport, port.range));
        }
        let mut grants = BTreeSet::new();
        for (of, ports) in by_receiver {
            match &peers {
                // Receivers by name and by address are parts of their own, those by identity one.
                Some(peers) if of.is_some() && direction == Direction::Egress => {
                    let is_block = |peer: &Peer| matches!(peer, Peer::Block(_));
                    let (blocks, others): (BTreeSet<_>, BTreeSet<_>) =
                        peers.iter().cloned().partition(is_block);
                    let split = [blocks, others].into_iter().filter(|peers| !peers.is_empty());
                    grants.extend(split.map(|peers| grant(Some(peers), of, Some(ports.clone()))));
                }
                peers => drop(grants.insert(grant(peers.clone(), of, Some(ports)))),
            }
        }
        grants
    }

    /// The selections that it depends on.
    pub(crate) fn selections(&self) -> BTreeSet<SelectionId> {
        let peers = self.peers.iter().flatten().filter_map(|peer| match peer {
            Peer::Selection(id) => Some(*id),
            Peer::Block(_) => None,
        });
        [self.subjects].into_iter().chain(self.of).chain(peers).collect()
    }

    /// A flow must not count for two parts of one rule: Open vSwitch knows no rule that has more parts
    /// than a packet matches flows. So what matches receivers by identity is one part.
    fn dimensions(&self) -> Vec<Dimension<'_>> {
        let mut dimensions = vec![Dimension::Subjects];
        dimensions.extend(self.peers.as_ref().map(Dimension::Peers));
        dimensions.extend(self.of.filter(|_| self.names_receivers_apart()).map(Dimension::Of));
        dimensions.extend(self.ports.as_ref().map(Dimension::Ports));
        if dimensions.len() == 1 {
            // A conjunction has two parts at least.
            dimensions.push(Dimension::Everything);
        }
        dimensions
    }

    /// Whether who has a port by its name is a part of its own.
    fn names_receivers_apart(&self) -> bool {
        let by_identity = self
            .peers
            .as_ref()
            .is_some_and(|peers| peers.iter().any(|peer| matches!(peer, Peer::Selection(_))));
        self.direction == Direction::Egress && !by_identity
    }

    /// Whether an identity that the receiver has in another part is one that has the port.
    fn has_port(&self, identity: Identity, selections: &Selections) -> bool {
        self.of.filter(|_| !self.names_receivers_apart()).is_none_or(|of| {
            selections.get(&of).is_some_and(|selection| selection.members.contains(&identity))
        })
    }

    /// Whether a clause matches a receiver by an identity that does not have the port.
    fn lacks_port(&self, clause: Clause, selections: &Selections) -> bool {
        matches!(clause, Clause::Target(identity) if !self.has_port(identity, selections))
    }

    /// How many parts it has.
    pub(crate) fn parts(&self) -> u8 {
        u8::try_from(self.dimensions().len()).expect("there are four at most")
    }

    /// All its clauses, each with the part that it counts for.
    pub(crate) fn clauses(&self, selections: &Selections) -> BTreeSet<(Clause, u8)> {
        let mut clauses = BTreeSet::new();
        for (dimension, part) in self.dimensions().into_iter().zip(1..) {
            let all = self.clauses_of(dimension, selections).into_iter();
            let all = all.filter(|clause| !self.lacks_port(*clause, selections));
            clauses.extend(all.map(|clause| (clause, part)));
        }
        clauses
    }

    /// The parts that an identity counts for, by the clause that matches it.
    pub(crate) fn parts_of(
        &self,
        identity: Identity,
        selections: &Selections,
    ) -> BTreeSet<(Clause, u8)> {
        let has = |id: &SelectionId| {
            selections.get(id).is_some_and(|selection| selection.members.contains(&identity))
        };
        let mut parts = BTreeSet::new();
        for (dimension, part) in self.dimensions().into_iter().zip(1..) {
            let clause = match dimension {
                Dimension::Subjects if has(&self.subjects) => self.subject(identity),
                Dimension::Of(of) if has(&of) => Clause::Target(identity),
                Dimension::Peers(peers)
                    if peers.iter().any(|p| matches!(p, Peer::Selection(id) if has(id))) =>
                {
                    self.peer(identity)
                }
                _ => continue,
            };
            if !self.lacks_port(clause, selections) {
                parts.insert((clause, part));
            }
        }
        parts
    }

    fn clauses_of(&self, dimension: Dimension<'_>, selections: &Selections) -> Vec<Clause> {
        let members = |id: &SelectionId| {
            selections.get(id).into_iter().flat_map(|s| &s.members).copied().collect::<Vec<_>>()
        };
        match dimension {
            Dimension::Subjects => {
                members(&self.subjects).into_iter().map(|i| self.subject(i)).collect()
            }
            Dimension::Of(of) => members(&of).into_iter().map(Clause::Target).collect(),
            Dimension::Peers(peers) => {
                let mut clauses = Vec::new();
                for peer in peers {
                    match peer {
                        Peer::Selection(id) => {
                            clauses.extend(members(id).into_iter().map(|i| self.peer(i)));
                            let known = selections.get(id).into_iter().flat_map(|s| &s.addresses);
                            clauses.extend(known.map(|address| self.address(*address)));
                        }
                        Peer::Block(block) => {
                            clauses.extend(prefixes(block).into_iter().map(|p| self.prefix(p)));
                        }
                    }
                }
                clauses
            }
            Dimension::Ports(ports) => ports
                .iter()
                .flat_map(|(transport, range)| {
                    let masks = range.map_or_else(|| vec![(0, 0)], masks);
                    let port = |(value, mask)| Clause::Port { transport: *transport, value, mask };
                    masks.into_iter().map(port)
                })
                .collect(),
            Dimension::Everything => {
                [false, true].into_iter().map(|ipv6| Clause::Family { ipv6 }).collect()
            }
        }
    }

    fn subject(&self, identity: Identity) -> Clause {
        match self.direction {
            Direction::Ingress => Clause::Target(identity),
            Direction::Egress => Clause::Source(identity),
        }
    }

    fn peer(&self, identity: Identity) -> Clause {
        match self.direction {
            Direction::Ingress => Clause::Source(identity),
            Direction::Egress => Clause::Target(identity),
        }
    }

    fn prefix(&self, prefix: IpNet) -> Clause {
        match self.direction {
            _ if prefix.prefix_len() == 0 => Clause::Family { ipv6: prefix.addr().is_ipv6() },
            Direction::Ingress => Clause::SourceIn(prefix),
            Direction::Egress => Clause::TargetIn(prefix),
        }
    }

    fn address(&self, address: IpAddr) -> Clause {
        self.prefix(address.into())
    }
}

/// A block as prefixes that have no exceptions.
fn prefixes(block: &Block) -> Vec<IpNet> {
    block.except.iter().fold(vec![block.cidr], |prefixes, except| {
        prefixes.into_iter().flat_map(|prefix| without(prefix, *except)).collect()
    })
}

/// What is left of a prefix without another: the other half each time that one is cut.
fn without(prefix: IpNet, except: IpNet) -> Vec<IpNet> {
    if except.contains(&prefix) {
        return Vec::new();
    }
    let (mut rest, mut within) = (Vec::new(), prefix);
    if !prefix.contains(&except) {
        return vec![prefix];
    }
    while within != except {
        let Ok(halves) = within.subnets(within.prefix_len() + 1) else { break };
        for half in halves {
            match half.contains(&except) {
                true => within = half,
                false => rest.push(half),
            }
        }
    }
    rest
}

/// Ports of a range as bits that they share: the largest aligned piece first.
fn masks(range: PortRange) -> Vec<(u16, u16)> {
    let (mut next, last) = (u32::from(range.first), u32::from(range.last));
    let mut masks = Vec::new();
    while next <= last {
        let aligned = if next == 0 { 16 } else { next.trailing_zeros().min(16) };
        let fits = (last - next + 1).ilog2();
        let bits = aligned.min(fits);
        let mask = u16::try_from(0xffff_u32 >> bits << bits).unwrap_or(0);
        masks.push((u16::try_from(next).unwrap_or(u16::MAX), mask));
        next += 1 << bits;
    }
    masks
}

impl std::fmt::Display for Clause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Source(identity) => write!(f, "from {}", identity.0),
            Self::Target(identity) => write!(f, "to {}", identity.0),
            Self::SourceIn(prefix) => write!(f, "from {prefix}"),
            Self::TargetIn(prefix) => write!(f, "to {prefix}"),
            Self::Port { transport, value, mask } => {
                let transport = format!("{transport:?}").to_lowercase();
                write!(f, "to {transport} {value}/{mask:#x}")
            }
            Self::Family { ipv6 } => f.write_str(if *ipv6 { "IPv6" } else { "IPv4" }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_are_their_masks(a: u16, b: u16, probe: u16) {
            let range = PortRange { first: a.min(b), last: a.max(b) };
            let masks = masks(range);
            let hits = |p: u16| masks.iter().filter(|(v, m)| p & m == *v).count();
            for port in [a, b, probe, range.first.wrapping_sub(1), range.last.wrapping_add(1)] {
                prop_assert_eq!(hits(port), usize::from(range.contains(port)), "{}", port);
            }
            prop_assert!(masks.len() <= 30);
        }

        #[test]
        fn blocks_are_their_prefixes(
            cidr in (0..=24_u8, any::<u32>()),
            excepts in prop::collection::vec((0..=32_u8, any::<u32>()), 0..4),
            probe: u32,
        ) {
            let net = |len, bits: u32| {
                ipnet::Ipv4Net::new(bits.into(), len).unwrap().trunc().into()
            };
            let cidr: IpNet = net(cidr.0, cidr.1);
            let inside = |bits: u32| {
                let IpAddr::V4(base) = cidr.network() else { unreachable!() };
                u32::from(base) | bits & u32::MAX.checked_shr(cidr.prefix_len().into()).unwrap_or(0)
            };
            let except: Vec<IpNet> =
                excepts.into_iter().map(|(len, bits)| net(len.max(cidr.prefix_len()), inside(bits))).collect();
            let block = Block { cidr, except };
            let prefixes = prefixes(&block);
            for bits in [probe, inside(probe)] {
                let address = IpAddr::V4(bits.into());
                let hits = prefixes.iter().filter(|p| p.contains(&address)).count();
                prop_assert_eq!(hits, usize::from(block.contains(address)), "{}", address);
            }
        }
    }
}
