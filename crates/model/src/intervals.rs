//! Free numbers as runs: a range of any size costs what is used of it, and a number a look at a tree.

use std::collections::BTreeMap;

/// Numbers that are free, and where to look next: they are given in turn, so that one that was
/// freed a moment ago is not another's at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intervals {
    first: u128,
    last: u128,
    /// First and last of each run.
    free: BTreeMap<u128, u128>,
    cursor: u128,
}

// === impl Intervals ===

impl Intervals {
    /// All from `first` to `last` are free.
    pub fn new(first: u128, last: u128) -> Self {
        Self { first, last, free: BTreeMap::from([(first, last)]), cursor: first }
    }

    /// Takes `size` numbers, a power of two, that begin at a multiple of it.
    pub fn take(&mut self, size: u128) -> Option<u128> {
        let behind =
            self.free.range(..self.cursor).next_back().map(|(first, last)| (*first, *last));
        let ahead = self.free.range(self.cursor..).map(|(first, last)| (*first, *last));
        let around = self.free.iter().map(|(first, last)| (*first, *last));
        let from_cursor = behind.map(|(_, last)| (self.cursor, last)).into_iter().chain(ahead);
        let fits = |(first, last): (u128, u128)| {
            let start = first.checked_next_multiple_of(size)?;
            (start <= last && last - start >= size - 1).then_some(start)
        };
        let start = from_cursor.chain(around).find_map(fits)?;
        self.cut(start, start + (size - 1));
        self.cursor =
            start.checked_add(size).filter(|next| *next <= self.last).unwrap_or(self.first);
        Some(start)
    }

    /// Whether a number is free.
    pub fn contains(&self, number: u128) -> bool {
        self.free.range(..=number).next_back().is_some_and(|(_, last)| *last >= number)
    }

    /// First and last of each run that is free, in order.
    pub fn runs(&self) -> impl Iterator<Item = (u128, u128)> {
        self.free.iter().map(|(first, last)| (*first, *last))
    }

    /// Undoes a [`take`](Self::take): the next one takes the same.
    pub fn undo(&mut self, first: u128, last: u128) {
        self.join(first, last);
        if (self.first..=self.last).contains(&first) {
            self.cursor = first;
        }
    }

    /// Removes a run from what is free, as far as it is in the range. Whether all of that was free.
    pub fn cut(&mut self, first: u128, last: u128) -> bool {
        let (first, last) = (first.max(self.first), last.min(self.last));
        if first > last {
            return true;
        }
        let runs = self.free.range(..=last).rev().map(|(f, l)| (*f, *l));
        let touched: Vec<(u128, u128)> = runs.take_while(|(_, l)| *l >= first).collect();
        let all = matches!(touched[..], [(f, l)] if f <= first && l >= last);
        for (f, l) in touched {
            self.free.remove(&f);
            if f < first {
                self.free.insert(f, first - 1);
            }
            if l > last {
                self.free.insert(last + 1, l);
            }
        }
        all
    }

    /// Gives a run back, as far as it is in the range.
    pub fn join(&mut self, first: u128, last: u128) {
        let (mut first, mut last) = (first.max(self.first), last.min(self.last));
        if first > last {
            return;
        }
        self.cut(first, last);
        if let Some((f, l)) = self.free.range(..first).next_back().map(|(f, l)| (*f, *l))
            && l + 1 == first
        {
            self.free.remove(&f);
            first = f;
        }
        if let Some(l) = last.checked_add(1).and_then(|next| self.free.remove(&next)) {
            last = l;
        }
        self.free.insert(first, last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn numbers_are_given_in_turn() {
        let mut numbers = Intervals::new(10, 13);
        assert_eq!(numbers.take(1), Some(10));
        numbers.join(10, 10);
        assert_eq!(
            [numbers.take(1), numbers.take(1), numbers.take(1)],
            [Some(11), Some(12), Some(13)]
        );
        assert_eq!((numbers.take(1), numbers.take(1)), (Some(10), None));
    }

    #[test]
    fn the_last_number_of_all_can_be_given() {
        let mut numbers = Intervals::new(u128::MAX - 1, u128::MAX);
        assert_eq!(numbers.take(2), Some(u128::MAX - 1));
        numbers.join(u128::MAX, u128::MAX);
        assert_eq!((numbers.take(1), numbers.take(1)), (Some(u128::MAX), None));
    }

    proptest! {
        #[test]
        fn runs_are_as_a_set(steps in prop::collection::vec((0_u8..3, 0_u128..70, 0_u32..4), 1..200)) {
            let mut numbers = Intervals::new(3, 66);
            let mut model: BTreeSet<u128> = (3..=66).collect();
            for (what, at, log) in steps {
                let size = 1 << log;
                let run = at..at + size;
                match what {
                    0 => if let Some(start) = numbers.take(size) {
                        prop_assert_eq!(start % size, 0);
                        for n in start..start + size {
                            prop_assert!(model.remove(&n), "{} was not free", n);
                        }
                    } else {
                        let is_free = |n: u128| (n..n + size).all(|n| model.contains(&n));
                        let missed = (0..70).find(|n| n % size == 0 && is_free(*n));
                        prop_assert_eq!(missed, None);
                    },
                    1 => {
                        let inside = run.filter(|n| (3..=66).contains(n));
                        let taken = inside.filter(|n| !model.remove(n)).count();
                        prop_assert_eq!(numbers.cut(at, at + size - 1), taken == 0);
                    }
                    _ => {
                        model.extend(run.filter(|n| (3..=66).contains(n)));
                        numbers.join(at, at + size - 1);
                    }
                }
                prop_assert_eq!(numbers.contains(at), model.contains(&at));
                let runs = numbers.free.iter().flat_map(|(f, l)| *f..=*l);
                prop_assert!(runs.eq(model.iter().copied()));
            }
        }
    }
}
