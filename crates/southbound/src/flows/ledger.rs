//! One kind of items: what is wanted and by whom, what is believed to be on the switch, and which
//! items must be looked at because the two may differ.
//!
//! Each item is stored once, in a slot; indexes and owners hold slot numbers. An item that nobody
//! wants any more stays until it is gone from the switch. Pure: knows no kind of item, and sends
//! nothing.

use super::item::Item;
use hashbrown::HashTable;
use smallvec::SmallVec;

/// An owner, within one `Desired`.
pub(super) type OwnerId = u32;
/// Nobody in particular: what a read-back found.
pub(super) const NOBODY: OwnerId = u32::MAX;
/// The place of an item.
pub(super) type Slot = u32;

/// Why an item is not sent though it is wanted or to be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hold {
    No,
    /// The switch refused a change of its owner's.
    Refused,
    /// Somebody else's item is in its place.
    Conflict,
}

#[derive(Debug)]
pub(super) struct Entry<T> {
    pub(super) item: T,
    owners: SmallVec<[OwnerId; 4]>,
    /// Who was the last to want it.
    last: OwnerId,
    /// The last reading in which it was found.
    seen: u32,
    hold: Hold,
    /// Whether the switch holds an item of ours with this key, not necessarily equal.
    present: bool,
    /// Whether it may differ from what the switch holds.
    pending: bool,
}

#[derive(Debug)]
pub(super) struct Ledger<T> {
    index: HashTable<Slot>,
    entries: Vec<Option<Entry<T>>>,
    free: Vec<Slot>,
    /// May name slots that are not pending any more.
    pending: Vec<Slot>,
    reading: u32,
    wanted: usize,
    marks: usize,
}

/// What a found item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// As it is wanted.
    Equal,
    /// Wanted, but not like this.
    Differs,
    /// Not wanted.
    Unwanted,
}

// === impl Entry ===

impl<T> Entry<T> {
    pub(super) fn owners(&self) -> &[OwnerId] {
        &self.owners
    }

    pub(super) fn is_wanted(&self) -> bool {
        !self.owners.is_empty()
    }

    pub(super) fn is_present(&self) -> bool {
        self.present
    }

    /// Those who answer for what is sent of it.
    pub(super) fn answerable(&self) -> &[OwnerId] {
        if self.owners.is_empty() { std::slice::from_ref(&self.last) } else { &self.owners }
    }
}

// === impl Ledger ===

impl<T> Default for Ledger<T> {
    fn default() -> Self {
        Self {
            index: HashTable::new(),
            entries: Vec::new(),
            free: Vec::new(),
            pending: Vec::new(),
            reading: 0,
            wanted: 0,
            marks: 0,
        }
    }
}

impl<T: Item> Ledger<T> {
    /// How many items are wanted.
    pub(super) fn wanted(&self) -> usize {
        self.wanted
    }

    pub(super) fn get(&self, slot: Slot) -> Option<&Entry<T>> {
        self.entries.get(slot as usize)?.as_ref()
    }

    fn get_mut(&mut self, slot: Slot) -> Option<&mut Entry<T>> {
        self.entries.get_mut(slot as usize)?.as_mut()
    }

    /// All entries that are wanted.
    pub(super) fn iter_wanted(&self) -> impl Iterator<Item = &Entry<T>> {
        self.entries.iter().flatten().filter(|entry| entry.is_wanted())
    }

    /// The slot of the item with the key of this one.
    pub(super) fn find(&self, hash: u64, item: &T) -> Option<Slot> {
        let same = |slot: &Slot| self.get(*slot).is_some_and(|e| e.item.key() == item.key());
        self.index.find(hash, same).copied()
    }

    fn insert(&mut self, hash: u64, item: T) -> Slot {
        let entry = Entry {
            item,
            owners: SmallVec::new(),
            last: NOBODY,
            seen: self.reading,
            hold: Hold::No,
            present: false,
            pending: false,
        };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            // Four billion flows take more memory than there is.
            Slot::try_from(self.entries.len() - 1).unwrap_or(Slot::MAX)
        });
        self.entries[slot as usize] = Some(entry);
        let entries = &self.entries;
        let hash_of =
            |slot: &Slot| entries[*slot as usize].as_ref().map_or(0, |e| e.item.key_hash());
        self.index.insert_unique(hash, slot, hash_of);
        slot
    }

    fn remove(&mut self, slot: Slot) {
        let Some(entry) = self.entries.get_mut(slot as usize).and_then(Option::take) else {
            return;
        };
        if let Ok(found) = self.index.find_entry(entry.item.key_hash(), |other| *other == slot) {
            found.remove();
        }
        self.free.push(slot);
    }

    /// Makes sure that an item is looked at.
    fn mark(&mut self, slot: Slot) {
        self.marks += usize::from(self.mark_again(slot));
    }

    /// Makes sure that an item is looked at that was known to differ. Tells whether it was not.
    fn mark_again(&mut self, slot: Slot) -> bool {
        let Some(entry) = self.get_mut(slot) else { return false };
        if entry.pending || entry.hold != Hold::No {
            return false;
        }
        entry.pending = true;
        self.pending.push(slot);
        true
    }

    /// How often an item came to differ, ever.
    pub(super) fn marks(&self) -> usize {
        self.marks
    }

    // What is wanted.

    /// The owner wants this item. Who else wants one of its key wants the same, or is about to
    /// claim the same or to release it.
    pub(super) fn claim(&mut self, owner: OwnerId, hash: u64, item: T) -> Slot {
        let slot = if let Some(slot) = self.find(hash, &item) {
            self.renew(slot, item);
            slot
        } else {
            let slot = self.insert(hash, item);
            self.mark(slot);
            slot
        };
        if let Some(entry) = self.get_mut(slot) {
            let was_wanted = entry.is_wanted();
            if !entry.owners.contains(&owner) {
                entry.owners.push(owner);
            }
            self.wanted += usize::from(!was_wanted);
        }
        slot
    }

    /// Somebody wants this slot's item, like this.
    fn renew(&mut self, slot: Slot, item: T) {
        let Some(entry) = self.get_mut(slot) else { return };
        let changed = !entry.item.same(&item);
        if changed {
            entry.item = item;
        }
        // What was refused is tried again with a new owner or content.
        let held = entry.hold == Hold::Refused;
        if held {
            entry.hold = Hold::No;
        }
        if changed || held || !entry.is_wanted() {
            self.mark(slot);
        }
    }

    /// The owner does not want this item any more.
    pub(super) fn release(&mut self, owner: OwnerId, slot: Slot) {
        let Some(entry) = self.get_mut(slot) else { return };
        let Some(at) = entry.owners.iter().position(|o| *o == owner) else { return };
        entry.owners.swap_remove(at);
        if entry.is_wanted() {
            return;
        }
        entry.last = owner;
        // In conflict it was not on the switch; there is nothing to keep back any more.
        if entry.hold == Hold::Conflict {
            entry.hold = Hold::No;
        }
        let present = entry.present;
        self.wanted -= 1;
        if present {
            self.mark(slot);
        } else {
            self.remove(slot);
        }
    }

    // What is on the switch.

    /// Begins to read what the switch holds: all of it is about to be found.
    pub(super) fn begin_reading(&mut self) {
        self.reading = self.reading.wrapping_add(1);
    }

    /// The switch holds this item of ours.
    pub(super) fn found(&mut self, hash: u64, item: T) -> Found {
        let reading = self.reading;
        let Some(slot) = self.find(hash, &item) else {
            let slot = self.insert(hash, item);
            if let Some(entry) = self.get_mut(slot) {
                entry.present = true;
            }
            self.mark(slot);
            return Found::Unwanted;
        };
        let Some(entry) = self.get_mut(slot) else { return Found::Unwanted };
        entry.seen = reading;
        entry.present = true;
        if !entry.is_wanted() {
            self.mark_again(slot);
            return Found::Unwanted;
        }
        if !entry.item.same(&item) {
            // Perhaps it was wanted in a form that no switch reads back.
            match entry.item.canonical() {
                Some(canonical) if canonical.same(&item) => entry.item = canonical,
                _ => {
                    self.mark(slot);
                    return Found::Differs;
                }
            }
        }
        entry.pending = false;
        Found::Equal
    }

    /// The switch does not hold the item of this slot any more.
    pub(super) fn gone(&mut self, slot: Slot) {
        let Some(entry) = self.get_mut(slot) else { return };
        entry.present = false;
        if entry.is_wanted() {
            self.mark(slot);
        } else {
            self.remove(slot);
        }
    }

    /// An item of ours has been overwritten.
    pub(super) fn taken(&mut self, slot: Slot) {
        self.mark(slot);
    }

    /// The item went as it was meant to.
    pub(super) fn expired(&mut self, slot: Slot) {
        if let Some(entry) = self.get_mut(slot) {
            entry.present = false;
        }
    }

    /// Ends a reading: what was not found is not there.
    pub(super) fn finish_reading(&mut self) {
        for slot in 0..self.entries.len() {
            let slot = Slot::try_from(slot).unwrap_or(Slot::MAX);
            if self.get(slot).is_some_and(|entry| entry.seen != self.reading) {
                self.gone(slot);
            }
        }
    }

    // What is sent.

    /// Whether anything may differ.
    pub(super) fn has_pending(&self) -> bool {
        self.pending().next().is_some()
    }

    /// Slots that may differ, without order.
    pub(super) fn pending(&self) -> impl Iterator<Item = (Slot, &Entry<T>)> {
        let pending = self.pending.iter().filter_map(|slot| Some((*slot, self.get(*slot)?)));
        pending.filter(|(_, entry)| entry.pending)
    }

    /// Drops from the list what is not pending any more, and what is named twice.
    pub(super) fn compact_pending(&mut self) {
        let mut list = std::mem::take(&mut self.pending);
        // An entry that was freed and taken again may be named twice: the flag counts once.
        list.retain(|slot| {
            self.get_mut(*slot).is_some_and(|entry| std::mem::take(&mut entry.pending))
        });
        for slot in &list {
            if let Some(entry) = self.get_mut(*slot) {
                entry.pending = true;
            }
        }
        self.pending = list;
    }

    /// What is wanted of the slot is now on the switch.
    pub(super) fn done(&mut self, slot: Slot) {
        let Some(entry) = self.get_mut(slot) else { return };
        entry.pending = false;
        entry.present = entry.is_wanted();
        if !entry.present {
            self.remove(slot);
        }
    }

    /// Keeps an item back.
    pub(super) fn hold(&mut self, slot: Slot, hold: Hold) {
        if let Some(entry) = self.get_mut(slot) {
            entry.hold = hold;
            entry.pending = false;
            // In conflict, what is there is not ours.
            entry.present &= hold != Hold::Conflict;
        }
    }

    /// Leaves an item until it is found to differ again.
    pub(super) fn defer(&mut self, slot: Slot) {
        if let Some(entry) = self.get_mut(slot) {
            entry.pending = false;
        }
    }

    /// Keeps an item back no more, if it was for this reason.
    pub(super) fn unhold(&mut self, slot: Slot, hold: Hold) {
        if let Some(entry) = self.get_mut(slot)
            && entry.hold == hold
        {
            entry.hold = Hold::No;
            self.mark(slot);
        }
    }
}
