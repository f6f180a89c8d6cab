//! Broadcast and multicast inside of a bridged network: to its local ports and, if it comes from
//! one of them, to the nodes that have others. Never from the tunnel back into it, and no faster
//! than the network's meter allows: one port cannot storm the tunnel.

use super::pipeline::identity_option;
use super::priority;
use crate::meters;
use crate::pipeline::Table;
use crate::plan::{Emitter, Rule};
use crate::registers::{Origin, Register};
use osier_model::{Network, Node, Tunnel};
use osier_openflow::action::{Action, SetField};
use osier_openflow::field::Field;
use osier_openflow::group::{Bucket, Group, GroupType};
use osier_openflow::port_no::PortNo;
use std::net::IpAddr;
use std::ops::RangeInclusive;

/// The groups of floods: two for each network, as Netvirt has them.
pub(crate) const FLOOD_GROUPS: RangeInclusive<u32> = 0x4000_0000..=0x41ff_ffff;

/// A port of this node that a flood reaches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Member {
    pub(crate) ofport: PortNo,
    /// The meter of what goes to it.
    pub(crate) meter: Option<u32>,
}

pub(crate) fn flows(
    out: &mut Emitter,
    network: &Network,
    local: &[Member],
    remote: &[&Node],
    tunnel: PortNo,
    kind: Tunnel,
) {
    let here: Vec<Vec<Action>> = local.iter().map(Member::deliver).collect();
    let there = remote.iter().filter_map(|node| to_node(node, network, tunnel, kind));
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
    fn deliver(&self) -> Vec<Action> {
        self.meter.map(Action::Meter).into_iter().chain([Action::output(self.ofport)]).collect()
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

fn to_node(node: &Node, network: &Network, tunnel: PortNo, kind: Tunnel) -> Option<Vec<Action>> {
    let field = match node.tunnel {
        IpAddr::V4(_) => Field::TUN_DST,
        IpAddr::V6(_) => Field::TUN_IPV6_DST,
    };
    let set = |field, value: u128| SetField::new(field, value).ok().map(Action::SetField);
    let address = SetField::new(field, node.tunnel).ok().map(Action::SetField)?;
    let mut actions = vec![address, set(Field::TUN_ID, network.vni.get().into())?];
    if kind == Tunnel::Geneve {
        let (src, dst) = (Register::SOURCE.subfield(), identity_option());
        actions.push(Action::Move { src, dst });
    }
    actions.push(Action::output(tunnel));
    Some(actions)
}
