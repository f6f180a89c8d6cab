//! Broadcast and multicast inside of a bridged network: to its local ports and, if it comes from
//! one of them, to the nodes that have others. Never from the tunnel back into it, and no faster
//! than the network's meter allows: one port cannot storm the tunnel.

use super::{priority, through_tunnel_actions};
use crate::meters;
use crate::pipeline::Table;
use crate::plan::{Emitter, Rule};
use crate::registers::{Destination, Origin, Register};
use osier_model::{Identity, Network, Node};
use osier_openflow::action::Action;
use osier_openflow::group::{Bucket, Group, GroupType};
use osier_openflow::port_no::PortNo;
use std::ops::RangeInclusive;

/// The groups of floods: two for each network, as Netvirt has them.
pub(crate) const FLOOD_GROUPS: RangeInclusive<u32> = 0x4000_0000..=0x41ff_ffff;

/// A port of this node that a flood reaches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Member {
    pub(crate) ofport: PortNo,
    pub(crate) identity: Identity,
}

pub(crate) fn flows(out: &mut Emitter, network: &Network, local: &[Member], remote: &[&Node]) {
    let here: Vec<Vec<Action>> = local.iter().copied().filter_map(Member::deliver).collect();
    let there = remote.iter().map(|node| to_node(node, network));
    let everywhere: Vec<Vec<Action>> = here.iter().cloned().chain(there).collect();
    let id = FLOOD_GROUPS.start() + 2 * network.vni.get();
    for (id, from, buckets) in [(id, Some(Origin::Tunnel), here), (id + 1, None, everywhere)] {
        out.add_group(group(id, buckets));
        let mut rule = Rule::new(Table::Flood, priority::NORMAL);
        if let Some(origin) = from {
            rule = Rule::new(Table::Flood, priority::HIGH).when(Register::FROM, origin as u8);
        }
        rule = rule.when(Register::NETWORK, network.vni.get()).multicast();
        if from.is_none() {
            // What comes through the tunnel was counted where it began.
            let meter = meters::flood(network.vni);
            rule = rule.then(Action::Meter(meter.id));
            out.add_meter(meter);
        }
        out.add(rule.then(Action::Group(id)));
    }
}

impl Member {
    /// By the same gate as what is for it alone: policies, and its limits.
    fn deliver(self) -> Option<Vec<Action>> {
        Some(vec![
            Register::OUT_PORT.load(self.ofport.0).ok()?,
            Register::TO.load(Destination::Port as u32).ok()?,
            Register::TARGET.load(self.identity.0).ok()?,
            Action::resubmit(Table::SenderGuard.number()),
        ])
    }
}

fn group(id: u32, buckets: Vec<Vec<Action>>) -> Group {
    let bucket = |(i, actions): (usize, Vec<Action>)| Bucket {
        id: u32::try_from(i).unwrap_or(u32::MAX),
        ..Bucket::from(actions)
    };
    let buckets = buckets.into_iter().enumerate().map(bucket).collect();
    Group { id, kind: GroupType::All, selection: None, buckets }
}

fn to_node(node: &Node, network: &Network) -> Vec<Action> {
    let mut actions = through_tunnel_actions(node, network.vni);
    actions.push(Action::resubmit(Table::SenderGuard.number()));
    actions
}
