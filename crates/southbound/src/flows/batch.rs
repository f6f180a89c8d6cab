//! What to send: everything that may differ, in an order in which nothing is used before it is
//! there, and nothing goes while it is used.
//!
//! TLV maps, meters, then one bundle of groups and flows; then what is not needed any more: the
//! bundle deletes groups last, and meters and TLV maps go behind it. (Deleting a group or meter
//! would delete the flows that use it.)

use super::desired::Desired;
use super::item::Item;
use super::ledger::{Entry, Ledger, OwnerId, Slot};
use osier_openflow::action::Action;
use osier_openflow::flow::{Flow, FlowCommand, FlowMod};
use osier_openflow::group::{Group, GroupMod};
use osier_openflow::message::{Message, TlvCommand, TlvMap, TlvTableMod};
use osier_openflow::meter::{Meter, MeterCommand, MeterMod};
use osier_openflow::session::Encode;
use osier_openflow::wire::{EncodeError, Writer};

/// A message to a switch that changes one thing of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A flow is set or deleted.
    Flow(FlowMod),
    /// A group is set or deleted.
    Group(GroupMod),
    /// A meter is set or deleted.
    Meter(MeterMod),
    /// A TLV map is set or deleted.
    Tlv(TlvTableMod),
}

/// Changes that are sent together, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    pub(super) refs: Vec<Ref>,
}

/// An item that is to be set, or deleted if nobody wants it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ref {
    /// What is in the place of a TLV map.
    OldTlv(Slot),
    Tlv(Slot),
    Meter(Slot),
    Group(Slot),
    Flow(Slot),
}

/// The messages of a batch, each made when it is asked for.
#[derive(Debug, Clone)]
pub struct Changes<'a> {
    desired: &'a Desired,
    items: std::slice::Iter<'a, Ref>,
}

/// What sending an item does, for counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    Adds,
    Changes,
    Deletes,
}

// === impl Batch ===

impl Batch {
    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.refs.is_empty()
    }

    /// How many messages it has.
    pub fn len(&self) -> usize {
        self.refs.len()
    }
}

// === impl Desired ===

impl Desired {
    /// What must be set before the bundle: TLV maps and meters.
    pub fn before_bundle(&mut self) -> Batch {
        self.tlvs.compact_pending();
        self.meters.compact_pending();
        // What went and came back before it was sent is in the table as it should be.
        let there = |e: &Entry<TlvMap>| self.tlv_table.get(&e.item.index) == Some(&e.item);
        let equal: Vec<Slot> = slots(&self.tlvs, |e| e.is_wanted() && there(e)).collect();
        for slot in equal {
            self.tlvs.done(slot);
        }
        // A TLV map cannot be changed.
        let in_place = |entry: &Entry<TlvMap>| entry.is_wanted() && entry.is_present();
        let old = slots(&self.tlvs, in_place).map(Ref::OldTlv);
        let tlvs = slots(&self.tlvs, Entry::is_wanted).map(Ref::Tlv);
        let meters = slots(&self.meters, Entry::is_wanted).map(Ref::Meter);
        Batch { refs: old.chain(tlvs).chain(meters).collect() }
    }

    /// The bundle: groups that are set, flows, groups that go.
    pub fn bundle(&mut self) -> Batch {
        self.groups.compact_pending();
        self.flows.compact_pending();
        // Groups that use groups go behind those that do not.
        let plain = |entry: &Entry<Group>| entry.is_wanted() && !uses_groups(&entry.item);
        let nested = |entry: &Entry<Group>| entry.is_wanted() && uses_groups(&entry.item);
        let set = slots(&self.groups, plain).chain(slots(&self.groups, nested)).map(Ref::Group);
        let flows = slots(&self.flows, |_| true).map(Ref::Flow);
        let deleted = slots(&self.groups, |entry| !entry.is_wanted()).map(Ref::Group);
        Batch { refs: set.chain(flows).chain(deleted).collect() }
    }

    /// What goes behind the bundle: meters and TLV maps that nobody wants.
    pub fn after_bundle(&mut self) -> Batch {
        self.tlvs.compact_pending();
        self.meters.compact_pending();
        let meters = slots(&self.meters, |entry| !entry.is_wanted()).map(Ref::Meter);
        let tlvs = slots(&self.tlvs, |entry| !entry.is_wanted()).map(Ref::OldTlv);
        Batch { refs: meters.chain(tlvs).collect() }
    }

    /// The messages of a batch, in order.
    pub fn changes<'a>(&'a self, batch: &'a Batch) -> Changes<'a> {
        self.changes_of(&batch.refs)
    }

    pub(super) fn changes_of<'a>(&'a self, items: &'a [Ref]) -> Changes<'a> {
        Changes { desired: self, items: items.iter() }
    }

    /// The batch is on the switch.
    pub fn done(&mut self, batch: &Batch) {
        batch.refs.iter().for_each(|item| self.done_one(*item));
    }

    pub(super) fn done_one(&mut self, item: Ref) {
        match item {
            Ref::OldTlv(slot) => {
                let Some(entry) = self.tlvs.get(slot) else { return };
                self.tlv_table.remove(&entry.item.index);
                self.tlvs.gone(slot);
            }
            Ref::Tlv(slot) => {
                self.tlv_table.extend(self.tlvs.get(slot).map(|e| (e.item.index, e.item)));
                self.tlvs.done(slot);
            }
            Ref::Meter(slot) => self.meters.done(slot),
            Ref::Group(slot) => self.groups.done(slot),
            Ref::Flow(slot) => self.flows.done(slot),
        }
    }

    pub(super) fn change(&self, item: Ref) -> Option<Change> {
        Some(match item {
            Ref::OldTlv(slot) => {
                let index = self.tlvs.get(slot)?.item.index;
                let maps = self.tlv_table.get(&index).copied().into_iter().collect();
                Change::Tlv(TlvTableMod { command: TlvCommand::Delete, maps })
            }
            Ref::Tlv(slot) => {
                let maps = vec![self.tlvs.get(slot)?.item];
                Change::Tlv(TlvTableMod { command: TlvCommand::Add, maps })
            }
            Ref::Meter(slot) => Change::Meter(meter_change(self.meters.get(slot)?)),
            Ref::Group(slot) => Change::Group(group_change(self.groups.get(slot)?)),
            Ref::Flow(slot) => Change::Flow(self.flow_change(self.flows.get(slot)?)),
        })
    }

    /// A changed flow is added anew: unlike a modification that changes its cookie and timeouts,
    /// too, and like one it keeps its counters. Only a flow that is still ours is deleted.
    fn flow_change(&self, entry: &Entry<Flow>) -> FlowMod {
        if entry.is_wanted() {
            return FlowMod::add(entry.item.clone());
        }
        let Flow { table, priority, matching, .. } = &entry.item;
        let class = self.ownership.cookies;
        let mut change = FlowMod::delete_strict(*table, *priority, matching.clone());
        debug_assert_eq!(change.command, FlowCommand::DeleteStrict);
        change.flow.cookie = class.value & class.mask;
        change.cookie_mask = class.mask;
        change
    }

    /// What sending it does.
    pub(super) fn effect(&self, item: Ref) -> Effect {
        match item {
            Ref::OldTlv(slot) | Ref::Tlv(slot) => effect(self.tlvs.get(slot)),
            Ref::Meter(slot) => effect(self.meters.get(slot)),
            Ref::Group(slot) => effect(self.groups.get(slot)),
            Ref::Flow(slot) => effect(self.flows.get(slot)),
        }
    }

    /// The kind of an item, its text, and who answers for it.
    pub(super) fn describe(&self, item: Ref) -> (&'static str, String, Vec<OwnerId>) {
        match item {
            Ref::OldTlv(slot) | Ref::Tlv(slot) => describe(self.tlvs.get(slot)),
            Ref::Meter(slot) => describe(self.meters.get(slot)),
            Ref::Group(slot) => describe(self.groups.get(slot)),
            Ref::Flow(slot) => describe(self.flows.get(slot)),
        }
    }
}

fn slots<T: Item>(
    ledger: &Ledger<T>,
    which: impl Fn(&Entry<T>) -> bool,
) -> impl Iterator<Item = Slot> {
    ledger.pending().filter(move |(_, entry)| which(entry)).map(|(slot, _)| slot)
}

fn uses_groups(group: &Group) -> bool {
    let mut actions = group.buckets.iter().flat_map(|bucket| &bucket.actions);
    actions.any(|action| matches!(action, Action::Group(_)))
}

fn meter_change(entry: &Entry<Meter>) -> MeterMod {
    match (entry.is_wanted(), entry.is_present()) {
        (false, _) => MeterMod::delete(entry.item.id),
        (true, false) => MeterMod::add(entry.item.clone()),
        (true, true) => MeterMod { command: MeterCommand::Modify, meter: entry.item.clone() },
    }
}

fn group_change(entry: &Entry<Group>) -> GroupMod {
    if entry.is_wanted() {
        GroupMod::set(entry.item.clone())
    } else {
        GroupMod::delete(entry.item.id)
    }
}

fn effect<T>(entry: Option<&Entry<T>>) -> Effect {
    match entry {
        Some(entry) if !entry.is_wanted() => Effect::Deletes,
        Some(entry) if entry.is_present() => Effect::Changes,
        _ => Effect::Adds,
    }
}

fn describe<T: Item>(entry: Option<&Entry<T>>) -> (&'static str, String, Vec<OwnerId>) {
    match entry {
        Some(entry) => (T::WHAT, entry.item.text(), entry.answerable().to_vec()),
        None => (T::WHAT, String::new(), Vec::new()),
    }
}

// === impl Changes ===

impl Iterator for Changes<'_> {
    type Item = Change;

    fn next(&mut self) -> Option<Change> {
        self.items.find_map(|item| self.desired.change(*item))
    }
}

// === impl Change ===

impl Encode for Change {
    fn encode_message(&self, xid: u32, w: &mut Writer) -> Result<(), EncodeError> {
        match self {
            Self::Flow(m) => m.encode_message(xid, w),
            Self::Group(m) => m.encode_message(xid, w),
            Self::Meter(m) => m.encode_message(xid, w),
            Self::Tlv(m) => Message::TlvTableMod(m.clone()).encode_message(xid, w),
        }
    }
}
