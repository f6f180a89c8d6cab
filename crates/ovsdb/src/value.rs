//! Values of columns: atoms, sets and maps, always in one canonical form, so that equality and
//! hashing mean what they mean to the database. Sets and maps are sorted and shared (`Arc`): a
//! clone of a row costs reference counts. This module knows no schema and no notation.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::Uuid;

/// A finite real number with a total order; minus zero equals zero.
#[derive(Clone, Copy, Debug, Default)]
pub struct Real(f64);

impl Real {
    /// `None` if the number is infinite or not a number: JSON cannot say it.
    pub fn new(number: f64) -> Option<Self> {
        number.is_finite().then_some(Self(if number == 0.0 { 0.0 } else { number }))
    }

    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl PartialEq for Real {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Real {}

impl PartialOrd for Real {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Real {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl Hash for Real {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}

/// One scalar: `<atom>` of RFC 7047 section 5.1.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Atom {
    /// A 64-bit signed integer.
    Integer(i64),
    /// A real number.
    Real(Real),
    /// A boolean.
    Boolean(bool),
    /// A string.
    String(Arc<str>),
    /// The identity of a row.
    Uuid(Uuid),
    /// A row that this same transaction inserts under this name; never stored.
    NamedUuid(Arc<str>),
}

/// A sorted set of distinct atoms, never of exactly one (that is [`Value::Atom`]).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Set(Arc<[Atom]>);

/// Key-value pairs with distinct keys, sorted by key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Map(Arc<[(Atom, Atom)]>);

/// What a column holds: `<value>` of RFC 7047 section 5.1.
///
/// A set of one element *is* its element, as on the wire, so `Value` equality is datum equality
/// for values of one column.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Value {
    /// Exactly one atom.
    Atom(Atom),
    /// No atom, or at least two.
    Set(Set),
    /// A map.
    Map(Map),
}

/// A set names an element twice, or a map a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} contains {atom} twice")]
pub struct Duplicate {
    /// "set" or "map".
    pub what: &'static str,
    /// The element or key.
    pub atom: Atom,
}

// === impl Value ===

impl Value {
    /// The empty set.
    pub fn empty_set() -> Self {
        Self::Set(Set(Arc::default()))
    }

    /// The empty map.
    pub fn empty_map() -> Self {
        Self::Map(Map(Arc::default()))
    }

    /// The set of these atoms; repeated ones count once.
    pub fn set(atoms: impl IntoIterator<Item = Atom>) -> Self {
        let mut atoms: Vec<_> = atoms.into_iter().collect();
        atoms.sort_unstable();
        atoms.dedup();
        Self::from_sorted_atoms(atoms)
    }

    /// The map of these pairs; the last value of a repeated key counts.
    pub fn map(pairs: impl IntoIterator<Item = (Atom, Atom)>) -> Self {
        let mut pairs: Vec<_> = pairs.into_iter().collect();
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
        pairs.reverse();
        pairs.dedup_by(|a, b| a.0 == b.0);
        pairs.reverse();
        Self::from_sorted_pairs(pairs)
    }

    /// As [`Value::set`], but repeated atoms are an error, as for the server.
    pub fn strict_set(mut atoms: Vec<Atom>) -> Result<Self, Duplicate> {
        atoms.sort_unstable();
        match atoms.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(Duplicate { what: "set", atom: pair[0].clone() }),
            None => Ok(Self::from_sorted_atoms(atoms)),
        }
    }

    /// As [`Value::map`], but repeated keys are an error, as for the server.
    pub fn strict_map(mut pairs: Vec<(Atom, Atom)>) -> Result<Self, Duplicate> {
        pairs.sort_unstable();
        match pairs.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            Some(pair) => Err(Duplicate { what: "map", atom: pair[0].0.clone() }),
            None => Ok(Self::from_sorted_pairs(pairs)),
        }
    }

    /// The caller promises: sorted, distinct.
    pub(crate) fn from_sorted_atoms(mut atoms: Vec<Atom>) -> Self {
        debug_assert!(atoms.is_sorted_by(|a, b| a < b), "atoms are sorted and distinct");
        match (atoms.len(), atoms.pop()) {
            (1, Some(atom)) => Self::Atom(atom),
            (_, last) => {
                atoms.extend(last);
                Self::Set(Set(atoms.into()))
            }
        }
    }

    /// The caller promises: sorted by key, keys distinct.
    pub(crate) fn from_sorted_pairs(pairs: Vec<(Atom, Atom)>) -> Self {
        debug_assert!(pairs.is_sorted_by(|a, b| a.0 < b.0), "keys are sorted and distinct");
        Self::Map(Map(pairs.into()))
    }

    /// The atoms of a set, in order; an atom is a set of one. Nothing for a map.
    pub fn atoms(&self) -> &[Atom] {
        match self {
            Self::Atom(atom) => std::slice::from_ref(atom),
            Self::Set(set) => &set.0,
            Self::Map(_) => &[],
        }
    }

    /// The pairs of a map, in order of keys. Nothing for a set.
    pub fn pairs(&self) -> &[(Atom, Atom)] {
        match self {
            Self::Map(map) => &map.0,
            Self::Atom(_) | Self::Set(_) => &[],
        }
    }

    /// Elements of the set, or pairs of the map.
    pub fn len(&self) -> usize {
        self.atoms().len() + self.pairs().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the set has this element, or the map this key.
    pub fn contains(&self, atom: &Atom) -> bool {
        self.atoms().binary_search(atom).is_ok() || self.get(atom).is_some()
    }

    /// The value of a key of a map.
    pub fn get(&self, key: &Atom) -> Option<&Atom> {
        let pairs = self.pairs();
        let at = pairs.binary_search_by(|(k, _)| k.cmp(key)).ok()?;
        Some(&pairs[at].1)
    }
}

// === conversions ===

impl From<&str> for Atom {
    fn from(text: &str) -> Self {
        Self::String(text.into())
    }
}

impl From<String> for Atom {
    fn from(text: String) -> Self {
        Self::String(text.into())
    }
}

impl From<i64> for Atom {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<bool> for Atom {
    fn from(truth: bool) -> Self {
        Self::Boolean(truth)
    }
}

impl From<Uuid> for Atom {
    fn from(uuid: Uuid) -> Self {
        Self::Uuid(uuid)
    }
}

impl<A: Into<Atom>> From<A> for Value {
    fn from(atom: A) -> Self {
        Self::Atom(atom.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_one_is_its_element() {
        assert_eq!(Value::set(["a".into()]), Value::from("a"));
        assert_eq!(Value::set(["a".into(), "a".into()]), Value::from("a"));
        assert_eq!(Value::set([2.into(), 1.into()]), Value::set([1.into(), 2.into()]));
        assert_ne!(Value::empty_set(), Value::empty_map());
    }

    #[test]
    fn the_last_value_of_a_key_counts() {
        let map =
            Value::map([("k".into(), 1.into()), ("a".into(), 3.into()), ("k".into(), 2.into())]);
        assert_eq!(map.get(&"k".into()), Some(&Atom::Integer(2)));
        assert_eq!(map.len(), 2);
        assert!(Value::strict_map(vec![(1.into(), 1.into()), (1.into(), 2.into())]).is_err());
    }

    #[test]
    fn reals_are_canonical() {
        assert_eq!(Real::new(-0.0), Real::new(0.0));
        assert_eq!(Real::new(f64::NAN), None);
    }
}
