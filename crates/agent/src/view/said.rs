//! What the source said last, and what differs in what it says now. Pure.
//!
//! It is whole and valid at any time. This node itself never goes from it: its tunnel and its pods
//! would go along.

use super::ViewContent;
use ipnet::IpNet;
use osier_model::{Change, Fabric, Invalid, Key, Node, NodeName, Object, Problem, View};
use std::collections::BTreeMap;

/// See the module.
#[derive(Debug, Clone)]
pub struct Said {
    view: View,
}

/// What an update changed.
#[derive(Debug, Default)]
pub struct Taken {
    /// Whether what holds for the whole cluster is another now.
    pub fabric: bool,
    /// The steps from what was to what is: only what differs.
    pub changes: Vec<Change>,
    /// Steps that were wrong, and left out.
    pub refused: Vec<Invalid>,
}

// === impl Taken ===

impl Taken {
    /// Whether all is as it was.
    pub fn is_nothing(&self) -> bool {
        !self.fabric && self.changes.is_empty()
    }
}

// === impl Said ===

impl Said {
    /// Nothing yet, of this node.
    pub fn new(node: NodeName) -> Self {
        Self { view: View::new(node, Fabric::default()) }
    }

    /// All of it, ports of this node as the source wants them.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// This node, if it was ever spoken of.
    pub fn own_node(&self) -> Option<&Node> {
        self.view.nodes().get(self.view.node())
    }

    /// All objects, as steps from nothing.
    pub fn from_nothing(&self) -> impl Iterator<Item = Change> {
        objects(&self.view).into_values().map(Change::Put)
    }

    /// Takes an update in. On an error all is as it was.
    pub fn take(&mut self, update: ViewContent) -> Result<Taken, Invalid> {
        match update {
            ViewContent::Snapshot { fabric, objects } => self.replace(fabric, objects),
            ViewContent::Changes { fabric, changes } => self.step(fabric, changes),
        }
    }

    fn replace(&mut self, fabric: Fabric, said: Vec<Object>) -> Result<Taken, Invalid> {
        fabric.validate()?;
        let mut next = View::new(self.view.node().clone(), fabric);
        for object in said {
            next.apply(Change::Put(object))?;
        }
        check_all_blocks(&next)?;
        if let (Some(node), None) = (self.own_node(), next.nodes().get(next.node())) {
            next.apply(Change::Put(Object::Node(node.clone())))?;
        }
        let fabric = next.fabric() != self.view.fabric();
        let changes = steps(&self.view, &next);
        self.view = next;
        Ok(Taken { fabric, changes, refused: Vec::new() })
    }

    fn step(&mut self, fabric: Option<Fabric>, changes: Vec<Change>) -> Result<Taken, Invalid> {
        let mut taken = Taken::default();
        if let Some(fabric) = fabric.filter(|fabric| fabric != self.view.fabric()) {
            fabric.validate()?;
            let mut next = View::new(self.view.node().clone(), fabric);
            for change in self.from_nothing() {
                next.apply(change)?;
            }
            self.view = next;
            taken.fabric = true;
        }
        for change in changes {
            if self.changes_nothing(&change) {
                continue;
            }
            let checked = match &change {
                Change::Put(Object::Node(node)) => check_blocks(&self.view, node),
                _ => Ok(()),
            };
            match checked.and_then(|()| self.view.apply(change.clone())) {
                Ok(()) => taken.changes.push(change),
                Err(error) => taken.refused.push(error),
            }
        }
        Ok(taken)
    }

    fn changes_nothing(&self, change: &Change) -> bool {
        match change {
            Change::Put(object) => self.view.object(&object.key()).as_ref() == Some(object),
            Change::Delete(Key::Node(name)) if name == self.view.node() => true,
            Change::Delete(key) => self.view.object(key).is_none(),
        }
    }
}

/// No two nodes may give out the same addresses: each asks nobody. Prefixes in order have those that
/// they contain right behind them, so neighbours tell.
fn check_all_blocks(view: &View) -> Result<(), Invalid> {
    let of_node = |node: &Node| {
        let blocks = node.blocks.iter().enumerate();
        blocks.map(|(i, block)| (*block, i, node.name.clone())).collect::<Vec<_>>()
    };
    let mut blocks: Vec<(IpNet, usize, NodeName)> =
        view.nodes().values().flat_map(of_node).collect();
    blocks.sort_by_key(|(block, _, _)| (block.network(), block.prefix_len()));
    for pair in blocks.windows(2) {
        let [(first, _, of_first), (second, _, of_second)] = pair else { continue };
        // A node's own were checked with it.
        if of_first != of_second
            && first.contains(second)
            && let Some(node) = view.nodes().get(of_first.min(of_second))
        {
            // Told as a step would: from its side, the first of its blocks.
            return check_blocks(view, node);
        }
    }
    Ok(())
}

/// The same for one.
fn check_blocks(view: &View, node: &Node) -> Result<(), Invalid> {
    for (i, block) in node.blocks.iter().enumerate() {
        let overlap = |other: &IpNet| other.contains(&block.network()) || block.contains(other);
        for other in view.nodes().values().filter(|other| other.name != node.name) {
            if let Some(taken) = other.blocks.iter().find(|taken| overlap(taken)) {
                return Err(Invalid {
                    object: format!("node {}", node.name),
                    field: format!("blocks[{i}]"),
                    problem: Problem::Overlap {
                        one: block.to_string(),
                        other: format!("{taken} of node {}", other.name),
                    },
                });
            }
        }
    }
    Ok(())
}

fn objects(view: &View) -> BTreeMap<Key, Object> {
    view.objects().map(|object| (object.key(), object)).collect()
}

/// The steps from one view to the next. What goes, and what gets another number, goes first: its
/// number may be another's in the next.
fn steps(old: &View, new: &View) -> Vec<Change> {
    let (old, new) = (objects(old), objects(new));
    let goes = |key: &&Key| match (&old[*key], new.get(*key)) {
        (_, None) => true,
        (Object::Network(old), Some(Object::Network(new))) => old.vni != new.vni,
        (Object::Router(old), Some(Object::Router(new))) => old.vrf != new.vrf,
        _ => false,
    };
    let gone = old.keys().filter(goes).cloned().map(Change::Delete);
    let put = new.iter().filter(|(key, object)| old.get(key) != Some(object));
    gone.chain(put.map(|(_, object)| Change::Put(object.clone()))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{VIEW, parse};
    use super::*;

    fn said(text: &str) -> Said {
        let mut said = Said::new(NodeName::new("n1").unwrap());
        said.take(parse(text).unwrap().into()).unwrap();
        said
    }

    #[test]
    fn only_what_differs_is_a_step_and_steps_lead_there() {
        let mut now = said(VIEW);
        assert!(now.take(parse(VIEW).unwrap().into()).unwrap().is_nothing());
        let text = VIEW.replace("10.1.1.0/24, ", "").replace("name: pods", "name: shop");
        let mut stepped = now.clone();
        let taken = now.take(parse(&text).unwrap().into()).unwrap();
        assert_eq!(taken.changes.len(), 3, "{:?}", taken.changes);
        assert!(
            matches!(&taken.changes[0], Change::Delete(Key::Network(n)) if n.as_str() == "pods")
        );
        let update = ViewContent::Changes { fabric: None, changes: taken.changes };
        assert!(stepped.take(update).unwrap().refused.is_empty());
        assert_eq!(stepped.view(), said(&text).view());
    }

    #[test]
    fn numbers_may_be_swapped() {
        let blue = "  - { kind: network, name: blue, vni: 7, router: default }\n";
        let mut view = said(&format!("{VIEW}{blue}"));
        let swapped = VIEW.replace("vni: 1,", "vni: 7,") + &blue.replace("vni: 7", "vni: 1");
        let mut stepped = view.clone();
        let changes = view.take(parse(&swapped).unwrap().into()).unwrap().changes;
        let taken = stepped.take(ViewContent::Changes { fabric: None, changes }).unwrap();
        assert!(taken.refused.is_empty(), "{:?}", taken.refused);
        assert_eq!(stepped.view(), view.view());
    }

    #[test]
    fn a_wrong_step_is_left_out_and_a_wrong_snapshot_whole() {
        let mut view = said(VIEW);
        let object = |text: &str| serde_saphyr::from_str::<Object>(text).unwrap();
        let twice = object("{ kind: network, name: blue, vni: 1 }");
        let right = object("{ kind: network, name: green, vni: 9 }");
        let changes = vec![Change::Put(twice.clone()), Change::Put(right)];
        let taken = view.take(ViewContent::Changes { fabric: None, changes }).unwrap();
        assert_eq!((taken.changes.len(), taken.refused.len()), (1, 1));
        let before = view.view().clone();
        let objects = vec![twice, object("{ kind: network, name: red, vni: 1 }")];
        let update = ViewContent::Snapshot { fabric: Fabric::default(), objects };
        assert!(view.take(update).is_err());
        assert_eq!(view.view(), &before);
    }

    #[test]
    fn no_two_nodes_give_out_the_same_addresses() {
        let mut view = said(VIEW);
        let other = |block: &str| {
            format!("  - {{ kind: node, name: n2, tunnel: 192.0.2.2, blocks: [{block}] }}\n")
        };
        let error = view.take(parse(&(VIEW.to_owned() + &other("10.1.0.0/16"))).unwrap().into());
        let said = error.unwrap_err().to_string();
        assert_eq!(said, "node n1: blocks[0]: 10.1.1.0/24 overlaps 10.1.0.0/16 of node n2");
        let document = parse(&format!("objects:\n{}", other("10.1.1.128/25"))).unwrap();
        let changes = document.objects.into_iter().map(Change::Put).collect();
        let taken = view.take(ViewContent::Changes { fabric: None, changes }).unwrap();
        assert_eq!((taken.changes.len(), taken.refused.len()), (0, 1));
        // A block may move.
        let moved = VIEW.replace("10.1.1.0/24, ", "") + &other("10.1.1.0/24");
        assert_eq!(view.take(parse(&moved).unwrap().into()).unwrap().changes.len(), 2);
    }

    #[test]
    fn overlaps_are_found_wherever_they_are() {
        const BLOCKS: [&str; 6] =
            ["10.0.0.0/8", "10.1.0.0/16", "10.1.1.0/24", "10.2.0.0/16", "fd00::/16", "fd00:1::/32"];
        for n in 0..BLOCKS.len().pow(3) {
            let [a, b, c] = [n / 36, n / 6 % 6, n % 6].map(|at| BLOCKS[at]);
            let nodes = [("n1", a), ("n2", b), ("n3", c)];
            let objects = nodes.map(|(name, block)| {
                let node = format!(
                    "{{ kind: node, name: {name}, tunnel: 192.0.2.1, blocks: ['{block}'] }}"
                );
                serde_saphyr::from_str::<Object>(&node).unwrap()
            });
            let (fabric, objects) = (Fabric::default(), objects.to_vec());
            let refused = Said::new("n1".parse().unwrap())
                .take(ViewContent::Snapshot { fabric, objects })
                .is_err();
            let net = |text: &str| text.parse::<IpNet>().unwrap();
            let meet = |one: &str, other: &str| {
                net(one).contains(&net(other)) || net(other).contains(&net(one))
            };
            assert_eq!(refused, meet(a, b) || meet(a, c) || meet(b, c), "{a} {b} {c}");
        }
    }

    #[test]
    fn the_fabric_may_change_and_this_node_stays() {
        let mut view = said(VIEW);
        let text = VIEW.replace("geneve", "vxlan").replace("name: n1", "name: n2");
        let text = text.replace("10.1.1.0/24, \"fd01:0:0:1::/64\"", "10.1.2.0/24");
        let taken = view.take(parse(&text).unwrap().into()).unwrap();
        assert!(taken.fabric);
        assert_eq!(view.view().nodes().len(), 2);
        let changes = vec![Change::Delete(Key::Node("n1".parse().unwrap()))];
        let fabric = Some(Fabric::default());
        let taken = view.take(ViewContent::Changes { fabric, changes }).unwrap();
        assert!(taken.fabric && taken.changes.is_empty());
        assert!(view.own_node().is_some() && view.view().fabric().cluster.is_empty());
    }
}
