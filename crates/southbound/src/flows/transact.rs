//! New plans: checked as a whole first, then taken, so that a rejected transaction changes nothing.

use super::desired::{Desired, Record, Slots};
use super::error::PutError;
use super::item::Item;
use super::ledger::{Ledger, NOBODY, OwnerId, Slot};
use super::owner::{Owner, Plan, Transaction};
use hashbrown::HashTable;
use rustc_hash::{FxHashMap, FxHashSet};

/// The items that some owners want from now on.
struct Claims<T> {
    /// With the hash of each item's key.
    items: Vec<(OwnerId, u64, T)>,
}

impl Desired {
    /// Takes new plans in place of those that their owners had, or none of them. Of an owner that
    /// stands twice, the last plan counts.
    pub fn transact(&mut self, transaction: Transaction) -> Result<(), PutError> {
        self.take(transaction).map(drop)
    }

    /// Like [`Self::transact`]; gives the owners, for [`Self::trouble_of`].
    pub(super) fn take(&mut self, transaction: Transaction) -> Result<Vec<OwnerId>, PutError> {
        let mut plans: FxHashMap<Owner, Plan> = FxHashMap::default();
        for (owner, plan) in transaction.plans {
            self.ownership.check(&owner, &plan)?;
            plans.insert(owner, plan);
        }
        let mut new = Vec::new();
        let mut changing = FxHashSet::default();
        let (mut tlvs, mut meters) = (Claims::default(), Claims::default());
        let (mut groups, mut flows) = (Claims::default(), Claims::default());
        for (name, plan) in plans {
            let owner = self.by_name.get(&name).copied().unwrap_or_else(|| {
                let owner = self.enter(name);
                new.push(owner);
                owner
            });
            changing.insert(owner);
            tlvs.add(owner, plan.tlvs);
            meters.add(owner, plan.meters);
            groups.add(owner, plan.groups);
            flows.add(owner, plan.flows);
        }
        let checked = tlvs
            .check(&self.tlvs, &changing, self)
            .and_then(|()| meters.check(&self.meters, &changing, self))
            .and_then(|()| groups.check(&self.groups, &changing, self))
            .and_then(|()| flows.check(&self.flows, &changing, self));
        if let Err(error) = checked {
            for owner in new {
                self.forget(owner);
            }
            return Err(error);
        }

        let mut old: FxHashMap<OwnerId, Slots> = FxHashMap::default();
        for owner in &changing {
            self.retry(*owner);
            if let Some(record) = self.owners.get_mut(owner) {
                old.insert(*owner, std::mem::take(&mut record.slots));
            }
        }
        // All is claimed before anything is released: what passes from one owner to another is
        // never without one.
        tlvs.claim(&mut self.tlvs, &mut self.owners, |slots| &mut slots.tlvs);
        meters.claim(&mut self.meters, &mut self.owners, |slots| &mut slots.meters);
        groups.claim(&mut self.groups, &mut self.owners, |slots| &mut slots.groups);
        flows.claim(&mut self.flows, &mut self.owners, |slots| &mut slots.flows);
        for (owner, old) in old {
            self.release(owner, &old);
        }
        Ok(changing.into_iter().collect())
    }

    fn release(&mut self, owner: OwnerId, old: &Slots) {
        let Some(Record { slots, .. }) = self.owners.get(&owner) else { return };
        let gone = |old: &[Slot], new: &[Slot]| -> Vec<Slot> {
            old.iter().copied().filter(|slot| new.binary_search(slot).is_err()).collect()
        };
        let gone = Slots {
            tlvs: gone(&old.tlvs, &slots.tlvs),
            meters: gone(&old.meters, &slots.meters),
            groups: gone(&old.groups, &slots.groups),
            flows: gone(&old.flows, &slots.flows),
        };
        gone.tlvs.iter().for_each(|slot| self.tlvs.release(owner, *slot));
        gone.meters.iter().for_each(|slot| self.meters.release(owner, *slot));
        gone.groups.iter().for_each(|slot| self.groups.release(owner, *slot));
        for slot in gone.flows {
            self.flows.release(owner, slot);
            if self.flows.get(slot).is_none_or(|entry| !entry.is_wanted()) {
                self.conflicts.remove(&slot);
            }
        }
        if self.owners.get(&owner).is_some_and(|record| record.slots.is_empty()) {
            self.forget(owner);
        }
    }

    fn enter(&mut self, name: Owner) -> OwnerId {
        while self.next_owner == NOBODY || self.owners.contains_key(&self.next_owner) {
            self.next_owner = self.next_owner.wrapping_add(1);
        }
        let owner = self.next_owner;
        // Numbers are not given again soon: items of an owner that is gone still name it.
        self.next_owner = owner.wrapping_add(1);
        self.by_name.insert(name.clone(), owner);
        self.owners.insert(owner, Record { name, slots: Slots::default() });
        owner
    }

    fn forget(&mut self, owner: OwnerId) {
        if let Some(record) = self.owners.remove(&owner) {
            self.by_name.remove(&record.name);
        }
    }
}

impl Slots {
    fn is_empty(&self) -> bool {
        self.tlvs.is_empty()
            && self.meters.is_empty()
            && self.groups.is_empty()
            && self.flows.is_empty()
    }
}

// === impl Claims ===

impl<T> Default for Claims<T> {
    fn default() -> Self {
        Self { items: Vec::new() }
    }
}

impl<T: Item> Claims<T> {
    fn add(&mut self, owner: OwnerId, items: Vec<T>) {
        self.items.reserve(items.len());
        self.items.extend(items.into_iter().map(|item| (owner, item.key_hash(), item)));
    }

    /// Whether each key is wanted in one form only, among these and by owners that do not change.
    fn check(
        &self,
        ledger: &Ledger<T>,
        changing: &FxHashSet<OwnerId>,
        desired: &Desired,
    ) -> Result<(), PutError> {
        let mut first: HashTable<usize> = HashTable::with_capacity(self.items.len());
        for (at, (owner, hash, item)) in self.items.iter().enumerate() {
            let same_key = |other: &usize| self.items[*other].2.key() == item.key();
            match first.find(*hash, same_key) {
                Some(other) => {
                    let (other, _, found) = &self.items[*other];
                    if !found.same(item) {
                        return Err(clash(desired, (*owner, item), (*other, found)));
                    }
                }
                None => {
                    first.insert_unique(*hash, at, |at| self.items[*at].1);
                }
            }
            let Some(entry) = ledger.find(*hash, item).and_then(|slot| ledger.get(slot)) else {
                continue;
            };
            if !entry.item.same(item)
                && let Some(other) = entry.owners().iter().find(|other| !changing.contains(other))
            {
                return Err(clash(desired, (*owner, item), (*other, &entry.item)));
            }
        }
        Ok(())
    }

    fn claim(
        self,
        ledger: &mut Ledger<T>,
        owners: &mut FxHashMap<OwnerId, Record>,
        slots: impl Fn(&mut Slots) -> &mut Vec<Slot>,
    ) {
        let mut changed = FxHashSet::default();
        for (owner, hash, item) in self.items {
            let slot = ledger.claim(owner, hash, item);
            if let Some(record) = owners.get_mut(&owner) {
                slots(&mut record.slots).push(slot);
                changed.insert(owner);
            }
        }
        for owner in changed {
            if let Some(record) = owners.get_mut(&owner) {
                let slots = slots(&mut record.slots);
                slots.sort_unstable();
                slots.dedup();
                slots.shrink_to_fit();
            }
        }
    }
}

fn clash<T: Item>(desired: &Desired, wanted: (OwnerId, &T), found: (OwnerId, &T)) -> PutError {
    PutError::Clash {
        owner: desired.name(&[wanted.0]),
        wanted: wanted.1.text(),
        other: desired.name(&[found.0]),
        found: found.1.text(),
    }
}
