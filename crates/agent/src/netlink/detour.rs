//! What comes in by an interface goes out by it again, whatever the machine's routes say: a rule, and a
//! table with one route.

use super::exchange::{Netlink, NetlinkError};
use super::host::index_of;
use super::requests::{self, DETOUR};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::route::RouteAttribute;
use netlink_packet_route::rule::RuleAttribute;
use std::net::IpAddr;

/// Makes it so, by these next hops, one of a family; what is so already stays. What is for the machine
/// itself stays there. Blocks.
pub fn set_up_detour(interface: &str, hops: &[IpAddr]) -> Result<(), NetlinkError> {
    let netlink = Netlink::open()?;
    let index = index_of(&netlink, interface)?;
    let mut batch = Vec::new();
    for hop in hops {
        if !has_route(&netlink, index, hop.is_ipv4())? {
            batch.push(requests::add_detour(interface, index, *hop));
        }
        if !has_rule(&netlink, interface, hop.is_ipv4())? {
            batch.push(requests::add_rule(interface, hop.is_ipv4()));
        }
    }
    netlink.execute(batch).map(drop)
}

/// Takes the rules away, if they are there: the routes go with the interface.
pub fn remove_detour(interface: &str) -> Result<(), NetlinkError> {
    let netlink = Netlink::open()?;
    for v4 in [true, false] {
        while has_rule(&netlink, interface, v4)? {
            netlink.execute(vec![requests::delete_rule(interface, v4)])?;
        }
    }
    Ok(())
}

fn has_rule(netlink: &Netlink, interface: &str, v4: bool) -> Result<bool, NetlinkError> {
    let rules = netlink.execute(vec![requests::dump_rules(v4)])?;
    let is_ours = |message: &RouteNetlinkMessage| {
        let RouteNetlinkMessage::NewRule(rule) = message else { return false };
        let is_for = RuleAttribute::Iifname(interface.to_owned());
        rule.attributes.contains(&is_for) && rule.attributes.contains(&RuleAttribute::Table(DETOUR))
    };
    Ok(rules.iter().any(is_ours))
}

fn has_route(netlink: &Netlink, index: u32, v4: bool) -> Result<bool, NetlinkError> {
    let routes = netlink.execute(vec![requests::dump_routes(v4)])?;
    let is_ours = |message: &RouteNetlinkMessage| {
        let RouteNetlinkMessage::NewRoute(route) = message else { return false };
        route.header.destination_prefix_length == 0
            && route.attributes.contains(&RouteAttribute::Table(DETOUR))
            && route.attributes.contains(&RouteAttribute::Oif(index))
    };
    Ok(routes.iter().any(is_ours))
}
