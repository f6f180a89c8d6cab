//! What a change means to each node.

use crate::shared::Shared;
use crate::table::Id;
use osier_model::{Change, Key, NodeName, Object};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// One object of a node's view: as it was there, and as it is.
#[derive(Debug, Clone)]
pub struct Step {
    /// Before; nothing if the node did not know it.
    pub was: Option<Arc<Shared>>,
    /// Now; nothing if the node need not know it any more.
    pub now: Option<Arc<Shared>>,
}

/// What changes in one node's view.
#[derive(Debug, Clone)]
pub struct Delta {
    /// Whose.
    pub node: NodeName,
    /// One step for each object, none twice, each a real change.
    pub steps: Vec<Step>,
}

/// What a change means to all nodes.
#[derive(Debug, Clone, Default)]
pub struct Deltas {
    /// Nodes that are new. What they need is their whole view.
    pub added: Vec<NodeName>,
    /// Nodes that are gone, and need nothing.
    pub removed: Vec<NodeName>,
    /// The others whose views change.
    pub changed: Vec<Delta>,
}

// === impl Step ===

impl Step {
    /// Which object.
    pub fn key(&self) -> Option<Key> {
        self.now.as_ref().or(self.was.as_ref()).map(|shared| shared.object().key())
    }
}

// === impl Delta ===

impl Delta {
    /// As changes of a view, in an order in which each can be made.
    pub fn changes(&self) -> Vec<Change> {
        let object = |shared: &Option<Arc<Shared>>| shared.as_ref().map(|s| s.object().clone());
        changes(self.steps.iter().map(|step| (object(&step.was), object(&step.now))))
    }
}

/// Steps as changes of a view, in an order in which each can be made: what goes, and what gets
/// another number, goes first, because its number may be another's now.
pub fn changes(steps: impl Iterator<Item = (Option<Object>, Option<Object>)>) -> Vec<Change> {
    let (mut gone, mut put) = (Vec::new(), Vec::new());
    for (was, now) in steps {
        let renumbered = match (&was, &now) {
            (Some(Object::Network(was)), Some(Object::Network(now))) => was.vni != now.vni,
            (Some(Object::Router(was)), Some(Object::Router(now))) => was.vrf != now.vrf,
            (Some(_), None) => true,
            _ => false,
        };
        if let Some(was) = was.filter(|_| renumbered) {
            gone.push(was.key());
        }
        put.extend(now);
    }
    // Ports before their networks when they go, after them when they come: fewer states in between
    // that mean nothing.
    gone.sort_by(|one, other| other.cmp(one));
    put.sort_by_key(Object::key);
    let gone = gone.into_iter().map(Change::Delete);
    gone.chain(put.into_iter().map(Change::Put)).collect()
}

/// An object, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Ref {
    Node(Id),
    Router(Id),
    Network(Id),
    Port(Id),
    Service(Id),
    Endpoints(Id),
    Selection(Id),
    Policy(Id),
    Guard(Id),
    Workload(Id),
}

/// Whether a node had an object before the change, and has it now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) had: bool,
    pub(crate) has: bool,
}

/// Gathers who gains and loses what. Whatever goes back and forth inside of one change comes to
/// nothing.
#[derive(Debug, Default)]
pub(crate) struct Gathering {
    pub(crate) nodes: FxHashMap<Id, FxHashMap<Ref, Seen>>,
    /// Nodes that come or go with the change: nothing is told to them.
    pub(crate) silent: FxHashSet<Id>,
}

// === impl Gathering ===

impl Gathering {
    fn seen(&mut self, node: Id, object: Ref, seen: Seen) {
        if self.silent.contains(&node) {
            return;
        }
        let entry = self.nodes.entry(node).or_default().entry(object);
        entry.and_modify(|known| known.has = seen.has).or_insert(seen);
    }

    pub(crate) fn gain(&mut self, node: Id, object: Ref) {
        self.seen(node, object, Seen { had: false, has: true });
    }

    pub(crate) fn lose(&mut self, node: Id, object: Ref) {
        self.seen(node, object, Seen { had: true, has: false });
    }

    /// The node had it and keeps it; its content is another.
    pub(crate) fn touch(&mut self, node: Id, object: Ref) {
        self.seen(node, object, Seen { had: true, has: true });
    }
}
