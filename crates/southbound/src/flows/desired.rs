//! What is wanted of a switch, by owner, and how that differs from what the switch is believed to
//! hold. Pure; the cost of a change is that of its own plan.
//!
//! [`Desired::transact`] takes plans; `diff.rs` takes what the switch tells; `batch.rs` gives what
//! to send.

use super::error::Trouble;
use super::item::Item;
use super::ledger::{Hold, Ledger, OwnerId, Slot};
use super::owner::Owner;
use super::ownership::Ownership;
use osier_openflow::flow::Flow;
use osier_openflow::group::Group;
use osier_openflow::message::TlvMap;
use osier_openflow::meter::Meter;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is wanted of a switch, and what of it is believed to be there.
#[derive(Debug)]
pub struct Desired {
    pub(super) ownership: Ownership,
    pub(super) owners: FxHashMap<OwnerId, Record>,
    pub(super) by_name: FxHashMap<Owner, OwnerId>,
    pub(super) next_owner: OwnerId,
    pub(super) tlvs: Ledger<TlvMap>,
    /// Our part of the switch's TLV table: a map is deleted as it is, not as it should be.
    pub(super) tlv_table: BTreeMap<u16, TlvMap>,
    pub(super) meters: Ledger<Meter>,
    pub(super) groups: Ledger<Group>,
    pub(super) flows: Ledger<Flow>,
    /// Cookies of flows that are not ours, by the hash of their key: enough to be suspicious
    /// before a flow is added, and little enough to have millions.
    pub(super) others: FxHashMap<u64, u64>,
    /// Wanted flows in whose place is somebody else's.
    pub(super) conflicts: FxHashMap<Slot, Arc<Trouble>>,
    /// Owners of whom the switch refused something.
    pub(super) refused: FxHashMap<OwnerId, Refused>,
}

/// What one owner wants.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) name: Owner,
    pub(super) slots: Slots,
}

/// Slots of each kind.
#[derive(Debug, Default)]
pub(super) struct Slots {
    pub(super) tlvs: Vec<Slot>,
    pub(super) meters: Vec<Slot>,
    pub(super) groups: Vec<Slot>,
    pub(super) flows: Vec<Slot>,
}

/// What was refused of an owner, and what is kept back for it.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) trouble: Arc<Trouble>,
    pub(super) held: Slots,
}

impl Desired {
    /// Nothing is wanted.
    pub fn new(ownership: Ownership) -> Self {
        Self {
            ownership,
            owners: FxHashMap::default(),
            by_name: FxHashMap::default(),
            next_owner: 0,
            tlvs: Ledger::default(),
            tlv_table: BTreeMap::new(),
            meters: Ledger::default(),
            groups: Ledger::default(),
            flows: Ledger::default(),
            others: FxHashMap::default(),
            conflicts: FxHashMap::default(),
            refused: FxHashMap::default(),
        }
    }

    /// How many flows are wanted.
    pub fn wanted_flows(&self) -> usize {
        self.flows.wanted()
    }

    /// All flows that are wanted, in no order.
    pub fn flows(&self) -> impl Iterator<Item = &Flow> {
        self.flows.iter_wanted().map(|entry| &entry.item)
    }

    /// All groups that are wanted, in no order.
    pub fn groups(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter_wanted().map(|entry| &entry.item)
    }

    /// Whether all that can be sent has been.
    pub fn is_settled(&self) -> bool {
        !(self.tlvs.has_pending()
            || self.meters.has_pending()
            || self.groups.has_pending()
            || self.flows.has_pending())
    }

    /// What is wanted and is not on the switch.
    pub fn troubles(&self) -> impl Iterator<Item = &Arc<Trouble>> {
        self.conflicts.values().chain(self.refused.values().map(|refused| &refused.trouble))
    }

    /// The first trouble of one of these owners.
    pub(super) fn trouble_of(&self, owners: &[OwnerId]) -> Option<&Arc<Trouble>> {
        if self.conflicts.is_empty() && self.refused.is_empty() {
            return None;
        }
        owners.iter().find_map(|owner| {
            let conflicts = || {
                let slots = &self.owners.get(owner)?.slots.flows;
                slots.iter().find_map(|slot| self.conflicts.get(slot))
            };
            self.refused.get(owner).map(|refused| &refused.trouble).or_else(conflicts)
        })
    }

    /// The name of the first of these owners that has one.
    pub(super) fn name(&self, owners: &[OwnerId]) -> Owner {
        let named = owners.iter().find_map(|owner| self.owners.get(owner));
        named.map_or_else(|| Owner::new("nobody"), |record| record.name.clone())
    }

    /// Keeps back what the owners of a refused item changed: what they had stays on the switch
    /// as it was. What others want as well is sent all the same.
    pub(super) fn refuse(&mut self, owners: &[OwnerId], trouble: &Arc<Trouble>) {
        for owner in owners {
            let refused = Refused { trouble: Arc::clone(trouble), held: Slots::default() };
            self.refused.entry(*owner).or_insert(refused);
        }
        let bad: FxHashSet<OwnerId> = self.refused.keys().copied().collect();
        let held = Slots {
            tlvs: hold_pending(&mut self.tlvs, &bad),
            meters: hold_pending(&mut self.meters, &bad),
            groups: hold_pending(&mut self.groups, &bad),
            flows: hold_pending(&mut self.flows, &bad),
        };
        // Which of the owners keeps the list does not matter: what is tried again too early is
        // refused again.
        if let Some(refused) = owners.first().and_then(|owner| self.refused.get_mut(owner)) {
            refused.held.tlvs.extend(held.tlvs);
            refused.held.meters.extend(held.meters);
            refused.held.groups.extend(held.groups);
            refused.held.flows.extend(held.flows);
        }
    }

    /// Tries again what was refused of this owner.
    pub(super) fn retry(&mut self, owner: OwnerId) {
        let Some(Refused { held, .. }) = self.refused.remove(&owner) else { return };
        held.tlvs.into_iter().for_each(|slot| self.tlvs.unhold(slot, Hold::Refused));
        held.meters.into_iter().for_each(|slot| self.meters.unhold(slot, Hold::Refused));
        held.groups.into_iter().for_each(|slot| self.groups.unhold(slot, Hold::Refused));
        held.flows.into_iter().for_each(|slot| self.flows.unhold(slot, Hold::Refused));
    }

    /// Tries again all that was refused.
    pub(super) fn retry_all(&mut self) {
        let owners: Vec<OwnerId> = self.refused.keys().copied().collect();
        for owner in owners {
            self.retry(owner);
        }
    }
}

/// Keeps back what only these owners answer for.
fn hold_pending<T: Item>(ledger: &mut Ledger<T>, bad: &FxHashSet<OwnerId>) -> Vec<Slot> {
    let all_bad = |owners: &[OwnerId]| owners.iter().all(|owner| bad.contains(owner));
    let pending = ledger.pending().filter(|(_, entry)| all_bad(entry.answerable()));
    let held: Vec<Slot> = pending.map(|(slot, _)| slot).collect();
    for slot in &held {
        ledger.hold(*slot, Hold::Refused);
    }
    held
}
