//! Which transaction ids are in use, by whom, and until when.
//!
//! An entry is one id (a request) or a run of ids (messages of a batch). Ids are given out
//! ascending, never 0 (what comes unasked has that) and never one that is still in use, so that
//! wrapping around after four billion messages is safe.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use tokio::time::Instant;

/// What waits for answers; `A` says who asked.
#[derive(Debug)]
pub(super) struct Requests<A> {
    next: u32,
    /// By first id.
    entries: BTreeMap<u32, Entry<A>>,
    deadlines: BTreeSet<(Instant, u32)>,
}

#[derive(Debug)]
struct Entry<A> {
    /// Last id, included.
    last: u32,
    deadline: Option<Instant>,
    asked: A,
}

// === impl Requests ===

impl<A> Requests<A> {
    pub(super) fn new() -> Self {
        Self { next: 1, entries: BTreeMap::new(), deadlines: BTreeSet::new() }
    }

    /// Adds an entry of `count` ids in a row and returns the first of them; `None` if no such run
    /// is free.
    pub(super) fn insert(
        &mut self,
        count: NonZeroU32,
        deadline: Option<Instant>,
        asked: A,
    ) -> Option<u32> {
        let first = self.free_run(count.get())?;
        let last = first + (count.get() - 1);
        self.next = last.checked_add(1).unwrap_or(1);
        self.entries.insert(first, Entry { last, deadline, asked });
        self.deadlines.extend(deadline.map(|deadline| (deadline, first)));
        Some(first)
    }

    /// The first run of free ids at or behind `next`, or else from the start.
    fn free_run(&self, count: u32) -> Option<u32> {
        [self.next, 1].into_iter().find_map(|start| {
            let mut first = start;
            loop {
                let last = first.checked_add(count - 1)?;
                match self.entries.range(..=last).next_back() {
                    Some((_, entry)) if entry.last >= first => first = entry.last.checked_add(1)?,
                    _ => return Some(first),
                }
            }
        })
    }

    /// The entry that holds this id, with its first id.
    pub(super) fn find(&mut self, xid: u32) -> Option<(u32, &mut A)> {
        let (first, entry) = self.entries.range_mut(..=xid).next_back()?;
        (xid <= entry.last).then_some((*first, &mut entry.asked))
    }

    /// Removes the entry of this first id.
    pub(super) fn remove(&mut self, first: u32) -> Option<A> {
        let entry = self.entries.remove(&first)?;
        if let Some(deadline) = entry.deadline {
            self.deadlines.remove(&(deadline, first));
        }
        Some(entry.asked)
    }

    /// Gives the entry of this first id a new deadline.
    pub(super) fn renew(&mut self, first: u32, deadline: Instant) {
        if let Some(entry) = self.entries.get_mut(&first) {
            let old = entry.deadline.replace(deadline);
            self.deadlines.extend([(deadline, first)]);
            if let Some(old) = old.filter(|old| *old != deadline) {
                self.deadlines.remove(&(old, first));
            }
        }
    }

    /// When the next entry expires.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Removes an entry whose time is over.
    pub(super) fn expire(&mut self, now: Instant) -> Option<A> {
        let (deadline, first) = *self.deadlines.first()?;
        if deadline > now {
            return None;
        }
        self.remove(first)
    }

    /// Keeps only entries for which `keep` holds.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&A) -> bool) {
        let gone = self.entries.extract_if(.., |_, entry| !keep(&entry.asked));
        for (first, entry) in gone {
            if let Some(deadline) = entry.deadline {
                self.deadlines.remove(&(deadline, first));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    fn some(count: u32) -> NonZeroU32 {
        NonZeroU32::new(count).unwrap()
    }

    /// What happens to a table, for comparison with a plain list.
    #[derive(Debug, Clone)]
    enum Step {
        Insert(u32, u64),
        Remove(prop::sample::Index),
        Renew(prop::sample::Index, u64),
        Expire(u64),
        JumpTo(u32),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (prop_oneof![Just(1), 1..40_000_u32], 0..100_u64)
                .prop_map(|(n, at)| Step::Insert(n, at)),
            2 => any::<prop::sample::Index>().prop_map(Step::Remove),
            1 => (any::<prop::sample::Index>(), 0..100_u64).prop_map(|(i, at)| Step::Renew(i, at)),
            1 => (0..60_u64).prop_map(Step::Expire),
            1 => (u32::MAX - 50_000..=u32::MAX).prop_map(Step::JumpTo),
        ]
    }

    proptest! {
        #[test]
        fn agrees_with_a_list(steps in prop::collection::vec(step(), 1..60)) {
            let start = Instant::now();
            let time = |secs| start + Duration::from_secs(secs);
            let mut table = Requests::new();
            // (first, count, deadline, who)
            let mut model: Vec<(u32, u32, u64, usize)> = Vec::new();
            for (who, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Insert(count, at) => {
                        let first = table.insert(some(count), Some(time(at)), who).unwrap();
                        prop_assert!(first >= 1 && first.checked_add(count - 1).is_some());
                        for (other, n, ..) in &model {
                            let apart = first + (count - 1) < *other || other + (n - 1) < first;
                            prop_assert!(apart, "{first}+{count} meets {other}+{n}");
                        }
                        model.push((first, count, at, who));
                    }
                    Step::Remove(i) if !model.is_empty() => {
                        let (first, .., who) = model.remove(i.index(model.len()));
                        prop_assert_eq!(table.remove(first), Some(who));
                    }
                    Step::Renew(i, at) if !model.is_empty() => {
                        let i = i.index(model.len());
                        model[i].2 = at;
                        table.renew(model[i].0, time(at));
                    }
                    Step::Expire(now) => {
                        while let Some(who) = table.expire(time(now)) {
                            let i = model.iter().position(|entry| entry.3 == who).unwrap();
                            prop_assert!(model.remove(i).2 <= now);
                        }
                        prop_assert!(model.iter().all(|entry| entry.2 > now));
                    }
                    Step::JumpTo(next) => table.next = next,
                    Step::Remove(_) | Step::Renew(..) => {}
                }
                let soonest = model.iter().map(|entry| time(entry.2)).min();
                prop_assert_eq!(table.deadline(), soonest);
                for (first, count, _, who) in &model {
                    for xid in [*first, first + (count - 1)] {
                        prop_assert_eq!(table.find(xid), Some((*first, &mut who.clone())));
                    }
                }
                prop_assert!(table.find(0).is_none());
            }
        }
    }

    #[test]
    fn ids_in_use_are_stepped_over_after_wrapping_around() {
        let mut table = Requests::new();
        assert_eq!(table.insert(some(3), None, 'a'), Some(1));
        table.next = u32::MAX - 1;
        assert_eq!(table.insert(some(2), None, 'b'), Some(u32::MAX - 1));
        assert_eq!(table.insert(some(1), None, 'c'), Some(4));
        assert_eq!(table.find(u32::MAX), Some((u32::MAX - 1, &mut 'b')));
        assert_eq!(table.find(3), Some((1, &mut 'a')));
        table.retain(|who| *who != 'a');
        assert_eq!(table.find(3), None);
        assert_eq!(table.insert(some(u32::MAX), None, 'd'), None);
    }
}
