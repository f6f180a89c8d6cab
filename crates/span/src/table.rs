//! Things with names, known by small numbers inside.

use rustc_hash::FxHashMap;
use std::hash::Hash;
use std::ops::{Index, IndexMut};

/// A number of a thing in its table. Numbers of things that are gone are used again.
pub(crate) type Id = u32;

/// Things with names.
#[derive(Debug)]
pub(crate) struct Table<K, V> {
    ids: FxHashMap<K, Id>,
    slots: Vec<Option<V>>,
    free: Vec<Id>,
}

// === impl Table ===

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self { ids: FxHashMap::default(), slots: Vec::new(), free: Vec::new() }
    }
}

impl<K: Hash + Eq, V> Table<K, V> {
    pub(crate) fn id(&self, key: &K) -> Option<Id> {
        self.ids.get(key).copied()
    }

    /// The name as the table has it, so that equal names share their text.
    pub(crate) fn key(&self, key: &K) -> Option<&K> {
        self.ids.get_key_value(key).map(|(key, _)| key)
    }

    pub(crate) fn insert(&mut self, key: K, value: V) -> Id {
        let id = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            Id::try_from(self.slots.len() - 1).expect("a table has fewer than 2^32 slots")
        });
        self.slots[id as usize] = Some(value);
        self.ids.insert(key, id);
        id
    }

    pub(crate) fn remove(&mut self, key: &K) {
        if let Some(id) = self.ids.remove(key) {
            self.slots[id as usize] = None;
            self.free.push(id);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Id, &V)> {
        let numbered = (0..).zip(&self.slots);
        numbered.filter_map(|(id, slot)| slot.as_ref().map(|value| (id, value)))
    }
}

impl<K, V> Index<Id> for Table<K, V> {
    type Output = V;
    fn index(&self, id: Id) -> &V {
        self.slots[id as usize].as_ref().expect("an id is used only while its thing is there")
    }
}

impl<K, V> IndexMut<Id> for Table<K, V> {
    fn index_mut(&mut self, id: Id) -> &mut V {
        self.slots[id as usize].as_mut().expect("an id is used only while its thing is there")
    }
}
