//! What a port may be told of its addresses when it asks: in which subnet each is, by whom to leave
//! it, and whom it finds there without a router.

use crate::compile::default_vni;
use ipnet::IpNet;
use osier_model::{Network, Node, Reach};
use std::net::{IpAddr, Ipv4Addr};

/// Who answers clients where there is no router: an address of the link (RFC 3927).
const SERVER: Ipv4Addr = Ipv4Addr::new(169, 254, 0, 67);

/// An address of a port, and where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// The address.
    pub address: IpAddr,
    /// Its subnet, if one is known.
    pub subnet: Option<IpNet>,
    /// The router's address there.
    pub gateway: Option<IpAddr>,
    /// Whether others of the subnet answer for themselves on this link, or somebody for them.
    pub has_neighbours: bool,
}

// === impl Link ===

impl Link {
    /// `blocks` are those of the node, if the network is the default one.
    pub(crate) fn new(address: IpAddr, network: &Network, blocks: &[IpNet]) -> Self {
        let subnet = network.told_subnet_of(address);
        let block = blocks.iter().find(|block| block.contains(&address));
        // The router answers every ARP request of a routed network, but none of the default one;
        // nobody does so for neighbour solicitations.
        let is_answered = address.is_ipv4() && network.vni != default_vni();
        Self {
            address,
            subnet: subnet.map(|subnet| subnet.cidr).or(block.copied()),
            gateway: match subnet {
                Some(subnet) => subnet.gateway,
                None => block.map(|block| Node::gateway_of(*block)),
            },
            has_neighbours: network.reach == Reach::Bridged || is_answered,
        }
    }

    /// How many bits of the address are the link's: all, where there are no neighbours.
    pub fn prefix_len(&self) -> u8 {
        let whole = IpNet::from(self.address).prefix_len();
        let subnet = self.subnet.filter(|_| self.has_neighbours);
        subnet.map_or(whole, |subnet| subnet.prefix_len())
    }

    /// By which address a client of IPv4 finds who gave it the address.
    pub fn server(&self) -> Ipv4Addr {
        match self.gateway {
            Some(IpAddr::V4(gateway)) => gateway,
            _ => SERVER,
        }
    }
}
