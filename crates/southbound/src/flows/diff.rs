//! What a switch tells, held against what is wanted. Flows come one at a time, so that a read-back
//! of any size needs no memory of its own.
//!
//! Of each flow found: equal, different, ours but unwanted, learned, or somebody else's. The last
//! two are left alone; a wanted flow in whose place one of them is becomes a conflict, and is not
//! sent.

use super::desired::Desired;
use super::error::Trouble;
use super::item::Item;
use super::ledger::{Hold, Ledger, Slot};
use super::ownership::Origin;
use osier_openflow::flow::Flow;
use osier_openflow::group::Group;
use osier_openflow::message::TlvMap;
use osier_openflow::meter::Meter;
use std::sync::Arc;

impl Desired {
    /// The switch is about to be read: every flow is about to be [found](Self::found_flow).
    pub fn begin_flows(&mut self) {
        self.retry_all();
        for slot in self.conflicts.drain().map(|(slot, _)| slot) {
            self.flows.unhold(slot, Hold::Conflict);
        }
        self.others.clear();
        self.flows.begin_reading();
    }

    /// The switch has this flow.
    pub fn found_flow(&mut self, flow: Flow) {
        let hash = flow.key_hash();
        if self.ownership.origin(flow.cookie) == Origin::Ours {
            self.flows.found(hash, flow);
        } else {
            self.others.insert(hash, flow.cookie);
            if let Some(slot) = self.wanted_at(hash, &flow) {
                self.conflict(slot, &flow);
            }
        }
    }

    /// The switch was read: flows that were not found are not there.
    pub fn finish_flows(&mut self) {
        self.flows.finish_reading();
    }

    /// The switch's groups, all of them. Tells how many of ours were
    /// believed to be right and are not.
    pub fn read_groups(&mut self, groups: impl IntoIterator<Item = Group>) -> usize {
        let range = self.ownership.groups.clone();
        read(&mut self.groups, groups.into_iter().filter(|group| range.contains(&group.id)))
    }

    /// The switch's meters, all of them. Tells how many of ours were
    /// believed to be right and are not.
    pub fn read_meters(&mut self, meters: impl IntoIterator<Item = Meter>) -> usize {
        let range = self.ownership.meters.clone();
        read(&mut self.meters, meters.into_iter().filter(|meter| range.contains(&meter.id)))
    }

    /// The switch's TLV maps, all of them. Tells how many of ours were
    /// believed to be right and are not.
    pub fn read_tlvs(&mut self, maps: impl IntoIterator<Item = TlvMap>) -> usize {
        let range = self.ownership.tun_metadata.clone();
        let ours = maps.into_iter().filter(|map| range.contains(&map.index));
        self.tlv_table = ours.map(|map| (map.index, map)).collect();
        read(&mut self.tlvs, self.tlv_table.values().copied())
    }

    /// Somebody added or changed this flow. `contested` tells whether a place that was taken from
    /// us, and is known by this number, is taken back; or else left.
    pub(super) fn heard_flow(&mut self, mut flow: Flow, contest: impl FnOnce(u64) -> bool) {
        let hash = flow.key_hash();
        let slot = self.flows.find(hash, &flow);
        let origin = self.ownership.origin(flow.cookie);
        if origin == Origin::Ours {
            self.others.remove(&hash);
            if let Some(slot) = slot {
                self.end_conflict(slot);
            }
            // A monitor does not tell these.
            if let Some(entry) = slot.and_then(|slot| self.flows.get(slot)) {
                flow.flags = entry.item.flags;
                flow.importance = entry.item.importance;
            }
            self.flows.found(hash, flow);
            return;
        }
        let entry = slot.and_then(|slot| Some((slot, self.flows.get(slot)?)));
        match entry.map(|(slot, entry)| (slot, entry.is_wanted(), entry.is_present())) {
            Some((slot, true, true)) if origin == Origin::Foreign && contest(hash) => {
                self.flows.taken(slot);
            }
            Some((slot, true, _)) => {
                self.others.insert(hash, flow.cookie);
                self.conflict(slot, &flow);
            }
            Some((slot, false, _)) => {
                self.others.insert(hash, flow.cookie);
                self.flows.gone(slot);
            }
            None => {
                self.others.insert(hash, flow.cookie);
            }
        }
    }

    /// Somebody deleted this flow, or (`expired`) its time was over.
    pub(super) fn heard_removal(&mut self, flow: &Flow, expired: bool) {
        let hash = flow.key_hash();
        let slot = self.flows.find(hash, flow);
        if self.ownership.origin(flow.cookie) != Origin::Ours {
            self.others.remove(&hash);
            if let Some(slot) = slot {
                self.end_conflict(slot);
            }
            return;
        }
        let Some(slot) = slot else { return };
        let may_expire = |item: &Flow| item.idle_timeout != 0 || item.hard_timeout != 0;
        let entry = self.flows.get(slot);
        if expired && entry.is_some_and(|e| e.is_wanted() && may_expire(&e.item)) {
            self.flows.expired(slot);
        } else {
            self.flows.gone(slot);
        }
    }

    pub(super) fn is_ours(&self, flow: &Flow) -> bool {
        self.ownership.origin(flow.cookie) == Origin::Ours
    }

    /// The slot of the wanted flow with the key of this one.
    pub(super) fn wanted_at(&self, hash: u64, flow: &Flow) -> Option<Slot> {
        let slot = self.flows.find(hash, flow)?;
        self.flows.get(slot).filter(|entry| entry.is_wanted()).map(|_| slot)
    }

    /// Keeps a wanted flow back because of this one in its place.
    pub(super) fn conflict(&mut self, slot: Slot, found: &Flow) {
        let Some(entry) = self.flows.get(slot) else { return };
        let trouble = Trouble::Conflict {
            owner: self.name(entry.owners()),
            wanted: entry.item.to_string(),
            cookie: found.cookie,
            found: found.to_string(),
        };
        self.flows.hold(slot, Hold::Conflict);
        self.conflicts.insert(slot, Arc::new(trouble));
    }

    /// The place of a flow in conflict is free, or ours.
    pub(super) fn end_conflict(&mut self, slot: Slot) {
        if self.conflicts.remove(&slot).is_some() {
            self.flows.unhold(slot, Hold::Conflict);
        }
    }
}

fn read<T: Item>(ledger: &mut Ledger<T>, items: impl Iterator<Item = T>) -> usize {
    let before = ledger.marks();
    ledger.begin_reading();
    for item in items {
        ledger.found(item.key_hash(), item);
    }
    ledger.finish_reading();
    ledger.marks() - before
}
