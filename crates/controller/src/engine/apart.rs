//! What pools give out is nobody else's: no other pool's, of no node's block and of nothing that blocks
//! and Services' addresses are taken from, and no node's own address.
//!
//! Whoever comes later is refused, a pool, a node or a fabric. What stands in the store is not asked
//! again, so a store that an earlier version wrote works on, and only what is new has to be apart.

use super::State;
use super::staging::Staging;
use super::write::WriteError;
use ipnet::IpNet;
use osier_model::{Change, Fabric, Key, Node, NodeName, Object, PoolName, Stock};
use osier_resource::{Fault, Kind};
use std::collections::BTreeMap;

/// A prefix that is somebody's: where it stands, and whose it is in words.
type Place = (String, IpNet, String);

impl State {
    /// Whether what a write changes is apart from all else.
    pub(super) fn check_apart(&self, round: &Staging, draft: &Staging) -> Result<(), WriteError> {
        if !draft.pools.is_empty() {
            self.check_pools_apart(round, draft)?;
        }
        for change in &draft.changes {
            if let Change::Put(Object::Node(node)) = change {
                let before = self.node(&node.name);
                let had: Vec<Place> = before.iter().flat_map(places_of_node).collect();
                self.check_places(
                    &format!("{} {}", Kind::Node, node.name),
                    places_of_node(node),
                    &had,
                )?;
            }
        }
        if let Some(fabric) = &draft.fabric {
            let had = places_of_fabric(round.fabric.as_ref().unwrap_or(&self.fabric));
            self.check_places(
                &format!("{} default", Kind::Fabric),
                places_of_fabric(fabric),
                &had,
            )?;
        }
        Ok(())
    }

    fn check_pools_apart(&self, round: &Staging, draft: &Staging) -> Result<(), WriteError> {
        let fabric = draft.fabric.as_ref().or(round.fabric.as_ref()).unwrap_or(&self.fabric);
        let mut places = places_of_fabric(fabric);
        places.extend(self.nodes_then(round, draft).values().flat_map(places_of_node));
        for (name, stock) in self.allocator.stocks().filter(|(name, _)| draft.pools.contains(name))
        {
            let refuse = |field: &str, said| refused(format!("{} {name}", Kind::Pool), field, said);
            if stock.is_empty() {
                return refuse("exclude", "no address is left to give".to_owned());
            }
            let others = self.allocator.stocks().filter(|(other, _)| *other != name);
            if let Some((other, shared)) = first_shared(stock, others) {
                return refuse("cidr", format!("{shared} is given out by pool {other}, too"));
            }
            for (_, prefix, whose) in &places {
                if let Some(shared) = stock.shared_with(&Stock::of(*prefix)) {
                    return refuse("cidr", format!("{shared}, which it gives out, is {whose}"));
                }
            }
        }
        Ok(())
    }

    /// Whether no pool gives out what is somebody's now and was not before.
    fn check_places(&self, called: &str, now: Vec<Place>, had: &[Place]) -> Result<(), WriteError> {
        for (field, prefix, _) in now {
            if had.iter().any(|(_, before, _)| *before == prefix) {
                continue;
            }
            let shared = first_shared(&Stock::of(prefix), self.allocator.stocks());
            if let Some((pool, shared)) = shared {
                let said = format!("{shared} of {prefix} is given out by pool {pool}");
                return refused(called.to_owned(), &field, said);
            }
        }
        Ok(())
    }

    fn node(&self, name: &NodeName) -> Option<Node> {
        match self.hub.get(&Key::Node(name.clone()))?.object() {
            Object::Node(node) => Some(node.clone()),
            _ => None,
        }
    }

    /// The nodes that there are with a write.
    fn nodes_then(&self, round: &Staging, draft: &Staging) -> BTreeMap<NodeName, Node> {
        let names = self.hub.node_names().into_iter();
        let mut nodes: BTreeMap<NodeName, Node> =
            names.filter_map(|name| self.node(&name).map(|node| (name, node))).collect();
        for change in round.changes.iter().chain(&draft.changes) {
            match change {
                Change::Put(Object::Node(node)) => {
                    drop(nodes.insert(node.name.clone(), node.clone()));
                }
                Change::Delete(Key::Node(name)) => drop(nodes.remove(name)),
                _ => {}
            }
        }
        nodes
    }
}

/// The first of the pools, by name, that has something of this, too.
fn first_shared<'a>(
    stock: &Stock,
    pools: impl Iterator<Item = (&'a PoolName, &'a Stock)>,
) -> Option<(&'a PoolName, std::net::IpAddr)> {
    let shared = pools.filter_map(|(name, other)| Some((name, stock.shared_with(other)?)));
    shared.min_by_key(|(name, _)| *name)
}

fn places_of_node(node: &Node) -> Vec<Place> {
    let name = &node.name;
    let blocks = node.blocks.iter().enumerate().map(|(i, block)| {
        (format!("blocks[{i}]"), *block, format!("of the block {block} of node {name}"))
    });
    let own = |field: String, address| (field, IpNet::from(address), format!("node {name}'s own"));
    let others = node.addresses.iter().enumerate();
    let addresses = others.map(|(i, address)| own(format!("addresses[{i}]"), *address));
    blocks.chain([own("tunnel".to_owned(), node.tunnel)]).chain(addresses).collect()
}

fn places_of_fabric(fabric: &Fabric) -> Vec<Place> {
    let cluster = fabric.cluster.iter().enumerate().map(|(i, prefix)| {
        let whose = format!("of {prefix}, which nodes' blocks are taken from");
        (format!("cluster[{i}]"), *prefix, whose)
    });
    let services = fabric.services.iter().enumerate().map(|(i, prefix)| {
        (format!("services[{i}]"), *prefix, format!("of the fabric's services {prefix}"))
    });
    cluster.chain(services).collect()
}

fn refused(resource: String, field: &str, said: String) -> Result<(), WriteError> {
    Err(WriteError::Invalid { resource, fault: Fault { field: format!("spec.{field}"), said } })
}
