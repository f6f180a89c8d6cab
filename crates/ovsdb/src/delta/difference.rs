//! The difference of two values of a column, as `update2` sends it (ovsdb-server(7) 4.1.14), and
//! its application. Both walk the two sorted lists once.

use std::cmp::Ordering;

use crate::schema::ColumnType;
use crate::value::{Atom, Value};

/// What to send so that a receiver that holds `old` comes to hold `new`.
pub fn difference(ty: &ColumnType, old: &Value, new: &Value) -> Value {
    match (ty.is_composite(), old, new) {
        (false, ..) => new.clone(),
        (true, Value::Map(_), Value::Map(_)) => {
            // A pair that is only in `old` is sent as it was: equal on the far side, so removed.
            Value::from_sorted_pairs(merge(old.pairs(), new.pairs(), |(a, b), (c, d)| {
                match (a.cmp(c), b == d) {
                    (Ordering::Equal, false) => Merge::Second,
                    (order, _) => Merge::Order(order),
                }
            }))
        }
        (true, ..) => exclusive_or(old, new),
    }
}

/// The value after a difference.
pub fn apply_difference(ty: &ColumnType, old: &Value, diff: &Value) -> Value {
    // Applying is the same walk as taking: for sets it is exclusive or; for maps a pair equal on
    // both sides goes, a key with another value takes the second.
    difference(ty, old, diff)
}

fn exclusive_or(a: &Value, b: &Value) -> Value {
    Value::from_sorted_atoms(merge(a.atoms(), b.atoms(), |x: &Atom, y: &Atom| {
        Merge::Order(x.cmp(y))
    }))
}

enum Merge {
    /// Keep the smaller; equal ones cancel out.
    Order(Ordering),
    /// The same key with different values: keep the second.
    Second,
}

fn merge<T: Clone>(a: &[T], b: &[T], compare: impl Fn(&T, &T) -> Merge) -> Vec<T> {
    let mut merged = Vec::with_capacity(a.len() + b.len());
    let (mut i, mut j) = (0, 0);
    while i < a.len() && j < b.len() {
        match compare(&a[i], &b[j]) {
            Merge::Order(Ordering::Less) => {
                merged.push(a[i].clone());
                i += 1;
            }
            Merge::Order(Ordering::Greater) => {
                merged.push(b[j].clone());
                j += 1;
            }
            Merge::Order(Ordering::Equal) => {
                i += 1;
                j += 1;
            }
            Merge::Second => {
                merged.push(b[j].clone());
                i += 1;
                j += 1;
            }
        }
    }
    merged.extend_from_slice(&a[i..]);
    merged.extend_from_slice(&b[j..]);
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{AtomicType, BaseType, Constraint};

    fn ty(map: bool, max: u32) -> ColumnType {
        let base = BaseType { atomic: AtomicType::Integer, constraint: Constraint::Any };
        ColumnType { key: base.clone(), value: map.then_some(base), min: 0, max }
    }

    fn set(numbers: &[i64]) -> Value {
        Value::set(numbers.iter().map(|&n| n.into()))
    }

    fn map(pairs: &[(i64, i64)]) -> Value {
        Value::map(pairs.iter().map(|&(k, v)| (k.into(), v.into())))
    }

    #[test]
    fn sets_and_maps() {
        let (many, one) = (ty(false, 9), ty(false, 1));
        assert_eq!(difference(&many, &set(&[1, 2, 3]), &set(&[2, 3, 4])), set(&[1, 4]));
        assert_eq!(apply_difference(&many, &set(&[1, 2, 3]), &set(&[1, 4])), set(&[2, 3, 4]));
        assert_eq!(difference(&one, &set(&[1]), &set(&[2])), set(&[2]));
        assert_eq!(apply_difference(&one, &set(&[1]), &set(&[])), set(&[]));
        let old = map(&[(1, 1), (2, 2), (3, 3)]);
        let new = map(&[(2, 2), (3, 4), (5, 5)]);
        let diff = difference(&ty(true, 9), &old, &new);
        assert_eq!(diff, map(&[(1, 1), (3, 4), (5, 5)]));
        assert_eq!(apply_difference(&ty(true, 9), &old, &diff), new);
    }
}
