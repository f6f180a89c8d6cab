//! What the four kinds of things that a switch holds have in common: a key, and a content that
//! reads back in one form.

use osier_openflow::flow::{Flow, FlowFlags, FlowMod};
use osier_openflow::group::Group;
use osier_openflow::message::TlvMap;
use osier_openflow::meter::Meter;
use osier_openflow::wire::{Reader, Writer};
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};

/// A thing of a switch.
pub(super) trait Item: Sized {
    /// Its kind, in errors.
    const WHAT: &'static str;

    /// What tells it from others of its kind. A switch holds one item of a key.
    fn key(&self) -> impl Eq + Hash + '_;

    /// Whether a switch that holds the one need not be sent the other.
    fn same(&self, other: &Self) -> bool;

    /// The form in which a switch reads it back, if it has one.
    fn canonical(&self) -> Option<Self>;

    /// As text for people.
    fn text(&self) -> String;

    /// A hash of the key.
    fn key_hash(&self) -> u64 {
        let mut hasher = FxHasher::default();
        self.key().hash(&mut hasher);
        hasher.finish()
    }
}

/// Flags that a flow has. The others are about the moment of its adding, and are forgotten.
const KEPT: FlowFlags = FlowFlags::CHECK_OVERLAP.union(FlowFlags::RESET_COUNTS).complement();

impl Item for Flow {
    const WHAT: &'static str = "flow";

    fn key(&self) -> impl Eq + Hash + '_ {
        (self.table, self.priority, &self.matching)
    }

    fn same(&self, other: &Self) -> bool {
        self.cookie == other.cookie
            && self.instructions == other.instructions
            && self.idle_timeout == other.idle_timeout
            && self.hard_timeout == other.hard_timeout
            && self.importance == other.importance
            && self.flags & KEPT == other.flags & KEPT
    }

    fn canonical(&self) -> Option<Self> {
        let mut w = Writer::new();
        FlowMod::add(self.clone()).encode(&mut w).ok()?;
        FlowMod::decode(&mut Reader::new(w.as_slice())).ok().map(|m| m.flow)
    }

    fn text(&self) -> String {
        self.to_string()
    }
}

impl Item for Group {
    const WHAT: &'static str = "group";

    fn key(&self) -> impl Eq + Hash + '_ {
        self.id
    }

    fn same(&self, other: &Self) -> bool {
        self == other
    }

    fn canonical(&self) -> Option<Self> {
        let mut w = Writer::new();
        self.encode_desc(&mut w).ok()?;
        Self::decode_desc(&mut Reader::new(w.as_slice())).ok()
    }

    fn text(&self) -> String {
        self.to_string()
    }
}

impl Item for Meter {
    const WHAT: &'static str = "meter";

    fn key(&self) -> impl Eq + Hash + '_ {
        self.id
    }

    fn same(&self, other: &Self) -> bool {
        self == other
    }

    fn canonical(&self) -> Option<Self> {
        let mut w = Writer::new();
        self.encode_desc(&mut w).ok()?;
        Self::decode_desc(&mut Reader::new(w.as_slice())).ok()
    }

    fn text(&self) -> String {
        self.to_string()
    }
}

impl Item for TlvMap {
    const WHAT: &'static str = "TLV map";

    fn key(&self) -> impl Eq + Hash + '_ {
        self.index
    }

    fn same(&self, other: &Self) -> bool {
        self == other
    }

    fn canonical(&self) -> Option<Self> {
        Some(*self)
    }

    fn text(&self) -> String {
        let Self { class, kind, len, index } = self;
        format!("{{class={class:#x},type={kind:#x},len={len}}}->tun_metadata{index}")
    }
}
