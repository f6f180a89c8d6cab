//! The data, in units.
//!
//! A unit is an entry of a list that stands in containers only (a pod), or a leaf there, under its
//! path: `pod:coe/pods=uid`. Containers are put together from units when they are asked for, and
//! taken apart when they are written.

use crate::body::keys_of;
use crate::path::Step;
use crate::schema::{Node, NodeKind, Schema};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// All data that clients wrote.
#[derive(Debug, Clone, Default)]
pub struct Datastore {
    units: BTreeMap<String, Value>,
}

/// What happens to a unit: its path, and what it is then.
pub type UnitChange = (String, Option<Value>);

// === impl Datastore ===

impl Datastore {
    /// A unit.
    pub fn unit(&self, path: &str) -> Option<&Value> {
        self.units.get(path)
    }

    /// All units, by path.
    pub fn units(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.units.iter()
    }

    /// Changes units; what was before comes back, to undo it with.
    pub fn apply(&mut self, changes: &[UnitChange]) -> Vec<UnitChange> {
        let mut before = Vec::with_capacity(changes.len());
        for (path, value) in changes {
            let was = match value {
                Some(value) => self.units.insert(path.clone(), value.clone()),
                None => self.units.remove(path),
            };
            before.push((path.clone(), was));
        }
        before.reverse();
        before
    }

    /// The units in a container, or of a list.
    pub fn under<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a String, &'a Value)> {
        let from = self.units.range(prefix.to_owned()..);
        let is_in = move |path: &str| {
            let rest = path.strip_prefix(prefix);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '=']))
        };
        from.take_while(move |(path, _)| path.starts_with(prefix))
            .filter(move |(path, _)| is_in(path))
    }

    /// The data at some steps: an entry, a container, all entries of a list, a leaf.
    pub fn get(&self, steps: &[Step]) -> Option<Value> {
        let Some((at, inner)) = split(steps) else {
            let last = steps.last()?;
            return self.whole(last.node, &container_path(steps)).filter(|v| !is_empty(v));
        };
        let mut value = self.units.get(&at)?;
        for step in inner {
            value = value.get(&step.node.name)?;
            if !step.keys.is_empty() {
                value = value.as_array()?.iter().find(|e| keys_of(step.node, e) == step.keys)?;
            }
        }
        Some(value.clone())
    }

    /// A container or a whole list of units.
    fn whole(&self, node: &Node, path: &str) -> Option<Value> {
        match &node.kind {
            NodeKind::Container(members) => {
                let mut whole = Map::new();
                for member in members {
                    let found = self.whole(member, &format!("{path}/{}", member.name));
                    if let Some(found) = found.filter(|found| !is_empty(found)) {
                        whole.insert(member.name.clone(), found);
                    }
                }
                Some(Value::Object(whole))
            }
            NodeKind::List { .. } => {
                Some(self.under(path).map(|(_, value)| value.clone()).collect::<Vec<_>>().into())
            }
            NodeKind::Leaf(_) | NodeKind::LeafList(_) => self.units.get(path).cloned(),
        }
    }

    /// All data: the containers by name, with their modules.
    pub fn all(&self) -> Vec<(&'static Node, Value)> {
        let roots = Schema::get().roots().filter(|root| root.is_config);
        let found = roots.filter_map(|root| {
            let path = format!("{}:{}", root.module, root.name);
            Some((root, self.whole(root, &path)?))
        });
        found.filter(|(_, value)| !is_empty(value)).collect()
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// The path of the unit that steps lead to or into, and the steps within it; nothing for what is
/// above units.
pub(crate) fn split(steps: &[Step]) -> Option<(String, &[Step])> {
    let first = steps.iter().position(|step| !matches!(step.node.kind, NodeKind::Container(_)))?;
    let unit = &steps[first];
    if unit.node.is_list() && unit.keys.is_empty() {
        return None;
    }
    let above = container_path(&steps[..first]);
    let path = unit_path(&format!("{above}/{}", unit.node.name), &unit.keys);
    Some((path, &steps[first + 1..]))
}

/// The path of containers, and of a list without keys.
pub(crate) fn container_path(steps: &[Step]) -> String {
    let mut path = String::new();
    for step in steps {
        match path.is_empty() {
            true => path = format!("{}:{}", step.node.module, step.node.name),
            false => path = format!("{path}/{}", step.node.name),
        }
    }
    path
}

/// The path of an entry of a list.
pub(crate) fn unit_path(list: &str, keys: &[String]) -> String {
    match keys {
        [] => list.to_owned(),
        keys => format!("{list}={}", keys.join(",")),
    }
}

/// Takes a container, or a list of units, apart.
pub(crate) fn units_of(node: &Node, path: &str, value: &Value, units: &mut Vec<(String, Value)>) {
    match &node.kind {
        NodeKind::Container(members) => {
            for member in members {
                if let Some(inner) = value.get(&member.name) {
                    units_of(member, &format!("{path}/{}", member.name), inner, units);
                }
            }
        }
        NodeKind::List { .. } => {
            for entry in value.as_array().into_iter().flatten() {
                units.push((unit_path(path, &keys_of(node, entry)), entry.clone()));
            }
        }
        NodeKind::Leaf(_) | NodeKind::LeafList(_) => units.push((path.to_owned(), value.clone())),
    }
}
