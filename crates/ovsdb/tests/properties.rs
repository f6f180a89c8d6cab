//! What holds for all values: they survive JSON and text, and differences are what they say.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is a test's report")]

use std::collections::{BTreeMap, BTreeSet};

use osier_ovsdb::delta::{apply_difference, difference};
use osier_ovsdb::schema::{AtomicType, BaseType, ColumnType, Constraint};
use osier_ovsdb::text::{parse_value, print_value};
use osier_ovsdb::value::Real;
use osier_ovsdb::{Atom, Uuid, Value};
use proptest::prelude::*;

fn atomic() -> impl Strategy<Value = AtomicType> {
    prop_oneof![
        Just(AtomicType::Integer),
        Just(AtomicType::Real),
        Just(AtomicType::Boolean),
        Just(AtomicType::String),
        Just(AtomicType::Uuid),
    ]
}

fn atom(atomic: AtomicType) -> BoxedStrategy<Atom> {
    match atomic {
        AtomicType::Integer => any::<i64>().prop_map(Atom::Integer).boxed(),
        // Fifteen digits are what the text has.
        AtomicType::Real => (-1_000_000i32..1_000_000)
            .prop_map(|n| Atom::Real(Real::new(f64::from(n) / 1024.0).unwrap()))
            .boxed(),
        AtomicType::Boolean => any::<bool>().prop_map(Atom::Boolean).boxed(),
        AtomicType::String => any::<String>().prop_map(Atom::from).boxed(),
        AtomicType::Uuid => any::<u128>().prop_map(|n| Atom::Uuid(Uuid::from_u128(n))).boxed(),
    }
}

fn base(atomic: AtomicType) -> BaseType {
    BaseType { atomic, constraint: Constraint::Any }
}

/// A type and values of it.
fn typed(count: usize) -> impl Strategy<Value = (ColumnType, Vec<Value>)> {
    (atomic(), prop::option::of(atomic())).prop_flat_map(move |(key, second)| {
        let ty = ColumnType { key: base(key), value: second.map(base), min: 0, max: u32::MAX };
        let value = match second {
            Some(second) => {
                prop::collection::vec((atom(key), atom(second)), 0..6).prop_map(Value::map).boxed()
            }
            None => prop::collection::vec(atom(key), 0..6).prop_map(Value::set).boxed(),
        };
        (Just(ty), prop::collection::vec(value, count))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn json_both_ways((ty, values) in typed(1)) {
        let json = serde_json::to_string(&values[0]).unwrap();
        let read: Value = serde_json::from_str(&json).unwrap();
        prop_assert_eq!(ty.conform(read).unwrap(), values[0].clone(), "{}", json);
    }

    #[test]
    fn text_both_ways((ty, values) in typed(1)) {
        let text = print_value(&ty, &values[0]);
        prop_assert_eq!(parse_value(&ty, &text), Ok(values[0].clone()), "{}", text);
    }

    #[test]
    fn a_difference_leads_from_old_to_new((ty, values) in typed(2)) {
        let (old, new) = (&values[0], &values[1]);
        let diff = difference(&ty, old, new);
        prop_assert_eq!(&apply_difference(&ty, old, &diff), new);
        prop_assert!(difference(&ty, old, old).is_empty());
        // ovsdb-server(7) 4.1.14, in other words.
        let set = |value: &Value| value.atoms().iter().cloned().collect::<BTreeSet<_>>();
        let map = |value: &Value| value.pairs().iter().cloned().collect::<BTreeMap<_, _>>();
        prop_assert_eq!(set(&diff), &set(old) ^ &set(new));
        let (old, new, diff) = (map(old), map(new), map(&diff));
        for (key, value) in &diff {
            prop_assert_ne!(old.get(key), new.get(key));
            prop_assert_eq!(Some(value), new.get(key).or(old.get(key)));
        }
        let differing = old.keys().chain(new.keys()).filter(|key| old.get(*key) != new.get(*key));
        prop_assert_eq!(diff.len(), differing.collect::<BTreeSet<_>>().len());
    }
}
