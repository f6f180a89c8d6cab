//! The difference of two values of a column, as `update2` sends it (ovsdb-server(7) 4.1.14), and
//! its application. Maps walk the two sorted lists once; sets look up the elements of the shorter
//! list in the longer one, which is a bridge's ports when a port comes or goes.

use std::cmp::Ordering;

use crate::schema::ColumnType;
use crate::value::{Atom, Value};

/// What to send so that a receiver that holds `old` comes to hold `new`.
pub fn difference(ty: &ColumnType, old: &Value, new: &Value) -> Value {
    match (ty.is_composite(), old, new) {
        (false, ..) => new.clone(),
        (true, Value::Map(_), Value::Map(_)) => {
            Value::from_sorted_pairs(changed_pairs(old.pairs(), new.pairs()))
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
    let (few, mut many) = (a.atoms(), b.atoms());
    if few.len() > many.len() {
        return exclusive_or(b, a);
    }
    let mut atoms = Vec::with_capacity(few.len() + many.len());
    for atom in few {
        let (below, rest) = many.split_at(many.partition_point(|other| other < atom));
        atoms.extend_from_slice(below);
        match rest {
            [equal, above @ ..] if equal == atom => many = above,
            _ => {
                atoms.push(atom.clone());
                many = rest;
            }
        }
    }
    atoms.extend_from_slice(many);
    Value::from_sorted_atoms(atoms)
}

/// Pairs of only one side, and of both sides' the second where the values differ. A pair that is
/// only in `a` is sent as it was: equal on the far side, so removed.
fn changed_pairs(mut a: &[(Atom, Atom)], mut b: &[(Atom, Atom)]) -> Vec<(Atom, Atom)> {
    let mut pairs = Vec::with_capacity(a.len() + b.len());
    while let ([x, a_rest @ ..], [y, b_rest @ ..]) = (a, b) {
        match x.0.cmp(&y.0) {
            Ordering::Less => {
                pairs.push(x.clone());
                a = a_rest;
            }
            Ordering::Greater => {
                pairs.push(y.clone());
                b = b_rest;
            }
            Ordering::Equal => {
                if x.1 != y.1 {
                    pairs.push(y.clone());
                }
                (a, b) = (a_rest, b_rest);
            }
        }
    }
    pairs.extend_from_slice(a);
    pairs.extend_from_slice(b);
    pairs
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
        assert_eq!(difference(&many, &set(&[]), &set(&[5, 7])), set(&[5, 7]));
        assert_eq!(
            difference(&many, &set(&[1, 5, 9]), &set(&[0, 5, 6, 10])),
            set(&[0, 1, 6, 9, 10])
        );
        assert_eq!(difference(&one, &set(&[1]), &set(&[2])), set(&[2]));
        assert_eq!(apply_difference(&one, &set(&[1]), &set(&[])), set(&[]));
        let old = map(&[(1, 1), (2, 2), (3, 3)]);
        let new = map(&[(2, 2), (3, 4), (5, 5)]);
        let diff = difference(&ty(true, 9), &old, &new);
        assert_eq!(diff, map(&[(1, 1), (3, 4), (5, 5)]));
        assert_eq!(apply_difference(&ty(true, 9), &old, &diff), new);
    }
}
