//! A table that is told whole from time to time: what is not told again is gone.

use std::collections::{BTreeMap, BTreeSet};

/// Objects by key.
#[derive(Debug)]
pub(crate) struct Held<K, V> {
    objects: BTreeMap<K, V>,
    /// While all are told anew: those that were told.
    told: Option<BTreeSet<K>>,
}

impl<K, V> Default for Held<K, V> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), told: None }
    }
}

impl<K: Ord + Clone, V: PartialEq> Held<K, V> {
    /// All will be told anew. Until that is done, nothing goes.
    pub(crate) fn begin(&mut self) {
        self.told = Some(BTreeSet::new());
    }

    /// Some of them will be told anew; the others are as good as told.
    pub(crate) fn begin_where(&mut self, is_told: impl Fn(&K) -> bool) {
        let others = self.objects.keys().filter(|key| !is_told(key)).cloned();
        self.told = Some(others.collect());
    }

    /// One is so; says whether that is new.
    pub(crate) fn put(&mut self, key: K, value: V) -> bool {
        if let Some(told) = &mut self.told {
            told.insert(key.clone());
        }
        if self.objects.get(&key) == Some(&value) {
            return false;
        }
        self.objects.insert(key, value);
        true
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        self.objects.remove(key)
    }

    /// All were told: those that were not are gone, and are returned.
    pub(crate) fn end(&mut self) -> Vec<(K, V)> {
        let Some(told) = self.told.take() else { return Vec::new() };
        self.objects.extract_if(.., |key, _| !told.contains(key)).collect()
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.objects.get(key)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.objects.iter()
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.objects.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_told_again_is_gone_but_not_before_the_end() {
        let mut held = Held::default();
        held.begin();
        assert!(held.put("a", 1) && held.put("b", 2));
        assert!(held.end().is_empty());
        held.begin();
        assert!(!held.put("a", 1));
        // The server went away in the middle, and tells anew.
        held.begin();
        assert!(held.put("c", 3));
        assert_eq!(held.values().count(), 3);
        assert_eq!(held.end(), [("a", 1), ("b", 2)]);
        assert_eq!(held.iter().collect::<Vec<_>>(), [(&"c", &3)]);
    }
}
