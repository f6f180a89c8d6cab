//! Blocks of nodes, out of the fabric's prefixes.

use super::allocate::AllocationRules;
use ipnet::IpNet;
use osier_model::Intervals;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// One of the fabric's prefixes, less the nodes' blocks.
#[derive(Debug, Clone)]
pub(crate) struct BlockSpace {
    prefix: IpNet,
    free: Intervals,
}

// === impl BlockSpace ===

impl BlockSpace {
    pub(crate) fn new(prefix: IpNet, blocks: &[IpNet]) -> Self {
        let (first, last) = bounds(prefix);
        let mut space = Self { prefix, free: Intervals::new(first, last) };
        for block in blocks {
            space.claim(*block);
        }
        space
    }

    pub(crate) fn prefix(&self) -> IpNet {
        self.prefix
    }

    pub(crate) fn is_v4(&self) -> bool {
        self.prefix.addr().is_ipv4()
    }

    /// The length of its blocks. A small cluster's are smaller, so that there are some.
    pub(crate) fn block_length(&self, rules: &AllocationRules) -> u8 {
        let (usual, longest) = match self.prefix {
            IpNet::V4(_) => (rules.block_v4, 28),
            IpNet::V6(_) => (rules.block_v6, 120),
        };
        let whole = self.prefix.prefix_len();
        if whole < usual { usual } else { whole.saturating_add(4).min(longest).max(whole) }
    }

    /// A free block.
    pub(crate) fn take(&mut self, length: u8) -> Option<IpNet> {
        let bits = self.prefix.max_prefix_len() - length;
        let start = self.free.take(1_u128.checked_shl(bits.into())?)?;
        let address: IpAddr = match self.prefix {
            IpNet::V4(_) => Ipv4Addr::from(u32::try_from(start).ok()?).into(),
            IpNet::V6(_) => Ipv6Addr::from(start).into(),
        };
        IpNet::new(address, length).ok()
    }

    /// A block is somebody's: whether it was free, as far as it is here.
    pub(crate) fn claim(&mut self, block: IpNet) -> bool {
        let (first, last) = bounds(block);
        block.addr().is_ipv4() != self.is_v4() || self.free.cut(first, last)
    }

    /// A block is nobody's any more.
    pub(crate) fn release(&mut self, block: IpNet) {
        if block.addr().is_ipv4() == self.is_v4() {
            let (first, last) = bounds(block);
            self.free.join(first, last);
        }
    }
}

fn bounds(prefix: IpNet) -> (u128, u128) {
    let number = |address: IpAddr| match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    };
    (number(prefix.network()), number(prefix.broadcast()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_fit_the_cluster() {
        let rules = AllocationRules::default();
        for (prefix, first, second) in [
            ("10.1.0.0/16", "10.1.0.0/24", "10.1.1.0/24"),
            ("10.1.0.0/24", "10.1.0.0/28", "10.1.0.16/28"),
            ("fd01::/48", "fd01::/64", "fd01:0:0:1::/64"),
            ("fd01::/64", "fd01::/68", "fd01::1000:0:0:0/68"),
        ] {
            let mut space = BlockSpace::new(prefix.parse().unwrap(), &[]);
            let length = space.block_length(&rules);
            let mut next = || space.take(length).unwrap().to_string();
            assert_eq!([next(), next()], [first, second]);
        }
        let taken = ["10.1.0.0/17".parse().unwrap()];
        let mut space = BlockSpace::new("10.1.0.0/16".parse().unwrap(), &taken);
        assert_eq!(space.take(24).unwrap().to_string(), "10.1.128.0/24");
    }
}
